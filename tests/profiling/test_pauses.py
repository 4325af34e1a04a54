"""What stops the whole process is noted in the requests it stops."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import time
import weakref

import pytest
from linly_profiling import Report, Trace
from linly_profiling.background import BACKGROUND, GpuMemory
from linly_profiling.limits import memory_limit_bytes
from linly_profiling.overhead import ns_per_span
from linly_profiling.pauses import GcWatch, LoopWatch, stack_of
from linly_profiling.sampler import SAMPLER
from trace_tools import MS, Clock, only, until

BLOCKED_S = 0.15

pytestmark = pytest.mark.usefixtures("_a_loop_may_be_blocked", "_pauses_are_noted")


@pytest.fixture
def _pauses_are_noted(_pauses_are_not_noted: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("linly_profiling.pauses.GC_PAUSE_NS", 1_000_000)
    monkeypatch.setattr("linly_profiling.pauses.BLOCKED_NS", 50_000_000)


@pytest.fixture
def _a_loop_may_be_blocked(_event_loop_is_never_blocked: list[str]) -> object:
    yield
    _event_loop_is_never_blocked.clear()


def read_a_big_file_in_the_loop() -> None:
    """Stands for any call that should have gone to a thread."""
    time.sleep(BLOCKED_S)


def test_a_blocked_event_loop_is_recorded_with_the_place_that_blocked_it() -> None:
    async def main() -> Trace:
        with Trace("r") as trace:
            await asyncio.sleep(0.1)  # the first sign of life
            read_a_big_file_in_the_loop()
            await asyncio.sleep(0.1)
        return trace

    trace = asyncio.run(main())
    blocked = only(trace, "linly.loop.blocked")
    assert 0.4 * BLOCKED_S < blocked.duration_ns / 1e9 < 10 * BLOCKED_S
    stack = blocked.attrs["stack"]
    assert isinstance(stack, list)
    assert "read_a_big_file_in_the_loop" in str(stack[-1])
    assert "profiling/test_pauses.py:" in str(stack[-1])
    assert blocked.attrs["row"] == "event loop"
    lags = [sample.value for sample in trace.snapshot().samples if sample.name == "loop.lag_ms"]
    assert max(lags) > 400 * BLOCKED_S


def test_a_block_that_lasts_until_the_request_is_closed_is_recorded_too() -> None:
    async def main() -> Trace:
        with Trace("outer"):  # keeps the loop watched
            await asyncio.sleep(0.1)
            with Trace("r") as trace:
                read_a_big_file_in_the_loop()
        return trace

    blocked = only(asyncio.run(main()), "linly.loop.blocked")
    assert "read_a_big_file_in_the_loop" in str(blocked.attrs["stack"])


def test_a_free_event_loop_gives_a_curve_of_its_lag_and_no_block() -> None:
    async def main() -> Trace:
        with Trace("r") as trace:
            for _ in range(10):
                await asyncio.sleep(0.02)
        return trace

    trace = asyncio.run(main())
    assert [sample.track for sample in trace.snapshot().samples if sample.name == "loop.lag_ms"]


def test_a_request_of_another_loop_or_of_none_is_not_blamed() -> None:
    outside = Trace("outside")

    async def main() -> None:
        with Trace("inside"):
            await asyncio.sleep(0.1)
            read_a_big_file_in_the_loop()
            await asyncio.sleep(0.1)

    asyncio.run(main())
    outside.close()
    assert [record.name for record in outside.records() if record.name == "linly.loop.blocked"] == []


def test_a_trace_with_a_clock_of_its_own_is_left_alone() -> None:
    async def main() -> Trace:
        with Trace("r", clock_ns=Clock()) as trace:
            await asyncio.sleep(0.06)
        return trace

    assert [record.name for record in asyncio.run(main()).records()] == ["linly.request"]


def test_a_loop_that_was_closed_does_no_harm() -> None:
    loop = asyncio.new_event_loop()
    watch = LoopWatch(loop, 0)
    loop.close()
    for _ in range(4):
        watch.look()
    assert watch.recent() == []


def test_the_stack_of_a_thread_that_is_gone_is_empty() -> None:
    assert stack_of(-1) == []


def test_a_long_garbage_collection_is_recorded() -> None:
    rubbish = [[number] for number in range(300_000)]
    with Trace("r") as trace:
        gc.collect()
    del rubbish
    pauses = [record for record in trace.records() if record.name == "linly.gc.pause"]
    assert pauses
    assert pauses[0].attrs["generation"] == 2
    assert pauses[0].duration_ns > MS


def test_short_collections_are_not_recorded() -> None:
    watch = GcWatch()
    for phase in ("start", "stop"):
        watch._seen(phase, {"generation": 0, "collected": 0})
    assert watch.recent() == []


def test_a_request_that_ended_is_forgotten() -> None:
    for number in range(50):
        Trace(f"r{number}").close()
    assert len(BACKGROUND._watched) == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_process_can_watch_its_own_loop() -> None:
    reader, writer = os.pipe()
    parent = Trace("parent")
    child = os.fork()
    if child == 0:
        try:

            async def main() -> Trace:
                with Trace("child") as trace:
                    await asyncio.sleep(0.1)
                return trace

            samples = asyncio.run(main()).snapshot().samples
            os.write(writer, b"1" if any(sample.name == "loop.lag_ms" for sample in samples) else b"0")
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    parent.close()
    assert os.read(reader, 1) == b"1"
    os.close(reader)
    os.close(writer)


def test_a_request_knows_how_much_memory_it_may_use() -> None:
    with Trace("r") as trace:
        pass
    limit = trace.records()[0].attrs["memory_limit_bytes"]
    assert limit == memory_limit_bytes()
    assert limit is None or limit > 100_000_000


def test_tracing_tells_what_a_span_costs_and_leaves_no_trace_of_the_measurement() -> None:
    seen: list[str] = []
    from linly_profiling.trace import observe

    end = observe(lambda trace: seen.append(trace.request_id))
    try:
        ns_per_span.cache_clear()
        assert 100 < ns_per_span() < 1_000_000
    finally:
        end()
    assert seen == []
    until(lambda: len(BACKGROUND._watched) == 0)


# Memory of GPUs, read in the same thread


def test_the_memory_of_a_gpu_is_a_curve_with_a_point_where_it_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    readings = iter([5_000_000, 5_000_100, 5_000_200, 9_000_000])
    last = 9_000_000

    def read() -> list[tuple[str, str, int]]:
        return [("memory.gpu.allocated", "cuda:0", next(readings, last))]

    monkeypatch.setattr(BACKGROUND, "_gpu", GpuMemory())
    monkeypatch.setitem(sys.modules, "torch", object())
    monkeypatch.setattr("linly_profiling.torch_tools.memory.gpu_memory_reader", lambda: read)
    monkeypatch.setattr("linly_profiling.cuda.PROBE._broken", True)

    def curve(trace: Trace) -> list[float]:
        return [each.value for each in trace.snapshot().samples if each.name == "memory.gpu.allocated"]

    trace = Trace("r")
    until(lambda: len(curve(trace)) == 2)
    assert curve(trace) == [5_000_000, 9_000_000]
    trace.close()


def test_a_report_says_what_tracing_itself_has_cost() -> None:
    until(lambda: _known_cost() is not None)
    with Trace("r") as trace:
        for _ in range(99):
            trace.start("work").end()
    report = Report.of(trace)
    assert report.overhead_ns == 100 * trace.records()[0].attrs["overhead_ns_per_span"]
    assert "tracing itself took about" in str(report)


def _known_cost() -> int | None:
    with Trace("wait"):
        return BACKGROUND.span_cost_ns


# Whatever the collector does in the middle of it


def finished(code: str) -> None:
    """Run a program that hangs if something waits for a lock that its own thread holds."""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr


def test_a_collection_that_closes_forgotten_traces_never_hangs_the_program() -> None:
    finished(
        """
