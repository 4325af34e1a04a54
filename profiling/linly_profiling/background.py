"""What the sampler's thread looks after while traces are open, and notes in each of them."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from linly_profiling.pauses import GcWatch, LoopWatch, Pause

if TYPE_CHECKING:
    from linly_profiling.trace import Trace

_STEP_BYTES = 1_000_000  # a curve of memory gets a point where it moved by this much


class Background:
    """Pauses of the whole process, and the memory of its GPUs.

    Traces with a clock of their own, as in tests, are left alone: what is measured here is on the system's.

    Attributes:
        span_cost_ns: what a span costs in this process; None before it was measured.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._traces: weakref.WeakSet[Trace] = weakref.WeakSet()
        self._loops: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, LoopWatch] = (
            weakref.WeakKeyDictionary()
        )
        self._loop_of: weakref.WeakKeyDictionary[Trace, LoopWatch] = weakref.WeakKeyDictionary()
        self.span_cost_ns: int | None = None
        self._gc = GcWatch()
        self._gpu = GpuMemory()

    def watch(self, trace: Trace) -> None:
        """Begin to note things in a trace; in the thread, and if there is one the event loop, that it begins in."""
        loop = asyncio._get_running_loop()
        with self._lock:
            self._traces.add(trace)
            self._gc.begin()
            self._gpu.begin()
            if loop is not None:
                watch = self._loops.get(loop) or LoopWatch(loop, threading.get_ident())
                self._loops[loop] = self._loop_of[trace] = watch

    def unwatch(self, trace: Trace) -> int | None:
        """Note what there is, for the last time. Gives what a span of the trace cost, in ns, if that is known."""
        with self._lock:
            if trace not in self._traces:
                return None
            self._note(asked=False)
            self._traces.discard(trace)
            loop = self._loop_of.pop(trace, None)
            pause = loop.so_far() if loop is not None else None
            if pause is not None:
                _add([trace], [pause])
            if not self._traces:
                self._gc.end()
                self._loops.clear()
        return self.span_cost_ns

    def tick(self) -> None:
        with self._lock:
            self._note(asked=True)
        if self.span_cost_ns is None:
            from linly_profiling.overhead import ns_per_span

            self.span_cost_ns = ns_per_span()

    def _note(self, *, asked: bool) -> None:
        traces = list(self._traces)
        _add(traces, self._gc.take())
        for loop in list(self._loops.values()):
            if asked:
                loop.look()
            mine = [trace for trace in traces if self._loop_of.get(trace) is loop]
            _add(mine, loop.take())
            lag_ms = loop.moved_lag_ms()
            if lag_ms is not None:
                _count(mine, "loop.lag_ms", "event loop", round(lag_ms, 3))
        for name, track, value in self._gpu.moved():
            _count(traces, name, track, value)

    def forget(self) -> None:
        """In a forked child: the parent's traces are none of its business."""
        self._gc.end()
        self.__init__()  # type: ignore[misc]


def _add(traces: list[Trace], pauses: list[Pause]) -> None:
    for pause in pauses:
        for trace in traces:
            start_ns = max(pause.start_ns, trace.root.start_ns)
            if pause.end_ns > start_ns:
                trace.add_span(pause.name, start_ns, pause.end_ns, row=pause.row, **pause.attrs)


def _count(traces: list[Trace], name: str, track: str, value: float) -> None:
    for trace in traces:
        trace.counter(name, value, track)


class GpuMemory:
    """Readings that moved since the last time, by a megabyte or more."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, str], int] = {}
        self._reader: Callable[[], list[tuple[str, str, int]]] | None = None

    def begin(self) -> None:
        """A request begins: from here on there may be a GPU, and the curve starts anew for it."""
        self._last.clear()
        if "torch" in sys.modules:
            from linly_profiling.torch_tools.memory import gpu_memory_reader

            self._reader = gpu_memory_reader()

    def moved(self) -> Iterator[tuple[str, str, int]]:
        for name, track, value in self._reader() if self._reader is not None else ():
            last = self._last.get((name, track))
            if last is None or abs(value - last) >= _STEP_BYTES:
                self._last[name, track] = value
                yield name, track, value


BACKGROUND = Background()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=BACKGROUND.forget)
