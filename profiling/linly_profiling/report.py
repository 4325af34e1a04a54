"""What happened in one request, in numbers and as text for a terminal."""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any, Self

from linly_profiling.advice import Advice, advise
from linly_profiling.analysis import (
    CriticalPath,
    Decode,
    Memory,
    Pacing,
    WhatIf,
    critical_path,
    decode,
    memory,
    pacing,
    what_if,
)
from linly_profiling.analysis.tree import root_of
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
        overhead_ns: what recording the spans cost the program, by what a span cost in its process.
        critical_path: who the request waited for, at every instant.
        decode: each call of a language model.
        pacing: the frames against their rate.
        memory: peaks, and how near they are to the limits.
        advice: what to do about it, the most severe first.
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
    overhead_ns: int | None
    critical_path: CriticalPath | None = None
    decode: tuple[Decode, ...] = ()
    pacing: Pacing | None = None
    memory: Memory | None = None
    advice: tuple[Advice, ...] = ()

    @classmethod
    def of(cls, trace: Trace | LoadedTrace) -> Self:
        """The report of a trace, running, closed or loaded from a file."""
        snapshot = trace.snapshot()
        root = root_of(snapshot.spans)
        start_ns = root.start_ns if root is not None else 0
        wall_ns = root.duration_ns if root is not None else 0
        stages = stage_rows(snapshot.spans, start_ns)
        media_s = next((stage.media_s for stage in reversed(stages) if stage.media_s is not None), None)
        report = cls(
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
            overhead_ns=_overhead_ns(root, len(snapshot.spans)),
            critical_path=critical_path(snapshot),
            decode=decode(snapshot),
            pacing=pacing(snapshot),
            memory=memory(snapshot),
        )
        return replace(report, advice=advise(report, snapshot))

    def what_if(self, milestone: str, stage: str, work_ms: float) -> WhatIf | None:
        """ "First audio if the language model's first token came after 200 ms": `what_if("first audio", "llm", 200)`.

        Args:
            milestone: its name.
            stage: name or row of a stage.
            work_ms: what that stage should take for its first output, waits not counted.

        Returns:
            None where this request has no such milestone, or the stage had no part in it.
        """
        found = next((each for each in self.milestones if each.name == milestone), None)
        row = next((each for each in self.stages if stage in (each.name, each.row)), None)
        return None if found is None or row is None else what_if(found, row, round(work_ms * 1e6))

    def to_dict(self) -> dict[str, Any]:
        """Plain data for `json.dumps`, with the fields of this class and of all that it holds."""
        data: dict[str, Any] = _plain(self)
        return data

    def __str__(self) -> str:
        return render(self)


def _plain(value: Any) -> Any:
    """Dataclasses and named tuples as mappings. Of a span only what a wait is about: the trace has the rest."""
    if isinstance(value, Record):
        return _wait(value)
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return {name: _plain(item) for name, item in value._asdict().items()}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return dict(value) if isinstance(value, dict) else value


def _av_offset_ms(records: tuple[Record, ...]) -> float | None:
    """The attribute `av_offset_ms` of the sink, the last stage, or of any span."""
    found = [number(record.attrs, "av_offset_ms") for record in records]
    return next((value for value in reversed(found) if value is not None), None)


def _overhead_ns(root: Record | None, spans: int) -> int | None:
    cost_ns = None if root is None else number(root.attrs, "overhead_ns_per_span")
    return None if cost_ns is None else round(spans * cost_ns)


def _wait(record: Record) -> dict[str, Any]:
    return {
        "span_id": record.span_id,
        "duration_ns": record.duration_ns,
        "worker": record.attrs.get("worker"),
        "busy_with": record.attrs.get("busy_with"),
    }
