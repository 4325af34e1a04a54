"""A trace: everything that happened in one request."""

from __future__ import annotations

import itertools
import logging
import os
import threading
import time
from collections import deque
from collections.abc import AsyncIterable, Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar, overload

from linly_profiling.background import BACKGROUND
from linly_profiling.clock import anchor
from linly_profiling.collect import records_of
from linly_profiling.context import (
    format_traceparent,
    new_trace_id,
    otel_span_id,
    parse_traceparent,
    span_salt,
)
from linly_profiling.cuda import gpu_facts
from linly_profiling.feed import Feed, Item
from linly_profiling.frozen import frozen
from linly_profiling.limits import memory_limit_bytes
from linly_profiling.more import More, whole
from linly_profiling.record import OPEN, Flow, LoadedTrace, Record, Sample
from linly_profiling.sampler import SAMPLER, Series
from linly_profiling.span import OffSpan, Span, _current, _here, current_span, enter, leave, outcome_of
from linly_profiling.streams import TracedAsyncIterator, TracedIterator
from linly_profiling.values import MAX_TEXT, clean_name, cut, finite

Each = TypeVar("Each")

_log = logging.getLogger("linly_profiling")

_new = object.__new__
_MAX_MARKS = 1_000_000  # of all finished spans of a trace: 8 to 16 MB

SAMPLER.also = BACKGROUND.tick
_enabled = os.environ.get("LINLY_TRACE", "").lower() not in ("0", "off", "false", "no")
_observers: tuple[Callable[[Trace], None], ...] = ()  # called with every new trace

# One lock for all traces, taken only when something is dropped: a fork can then not leave a trace locked. It can be
# taken again by its own thread, because a garbage collection may end a forgotten span at any point.
_drop_lock = threading.RLock()


