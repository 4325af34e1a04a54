"""Is what traces say about a GPU true? Checked on a real one: python profiling/gpu_check.py

Takes less than three minutes and a GPU with 2 GiB of free memory; needs torch with CUDA, and nothing of it where there
is none. Prints what it verified, line by line. Exit code 0: all is right, or there is no GPU; 1: something is wrong.
"""

from __future__ import annotations

import importlib
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Any

from linly_profiling import CudaUse, LoadedTrace, Record, Trace
from linly_profiling.cuda import PROBE, gpu_facts
from linly_profiling.torch_tools import gpu_memory_reader, torch_profile

MIB = 2**20
_DEADLINE_S = 10.0  # for the GPU to finish what takes a fraction of a second
_MAX_SPAN_US = 200.0  # an exact span is for a model call, which takes a thousand times as long


class Wrong(Exception):
    """Something is not as it should be; the message says what."""


def that(holds: object, otherwise: str) -> None:
    """Like `assert`, which `python -O` leaves out."""
    if not holds:
        raise Wrong(otherwise)


class Gpu:
    """Work of known length for the current device."""

    def __init__(self, torch: Any) -> None:
        self.torch = torch
        self._cycles_per_ms = 1e6
        for _ in range(3):  # the first kernel is slow, and the clock rate rises with work
            self._cycles_per_ms = self._calibrated()

    def _calibrated(self) -> float:
        cuda = self.torch.cuda
        start, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
        cycles = int(20 * self._cycles_per_ms)
        start.record()
        cuda._sleep(cycles)
        end.record()
        cuda.synchronize()
        elapsed_ms = float(start.elapsed_time(end))
        that(elapsed_ms > 0.01, f"{cycles:,} cycles of waiting took {elapsed_ms} ms")
        return cycles / elapsed_ms

    def work(self, ms: float) -> None:
        """Enqueue a kernel that takes this long."""
        self.torch.cuda._sleep(int(ms * self._cycles_per_ms))

    def tensor(self, mib: int) -> Any:
        """Memory on the device."""
        return self.torch.empty(mib * MIB, dtype=self.torch.uint8, device="cuda")

    def finish(self) -> None:
        self.torch.cuda.synchronize()


def the(trace: Trace | LoadedTrace, name: str) -> Record:
    """The one span of this name."""
    found = [record for record in trace.records() if record.name == name]
    that(len(found) == 1, f"{len(found)} spans named {name!r}")
    return found[0]


def use(trace: Trace, name: str) -> CudaUse:
    """What a span did on the GPU."""
    cuda = the(trace, name).cuda
    if cuda is None:
        raise Wrong(f"span {name!r} has no GPU figures; was the probe switched off? see the log above")
    return cuda


def ms(trace: Trace, name: str) -> float:
    """GPU time, once it is known."""
    deadline_s = time.monotonic() + _DEADLINE_S
    while (time_ns := use(trace, name).time_ns) is None:
        that(time.monotonic() < deadline_s, f"span {name!r} has no GPU time {_DEADLINE_S:g} s later")
        time.sleep(0.002)
    return time_ns / 1e6


def close(value: float, expected: float, tolerance: float) -> bool:
    return abs(value - expected) <= tolerance * expected + 0.5


def check_time(gpu: Gpu) -> str:
    """Asynchronous work is charged to the span that enqueued it."""
    gpu.finish()
    trace = Trace("time")
    with trace.span("long", exact=True):
        gpu.work(80)
    with trace.span("short", exact=True):
        gpu.work(10)
    early = use(trace, "short").time_ns
    wall_ms = the(trace, "long").duration_ns / 1e6
    that(wall_ms < 60, f"a span that only enqueues took {wall_ms:.1f} ms: something waits for the GPU")
    that(early is None, "a time was known before the GPU can have been done")
    long_ms, short_ms = ms(trace, "long"), ms(trace, "short")
    that(close(long_ms, 80, 0.25), f"80 ms of work were measured as {long_ms:.1f} ms")
    that(close(short_ms, 10, 0.25), f"10 ms of work were measured as {short_ms:.1f} ms")
    return f"80 and 10 ms of work: measured {long_ms:.1f} and {short_ms:.1f}, the host took {wall_ms:.2f}"