import gc
from linly_profiling import Trace
gc.set_threshold(5, 2, 2)

def body():
    with Trace("r") as trace:
        yield trace

class Response:
    def __init__(self):
        self.body, self.me = body(), self

for _ in range(2_000):
    next(Response().body)
"""
    )


def test_a_collection_that_ends_forgotten_streams_never_hangs_a_full_trace() -> None:
    finished(
        """
import gc
from linly_profiling import Trace
gc.set_threshold(5, 2, 2)
trace = Trace("r", max_records=50)

class Holder:
    def __init__(self):
        self.items, self.me = trace.iterate("stream", iter(range(9))), self

for _ in range(3_000):
    next(Holder().items)
    with trace.span("work") as span:
        span.mark("token")
        span.mark("frame", 1)
"""
    )


def test_a_clock_that_fails_harms_no_other_trace() -> None:
    failing = False

    def clock() -> int:
        if failing:
            raise RuntimeError("no time")
        return time.perf_counter_ns()

    odd, healthy = Trace("odd", clock_ns=clock), Trace("healthy")
    failing = True
    until(lambda: id(odd._memory) not in SAMPLER._watched)
    failing = False
    points = len(healthy.snapshot().samples)
    until(lambda: len(healthy.snapshot().samples) > points)
    for trace in (odd, healthy):
        trace.close()


def test_a_loop_between_two_runs_is_not_blocked_and_a_closed_one_is_let_go() -> None:
    loop = asyncio.new_event_loop()
    with Trace("r") as trace:

        async def step() -> None:
            with Trace("inner"):
                await asyncio.sleep(0.06)

        loop.run_until_complete(step())
        read_a_big_file_in_the_loop()  # outside of it
        loop.run_until_complete(step())
        loop.close()
        gone = weakref.ref(loop)
        del loop
        until(lambda: gc.collect() >= 0 and gone() is None)
    assert [record.name for record in trace.records() if record.name == "linly.loop.blocked"] == []