class Trace:
    """Spans, marks and counters of one request. Any thread and task may record; nothing here ever waits or raises.

    Memory is bounded: beyond `max_records` the oldest spans are dropped, and counted.
    As a context manager, the root span is current inside, and the trace is closed with the block.

    Attributes:
        request_id: exactly as given; cut after 1,024 characters.
        root: the span of the whole request, open until `close`.
        epoch: where the trace's clock stands in wall time.
        outcome: how the trace was closed; None while it is open.
        dropped: how many spans, marks, samples, flows and attributes are missing.
        enabled: False: nothing but the root is recorded.
        trace_id: 32 hexadecimal digits, unique in the world; the caller's, where `traceparent` named one.
        remote_parent_id: 16 hexadecimal digits of the caller's span, or None.
        tracestate: to pass on beside `traceparent()`; may be "".
        sampled: the caller records this request.
    """

    def __init__(
        self,
        request_id: str,
        *,
        clock_ns: Callable[[], int] = time.perf_counter_ns,
        max_records: int = 65_536,
        name: str = "linly.request",
        traceparent: str | None = None,
        tracestate: str | None = None,
        enabled: bool | None = None,
        observed: bool = True,
    ) -> None:
        """Start the root span.

        Args:
            request_id: any text; need not be unique.
            clock_ns: monotonic nanoseconds, callable in any thread.
            max_records: most spans, counter samples and flows kept, each.
            name: of the root span.
            traceparent: W3C header of the request that this one is part of; one that is malformed is ignored.
            tracestate: the header that came with it.
            enabled: False records nothing but the root, at next to no cost; by default what `enable` says.
            observed: False hides it from recorders, and notes no pauses and no memory of the process in it.
        """
        if max_records < 1:
            raise ValueError(f"max_records is {max_records}; a trace keeps at least 1")
        self.request_id = cut(str(request_id), MAX_TEXT)
        self.outcome: str | None = None
        self.dropped = 0
        self.epoch = anchor(clock_ns)
        context = parse_traceparent(traceparent, tracestate)
        self.trace_id = new_trace_id() if context is None else context.trace_id
        self.remote_parent_id = None if context is None else context.parent_id
        self.tracestate = "" if context is None else context.tracestate
        self.sampled = context is not None and context.sampled
        self._kept: bool | None = None
        self._random_id = context is None or context.random
        self._clock_ns = clock_ns
        self._max = self._room = max_records
        self._ids = itertools.count(1)
        self._open: dict[int, Span] = {}
        self._records: deque[tuple[Any, ...]] = deque()
        self._samples: deque[Sample] = deque()
        self._flows: deque[Flow] = deque()
        self._marks = 0
        self._trimmed = (
            0  # of what is counted in `dropped`: had been recorded, and a feed had its chance to take it
        )
        self._unclosed = [True]
        self._feed: Feed | None = None
        self._on_close: list[Callable[[Trace], None]] = []
        self._off: OffSpan | None = None
        self.enabled = _enabled if enabled is None else enabled
        self._memory = SAMPLER.watch(clock_ns) if self.enabled and observed else Series(clock_ns)
        self.root: Span = None  # type: ignore[assignment]  # the first span becomes the root
        self.root = self.start(name)
        self._previous: Span | None = None
        if not self.enabled:
            self._off = self.root = OffSpan.of(self.root)
        if observed:
            self._observe()

    def _observe(self) -> None:
        if self.enabled and self._clock_ns is time.perf_counter_ns:
            BACKGROUND.watch(self)
        for take_up in _observers:
            _call(take_up, self)

    def start(self, name: str, /, parent: Span | None = None, exact: bool = False, **attrs: object) -> Span:
        """Open a span: as `with trace.span(…)` it is current inside and ends with the block.

        As `span = trace.start(…)` it is not current; `Span.end` ends it, from anywhere.

        Args:
            name: what it is, with few distinct values; what varies goes into attributes.
            parent: the span it belongs to; by default the current span if it is of this trace, else the root.
            exact: measure memory exactly, and CPU time, the task and the GPU; costs about 3 µs more without a GPU.
            **attrs: attributes, as in `Span.set`. One named `row` names the row that viewers show the span in, and
                all below it; by default it is the parent's.
        """
        if self._off is not None:
            return self._off
        if parent is None:
            parent = _current.get()
            if parent is None:
                parent = self.root
            elif parent.end_ns is not None or parent.trace is not self:
                parent = self._current_or_root()
        elif parent.trace is not self:
            parent = self.root
        span = _new(Span)
        span.trace = self
        span.parent = parent
        span.name = name
        span.span_id = span_id = next(self._ids)
        span.end_ns = None
        span._thread = _here.thread
        span._more = None
        if exact or attrs:
            span._begin_more(exact, attrs)
        span._rss_start = SAMPLER.rss_bytes
        # Into variables first: in CPython 3.11 calling `self._clock_ns()` costs half as much again.
        clock_ns, open_spans = self._clock_ns, self._open
        span.start_ns = clock_ns()  # late, so that the span does not contain its own making
        if len(open_spans) < self._room:
            open_spans[span_id] = span
        else:
            self._drop()
        return span

    span = start

    def _current_or_root(self) -> Span:
        span = current_span()
        return self.root if span is None or span.trace is not self else span

    @overload
    def iterate(
        self,
        name: str,
        items: AsyncIterable[Each],
        /,
        parent: Span | None = None,
        exact: bool = False,
        **attrs: object,
    ) -> TracedAsyncIterator[Each]: ...
    @overload
    def iterate(
        self,
        name: str,
        items: Iterable[Each],
        /,
        parent: Span | None = None,
        exact: bool = False,
        **attrs: object,
    ) -> TracedIterator[Each]: ...
    def iterate(
        self, name: str, items: Any, /, parent: Span | None = None, exact: bool = False, **attrs: object
    ) -> Any:
        """The same items, with a span from the first request for an item to the end of the stream.

        The span is current only while the source makes the next item, never in the consumer's code. Each item is
        a mark "item". A stream that is closed, or thrown away, before its end is "cancelled". The parent is by
        default the current span at the time of this call.
        """
        owner = parent or current_span() or self.root

        def open_span() -> Span:
            return self.start(name, owner, exact, **attrs)

        if isinstance(items, AsyncIterable):
            return TracedAsyncIterator(aiter(items), open_span)
        return TracedIterator(iter(items), open_span)

    def counter(self, name: str, value: float, track: str = "", *, at_ns: int | None = None) -> None:
        """Record a value that rises and falls: a queue's depth, bytes in a cache. NaN and infinity are ignored.

        Args:
            name: what is counted, with few distinct values.
            value: from now on.
            track: groups counters, usually by stage.
            at_ns: since when, on the trace's clock; by default now.
        """
        number = finite(value)
        if number is not None and self.outcome is None and self._off is None:
            at_ns = self._clock_ns() if at_ns is None else whole(at_ns) or 0
            self._keep(self._samples, Sample(clean_name(name), clean_name(track), at_ns, number))

    def flow(
        self,
        source: Span,
        target: Span,
        name: str = "flow",
        *,
        from_ns: int | None = None,
        to_ns: int | None = None,
    ) -> None:
        """Draw an arrow between two spans of this trace: from text to the sound it became, from sound to frames.

        Args:
            source: where the arrow begins.
            target: where it points.
            name: what flows.
            from_ns: when it left, on the trace's clock; by default when `source` ended, or now.
            to_ns: when it arrived; by default when `target` began.
        """
        if source.trace is not self or target.trace is not self or self._off is not None:
            return
        if from_ns is None:
            from_ns = source.end_ns if source.end_ns is not None else self._clock_ns()
        if to_ns is None:
            to_ns = target.start_ns
        from_ns, to_ns = whole(from_ns) or 0, whole(to_ns) or 0
        self._keep(self._flows, Flow(clean_name(name), source.span_id, from_ns, target.span_id, to_ns))

    def add_span(
        self,
        name: str,
        start_ns: int,
        end_ns: int,
        /,
        parent: Span | int | None = None,
        outcome: str = "ok",
        **attrs: object,
    ) -> Span:
        """Record a span that something else has measured: a garbage collection, a kernel on a GPU.

        Args:
            name: what it is, with few distinct values.
            start_ns: when it began, on the trace's clock.
            end_ns: when it ended.
            parent: the span it belongs to, or its ID, which must be lower than all that come; by default the root.
            outcome: how it ended.
            **attrs: attributes, as in `start`.

        Returns:
            The span, which has ended.
        """
        if self._off is not None:
            return self._off
        start_ns, end_ns = whole(start_ns) or 0, whole(end_ns) or 0
        span = _new(Span)
        span.trace, span.parent, span.name = self, self.root, name
        span.span_id, span.start_ns, span.end_ns = next(self._ids), start_ns, max(start_ns, end_ns)
        parent_id = parent.span_id if isinstance(parent, Span) else parent or self.root.span_id
        more = More()
        refused = more.set(attrs)
        # The memory of now says nothing about a span of another time.
        raw = (
            span.span_id,
            parent_id,
            name,
            _here.thread,
            start_ns,
            span.end_ns,
            clean_name(outcome),
            None,
            None,
            None,
            more,
        )
        if refused:
            self._drop(refused)
        if self._room:
            self._keep(self._records, raw)
        else:
            self._drop()
        return span

    def _keep(self, items: deque[Any], item: Item) -> None:
        items.append(item)
        if len(items) > self._max:
            self._trim(items)
        if self._feed is not None:
            self._feed.put(item)

    def close(self, outcome: str | None = None, error: BaseException | None = None) -> None:
        """End the request and every span still open, all at this instant and with this outcome. Once.

        What is started afterwards, by a worker that outlives its request, is dropped and counted.
        """
        try:
            self._unclosed.pop()  # decides which of two racing calls counts
        except IndexError:
            return
        outcome = clean_name(outcome or ("ok" if error is None else outcome_of(error)))
        try:
            self._close(outcome, error)
        finally:
            for closed in self._on_close:
                _call(closed, self)

    def _close(self, outcome: str, error: BaseException | None) -> None:
        if self.enabled:
            self._note_facts(BACKGROUND.unwatch(self))
        self.outcome = outcome
        self._room = 0
        now_ns = self._clock_ns()
        error_type = None if error is None else type(error).__name__
        for span in reversed(frozen(self._open.values())):
            span._finish(now_ns, outcome, error_type if span.parent is None else None)
        SAMPLER.unwatch(self._memory)

    def _note_facts(self, span_cost_ns: int | None) -> None:
        """What a reader of the trace must know of the process, to judge it."""
        facts = {
            "memory_limit_bytes": memory_limit_bytes(),
            "overhead_ns_per_span": span_cost_ns,
            **gpu_facts(),
        }
        self.root.set(**{name: value for name, value in facts.items() if value is not None})

    def records(self) -> list[Record]:
        """All spans by now, in the order of their IDs; open ones as of this moment."""
        now_ns, outcome = self._clock_ns(), self.outcome or OPEN
        still_open = [span._raw(now_ns, outcome, None, span._more) for span in frozen(self._open.values())]
        # Read after the open ones: a span that ends meanwhile is in both rather than in none.
        unique = {raw[0]: raw for raw in (*still_open, *frozen(self._records))}
        return records_of(list(unique.values()), self.request_id, self._memory)

    def snapshot(self) -> LoadedTrace:
        """All of the trace by now, as immutable data; the process's memory is the counter "memory.rss"."""
        memory = [Sample("memory.rss", "process", at_ns, value) for at_ns, value in self._memory]
        samples = sorted((*frozen(self._samples), *memory), key=lambda sample: sample.at_ns)
        return LoadedTrace(
            request_id=self.request_id,
            outcome=self.outcome or OPEN,
            dropped=self.dropped,
            trace_id=self.trace_id,
            remote_parent_id=self.remote_parent_id,
            epoch=self.epoch,
            spans=tuple(self.records()),
            samples=tuple(samples),
            flows=tuple(frozen(self._flows)),
        )

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write a Chrome trace, for Perfetto and chrome://tracing, or what else the suffix asks for; see `save`."""
        from linly_profiling.formats import save

        return save(path, [self])

    def __len__(self) -> int:
        """How many spans `records` would give."""
        return len(self._records) + len(self._open)

    def __enter__(self) -> Self:
        self._previous = enter(self.root)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close(error=error)
        leave(self.root, self._previous)

    def __repr__(self) -> str:
        return f"<Trace {self.request_id!r}: {len(self)} spans, {self.outcome or OPEN}>"

    def traceparent(self, span: Span | None = None) -> str:
        """The W3C header for a request sent out by a span, by default the current one of this trace, or the root."""
        sender = span or self._current_or_root()
        number = otel_span_id(self.trace_id, sender.span_id, span_salt(self))
        kept = self.enabled if self._kept is None else self._kept
        return format_traceparent(self.trace_id, number, kept or self.sampled, self._random_id)

    # For recorders

    def feed(self, limit: int) -> Feed:
        """A queue that gets whatever ends or is recorded from now on, up to `limit` items at a time."""
        self._feed = Feed(limit, self._feed)
        return self._feed

    def keep(self, kept: bool) -> None:
        """Say whether a recorder keeps this request from its start; `traceparent` passes it on."""
        self._kept = kept or bool(self._kept)

    def unfeed(self, feed: Feed) -> None:
        """Nobody reads the feed any more."""
        if self._feed is feed:
            self._feed = feed.also
        elif self._feed is not None:
            self._feed.drop(feed)

    def on_close(self, closed: Callable[[Trace], None]) -> None:
        """Have a function called when the trace has been closed."""
        self._on_close.append(closed)

    # For Span, which is the other half of this class.

    def _trim(self, items: deque[Any]) -> None:
        with _drop_lock:
            while len(items) > self._max:
                self.dropped += 1
                self._trimmed += 1
                oldest = items.popleft()
                if items is self._records and oldest[-1] is not None:
                    self._marks -= oldest[-1].mark_count()

    def _keep_marks(self, more: More) -> None:
        """Account for the marks of a span that ends; drop them if the trace has too many."""
        count = more.mark_count()
        with _drop_lock:
            if self._marks + count > _MAX_MARKS:
                self.dropped += count
                more.marks = {}
            else:
                self._marks += count

    def _drop(self, count: int = 1) -> None:
        with _drop_lock:
            self.dropped += count


def enable(on: bool = True) -> None:
    """Switch recording on or off for all traces that begin from now on.

    The environment variable LINLY_TRACE=off does it before the program starts.
    """
    global _enabled
    _enabled = on


def _call(function: Callable[[Trace], None], trace: Trace) -> None:
    try:
        function(trace)
    except Exception:  # noqa: BLE001  whoever watches a trace must not break the program that is traced
        _log.exception("what watches traces has failed for request %r", trace.request_id)


def observe(take_up: Callable[[Trace], None]) -> Callable[[], None]:
    """Have a function called with every new trace, while it is being made. Gives what ends that."""
    global _observers
    _observers = (*_observers, take_up)

    def end() -> None:
        global _observers
        _observers = tuple(each for each in _observers if each is not take_up)

    return end


def _renew_lock() -> None:
    """In a forked child: another thread of the parent may have held the lock."""
    global _drop_lock
    _drop_lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)