def check_no_synchronise(gpu: Gpu) -> str:
    """Recording never waits for the GPU."""
    gpu.finish()
    trace = Trace("sync")
    gpu.torch.cuda.set_sync_debug_mode("error")
    try:
        gpu.work(200)
        begun_s = time.perf_counter()
        for _ in range(50):
            with trace.span("model", exact=True):
                pass
        trace.records()
        host_ms = (time.perf_counter() - begun_s) * 1e3
    finally:
        gpu.torch.cuda.set_sync_debug_mode("default")
    gpu.finish()
    that(host_ms < 100, f"50 spans and a look at them took {host_ms:.1f} ms while the GPU was busy for 200")
    return f"50 spans and a look at them took {host_ms:.2f} ms while the GPU was busy for 200; torch saw no waiting"


def check_graph_capture(gpu: Gpu) -> str:
    """Capturing a CUDA graph works inside of a span, and while other threads look at traces."""
    torch = gpu.torch
    trace = Trace("graph")
    with trace.span("before", exact=True):
        gpu.work(1)
    static = torch.zeros(1024, device="cuda")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        static.add_(1)  # warm up, as the documentation of torch.cuda.graph asks for
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        with trace.span("captured", exact=True):
            static.add_(1)
        looking = threading.Thread(target=trace.records)
        looking.start()
        looking.join(_DEADLINE_S)
        that(not looking.is_alive(), "a look at the trace hangs while a graph is captured")
    static.zero_()
    with trace.span("replayed", exact=True):
        for _ in range(3):
            graph.replay()
        gpu.work(5)
    gpu.finish()
    that(float(static[0]) == 3.0, f"the graph, replayed 3 times, added {float(static[0])}")
    that(use(trace, "captured").time_ns is None, "a time was measured inside of a capture")
    replayed_ms = ms(trace, "replayed")
    that(replayed_ms >= 4, f"replays and 5 ms of work were measured as {replayed_ms:.2f} ms")
    ms(trace, "before")
    return f"a graph captured inside of a span replays right; its replays are timed: {replayed_ms:.2f} ms"


def check_memory(gpu: Gpu) -> str:
    """Growth and peak of memory."""
    gpu.finish()
    gpu.torch.cuda.empty_cache()
    gpu.torch.cuda.reset_peak_memory_stats()
    trace = Trace("memory")
    with trace.span("model", exact=True):
        passing = gpu.tensor(256)
        del passing
        kept = gpu.tensor(64)
    with trace.span("free", exact=True):
        del kept
    model, free = use(trace, "model"), use(trace, "free")
    that(model.allocated_bytes == 64 * MIB, f"64 MiB kept were measured as {model.allocated_bytes} bytes")
    that((model.peak_bytes or 0) >= 256 * MIB, f"a peak of 256 MiB was measured as {model.peak_bytes} bytes")
    that((model.reserved_bytes or 0) >= 256 * MIB, f"torch reserved {model.reserved_bytes} bytes for 256 MiB")
    that(
        free.allocated_bytes == -64 * MIB, f"64 MiB given back were measured as {free.allocated_bytes} bytes"
    )
    return f"+64 MiB, peak {(model.peak_bytes or 0) / MIB:.0f} MiB, then -64 MiB"


def check_shared(gpu: Gpu) -> str:
    """Requests that were on the GPU together know it."""
    both = threading.Barrier(2, timeout=_DEADLINE_S)
    traces = [Trace("a"), Trace("b")]
    failures: list[BaseException] = []

    def request(trace: Trace) -> None:
        try:
            with trace.span("model", exact=True):
                both.wait()
                gpu.work(2)
                both.wait()
        except BaseException as error:  # noqa: BLE001  reported below
            failures.append(error)

    threads = [threading.Thread(target=request, args=(trace,)) for trace in traces]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    that(not failures, f"a request failed: {failures}")
    alone = Trace("c")
    with alone.span("model", exact=True):
        gpu.work(2)
    seen = [use(trace, "model").shared for trace in (*traces, alone)]
    that(seen == [True, True, False], f"two together and one alone are marked as shared: {seen}")
    return "two requests at a time are marked as shared, one alone is not"


