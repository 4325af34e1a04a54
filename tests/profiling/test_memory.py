"""Memory: sampled by one thread while a trace is open, exact where asked for, and right after a fork."""

from __future__ import annotations

import gc
import mmap
import os
import subprocess
import sys

import pytest
from linly_profiling import Trace
from linly_profiling.rss import rss_bytes
from linly_profiling.sampler import Series
from trace_tools import Clock, only

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")


@linux
def test_an_exact_span_sees_memory_grow() -> None:
    trace = Trace("r")
    with trace.span("s", exact=True):
        block = mmap.mmap(-1, 64 << 20)  # pages that no allocator had before
        block.write(b"x" * len(block))
    block.close()
    record = only(trace, "s")
    assert record.rss_start_bytes is not None
    assert record.rss_end_bytes is not None
    assert record.rss_peak_bytes is not None
    assert record.rss_end_bytes - record.rss_start_bytes > 60 << 20
    assert record.rss_peak_bytes >= record.rss_end_bytes


def test_the_peak_inside_a_span_is_found_in_the_samples() -> None:
    clock = Clock(0)
    trace = Trace("r", clock_ns=clock)
    with trace.span("s"):
        clock.tick(10)
        trace._memory.append(10**12)
        clock.tick(10)
    clock.tick(10)
    with trace.span("later"):
        pass
    assert only(trace, "s").rss_peak_bytes == 10**12
    assert (only(trace, "later").rss_peak_bytes or 0) < 10**12


def test_closed_traces_leave_nothing_behind() -> None:
    gc.collect()

    def traffic(count: int) -> int:
        for number in range(count):
            with Trace(f"r{number}") as trace, trace.span("s") as span:
                span.mark("token")
        del trace, span
        gc.collect()
        return len(gc.get_objects())

    after_few = traffic(10)
    assert traffic(300) - after_few < 300


def test_a_long_series_stays_small_and_keeps_its_peaks() -> None:
    clock = Clock(0)
    series = Series(clock)
    for number in range(100_000):
        clock.tick(1)
        series.append(10**9 if number == 50_000 else number % 7)
    assert len(list(series)) <= 8192
    assert series.peak(0, 100_000) == 10**9
    assert series.peak(90_000, 100_000) == 6
    assert series.peak(200_000, 300_000) is None


def run(code: str) -> str:
    """Output of a fresh interpreter: a fork inside the test process would disturb pytest."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


_FORK = """
import os, sys, threading
from linly_profiling import Trace
from linly_profiling.rss import rss_bytes

def in_child(check):
    pid = os.fork()
    if pid == 0:
        try:
            check()
            os._exit(0)
        except BaseException as error:
            print(repr(error), file=sys.stderr, flush=True)
            os._exit(1)
    assert os.waitpid(pid, 0)[1] == 0

trace = Trace("parent")
span = trace.start("open")
"""


@forks
def test_a_forked_child_traces_with_a_sampler_of_its_own() -> None:
    run(
        _FORK
        + """
def check():
    names = [t.name for t in threading.enumerate()]
    assert "linly-sampler" not in names, names
    with Trace("child") as own:
        assert "linly-sampler" in [t.name for t in threading.enumerate()]
        with own.span("s", exact=True): pass
    assert [r.outcome for r in own.records()] == ["ok", "ok"]
    span.end()
    trace.close()
    assert [r.outcome for r in trace.records()] == ["ok", "ok"]

in_child(check)
assert [r.outcome for r in trace.records()] == ["open", "open"]
"""
    )


@linux
def test_a_forked_child_reads_its_own_memory() -> None:
    run(
        _FORK
        + """
before = rss_bytes()
def check():
    block = bytearray(96 << 20)
    block[::4096] = b"x" * len(block[::4096])
    assert rss_bytes() - before > 60 << 20, "still the parent's"

in_child(check)
"""
    )


@linux
def test_memory_is_read_though_someone_closed_all_files() -> None:
    run("""
import os
from linly_profiling.rss import rss_bytes
assert rss_bytes()
os.closerange(3, 256)
assert rss_bytes()
os.closerange(3, 256)
other = os.open(os.devnull, os.O_RDONLY)
assert rss_bytes()
os.close(other)
""")


_THREADS = """
import gc, threading
from linly_profiling import Trace

def samplers():
    return [thread for thread in threading.enumerate() if thread.name == "linly-sampler"]

def rest():
    for thread in samplers():
        thread.join(timeout=10)
    return threading.active_count() == 1
"""


@linux
def test_one_thread_samples_for_all_traces_and_stops_with_the_last() -> None:
    run(
        _THREADS
        + """
for _ in range(2):
    traces = [Trace(f"r{n}") for n in range(300)]
    assert len(samplers()) == 1 and threading.active_count() == 2
    for trace in traces:
        trace.close()
    assert rest()
"""
    )


@linux
def test_a_forgotten_trace_does_not_keep_the_thread() -> None:
    run(
        _THREADS
        + """
trace = Trace("r")
assert samplers()
del trace
gc.collect()
assert rest()
"""
    )


def test_where_memory_cannot_be_read_it_is_null() -> None:
    run(
        _THREADS
        + """
from linly_profiling import exact, sampler
sampler.rss_bytes = exact.rss_bytes = lambda: None
trace = Trace("r")
with trace.span("s", exact=True):
    pass
record = trace.records()[1]
assert (record.rss_start_bytes, record.rss_end_bytes, record.rss_peak_bytes) == (None, None, None)
"""
    )


def test_importing_takes_no_third_party_package() -> None:
    out = run("""
import sys
before = set(sys.modules)
import linly_profiling
known = sys.stdlib_module_names | {"linly_profiling"}
print(sorted({m.partition(".")[0] for m in set(sys.modules) - before} - known))
""")
    assert out.strip() == "[]"


def test_rss_is_plausible() -> None:
    value = rss_bytes()
    assert value is None or 1 << 20 < value < 1 << 40
