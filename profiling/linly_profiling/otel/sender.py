"""A thread that sends spans, so that a receiver that is slow or down holds nobody up."""

from __future__ import annotations

import gzip
import logging
import math
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count, islice

from linly_profiling.otel.encode import request_bytes, span_bytes
from linly_profiling.otel.http import Connection, Verdict
from linly_profiling.otel.names import Attributes
from linly_profiling.otel.spans import otel_spans
from linly_profiling.record import LoadedTrace

_log = logging.getLogger("linly_profiling")

MAX_BATCH = 2_000  # spans in a request: about 1 MB, and 100 kB when compressed
_FIRST_WAIT_S, _LONGEST_WAIT_S = 1.0, 30.0
# After so many spans others may run: a thread that computes on keeps CPython's lock for 5 ms at a time, and that is how
# late an event loop would then be; with breaks every 0.2 ms it is 0.2 ms, at no cost.
_BREATH = 8
_LAST_WORD_S = 0.2  # for a request that was interrupted to end
_GZIP_LEVEL = 1  # 65 bytes a span; the best level makes 60 of them, and takes more than twice as long


@dataclass
class Counts:
    """Spans, by what became of them, and which troubles the log has heard of."""

    sent: int = 0
    rejected: int = 0
    dropped: int = 0
    told: set[str] = field(default_factory=set)

    def tell(self, topic: str, message: str, *arguments: object) -> None:
        """Log a trouble the first time that it is met."""
        if topic not in self.told:
            self.told.add(topic)
            _log.warning(message, *arguments)


@dataclass(frozen=True)
class Settings:
    """How to send.

    Attributes:
        connect: makes a connection.
        resource: what all spans have in common, in this process.
        version: of this package.
        content: send what was said, where the trace holds it.
        timeout_s: how long to wait for an answer.
        max_queue: spans that may wait.
        delay_s: how long to wait for more spans.
        retry_s: how long to try for one request.
    """

    connect: Callable[[], Connection]
    resource: Callable[[], Attributes]
    version: str
    content: bool
    timeout_s: float
    max_queue: int
    delay_s: float
    retry_s: float


