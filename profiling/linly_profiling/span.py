"""A span: one piece of work with a start, an end, an outcome, and a place in the tree of its trace."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from contextvars import ContextVar
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from linly_profiling.exact import Exact
from linly_profiling.more import MAX_MARKS, More, whole
from linly_profiling.sampler import SAMPLER
from linly_profiling.values import clean_name

if TYPE_CHECKING:
    from linly_profiling.torch_tools.watch import Watcher
    from linly_profiling.trace import Trace

_CANCELLED = (asyncio.CancelledError, concurrent.futures.CancelledError, GeneratorExit)

watcher: Watcher | None = (
    None  # set by `torch_tools.watch`, which tells those who want to know of every `with`
)
_current: ContextVar[Span | None] = ContextVar("linly_current_span", default=None)


class _Here(threading.local):
    """Identity of the running thread, looked up once a thread."""

    def __init__(self) -> None:
        ident = threading.get_ident()
        # Not `current_thread()`: for a thread that Python did not start it leaves an object behind for ever.
        names = [thread.name for thread in threading.enumerate() if thread.ident == ident]
        self.thread = (ident, names[0] if names else f"thread {ident}")


_here = _Here()


def current_span() -> Span | None:
    """The span that new spans belong to here, if any: the innermost one made current that has not ended."""
    span = _current.get()
    while span is not None and span.end_ns is not None:
        span = span.parent
    return span


class attach:  # in lower case like other context managers; as a generator it would cost four times as much
    """`with attach(span):` makes a span current inside: in a worker thread, for an item of a queue.

    `attach(None)`: no span is current inside.
    """

    __slots__ = ("_previous", "_span")

    def __init__(self, span: Span | None) -> None:
        self._span = span
        self._previous: Span | None = None

    def __enter__(self) -> Span | None:
        self._previous = enter(self._span)
        return self._span

    def __exit__(self, *exc: object) -> None:
        leave(self._span, self._previous)


def enter(span: Span | None) -> Span | None:
    """Make a span current; gives what was current before, for `leave`."""
    previous = _current.get()
    _current.set(span)
    return previous


def leave(span: Span | None, previous: Span | None) -> None:
    """Undo `enter`. Does nothing in a foreign context, where a generator may be closed: another span rules there."""
    if _current.get() is span:
        _current.set(previous)


def outcome_of(error: BaseException) -> str:
    """ "cancelled" for every form of being asked to stop, else "error"."""
    return "cancelled" if isinstance(error, _CANCELLED) else "error"


class Span:
    """Made by `Trace.span` and `Trace.start`. Any thread may mark, set or end it; only the first end counts.

    As a context manager it is current inside the block, and ends with it: "ok", "cancelled" or "error".

    Attributes:
        trace: the trace it belongs to.
        parent: the span it belongs to; None for the root.
        name: what it is.
        span_id: unique in its trace, rising in the order of creation.
        start_ns: when it began, on the trace's clock.
        end_ns: when it ended; None while it is open.
    """

    __slots__ = (
        "_more", "_previous", "_rss_start", "_thread",
        "end_ns", "name", "parent", "span_id", "start_ns", "trace",
    )  # fmt: skip

    # Set by `Trace.start`: a constructor would cost 200 ns more in CPython 3.11.
    trace: Trace
    parent: Span | None
    name: str
    span_id: int
    start_ns: int
    end_ns: int | None
    _thread: tuple[int, str]
    _more: More | None
    _rss_start: int | None
    _previous: Span | None

    @property
    def request_id(self) -> str:
        return self.trace.request_id

    def set(self, /, **attrs: object) -> None:
        """Set attributes; see `linly_profiling.values.clean` for what they may hold. Ignored after the end."""
        refused = self._ensure_more().set(attrs)
        if refused:
            self.trace._drop(refused)

    def mark(self, name: str, value: int | None = None) -> None:
        """Record that something happened just now: a token, a chunk, a frame. Ignored after the end.

        Args:
            name: what happened, with few distinct values.
            value: a whole number that belongs to it; a fraction is rounded, what is no number is left out.
        """
        if value is not None:
            self._mark_value(name, value)
            return
        try:
            times = self._more.marks[name]  # type: ignore[union-attr]
        except (AttributeError, KeyError):
            times = self._ensure_more().first_mark(name)
        if len(times) < MAX_MARKS:
            clock_ns = self.trace._clock_ns
            times.append(clock_ns())
        else:
            self.trace._drop()

    def _mark_value(self, name: str, value: int) -> None:
        try:
            pairs = self._more.marks[name,]  # type: ignore[union-attr]
        except (AttributeError, KeyError):
            pairs = self._ensure_more().first_mark((name,))
        if len(pairs) >= 2 * MAX_MARKS:
            self.trace._drop()
            return
        try:
            # One call, so that marks of two threads do not mix; the value first, because only it can fail.
            clock_ns = self.trace._clock_ns
            pairs.extend((value, clock_ns()))
        except (TypeError, OverflowError):
            self.mark(name, whole(value))

    def _begin_more(self, exact: bool, attrs: dict[str, Any]) -> None:
        self._more = More()
        refused = self._more.set(attrs) if attrs else 0
        if refused:
            self.trace._drop(refused)
        if exact:
            self._more.exact = Exact(self.trace)

    def _ensure_more(self) -> More:
        if self.end_ns is not None:
            return More()  # into the void
        if self._more is None:
            self._more = More()
        return self._more

    def end(
        self,
        outcome: str | None = None,
        error: BaseException | None = None,
        *,
        at_ns: int | None = None,
    ) -> None:
        """End the span. A second end does nothing.

        Args:
            outcome: "ok", "cancelled", "error" or a word of yours; None takes it from `error`, or is "ok".
            error: why it failed. Only the name of its class is kept.
            at_ns: when it ended, on the trace's clock; by default now.
        """
        error_type = None
        if error is not None:
            error_type = type(error).__name__
            outcome = outcome or outcome_of(error)
        at_ns = None if at_ns is None else whole(at_ns)
        if at_ns is None:
            clock_ns = self.trace._clock_ns
            at_ns = clock_ns()
        self._finish(at_ns, "ok" if outcome is None else clean_name(outcome), error_type)

    def _finish(self, at_ns: int, outcome: str, error_type: str | None) -> None:
        trace = self.trace
        # Taking it out of the table of open spans decides which of two racing ends counts.
        if trace._open.pop(self.span_id, None) is None:
            if self.end_ns is None:
                self.end_ns = at_ns
            return
        self.end_ns = at_ns
        more = self._more
        if more is not None:
            self._more = None  # whoever marks the span later does not write into the record
            if more.exact is not None:
                more.exact.end()
            if more.marks:
                trace._keep_marks(more)
        parent = self.parent
        record = (
            self.span_id,
            None if parent is None else parent.span_id,
            self.name,
            self._thread,
            self.start_ns,
            at_ns,
            outcome,
            error_type,
            self._rss_start,
            SAMPLER.rss_bytes,
            more,
        )
        records = trace._records
        records.append(record)
        if len(records) > trace._max:
            trace._trim(records)
        feed = trace._feed
        if feed is not None:
            feed.put(record)

    def _raw(self, end_ns: int, outcome: str, error_type: str | None, more: More | None) -> tuple[Any, ...]:
        """What `collect` makes a `Record` of. A tuple is cheap to keep by the thousand, a Span is not."""
        parent = self.parent
        return (
            self.span_id,
            None if parent is None else parent.span_id,
            self.name,
            self._thread,
            self.start_ns,
            end_ns,
            outcome,
            error_type,
            self._rss_start,
            SAMPLER.rss_bytes,
            more,
        )

    def __enter__(self) -> Self:
        self._previous = _current.get()
        _current.set(self)
        if watcher is not None:
            watcher.entered(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None:
            clock_ns = self.trace._clock_ns
            self._finish(clock_ns(), "ok", None)
        else:
            self.end(None, error)
        if _current.get() is self:  # see `leave`
            _current.set(self._previous)
        if watcher is not None:
            watcher.left(self)

    def __repr__(self) -> str:
        return f"<Span {self.name!r} #{self.span_id} of {self.trace.request_id!r}>"


class OffSpan(Span):
    """The one span of a trace that is off. It stands in for all others, records nothing and costs next to nothing."""

    __slots__ = ()

    @classmethod
    def of(cls, root: Span) -> Self:
        """It takes the place of the root that the trace began with."""
        span = cls.__new__(cls)
        for name in Span.__slots__:
            if hasattr(root, name):
                setattr(span, name, getattr(root, name))
        root.trace._open[root.span_id] = span
        return span

    def set(self, /, **attrs: object) -> None:
        pass

    def mark(self, name: str, value: int | None = None) -> None:
        pass

    def end(
        self, outcome: str | None = None, error: BaseException | None = None, *, at_ns: int | None = None
    ) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        pass
