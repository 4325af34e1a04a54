"""Hands every trace of the program to exporters, in one background thread, while the traces still grow.

    with Recorder(TraceFile("traces/run.json"), sampling=Sampling(rate=0.1, slow_s=2)):
        serve()

What a request pays for it is one append to a queue for each span.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import logging
import os
import threading
import weakref
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from linly_profiling import trace as traces
from linly_profiling.clock import Epoch
from linly_profiling.feed import Feed, Item
from linly_profiling.frozen import frozen
from linly_profiling.record import LoadedTrace
from linly_profiling.sampling import Sampling
from linly_profiling.trace import Trace

_log = logging.getLogger("linly_profiling")

PERIOD_S = 0.02  # how often spans are handed over
_PENDING = 65_536  # items that may wait for the thread, per trace: more than a second at 50,000 spans/s
_BATCH = 2_000  # what is handed over at a time: a killed process loses what was taken and not yet written
_QUIET_ROUNDS = 5  # a request in which nothing happens is looked at this seldom
_ABANDONED = "abandoned"  # outcome of a trace that nobody closed
KEEP_ALL = Sampling()


class Exporter:
    """Base of what takes finished requests. All methods are called in the recorder's thread, and do nothing here.

    One that raises is switched off, with a line in the log.

    Attributes:
        live: it wants spans while the request runs, through `spans`.
    """

    live = False

    def begin(self, trace: Trace) -> None:
        """A request has started."""

    def spans(self, trace: Trace, batch: Sequence[Item]) -> None:
        """What is new in a request that is kept: ended spans, counter samples and arrows, in the order they came.

        Called several times a second while the request runs, also with nothing new.
        """

    def end(self, trace: LoadedTrace, kept: bool) -> None:
        """A request has ended; `kept` is what the sampling says. One that nobody closed is "abandoned", and empty."""

    def finish(self, trace: Trace, dropped: int) -> None:
        """In place of `end` where `spans` was called for the request: nothing more of it will come.

        `dropped` is how much of it `spans` did not get.
        """

    def lose(self, request_id: str, epoch: Epoch) -> None:
        """In place of `finish` where nobody closed the request, and nobody holds it any more."""

    def flush(self) -> None:
        """Called after something was handed over."""

    def close(self) -> None:
        """Nothing more will come. Write what is left."""

    def forked(self) -> None:
        """This is a child process now: what is open belongs to the parent."""


@dataclass(frozen=True)
class RecorderStatistics:
    """Attributes:
    requests: requests that ended.
    kept: requests that the sampling kept.
    running: requests that have not ended.
    spans: spans of the requests that ended.
    dropped: spans, samples and arrows that were lost, because a trace was full or the thread was behind.
    failed_exporters: names of exporters that were switched off.
    """

    requests: int
    kept: int
    running: int
    spans: int
    dropped: int
    failed_exporters: tuple[str, ...]


@dataclass(eq=False)
class _Live:
    """A request that has not ended, held weakly: one that its owner forgets must not stay for ever."""

    trace: weakref.ref[Trace]
    request_id: str
    epoch: Epoch
    kept: bool
    feed: Feed | None = None
    closed: Trace | None = None
    spans: int = 0
    quiet_rounds: int = 0

    def close(self, trace: Trace) -> None:
        self.closed = trace


@dataclass
class _Counts:
    requests: int = 0
    kept: int = 0
    spans: int = 0
    dropped: int = 0
    failed: list[str] = field(default_factory=list)


class Recorder:
    """Takes up every trace that begins while it is open. Exporters see a request from its beginning to its end.

    Attributes:
        sampling: what is kept; may be replaced at any time, for requests that begin afterwards.
    """

    def __init__(
        self, *exporters: Exporter, sampling: Sampling = KEEP_ALL, period_s: float = PERIOD_S
    ) -> None:
        self.sampling = sampling
        self._exporters = list(exporters)
        self._period_s = period_s
        self._live: list[_Live] = []
        self._new: deque[tuple[_Live, Trace]] = deque()
        self._counts = _Counts()
        self._open = False
        self._reset()

    def _reset(self) -> None:
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()  # never waited for
        self._work = threading.Event()
        self._closing = threading.Event()

    def open(self) -> Self:
        """Begin to record. Also done by `with`."""
        if not self._open:
            self._open = True
            self._reset()
            self._stop_observing = traces.observe(self._take_up)
            _open_recorders.add(self)
            atexit.register(self.close)
        return self

    def close(self, deadline_s: float = 5.0) -> None:
        """Stop: hand over what has ended, and what runs as it is by now. Safe to call again.

        Exporters that take longer go on in the background, as long as the program runs.
        """
        if not self._open:
            return
        self._stop_observing()
        self._closing.set()
        self._work.set()
        if not self._ensure_thread():
            self._finish()
        elif self._thread is not None:
            self._thread.join(deadline_s)
            if self._thread.is_alive():
                _log.warning("an exporter of traces did not finish within %g s", deadline_s)
        self._open = False
        atexit.unregister(self.close)
        _open_recorders.discard(self)

    def statistics(self) -> RecorderStatistics:
        counts = self._counts
        live = frozen(self._live)
        return RecorderStatistics(
            requests=counts.requests,
            kept=counts.kept,
            running=len(live) + len(self._new),
            spans=counts.spans,
            dropped=counts.dropped + sum(each.feed.dropped for each in live if each.feed is not None),
            failed_exporters=tuple(counts.failed),
        )

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    # In the program's threads

    def _take_up(self, trace: Trace) -> None:
        if not trace.enabled:
            return
        kept = self.sampling.at_start(trace)
        trace.keep(kept)
        live = _Live(weakref.ref(trace), trace.request_id, trace.epoch, kept)
        if kept and any(exporter.live for exporter in self._exporters):
            live.feed = trace.feed(_PENDING)
        trace.on_close(live.close)
        self._new.append((live, trace))
        if not self._work.is_set():
            self._work.set()
        self._ensure_thread()

    def _ensure_thread(self) -> bool:
        """Whether the thread runs, or has run to its end after `close`."""
        if self._thread is not None:
            return True
        if self._starting.acquire(blocking=False):  # else another thread is at it
            try:
                thread = threading.Thread(target=self._run, name="linly-recorder", daemon=True)
                thread.start()
                self._thread = thread
            except RuntimeError:  # no more threads, or the interpreter is shutting down
                return False
            finally:
                self._starting.release()
        return True

    # In the recorder's thread

    def _run(self) -> None:
        closing = self._closing
        while not closing.is_set():
            self._work.wait()
            self._round()
            if not self._live and not self._new:
                self._work.clear()
                if self._new or closing.is_set():  # it came between the two lines above
                    self._work.set()
            closing.wait(self._period_s)
        self._finish()

    def _finish(self) -> None:
        self._round()
        for live in self._live:
            self._end(live, live.closed or live.trace())
        self._live = []
        self._each("flush")
        self._each("close")

    def _round(self) -> None:
        """Hand over what is new."""
        while self._new:
            live, trace = self._new.popleft()
            self._live.append(live)
            self._each("begin", trace)
            del trace
        for live in list(self._live):
            self._advance(live)

    def _advance(self, live: _Live) -> None:
        closed = live.closed is not None  # read before the last items are taken
        trace = live.closed or live.trace()
        if trace is not None and live.feed is not None:
            self._stream(live, trace, live.feed)
        if closed or trace is None:
            self._live.remove(live)
            self._end(live, trace)
            self._each("flush")

    def _stream(self, live: _Live, trace: Trace, feed: Feed) -> None:
        """Hand over what has come by now. What comes meanwhile waits, so that other requests have their turn."""
        waiting = len(feed)
        live.quiet_rounds = 0 if waiting else live.quiet_rounds + 1
        if not waiting and live.quiet_rounds % _QUIET_ROUNDS:
            return
        for start in range(0, waiting, _BATCH) or (0,):
            batch = feed.take(min(_BATCH, waiting - start))
            live.spans += sum(type(item) is tuple for item in batch)
            for exporter in list(self._exporters):
                if exporter.live:
                    self._call(exporter, "spans", trace, batch)
                    self._call(exporter, "flush")

    def _end(self, live: _Live, trace: Trace | None) -> None:
        nothing = LoadedTrace(live.request_id, _ABANDONED, 0, live.epoch, ())
        snapshot = functools.cache(nothing.snapshot if trace is None else trace.snapshot)
        kept = live.kept or self.sampling.at_end(snapshot())
        dropped = _dropped(live, trace)
        for exporter in list(self._exporters):
            if live.feed is None or not exporter.live:
                self._call(exporter, "end", snapshot(), kept)
            elif trace is not None:
                self._call(exporter, "finish", trace, dropped)
            else:
                self._call(exporter, "lose", live.request_id, live.epoch)
        if trace is not None and live.feed is not None:
            trace.unfeed(live.feed)
        counts = self._counts
        counts.requests += 1
        counts.kept += kept
        counts.spans += live.spans if live.feed is not None else len(trace or ())
        counts.dropped += dropped

    def _each(self, method: str, *arguments: object) -> None:
        for exporter in list(self._exporters):
            self._call(exporter, method, *arguments)

    def _call(self, exporter: Exporter, method: str, *arguments: object) -> None:
        if exporter not in self._exporters:  # it failed a moment ago
            return
        try:
            getattr(exporter, method)(*arguments)
        except Exception as error:  # noqa: BLE001  an exporter must never break the program, nor the others
            self._exporters.remove(exporter)
            name = type(exporter).__name__
            self._counts.failed.append(name)
            _log.warning("%s is switched off: %s: %s", name, type(error).__name__, error)
            if method != "close":
                with contextlib.suppress(Exception):  # it may have a file to close
                    exporter.close()

    def _forked(self) -> None:
        """In a child process: the thread is gone, and what was open is the parent's to write."""
        self._reset()
        self._live, self._new = [], deque()
        self._counts = _Counts()
        self._each("forked")


def _dropped(live: _Live, trace: Trace | None) -> int:
    """How much of a request the exporters did not get."""
    if trace is None:
        return 0 if live.feed is None else live.feed.dropped
    # What a full trace trimmed had been in the feed.
    return trace.dropped if live.feed is None else live.feed.dropped + trace.dropped - trace._trimmed


_open_recorders: weakref.WeakSet[Recorder] = weakref.WeakSet()


def _after_fork() -> None:
    for recorder in list(_open_recorders):
        recorder._forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