class Sender:
    """Takes traces from one thread, and sends them from its own. It is used once: from the first trace to `close`."""

    def __init__(self, settings: Settings, counts: Counts) -> None:
        self._settings = settings
        self._counts = counts
        self._connection = settings.connect()
        self._waiting: deque[LoadedTrace] = deque()
        self._queued = 0  # spans that wait or are being sent
        self._changed = threading.Condition()
        self._closing = threading.Event()
        self._over = threading.Event()  # there is no use in another try
        self._deadline_s = math.inf
        self._jitter = random.Random()
        self._thread: threading.Thread | None = None

    @property
    def queued(self) -> int:
        """Spans that wait or are being sent."""
        return self._queued

    def put(self, trace: LoadedTrace) -> None:
        """Queue a trace. Never waits; one that finds no room is dropped as a whole, and counted."""
        count = len(trace.spans)
        with self._changed:
            # A trace that is larger than the queue still goes through an empty one.
            full = self._queued and self._queued + count > self._settings.max_queue
            if full:
                self._counts.dropped += count
            else:
                self._waiting.append(trace)
                self._queued += count
                self._changed.notify()
        if full:
            self._counts.tell("full", "spans are dropped: too many wait to be sent to the collector")
        elif self._thread is None:
            self._start()

    def _start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="linly-otlp", daemon=True)
        try:
            self._thread.start()
        except RuntimeError:  # no more threads, or the interpreter is shutting down: `close` sends
            self._thread = None

    def close(self, within_s: float) -> None:
        """Send what waits; what is not sent in time is dropped."""
        self._deadline_s = time.monotonic() + within_s
        with self._changed:
            self._closing.set()
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(within_s)
        else:
            self._run()
        self._over.set()
        self._give_up()
        if self._thread is not None and self._thread.is_alive():
            self._connection.interrupt()
            self._thread.join(_LAST_WORD_S)

    # In the sender's thread

    def _run(self) -> None:
        while traces := self._next():
            spans = self._encoded(traces)
            while not self._over.is_set() and (batch := list(islice(spans, MAX_BATCH))):
                self._deliver(batch)
        self._connection.close()

    def _next(self) -> list[LoadedTrace]:
        """Traces for about one request; none when it is time to end."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closing.is_set())
            self._changed.wait_for(self._in_a_hurry, self._settings.delay_s)
            return [] if self._over.is_set() else list(self._taken())

    def _in_a_hurry(self) -> bool:
        return self._queued >= MAX_BATCH or self._closing.is_set()

    def _taken(self) -> Iterator[LoadedTrace]:
        count = 0
        while self._waiting and (count == 0 or count + len(self._waiting[0].spans) <= MAX_BATCH):
            trace = self._waiting.popleft()
            count += len(trace.spans)
            yield trace

    def _encoded(self, traces: Iterable[LoadedTrace]) -> Iterator[bytes]:
        for trace in traces:
            done = 0
            try:
                for span in otel_spans(trace, content=self._settings.content):
                    yield span_bytes(span)
                    done += 1
                    if done % _BREATH == 0:
                        time.sleep(0)
            except Exception as error:  # noqa: BLE001  a trace that is odd must not keep the others from being sent
                self._settle(len(trace.spans) - done, dropped=len(trace.spans) - done)
                self._counts.tell("odd", "a trace cannot be sent: %s: %s", type(error).__name__, error)

    def _deliver(self, spans: Sequence[bytes]) -> None:
        """Send one request, until it is delivered or there is no hope for it."""
        settings = self._settings
        body = gzip.compress(
            request_bytes(spans, settings.resource(), settings.version), _GZIP_LEVEL, mtime=0
        )
        give_up_s = time.monotonic() + settings.retry_s
        for tries in count():
            if self._over.is_set() or self._left_s() <= 0:
                break
            verdict = self._connection.post(body, min(settings.timeout_s, self._left_s()))
            if verdict.trouble and not self._over.is_set():
                self._counts.tell(verdict.topic, "%s", verdict.trouble)
            if verdict.delivered:
                rejected = min(max(0, verdict.rejected), len(spans))
                self._settle(len(spans), sent=len(spans) - rejected, rejected=rejected)
                return
            if not verdict.again or time.monotonic() >= give_up_s or not self._pause(tries, verdict):
                break
        self._settle(len(spans), dropped=len(spans))

    def _left_s(self) -> float:
        return self._deadline_s - time.monotonic()

    def _pause(self, tries: int, verdict: Verdict) -> bool:
        """Leave the receiver alone: as long as it asks for, else twice as long each time. False: there is no time."""
        closing = self._closing.is_set()
        if closing and not verdict.answered:
            self._over.set()  # nobody there, and no time to wait for somebody
            return False
        wait_s = verdict.wait_s
        if wait_s is None:
            wait_s = min(_FIRST_WAIT_S * 2**tries, _LONGEST_WAIT_S) * self._jitter.uniform(0.5, 1.0)
        until_s = time.monotonic() + wait_s
        # When `close` comes, a wait that nobody asked for is cut short, once.
        if not closing and (not self._closing.wait(wait_s) or verdict.wait_s is None):
            return True
        return until_s <= self._deadline_s and not self._over.wait(max(0.0, until_s - time.monotonic()))

    def _settle(self, spans: int, *, sent: int = 0, rejected: int = 0, dropped: int = 0) -> None:
        """Note what became of spans; those that `close` has given up are settled already."""
        with self._changed:
            if self._queued:
                self._queued -= spans
                self._counts.sent += sent
                self._counts.rejected += rejected
                self._counts.dropped += dropped

    def _give_up(self) -> None:
        with self._changed:
            left, self._queued = self._queued, 0
            self._counts.dropped += left
        if left:
            self._counts.tell("late", "%d spans could not be sent before the end", left)
