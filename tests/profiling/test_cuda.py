"""The GPU, with a scripted stand-in for torch: what is measured, and that nothing ever waits or breaks."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import logging
import os
import sys
import threading
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from linly_profiling import CudaUse, Trace, exact
from linly_profiling import cuda as cuda_module
from linly_profiling.cuda import CudaProbe, CudaSpan, gpu_facts
from trace_tools import only

GIB = 2**30


class Gpu:
    """Plays `torch.cuda`. Kernels run when the test says so: `reached_ms` is how far the GPU has come."""

    def __init__(self) -> None:
        self.initialized = True
        self.capturing = False
        self.capturing_elsewhere = False
        self.device_now = 0
        self.allocated = 100
        self.reserved = 1000
        self.top = 500
        self.clock_ms = 0.0
        self.reached_ms = -1.0
        self.fail: str | None = None
        self.events_made = 0
        self.relaxed = False
        self.broken_graphs = 0

    def is_initialized(self) -> bool:
        self._may_fail("is_initialized")
        return self.initialized

    def current_device(self) -> int:
        return self.device_now

    @contextlib.contextmanager
    def device(self, index: int) -> Iterator[None]:
        before, self.device_now = self.device_now, index
        yield
        self.device_now = before

    def memory_stats_as_nested_dict(self, device: int) -> dict[str, Any]:
        self._may_fail("memory")
        return {
            "allocated_bytes": {"all": {"current": self.allocated, "peak": self.top}},
            "reserved_bytes": {"all": {"current": self.reserved, "peak": self.reserved}},
        }

    def get_device_properties(self, device: int) -> Any:
        self._may_fail("properties")
        return types.SimpleNamespace(name=f"GPU {device}", total_memory=(device + 1) * GIB)

    def is_current_stream_capturing(self) -> bool:
        return self.capturing

    def synchronize(self) -> None:
        raise AssertionError("nothing may wait for the GPU")

    def Event(self, enable_timing: bool) -> Event:
        assert enable_timing
        self.events_made += 1
        return Event(self)

    def finish(self) -> None:
        """The GPU has done all that it was given."""
        self.reached_ms = self.clock_ms

    def _may_fail(self, call: str) -> None:
        if self.fail == call:
            raise OSError("CUDA error: device-side assert triggered")


class Event:
    def __init__(self, gpu: Gpu) -> None:
        self.gpu = gpu
        self.device: int | None = None
        self.at_ms = 0.0

    def record(self) -> None:
        assert not self.gpu.capturing, "timing events break the capture of a graph"
        assert self.device in (None, self.gpu.device_now), "an event stays on its first device"
        self.device = self.gpu.device_now
        self.at_ms = self.gpu.clock_ms

    def query(self) -> bool:
        self.gpu._may_fail("query")
        if self.gpu.capturing_elsewhere and not self.gpu.relaxed:
            self.gpu.broken_graphs += 1
        return self.at_ms <= self.gpu.reached_ms

    def elapsed_time(self, end: Event) -> float:
        assert self.query(), "device not ready"
        assert end.query(), "device not ready"
        assert self.device == end.device
        return end.at_ms - self.at_ms

    def synchronize(self) -> None:
        raise AssertionError("nothing may wait for the GPU")


@pytest.fixture(autouse=True)
def probe(monkeypatch: pytest.MonkeyPatch) -> CudaProbe:
    probe = CudaProbe()
    monkeypatch.setattr("linly_profiling.exact.PROBE", probe)
    monkeypatch.setattr("linly_profiling.cuda.PROBE", probe)
    monkeypatch.setattr("linly_profiling.cuda._capture_mode_exchange", lambda: None)
    return probe


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Gpu:
    gpu = Gpu()
    torch: Any = types.ModuleType("torch")
    torch.cuda = gpu
    monkeypatch.setitem(sys.modules, "torch", torch)
    return gpu


def measured(gpu: Gpu, **changes: Any) -> Trace:
    trace = Trace("r")
    with trace.span("model", exact=True):
        gpu.clock_ms += 12.5
        for name, value in changes.items():
            setattr(gpu, name, value)
    return trace


def use_of(trace: Trace) -> CudaUse:
    use = only(trace, "model").cuda
    assert use is not None
    return use


def begun(probe: CudaProbe, owner: object = None) -> CudaSpan:
    span = probe.begin(timed=True, owner=owner)
    assert span is not None
    return span


def ended(span: CudaSpan) -> CudaUse:
    span.end(timed=True)
    use = span.use()
    assert use is not None
    return use


# Time


def test_time_is_known_once_the_gpu_is_done_and_nothing_waits_for_it(gpu: Gpu) -> None:
    trace = measured(gpu)
    assert use_of(trace)[:5] == (0, None, 0, 0, 100)
    gpu.finish()
    assert use_of(trace)[:5] == (0, 12_500_000, 0, 0, 100)


def test_work_is_charged_to_the_span_that_enqueued_it_not_to_the_one_that_runs_meanwhile(gpu: Gpu) -> None:
    trace = Trace("r")
    with trace.span("first", exact=True):
        gpu.clock_ms += 30  # enqueued: the GPU has not begun
    with trace.span("second", exact=True):
        gpu.clock_ms += 2
    gpu.reached_ms = 31
    assert (only(trace, "first").cuda or CudaUse(0)).time_ns == 30_000_000
    assert (only(trace, "second").cuda or CudaUse(0)).time_ns is None
    gpu.finish()
    assert (only(trace, "second").cuda or CudaUse(0)).time_ns == 2_000_000


@given(order=st.permutations(range(6)), lengths=st.lists(st.integers(0, 1000), min_size=6, max_size=6))
def test_each_span_gets_its_own_time_in_whatever_order_the_ends_are_seen(
    order: list[int], lengths: list[int]
) -> None:
    gpu, probe = Gpu(), CudaProbe()
    spans = []
    for length in lengths:
        span = CudaSpan(probe, gpu, True)
        gpu.clock_ms += length
        span.end(timed=True)
        spans.append(span)
    for seen in order:
        spans[seen].use()  # too early for all but the empty ones
    gpu.finish()
    times = {seen: (spans[seen].use() or CudaUse(0)).time_ns for seen in order}
    assert [times[i] for i in range(6)] == [length * 1_000_000 for length in lengths]


def test_time_between_two_devices_is_null(gpu: Gpu) -> None:
    trace = measured(gpu, device_now=1)
    gpu.finish()
    assert use_of(trace).time_ns is None


def test_each_device_has_events_and_times_of_its_own(gpu: Gpu) -> None:
    for device in (0, 1, 0, 1):
        gpu.device_now = device
        trace = measured(gpu)
        gpu.finish()
        use = use_of(trace)
        assert (use.device, use.time_ns) == (device, 12_500_000)


def test_in_a_task_the_stream_is_shared_and_time_is_null(gpu: Gpu) -> None:
    async def stage() -> Trace:
        return measured(gpu, allocated=150)

    trace = asyncio.run(stage())
    gpu.finish()
    assert (use_of(trace).time_ns, use_of(trace).allocated_bytes) == (None, 50)
    assert gpu.events_made == 0


def test_time_is_null_where_another_thread_ends_the_span(gpu: Gpu) -> None:
    trace = Trace("r")
    span = trace.start("model", exact=True)
    other = threading.Thread(target=span.end)
    other.start()
    other.join()
    gpu.finish()
    assert use_of(trace).time_ns is None


# Memory


def test_memory_is_the_change_over_the_span(gpu: Gpu) -> None:
    use = use_of(measured(gpu, allocated=160, reserved=900))
    assert (use.allocated_bytes, use.reserved_bytes, use.peak_bytes) == (60, -100, 160)


def test_a_new_peak_of_the_process_is_a_peak_of_the_span(gpu: Gpu) -> None:
    assert use_of(measured(gpu, top=900)).peak_bytes == 900


def test_an_allocator_without_statistics_leaves_time_alone(
    gpu: Gpu, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def no_statistics(device: int) -> dict[str, Any]:
        raise RuntimeError("the pluggable allocator has no statistics")

    monkeypatch.setattr(gpu, "memory_stats_as_nested_dict", no_statistics)
    traces = [measured(gpu), measured(gpu)]
    gpu.finish()
    assert [use_of(trace)[:5] for trace in traces] == [(0, 12_500_000, None, None, None)] * 2
    said = [record.message for record in caplog.records if "is not recorded" in record.message]
    assert len(said) == 1


# Graphs


@pytest.mark.parametrize("when", ["before", "inside"])
def test_no_event_is_recorded_while_a_graph_is_captured(gpu: Gpu, when: str) -> None:
    gpu.capturing = when == "before"
    trace = measured(gpu, capturing=True)
    gpu.finish()
    assert (use_of(trace).time_ns, use_of(trace).allocated_bytes) == (None, 0)


def test_asking_for_a_time_leaves_a_graph_alone_that_another_thread_captures(
    gpu: Gpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    def exchange(mode: Any) -> int:
        gpu.relaxed, mode._obj.value = mode._obj.value == 2, 2 * gpu.relaxed
        return 0

    monkeypatch.setattr("linly_profiling.cuda._capture_mode_exchange", lambda: exchange)
    trace = measured(gpu)
    gpu.finish()
    gpu.capturing_elsewhere = True
    assert use_of(trace).time_ns == 12_500_000
    assert gpu.broken_graphs == 0
    assert not gpu.relaxed, "the thread's own mode must come back"


def test_a_system_without_the_driver_has_no_capture_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str, **how: Any) -> Any:
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.undo()
    monkeypatch.setattr(ctypes, "CDLL", missing)
    cuda_module._capture_mode_exchange.cache_clear()
    try:
        assert cuda_module._capture_mode_exchange() is None
    finally:
        cuda_module._capture_mode_exchange.cache_clear()


# Events


def test_events_are_used_again_once_the_gpu_has_passed_them_and_not_before(
    gpu: Gpu, probe: CudaProbe
) -> None:
    waiting = [measured(gpu) for _ in range(3)]
    for trace in waiting:
        use_of(trace)
    assert (gpu.events_made, len(probe.events)) == (6, 0)
    gpu.finish()
    for trace in (*waiting, *waiting):  # a second look gives nothing back a second time
        use_of(trace)
    assert len(probe.events) == 6
    measured(gpu)
    assert (gpu.events_made, len(probe.events)) == (6, 4)


def test_an_event_is_never_in_two_spans(gpu: Gpu, probe: CudaProbe) -> None:
    for _ in range(3):
        trace = measured(gpu)
        gpu.finish()
        threads = [threading.Thread(target=use_of, args=(trace,)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    free = [event for events in probe.events._free.values() for event in events]
    assert len(free) == len(set(map(id, free))) == 2


def test_free_events_are_bounded(gpu: Gpu, probe: CudaProbe) -> None:
    spans = [begun(probe) for _ in range(400)]
    for span in spans:
        span.end(timed=True)
    gpu.finish()
    for span in spans:
        span.use()
    assert gpu.events_made == 800
    assert len(probe.events) == 256


# Who was there


@given(
    devices=st.lists(st.integers(0, 1), min_size=2, max_size=6),
    owners=st.lists(st.integers(0, 2), min_size=6, max_size=6),
    steps=st.lists(st.integers(0, 5), max_size=20),
)
def test_shared_means_that_another_trace_was_on_the_device_meanwhile(
    devices: list[int], owners: list[int], steps: list[int]
) -> None:
    gpu, probe = Gpu(), CudaProbe()
    traces = ["a", "b", "c"]
    open_spans: dict[int, CudaSpan] = {}
    met: dict[int, bool] = {}
    for number in (step % len(devices) for step in steps):
        if number in open_spans:
            assert ended(open_spans.pop(number)).shared is met.pop(number)
            continue
        gpu.device_now = devices[number]
        strangers = [i for i in open_spans if devices[i] == devices[number] and owners[i] != owners[number]]
        open_spans[number] = CudaSpan(probe, gpu, True, traces[owners[number]])
        met.update(dict.fromkeys(strangers, True))
        met[number] = bool(strangers)
    for number, span in open_spans.items():
        gpu.device_now = devices[number]
        assert ended(span).shared is met[number]
    assert len(probe.devices) == 0


def test_without_an_owner_nobody_knows_whether_the_gpu_was_shared(gpu: Gpu, probe: CudaProbe) -> None:
    assert ended(begun(probe)).shared is None


def test_a_span_that_was_thrown_away_shares_with_nobody(gpu: Gpu, probe: CudaProbe) -> None:
    lost = begun(probe, owner="lost")
    del lost
    gc.collect()
    assert ended(begun(probe, owner="other")).shared is False


# What is missing or broken


def test_an_ordinary_span_asks_the_gpu_nothing(gpu: Gpu) -> None:
    gpu.fail = "is_initialized"
    trace = Trace("r")
    with trace.span("s"):
        pass
    assert only(trace, "s").cuda is None


def test_without_cuda_everything_is_null(gpu: Gpu) -> None:
    gpu.initialized = False
    assert only(measured(gpu), "model").cuda is None
    assert gpu_facts() == {}


def test_without_torch_or_with_half_of_it_everything_is_null(monkeypatch: pytest.MonkeyPatch) -> None:
    for torch in (types.ModuleType("torch"), None):
        monkeypatch.setitem(sys.modules, "torch", torch)
        assert only(measured(Gpu()), "model").cuda is None
        assert gpu_facts() == {}
    monkeypatch.delitem(sys.modules, "torch")
    assert only(measured(Gpu()), "model").cuda is None


@pytest.mark.parametrize("call", ["is_initialized", "memory"])
def test_a_probe_that_raises_is_switched_off_and_logged_once(
    gpu: Gpu, call: str, caplog: pytest.LogCaptureFixture
) -> None:
    gpu.fail = call
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert only(measured(gpu), "model").cuda is None
    gpu.fail = None
    assert only(measured(gpu), "model").cuda is None
    assert ["device-side assert" in record.message for record in caplog.records] == [True]


def test_a_failure_at_the_end_or_later_breaks_nothing(
    gpu: Gpu, probe: CudaProbe, caplog: pytest.LogCaptureFixture
) -> None:
    kept = measured(gpu)
    assert only(measured(gpu, fail="memory"), "model").cuda is None
    gpu.finish()
    gpu.fail = "query"
    assert use_of(kept).time_ns is None
    assert len(caplog.records) == 1
    assert len(probe.devices) == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_child_neither_asks_for_the_parents_events_nor_waits_for_its_locks(
    gpu: Gpu, probe: CudaProbe
) -> None:
    trace = measured(gpu)
    gpu.finish()

    def child() -> bool:
        probe.forget()
        gpu.fail = "query"
        return use_of(trace).time_ns is None and not probe._broken

    with probe.resolving:
        assert _in_a_fork(child)


def _in_a_fork(check: Callable[[], bool]) -> bool:
    pid = os.fork()
    if pid == 0:
        try:
            os._exit(0 if check() else 1)
        finally:
            os._exit(2)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


# Facts for the request


def test_facts_are_those_of_the_current_device(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_LAUNCH_BLOCKING", raising=False)
    gpu.device_now = 1
    assert gpu_facts() == {
        "gpu_name": "GPU 1",
        "gpu_memory_total_bytes": 2 * GIB,
        "cuda_launch_blocking": False,
    }
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", "1")
    assert gpu_facts()["cuda_launch_blocking"] is True


def test_facts_that_cannot_be_had_are_left_out(gpu: Gpu, caplog: pytest.LogCaptureFixture) -> None:
    gpu.fail = "properties"
    assert gpu_facts() == {}
    assert len(caplog.records) == 1


# Memory of the process, which an exact span reads as well


def exact_bytes(
    monkeypatch: pytest.MonkeyPatch, readings: list[bytes], at_ns: list[int]
) -> list[tuple[Any, Any]]:
    """Start and end of as many exact spans as there are pairs of times, with scripted readings and a scripted clock."""
    monkeypatch.setattr(exact, "_newest", (None, -1_000_000))
    monkeypatch.setattr(exact, "_read", iter(readings).__next__)
    monkeypatch.setattr(exact, "_now_ns", iter(at_ns).__next__)
    spans = []
    for _ in range(len(at_ns) // 2):
        span = exact.Exact()
        span.end()
        spans.append((span.rss_start_bytes, span.rss_end_bytes))
    return spans


def test_a_span_begins_with_the_last_reading_only_if_that_is_fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    page = os.sysconf("SC_PAGE_SIZE")
    readings = [f"9 {pages} 1 1 0 1 0".encode() for pages in range(1, 6)]
    at_ns = [0, 10_000, 109_999, 200_000, 300_000, 400_000]
    assert exact_bytes(monkeypatch, readings, at_ns) == [
        (page, 2 * page),
        (2 * page, 3 * page),
        (4 * page, 5 * page),
    ]


def test_a_reading_that_is_no_figure_is_null(monkeypatch: pytest.MonkeyPatch) -> None:
    assert exact_bytes(monkeypatch, [b"", b"some other file"], [0, 10]) == [(None, None)]