def check_side_stream(gpu: Gpu) -> str:
    """A span measures the stream that was current when it began."""
    torch = gpu.torch
    gpu.finish()
    trace = Trace("streams")
    side = torch.cuda.Stream()
    with trace.span("outside", exact=True), torch.cuda.stream(side):
        gpu.work(20)
    with torch.cuda.stream(side), trace.span("inside", exact=True):
        gpu.work(20)
    inside_ms = ms(trace, "inside")
    that(close(inside_ms, 20, 0.3), f"20 ms on a side stream were measured as {inside_ms:.1f} ms from inside")
    outside = use(trace, "outside").time_ns
    return (
        f"20 ms on a side stream: {inside_ms:.1f} for a span inside `with torch.cuda.stream`, "
        f"{'unknown' if outside is None else f'{outside / 1e6:.1f}'} for one around it, as documented"
    )


def check_facts(gpu: Gpu) -> str:
    """Name and size of the GPU."""
    facts = gpu_facts()
    total = facts.get("gpu_memory_total_bytes")
    that(isinstance(total, int) and total > MIB, f"the GPU's memory is {total!r} bytes")
    that(facts.get("gpu_name"), f"the GPU's name is {facts.get('gpu_name')!r}")
    that(isinstance(facts.get("cuda_launch_blocking"), bool), "nobody knows whether launches block")
    return f"{facts['gpu_name']}, {int(str(total)) / 2**30:.1f} GiB"


def check_curve(gpu: Gpu) -> str:
    """The readings for the sampled curve."""
    read = gpu_memory_reader()
    if read is None:
        raise Wrong("there is no reader though torch uses CUDA")
    before = {reading[:2]: reading[2] for reading in read()}
    kept = gpu.tensor(128)
    begun_s = time.perf_counter()
    after = {reading[:2]: reading[2] for reading in read()}
    took_us = (time.perf_counter() - begun_s) * 1e6
    del kept
    key = ("memory.gpu.allocated", f"cuda:{gpu.torch.cuda.current_device()}")
    grown = after.get(key, 0) - before.get(key, 0)
    that(grown == 128 * MIB, f"128 MiB made the curve grow by {grown} bytes; it has {sorted(after)}")
    used = "with" if any(name == "memory.gpu.used" for name, _ in after) else "without"
    return f"+128 MiB seen; one reading takes {took_us:.0f} us, {used} NVML"


def check_profiler(gpu: Gpu) -> str:
    """torch.profiler's kernels are in our trace, below the right span, at the right time."""
    torch = gpu.torch
    a = torch.randn(1024, 1024, device="cuda")
    a @ a
    gpu.finish()
    trace = Trace("profile")
    with torch_profile(trace) as profile:
        with trace.span("model"):
            for _ in range(5):
                a @ a
        with trace.span("copy"):
            a.cpu()
        gpu.finish()
        done_ns = trace._clock_ns()
    that(profile.note == "ok", f"no profile: {profile.note}")
    records = trace.records()
    by_id = {record.span_id: record for record in records}
    kernels = [record for record in records if record.attrs.get("category") == "kernel"]
    that(kernels, "torch's profiler recorded no kernel; is CUPTI allowed here?")
    of_model = [kernel for kernel in kernels if by_id[kernel.parent_id or 0].name == "model"]
    that(len(of_model) >= 5, f"5 products of matrices left {len(of_model)} kernels below their span")
    copies = [record for record in records if record.name == "cuda.memcpy.d2h"]
    that(copies, "a copy to the host left no record")
    that(all(by_id[copy.parent_id or 0].name == "copy" for copy in copies), "the copy is below another span")
    flows = {flow.to_id: flow for flow in trace.snapshot().flows}
    that(all(kernel.span_id in flows for kernel in of_model), "a kernel has no arrow from its launch")
    slack_ns = (profile.alignment_ns or 0) + 100_000
    for kernel in of_model:
        launch = by_id[flows[kernel.span_id].from_id]
        that(kernel.start_ns >= launch.start_ns - slack_ns, f"{kernel.name} began before it was launched")
        that(kernel.end_ns <= done_ns + slack_ns, f"{kernel.name} ended after the GPU was done")
    that((profile.alignment_ns or 10**9) < 100_000, f"the clocks agree to {profile.alignment_ns} ns only")
    agree_us = (profile.alignment_ns or 0) / 1e3
    return f"{len(kernels)} kernels, {len(flows)} arrows; the clocks agree to {agree_us:.1f} us"


