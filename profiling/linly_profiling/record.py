"""What a trace holds, as immutable data: exporters, the report and the loader know nothing else."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from linly_profiling.clock import Epoch
from linly_profiling.values import Value

OPEN = "open"  # outcome of a span, or a trace, that has not ended yet


class Mark(NamedTuple):
    """An instant inside a span: a token, a chunk, a frame.

    Attributes:
        name: what happened.
        at_ns: when, on the trace's clock.
        value: a number that belongs to it, or None.
    """

    name: str
    at_ns: int
    value: int | None = None


class CudaUse(NamedTuple):
    """What a span did on a GPU. A field is None where it was not, or could not be, measured.

    Attributes:
        device: index of the device that was current when the span began.
        time_ns: from the first to the last kernel that the span enqueued on its stream, queueing included.
        allocated_bytes: growth of torch's allocated memory over the span; negative where memory was given back.
        reserved_bytes: growth of the memory that torch's allocator holds.
        peak_bytes: most memory seen allocated in the span; at least the true value at its start and its end.
        shared: another trace had a measured span open on this device meanwhile: time and memory are not of this
            request alone.
    """

    device: int
    time_ns: int | None = None
    allocated_bytes: int | None = None
    reserved_bytes: int | None = None
    peak_bytes: int | None = None
    shared: bool | None = None


class Record(NamedTuple):
    """One span, finished or as of now. Times are on the trace's clock; None is "not measured", never 0.

    Attributes:
        name: what the span is, with few distinct values.
        span_id: unique in its trace, rising in the order of creation.
        parent_id: the span it belongs to; None for the root.
        request_id: the trace's request ID.
        thread_id: `threading.get_ident()` where the span began.
        thread_name: name of that thread.
        task: name of the asyncio task it began in; recorded for exact spans.
        start_ns: when it began.
        end_ns: when it ended; the time of reading for an open span.
        outcome: "ok", "cancelled", "error", another word of the caller's, or "open".
        error_type: name of the exception's class. Its message is not kept: it may hold private text.
        attrs: the attributes.
        marks: in the order of their time.
        rss_start_bytes: resident memory of the process when the span began.
        rss_end_bytes: resident memory of the process when the span ended.
        rss_peak_bytes: most resident memory seen in the span, sampled at 50 Hz.
        cpu_ns: CPU time of the thread; for exact spans in a thread that the span had for itself.
        cuda: what it did on a GPU; for exact spans.
    """

    name: str
    span_id: int
    parent_id: int | None
    request_id: str
    thread_id: int
    thread_name: str
    task: str | None
    start_ns: int
    end_ns: int
    outcome: str
    error_type: str | None
    attrs: dict[str, Value]
    marks: tuple[Mark, ...]
    rss_start_bytes: int | None
    rss_end_bytes: int | None
    rss_peak_bytes: int | None
    cpu_ns: int | None
    cuda: CudaUse | None

    @property
    def duration_ns(self) -> int:
        return self.end_ns - self.start_ns


class Sample(NamedTuple):
    """One value of a counter. `track` groups counters, usually by stage; it may be empty."""

    name: str
    track: str
    at_ns: int
    value: int | float


class Flow(NamedTuple):
    """An arrow from one span to another: this sentence became that sound."""

    name: str
    from_id: int
    from_ns: int
    to_id: int
    to_ns: int


@dataclass(frozen=True)
class LoadedTrace:
    """All of one trace at one moment: read from a file, or taken from a running trace by `Trace.snapshot()`.

    Attributes:
        request_id: exactly as given.
        outcome: how the trace was closed, or "open".
        dropped: how much is missing, because the trace was full or closed.
        trace_id: 32 hexadecimal digits that are unique in the world; "" where the file does not tell.
        remote_parent_id: 16 hexadecimal digits of the span, in another program, that this request belongs to.
        epoch: where the trace's clock stands in wall time.
        spans: in the order of their IDs, so a parent comes before its children.
        samples: counters, in the order of their time.
        flows: arrows, in the order they were drawn.
    """

    request_id: str
    outcome: str
    dropped: int
    epoch: Epoch
    spans: tuple[Record, ...]
    samples: tuple[Sample, ...] = field(default=())
    flows: tuple[Flow, ...] = field(default=())
    trace_id: str = ""
    remote_parent_id: str | None = None

    def records(self) -> list[Record]:
        """The spans, like `Trace.records()`."""
        return list(self.spans)

    def snapshot(self) -> LoadedTrace:
        """Itself, like `Trace.snapshot()`."""
        return self

    def __len__(self) -> int:
        return len(self.spans)
