"""Rules that hold in every test."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Iterator
from typing import Any

import pytest

BLOCKED_S = 0.1


def pytest_collection_finish() -> None:
    """Leave what was imported out of every later garbage collection: it would make them longer than BLOCKED_S."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _event_loop_is_never_blocked(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Fails a test in which one callback or one step of a task kept an event loop for more than 100 ms.

    Time in which the system ran something else instead does not count: on a busy machine that is nobody's fault.
    Yields the findings; a test of blocked loops clears them.
    """
    slow: list[str] = []
    run = asyncio.Handle._run

    def timed(handle: Any) -> None:
        start_s, start_cpu_s, preempted = time.perf_counter(), time.thread_time(), _preemptions()
        run(handle)
        took_s, cpu_s = time.perf_counter() - start_s, time.thread_time() - start_cpu_s
        starved = cpu_s < BLOCKED_S and _preemptions() > preempted
        if took_s > BLOCKED_S and not starved:
            slow.append(f"{took_s * 1000:.0f} ms ({cpu_s * 1000:.0f} ms of CPU) in {handle!r}")

    monkeypatch.setattr(asyncio.Handle, "_run", timed)
    yield slow
    assert not slow, f"the event loop was blocked: {slow}"


@pytest.fixture(autouse=True)
def _pauses_are_not_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Traces hold what a test puts there, and not what a busy machine does. The tests of pauses set this back."""
    monkeypatch.setattr("linly_profiling.pauses.GC_PAUSE_NS", 10**18)
    monkeypatch.setattr("linly_profiling.pauses.BLOCKED_NS", 10**18)


def _preemptions() -> int:
    """How often the system took the core away from this thread; 0 where it does not tell."""
    try:
        import resource

        return resource.getrusage(resource.RUSAGE_THREAD).ru_nivcsw
    except (ImportError, AttributeError):
        return 0
