"""What stops everything: garbage collections, and event loops that somebody blocks.

A blocked loop is seen from outside: the sampler's thread asks it for a sign of life, and if none comes it writes
down where the loop's thread is. If that is nowhere, the process was "starved": other programs had the processors,
or code written in C kept Python's interpreter lock.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import sys
import time
import weakref
from collections import deque
from collections.abc import Iterator
from types import FrameType
from typing import Any, NamedTuple

from linly_profiling.frozen import frozen

BLOCKED_NS = 50_000_000  # a loop that is silent for longer is "blocked": two video frames at 40 fps
GC_PAUSE_NS = 1_000_000
_LAG_STEP_MS = 1.0  # the curve of the lag gets a point where it moved by this much
_FRAMES = 16
_WAITING = ("selectors.py", "windows_events.py")  # where an event loop waits when it has nothing to do
_RECENT = 256  # pauses that are remembered; each trace takes what is new to it 50 times a second

LOOP_BLOCKED, GC_PAUSE = "linly.loop.blocked", "linly.gc.pause"


class Pause(NamedTuple):
    """What to record of a pause, in every trace that is open: a span with these fields; times of `perf_counter_ns`."""

    name: str
    row: str
    start_ns: int
    end_ns: int
    attrs: dict[str, Any]


class GcWatch:
    """Collections that took longer than a millisecond. Python calls it in whatever thread it collects in."""

    def __init__(self) -> None:
        self._start_ns = 0
        self._began = itertools.count()
        self._pauses: deque[Pause] = deque(maxlen=_RECENT)

    def begin(self) -> None:
        """Watch from now on; it costs each collection well below a microsecond, so it does not end with a trace."""
        if next(self._began) == 0:
            gc.callbacks.append(self._seen)

    def end(self) -> None:
        if self._seen in gc.callbacks:
            gc.callbacks.remove(self._seen)

    def recent(self) -> list[Pause]:
        """The newest pauses, in the order of time."""
        return frozen(self._pauses)

    def _seen(self, phase: str, info: dict[str, int]) -> None:
        # Only this: a collection may begin anywhere, and in the middle of anything.
        if phase == "start":
            self._start_ns = time.perf_counter_ns()
            return
        end_ns = time.perf_counter_ns()
        if end_ns - self._start_ns > GC_PAUSE_NS:
            attrs = {"generation": info["generation"], "collected": info["collected"]}
            self._pauses.append(Pause(GC_PAUSE, "gc", self._start_ns, end_ns, attrs))


class LoopWatch:
    """One event loop. `look` is called about 50 times a second in another thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop, thread_id: int) -> None:
        self._loop = weakref.ref(loop)
        self._thread_id = thread_id
        self._asked_ns: int | None = None  # when the sign of life was asked for that has not come yet
        self._attrs: dict[str, Any] | None = None
        self._pauses: deque[Pause] = deque(maxlen=_RECENT)
        self._resting = False
        self._drawn_ms: weakref.WeakKeyDictionary[Any, float] = weakref.WeakKeyDictionary()
        self.lag_ms: float | None = None

    def is_over(self) -> bool:
        """The loop has been closed, or is gone."""
        loop = self._loop()
        return loop is None or loop.is_closed()

    def look(self) -> None:
        loop = self._loop()
        if loop is None or not loop.is_running():  # between two runs nobody is blocked
            self._asked_ns = None
            return
        asked_ns, now_ns = self._asked_ns, time.perf_counter_ns()
        if asked_ns is not None:
            self.lag_ms = (now_ns - asked_ns) / 1e6
            if now_ns - asked_ns > BLOCKED_NS and self._attrs is None:
                self._attrs = _attrs(stack_of(self._thread_id))
            return
        self._resting = not self._resting
        if self._resting:  # every other time: waking the loop costs it some 30 µs
            return
        self._attrs = None
        self._asked_ns = now_ns
        try:
            loop.call_soon_threadsafe(self._answer)
        except RuntimeError:  # it has been closed
            self._asked_ns = None

    def recent(self) -> list[Pause]:
        """The newest pauses, in the order of time."""
        return frozen(self._pauses)

    def so_far(self) -> Pause | None:
        """A pause that has not ended yet, for a trace that is closed by the very code that blocks."""
        asked_ns, now_ns = self._asked_ns, time.perf_counter_ns()
        if asked_ns is None or now_ns - asked_ns <= BLOCKED_NS:
            return None
        return Pause(LOOP_BLOCKED, "event loop", asked_ns, now_ns, self._attrs or _attrs([]))

    def moved_lag_ms(self, trace: object) -> float | None:
        """The lag, where it moved since this was called last for a trace."""
        lag_ms, drawn_ms = self.lag_ms, self._drawn_ms.get(trace)
        if lag_ms is None or (drawn_ms is not None and abs(lag_ms - drawn_ms) < _LAG_STEP_MS):
            return None
        self._drawn_ms[trace] = lag_ms
        return lag_ms

    def _answer(self) -> None:
        """Runs in the loop."""
        asked_ns, self._asked_ns = self._asked_ns, None
        if asked_ns is None:
            return
        now_ns = time.perf_counter_ns()
        self.lag_ms = (now_ns - asked_ns) / 1e6
        if now_ns - asked_ns > BLOCKED_NS:
            self._pauses.append(
                Pause(LOOP_BLOCKED, "event loop", asked_ns, now_ns, self._attrs or _attrs([]))
            )


def _attrs(stack: list[str]) -> dict[str, Any]:
    """What is known of a block. A loop that only waits for events, or could not be looked at, was starved."""
    if not stack or stack[-1].split(":")[0].endswith(_WAITING):
        return {"starved": True}
    return {"stack": stack}


def stack_of(thread_id: int) -> list[str]:
    """Where a thread is: "file:line function", outermost first, without the machinery of event loop and import."""
    frame = sys._current_frames().get(thread_id)
    frames = [f"{_short(each)}:{each.f_lineno} {each.f_code.co_qualname}" for each in _outwards(frame)]
    return frames[:_FRAMES][::-1]


def _outwards(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None and frame.f_code.co_qualname != "Handle._run":
        if not frame.f_code.co_filename.startswith("<frozen importlib"):
            yield frame
        frame = frame.f_back


def _short(frame: FrameType) -> str:
    """The last two parts of the path: enough to find it, and no home folder in a trace that is passed on."""
    return "/".join(frame.f_code.co_filename.replace("\\", "/").rsplit("/", 2)[-2:])
