"""What happened in one request, in numbers and as text for a terminal."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Self

from linly_profiling.attribution import Milestone, milestones
from linly_profiling.record import LoadedTrace, Record
from linly_profiling.render import render
from linly_profiling.stages import StageRow, number, stage_rows

if TYPE_CHECKING:
    from linly_profiling.trace import Trace


@dataclass(frozen=True)
class Report:
    """Times in nanoseconds, on the trace's clock where they are instants; None is "not known".

    `str(report)` is a table for a terminal, at most 100 columns wide.

    Attributes:
        request_id: of the request.
        outcome: how it ended, or "open".
        start_ns: when it began.
        wall_ns: how long it took.
        media_s: seconds of media at the end of the chain.
        real_time_factor: wall seconds per second of media.
        av_offset_ms: sound to picture, from the sink or the request; positive: the picture is late.
        milestones: first token, first audio and first frame, as far as they were reached.
        stages: in the order of the chain.
        dropped: how much the trace is missing.
    """

    request_id: str
    outcome: str
    start_ns: int
    wall_ns: int
    media_s: float | None
    real_time_factor: float | None
    av_offset_ms: float | None
    milestones: tuple[Milestone, ...]
    stages: tuple[StageRow, ...]
    dropped: int

    @classmethod
    def of(cls, trace: Trace | LoadedTrace) -> Self:
        """The report of a trace, running, closed or loaded from a file."""
        snapshot = trace.snapshot()
        root = _root(snapshot.spans)
        start_ns = root.start_ns if root is not None else 0
        wall_ns = root.duration_ns if root is not None else 0
        stages = stage_rows(snapshot.spans, start_ns)
        media_s = next((stage.media_s for stage in reversed(stages) if stage.media_s is not None), None)
        return cls(
            request_id=snapshot.request_id,
            outcome=snapshot.outcome,
            start_ns=start_ns,
            wall_ns=wall_ns,
            media_s=media_s,
            real_time_factor=wall_ns / 1e9 / media_s if media_s else None,
            av_offset_ms=_av_offset_ms(snapshot.spans),
            milestones=milestones(start_ns, stages),
            stages=stages,
            dropped=snapshot.dropped,
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain data for `json.dumps`, with the fields of this class and of `Milestone`, `Contribution`, `StageRow`."""
        data = asdict(self)
        for milestone in data["milestones"]:
            milestone["contributions"] = [part._asdict() for part in milestone["contributions"]]
        for stage in data["stages"]:
            stage["waits"] = [_wait(wait) for wait in stage["waits"]]
        return data

    def __str__(self) -> str:
        return render(self)


def _root(records: tuple[Record, ...]) -> Record | None:
    return next((record for record in records if record.parent_id is None), None)


def _av_offset_ms(records: tuple[Record, ...]) -> float | None:
    """The attribute `av_offset_ms` of the sink, the last stage, or of any span."""
    found = [number(record.attrs, "av_offset_ms") for record in records]
    return next((value for value in reversed(found) if value is not None), None)


def _wait(record: Record) -> dict[str, Any]:
    return {
        "span_id": record.span_id,
        "duration_ns": record.duration_ns,
        "worker": record.attrs.get("worker"),
        "busy_with": record.attrs.get("busy_with"),
    }