def check_events(gpu: Gpu) -> str:
    """Events are used again."""
    gpu.finish()
    trace = Trace("events")
    for _ in range(20):
        with trace.span("model", exact=True):
            pass
        gpu.finish()
        trace.records()
    free = len(PROBE.events)
    that(0 < free <= 256 * 8, f"{free} events are free after 20 spans, one at a time")
    before = free
    for _ in range(20):
        with trace.span("model", exact=True):
            pass
        gpu.finish()
        trace.records()
    that(len(PROBE.events) == before, f"free events grew from {before} to {len(PROBE.events)}")
    return f"{before} events serve any number of spans, one at a time"


def check_devices(gpu: Gpu) -> str:
    """The second GPU, if there is one."""
    torch = gpu.torch
    if torch.cuda.device_count() < 2:
        return "there is one GPU only: not checked"
    trace = Trace("devices")
    with torch.cuda.device(1), trace.span("second", exact=True):
        torch.ones(16, device="cuda").sum()
    torch.cuda.synchronize(1)
    ms(trace, "second")
    that(use(trace, "second").device == 1, "the span is charged to another device")
    return "a span on cuda:1 is charged to it"


def check_overhead(gpu: Gpu) -> str:
    """What an exact span costs."""
    gpu.finish()
    count = 500
    best_us = 1e9
    for _ in range(5):
        trace = Trace("overhead")
        begun_s = time.perf_counter()
        for _ in range(count):
            with trace.span("model", exact=True):
                pass
        best_us = min(best_us, (time.perf_counter() - begun_s) / count * 1e6)
        gpu.finish()
        trace.records()
    that(best_us < _MAX_SPAN_US, f"an exact span costs {best_us:.0f} us")
    return f"an exact span costs {best_us:.1f} us"


CHECKS: tuple[Callable[[Gpu], str], ...] = (
    check_facts,
    check_time,
    check_no_synchronise,
    check_memory,
    check_shared,
    check_side_stream,
    check_graph_capture,
    check_events,
    check_curve,
    check_devices,
    check_profiler,
    check_overhead,
)


def run(gpu: Gpu, checks: Sequence[Callable[[Gpu], str]]) -> int:
    """Make the checks, each whatever became of the others; gives how many failed."""
    failed = 0
    for check in checks:
        what = (check.__doc__ or check.__name__).strip()
        begun_s = time.perf_counter()
        try:
            found = check(gpu)
        except Exception as error:  # noqa: BLE001  a check that breaks is one that failed; the others still count
            failed += 1
            print(f"WRONG  {what}\n       {type(error).__name__}: {error}", flush=True)
            if not isinstance(error, Wrong):
                traceback.print_exc(file=sys.stdout)
        else:
            print(f"ok     {what}\n       {found}. ({time.perf_counter() - begun_s:.1f} s)", flush=True)
    return failed


def cuda_torch() -> Any:
    """torch, if it can use a GPU here; else None."""
    try:
        torch: Any = importlib.import_module("torch")
    except ImportError:
        return None
    return torch if torch.cuda.is_available() else None


def main() -> int:
    torch = cuda_torch()
    if torch is None:
        print("no GPU found: nothing was checked")
        return 0
    print(f"torch {torch.__version__}, CUDA {torch.version.cuda}, {torch.cuda.get_device_name()}", flush=True)
    if os.environ.get("CUDA_LAUNCH_BLOCKING", "0") not in ("", "0"):
        print("WRONG  CUDA_LAUNCH_BLOCKING is set, so nothing is asynchronous: unset it and try again")
        return 1
    begun_s = time.perf_counter()
    try:
        gpu = Gpu(torch)
    except Exception as error:  # noqa: BLE001  without work of known length nothing can be checked
        print(f"WRONG  the GPU does not work: {type(error).__name__}: {error}")
        return 1
    failed = run(gpu, CHECKS)
    took_s = time.perf_counter() - begun_s
    print(f"{len(CHECKS) - failed} of {len(CHECKS)} checks passed in {took_s:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
