"""One background thread that reads the process's memory 50 times a second while any trace is open.

Reading memory at every span would cost more than the span itself; and only a series shows the peak inside a span.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator

from linly_profiling.rss import rss_bytes

PERIOD_S = 0.02
_MAX_POINTS = 8192  # 160 s at full rate; a longer series halves its rate and keeps its peaks


class Series:
    """Memory over time, for one trace, on that trace's clock.

    One thread appends; any thread may read meanwhile.
    """

    def __init__(self, clock_ns: Callable[[], int]) -> None:
        self._clock_ns = clock_ns
        self._points = (array("q"), array("q"))
        self._stride = 1
        self._merging = 0

    def append(self, value: int) -> None:
        """Add a value as of now."""
        times, values = self._points
        if self._merging:
            values[-1] = max(values[-1], value)
        else:
            values.append(value)
            times.append(self._clock_ns())
        self._merging = (self._merging + 1) % self._stride
        if len(times) >= _MAX_POINTS and not self._merging:
            self._thin()

    def _thin(self) -> None:
        times, values = self._points
        self._points = (times[::2], array("q", map(max, values[::2], values[1::2])))
        self._stride *= 2

    def peak(self, start_ns: int, end_ns: int) -> int | None:
        """The highest value in an interval, ends included; None if no sample lies in it."""
        times, values = self._points
        inside = values[bisect_left(times, start_ns) : bisect_right(times, end_ns)]
        return max(inside) if inside else None

    def newest(self) -> tuple[int, int] | None:
        """The last time and value."""
        times, values = self._points
        count = min(len(times), len(values))
        return (times[count - 1], values[count - 1]) if count else None

    def __iter__(self) -> Iterator[tuple[int, int]]:
        times, values = self._points
        return zip(times[:], values[:], strict=False)


class Sampler:
    """Feeds every watched series. Its thread lives while there is one, and starts again when needed.

    Attributes:
        rss_bytes: the newest reading; None before the first, or where memory cannot be read.
        also: called after each reading, in the sampler's thread.
    """

    def __init__(self) -> None:
        self.rss_bytes: int | None = None
        self.also: Callable[[], None] = _nothing
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        # Weak: a trace that nobody closed and nobody holds must not keep the thread running.
        self._watched: weakref.WeakSet[Series] = weakref.WeakSet()

    def watch(self, clock_ns: Callable[[], int]) -> Series:
        """A new series, with a first value in it. It grows until `unwatch`, or until nobody holds it."""
        series = Series(clock_ns)
        self._read_into([series])
        if self.rss_bytes is None:
            return series
        with self._lock:
            self._watched.add(series)
            self._ensure_thread()
        return series

    def _ensure_thread(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="linly-sampler", daemon=True)
            try:
                self._thread.start()
            except (
                RuntimeError
            ):  # no more threads, or the interpreter is shutting down: trace without a series
                self._thread = None

    def unwatch(self, series: Series) -> None:
        """Stop feeding a series, after a last value."""
        with self._lock:
            watched = series in self._watched
            self._watched.discard(series)
        if watched:
            self._read_into([series])

    def _read_into(self, watched: list[Series]) -> None:
        self.rss_bytes = value = rss_bytes()
        if value is not None:
            for series in watched:
                series.append(value)

    def _run(self) -> None:
        watching = True
        while watching:
            time.sleep(PERIOD_S)
            watching = self._tick()
            self.also()

    def _tick(self) -> bool:
        with self._lock:
            # Under the lock, so that `unwatch` really has the last word.
            self._read_into(list(self._watched))
            if not self._watched:
                self._thread = None
            return self._thread is not None

    def forget(self) -> None:
        """In a forked child: the thread is gone, the lock may be held by it, and the reading is the parent's."""
        also = self.also
        self.__init__()  # type: ignore[misc]
        self.also = also


def _nothing() -> None:
    """Nobody has anything else to look after."""


SAMPLER = Sampler()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=SAMPLER.forget)
