"""What the sampler's thread looks after while traces are open, and notes in each of them.

Nothing here waits for a lock: a garbage collection may close a forgotten trace at any point, also inside of these
very functions, and in any thread.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from linly_profiling.frozen import frozen
from linly_profiling.pauses import GcWatch, LoopWatch, Pause

if TYPE_CHECKING:
    from linly_profiling.trace import Trace

_STEP_BYTES = 1_000_000  # a curve of memory gets a point where it moved by this much


class _Watched:
    """An open trace, the event loop it began in, and up to when pauses have been noted in it."""

    def __init__(self, trace: Trace, loop: LoopWatch | None) -> None:
        self.trace = weakref.ref(trace)
        self.loop = loop
        self._busy = threading.Lock()  # never waited for

    def note(self, pauses: Callable[[], list[Pause]], seen: dict[str, int]) -> None:
        """Put into the trace what is new since `seen`, by name the end of the newest pause noted."""
        trace = self.trace()
        if trace is None or not self._busy.acquire(blocking=False):
            return  # the thread that is at it will do
        try:
            for pause in pauses():
                if pause.end_ns > seen.get(pause.name, trace.root.start_ns):
                    seen[pause.name] = pause.end_ns
                    _add(trace, pause)
        finally:
            self._busy.release()


class Background:
    """Pauses of the whole process, and the memory of its GPUs.

    Traces with a clock of their own, as in tests, are left alone: what is measured here is on the system's.

    Attributes:
        span_cost_ns: what a span costs in this process; None before it was measured.
    """

    def __init__(self) -> None:
        self.span_cost_ns: int | None = None
        self._watched: dict[int, _Watched] = {}
        self._seen: dict[int, dict[str, int]] = {}
        self._loops: dict[int, LoopWatch] = {}
        self._gc = GcWatch()
        self._gpu = GpuMemory()

    def watch(self, trace: Trace) -> None:
        """Begin to note things in a trace; in the thread, and if there is one the event loop, that it begins in."""
        loop = asyncio._get_running_loop()
        watch = None
        if loop is not None:
            watch = self._loops.get(id(loop))
            if watch is None or watch.is_over():
                watch = self._loops[id(loop)] = LoopWatch(loop, threading.get_ident())
        self._gc.begin()
        self._gpu.begin()
        self._seen[id(trace)] = {}
        self._watched[id(trace)] = _Watched(trace, watch)

    def unwatch(self, trace: Trace) -> int | None:
        """Note what there is, for the last time. Gives what a span of the trace cost, in ns, if that is known."""
        watched = self._watched.pop(id(trace), None)
        if watched is None:
            return None
        self._note(watched, self._seen.pop(id(trace), {}))
        pause = watched.loop.so_far() if watched.loop is not None else None
        if pause is not None:
            _add(trace, pause)
        return self.span_cost_ns

    def tick(self) -> None:
        """In the sampler's thread, 50 times a second."""
        for number, loop in frozen(self._loops.items()):
            if loop.is_over() or not any(each.loop is loop for each in frozen(self._watched.values())):
                self._loops.pop(number, None)
            else:
                loop.look()
        moved = list(self._gpu.moved())
        for number, watched in frozen(self._watched.items()):
            trace = watched.trace()
            if trace is None:  # nobody closed it, and nobody holds it
                self._watched.pop(number, None)
                self._seen.pop(number, None)
                continue
            self._note(watched, self._seen.get(number, {}))
            _count(trace, watched.loop, moved)
        if self.span_cost_ns is None:
            from linly_profiling.overhead import ns_per_span

            self.span_cost_ns = ns_per_span()

    def _note(self, watched: _Watched, seen: dict[str, int]) -> None:
        watched.note(lambda: [*self._gc.recent(), *(watched.loop.recent() if watched.loop else ())], seen)

    def forget(self) -> None:
        """In a forked child: the parent's traces are none of its business."""
        self._gc.end()
        self.__init__()  # type: ignore[misc]


def _add(trace: Trace, pause: Pause) -> None:
    start_ns = max(pause.start_ns, trace.root.start_ns)
    if pause.end_ns > start_ns:
        trace.add_span(pause.name, start_ns, pause.end_ns, row=pause.row, **pause.attrs)


def _count(trace: Trace, loop: LoopWatch | None, moved: list[tuple[str, str, int]]) -> None:
    lag_ms = loop.moved_lag_ms(trace) if loop is not None else None
    if lag_ms is not None:
        trace.counter("loop.lag_ms", round(lag_ms, 3), "event loop")
    for name, track, value in moved:
        trace.counter(name, value, track)


class GpuMemory:
    """Readings that moved since the last time, by a megabyte or more."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, str], int] = {}
        self._reader: Callable[[], list[tuple[str, str, int]]] | None = None

    def begin(self) -> None:
        """A request begins: from here on there may be a GPU, and the curve starts anew for it."""
        self._last = {}
        if self._reader is None and "torch" in sys.modules:
            from linly_profiling.torch_tools.memory import gpu_memory_reader

            self._reader = gpu_memory_reader()

    def moved(self) -> Iterator[tuple[str, str, int]]:
        last_of = self._last
        for name, track, value in self._reader() if self._reader is not None else ():
            last = last_of.get((name, track))
            if last is None or abs(value - last) >= _STEP_BYTES:
                last_of[name, track] = value
                yield name, track, value


BACKGROUND = Background()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=BACKGROUND.forget)
