"""One background thread that reads the process's memory 50 times a second while any trace is open.

Reading memory at every span would cost more than the span itself; and only a series shows the peak inside a span.

Nothing here waits for a lock: a garbage collection may close a forgotten trace at any point, also inside of these
very functions, and in any thread.
"""

from __future__ import annotations

import logging
import os
import threading
import time
import weakref
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator

from linly_profiling.frozen import frozen
from linly_profiling.rss import rss_bytes

_log = logging.getLogger("linly_profiling")

PERIOD_S = 0.02
_MAX_POINTS = 8192  # 160 s at full rate; a longer series halves its rate and keeps its peaks


class Series:
    """Memory over time, for one trace, on that trace's clock.

    The sampler's thread appends; any thread may read meanwhile, and one may finish it.
    """

    def __init__(self, clock_ns: Callable[[], int]) -> None:
        self._clock_ns = clock_ns
        self._points = (array("q"), array("q"))
        self._stride = 1
        self._merging = 0
        self._last: tuple[int, int] | None = None

    def append(self, value: int) -> None:
        """Add a value as of now; nothing after `finish`."""
        if self._last is not None:
            return
        now_ns = int(self._clock_ns())  # the caller's: before anything is changed
        times, values = self._points
        if self._merging:
            values[-1] = max(values[-1], value)
        else:
            values.append(value)
            times.append(now_ns)
        self._merging = (self._merging + 1) % self._stride
        if len(times) >= _MAX_POINTS and not self._merging:
            self._thin()

    def finish(self, value: int) -> None:
        """Add the last value."""
        self._last = (int(self._clock_ns()), value)

    def _thin(self) -> None:
        times, values = self._points
        self._points = (times[::2], array("q", map(max, values[::2], values[1::2])))
        self._stride *= 2

    def peak(self, start_ns: int, end_ns: int) -> int | None:
        """The highest value in an interval, ends included; None if no sample lies in it."""
        times, values = self._points
        inside = values[bisect_left(times, start_ns) : bisect_right(times, end_ns)]
        if self._last is not None and start_ns <= self._last[0] <= end_ns:
            inside.append(self._last[1])
        return max(inside) if inside else None

    def newest(self) -> tuple[int, int] | None:
        """The last time and value."""
        times, values = self._points
        count = min(len(times), len(values))
        return self._last or ((times[count - 1], values[count - 1]) if count else None)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        times, values = self._points
        yield from zip(times[:], values[:], strict=False)
        if self._last is not None:
            yield self._last


class Sampler:
    """Feeds every watched series. Its thread lives while there is one, and starts again when needed.

    Attributes:
        rss_bytes: the newest reading; None before the first, or where memory cannot be read.
        also: called after each reading, in the sampler's thread.
    """

    def __init__(self) -> None:
        self.rss_bytes: int | None = None
        self.also: Callable[[], None] = _nothing
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()  # never waited for
        # Weak: a trace that nobody closed and nobody holds must not keep the thread running.
        self._watched: dict[int, weakref.ref[Series]] = {}

    def watch(self, clock_ns: Callable[[], int]) -> Series:
        """A new series, with a first value in it. It grows until `unwatch`, or until nobody holds it."""
        series = Series(clock_ns)
        self.rss_bytes = value = rss_bytes()
        if value is not None:
            series.append(value)
        self._watched[id(series)] = weakref.ref(series)
        self._ensure_thread()
        return series

    def unwatch(self, series: Series) -> None:
        """Stop feeding a series, after a last value."""
        if self._watched.pop(id(series), None) is not None:
            self.rss_bytes = value = rss_bytes()
            if value is not None:
                series.finish(value)

    def _ensure_thread(self) -> None:
        if self._thread is not None and self._thread.is_alive():
            return
        if not self._starting.acquire(blocking=False):
            return  # somebody else is at it
        try:
            thread = threading.Thread(target=self._run, name="linly-sampler", daemon=True)
            self._thread = thread
            thread.start()
        except RuntimeError:  # no more threads, or the interpreter is shutting down: trace without a series
            self._thread = None
        finally:
            self._starting.release()

    def _run(self) -> None:
        while self._watched:
            time.sleep(PERIOD_S)
            self._tick()
        self._thread = None
        if self._watched:  # one came between the two lines above, and found a thread
            self._ensure_thread()

    def _tick(self) -> None:
        self.rss_bytes = value = rss_bytes()
        for number, reference in frozen(self._watched.items()):
            series = reference()
            try:
                if series is None:
                    self._watched.pop(number, None)
                elif value is not None:
                    series.append(value)
            except Exception as error:  # noqa: BLE001  the clock is the caller's; the other traces go on
                self._watched.pop(number, None)
                _log.warning("memory is not sampled for a trace: %s: %s", type(error).__name__, error)
        try:
            self.also()
        except Exception:  # noqa: BLE001  whatever it is: memory is sampled on
            _log.exception("watching for pauses has failed; it is not done any more")
            self.also = _nothing

    def forget(self) -> None:
        """In a forked child: the thread is gone, and the reading is the parent's."""
        also = self.also
        self.__init__()  # type: ignore[misc]
        self.also = also


def _nothing() -> None:
    """Nobody has anything else to look after."""


SAMPLER = Sampler()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=SAMPLER.forget)
