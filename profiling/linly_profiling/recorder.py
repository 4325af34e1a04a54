"""Hands every trace of the program to exporters, in one background thread, while the traces still grow.

    with Recorder(TraceFile("traces/run.json"), sampling=Sampling(rate=0.1, slow_s=2)):
        serve()

What a request pays for it is one append to a queue for each span.
"""

from __future__ import annotations

import atexit
import functools
import logging
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from linly_profiling import trace as traces
from linly_profiling.clock import Epoch
from linly_profiling.feed import Feed, Item
from linly_profiling.record import LoadedTrace
from linly_profiling.sampling import Sampling
from linly_profiling.trace import Trace

_log = logging.getLogger("linly_profiling")

PERIOD_S = 0.02  # a killed process loses at most this much
_PENDING = 65_536  # items that may wait for the thread, per trace: more than a second at 50,000 spans/s
_BATCH = 2_000  # what is handed over at a time: a killed process loses what was taken and not yet written
KEEP_ALL = Sampling()
_ABANDONED = "abandoned"  # outcome of a trace that nobody closed


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

        Called in every round while the request runs, also with nothing new.
        """

    def end(self, trace: LoadedTrace, kept: bool) -> None:
        """A request has ended; `kept` is what the sampling says."""

    def finish(self, trace: Trace) -> None:
        """In place of `end` where `spans` was called for the request: nothing more of it will come."""

    def flush(self) -> None:
        """Called after each round in which something was handed over."""

    def close(self) -> None:
        """Nothing more will come. Write what is left, within seconds."""

    def forked(self) -> None:
        """This is a child process now: what is open belongs to the parent."""


@dataclass(frozen=True)
class RecorderStatistics:
    """Attributes:
    requests: requests that ended.
    kept: requests that the sampling kept.
    running: requests that have not ended.
    spans: spans of ended requests.
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
        self._work = threading.Event()
        self._closing = False
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._stop_observing: Callable[[], None] | None = None

    def open(self) -> Self:
        """Begin to record. Also done by `with`."""
        if self._stop_observing is None:
            self._closing = False
            self._stop_observing = traces.observe(self._take_up)
            _open_recorders.add(self)
            atexit.register(self.close)
        return self

    def close(self, deadline_s: float = 5.0) -> None:
        """Stop: hand over what has ended, and what runs as it is by now. Safe to call again."""
        if self._stop_observing is None:
            return
        self._stop_observing()
        self._stop_observing = None
        atexit.unregister(self.close)
        _open_recorders.discard(self)
        self._closing = True
        self._work.set()
        thread = self._thread
        if thread is not None:
            thread.join(deadline_s)
            if thread.is_alive():
                _log.warning("an exporter of traces did not finish within %g s", deadline_s)
                return
        self._finish()

    def statistics(self) -> RecorderStatistics:
        counts = self._counts
        waiting = sum(live.feed.dropped for live in list(self._live) if live.feed is not None)
        return RecorderStatistics(
            requests=counts.requests,
            kept=counts.kept,
            running=len(self._live) + len(self._new),
            spans=counts.spans,
            dropped=counts.dropped + waiting,
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
        if self._thread is None:
            self._start()

    def _start(self) -> None:
        with self._lock:
            if self._thread is None and not self._closing:
                self._thread = threading.Thread(target=self._run, name="linly-recorder", daemon=True)
                try:
                    self._thread.start()
                except RuntimeError:  # no more threads, or the interpreter is shutting down
                    self._thread = None

    # In the recorder's thread

    def _run(self) -> None:
        while not self._closing:
            self._work.wait()
            self._round()
            if not self._live and not self._new:
                self._work.clear()
                if self._new:  # it came between the two lines above
                    self._work.set()
            time.sleep(self._period_s)

    def _finish(self) -> None:
        self._round()
        for live in self._live:
            self._end(live, live.trace())
        self._live = []
        self._each("flush")
        self._each("close")

    def _round(self) -> None:
        """Hand over what is new."""
        handed_over = False
        while self._new:
            live, trace = self._new.popleft()
            self._live.append(live)
            self._each("begin", trace)
            del trace
        for live in list(self._live):
            handed_over = self._advance(live) or handed_over
        if handed_over:
            self._each("flush")

    def _advance(self, live: _Live) -> bool:
        closed = live.closed is not None  # read before the last items are taken
        trace = live.closed or live.trace()
        if trace is not None and live.feed is not None:
            self._stream(trace, live.feed)
        if closed or trace is None:
            self._live.remove(live)
            self._end(live, trace)
        return live.feed is not None or closed

    def _stream(self, trace: Trace, feed: Feed) -> None:
        more = True
        while more:
            batch = feed.take(_BATCH)
            more = len(batch) == _BATCH
            for exporter in list(self._exporters):
                if exporter.live:
                    self._call(exporter, "spans", trace, batch)
                    self._call(exporter, "flush")

    def _end(self, live: _Live, trace: Trace | None) -> None:
        nothing = LoadedTrace(live.request_id, _ABANDONED, 0, live.epoch, ())
        streamed = trace is not None and live.feed is not None
        snapshot = functools.cache(nothing.snapshot if trace is None else trace.snapshot)
        kept = live.kept or self.sampling.at_end(snapshot())
        for exporter in list(self._exporters):
            if streamed and exporter.live:
                self._call(exporter, "finish", trace)
            else:
                self._call(exporter, "end", snapshot(), kept)
        counts = self._counts
        counts.requests += 1
        counts.kept += kept
        counts.spans += 0 if trace is None else len(trace)
        counts.dropped += live.feed.dropped if live.feed is not None else trace.dropped if trace else 0

    def _each(self, method: str, *arguments: object) -> None:
        for exporter in list(self._exporters):
            self._call(exporter, method, *arguments)

    def _call(self, exporter: Exporter, method: str, *arguments: object) -> None:
        try:
            getattr(exporter, method)(*arguments)
        except Exception as error:  # noqa: BLE001  an exporter must never break the program, nor the others
            self._exporters.remove(exporter)
            name = type(exporter).__name__
            self._counts.failed.append(name)
            _log.warning("%s is switched off: %s: %s", name, type(error).__name__, error)

    def _forked(self) -> None:
        """In a child process: the thread is gone, and what was open is the parent's to write."""
        self._thread = None
        self._lock = threading.Lock()
        self._work = threading.Event()
        self._live, self._new = [], deque()
        self._counts = _Counts()
        self._each("forked")


_open_recorders: weakref.WeakSet[Recorder] = weakref.WeakSet()


def _after_fork() -> None:
    for recorder in list(_open_recorders):
        recorder._forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
