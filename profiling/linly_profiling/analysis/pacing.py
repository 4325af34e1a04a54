"""Whether pictures came as fast as they are to be shown.

A player is imagined that begins one frame after the first pictures are there, shows `fps` frames a second, and holds
the picture where the next one is missing. What it would have had to hold for is a stall, wherever the time went.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from linly_profiling.analysis.numbers import (
    Interval,
    Spread,
    count,
    length,
    measured,
    merged,
    overlap,
    spread,
)
from linly_profiling.analysis.tree import row_of
from linly_profiling.record import LoadedTrace, Record
from linly_profiling.stages import is_stage

RENDER = "face.render"
FRAME = "frame"


class Stall(NamedTuple):
    """The picture would have stood still.

    Attributes:
        start_ns: when the next frame was due, on the trace's clock.
        end_ns: when it was there.
        rendering: the renderer was at work for at least half of it; else it had nothing to render.
        span_id: the span that brought the frame.
    """

    start_ns: int
    end_ns: int
    rendering: bool
    span_id: int

    @property
    def duration_ns(self) -> int:
        return self.end_ns - self.start_ns


@dataclass(frozen=True)
class Pacing:
    """The frames of one request; None where it is not known.

    Attributes:
        fps: frames a second to be shown: of the face stage, else frames over media.
        budget_ms: time for each frame.
        frames: how many were rendered.
        render: time to render one; frames of one span share its time evenly, unless each has a mark.
        over_budget_frames: frames that took longer than their budget.
        late_frames: frames that were not there when they were due.
        effective_fps: frames a second while the renderer was at work: what it can sustain.
        delivered_fps: frames a second from the first to the last, pauses included.
        stalls: in the order of their time.
        span_ids: the spans that rendered.
    """

    fps: float | None
    budget_ms: float | None
    frames: int
    render: Spread | None
    over_budget_frames: int | None
    late_frames: int | None
    effective_fps: float | None
    delivered_fps: float | None
    stalls: tuple[Stall, ...]
    span_ids: tuple[int, ...]


class _Batch(NamedTuple):
    """Frames that were ready at the same instant."""

    ready_ns: int
    frames: int
    frame_ms: float
    span_id: int


def pacing(trace: LoadedTrace) -> Pacing | None:
    """Of the spans `face.render`, else of all spans with marks "frame"; None where no frame was rendered."""
    spans = [span for span in trace.spans if span.name == RENDER] or list(trace.spans)
    batches = sorted(batch for span in spans for batch in _batches(span))
    if not batches:
        return None
    ids = {batch.span_id for batch in batches}
    working = merged((span.start_ns, span.end_ns) for span in spans if span.span_id in ids)
    frames = sum(batch.frames for batch in batches)
    fps = _fps(trace, frames)
    budget_ms = 1000 / fps if fps else None
    late, stalls = _played(batches, budget_ms, working) if budget_ms else (None, ())
    work_s = length(working) / 1e9
    return Pacing(
        fps=fps,
        budget_ms=budget_ms,
        frames=frames,
        render=spread([batch.frame_ms for batch in batches], [batch.frames for batch in batches]),
        over_budget_frames=sum(b.frames for b in batches if b.frame_ms > budget_ms) if budget_ms else None,
        late_frames=late,
        effective_fps=frames / work_s if work_s else None,
        delivered_fps=_delivered_fps(batches, frames),
        stalls=stalls,
        span_ids=tuple(sorted(ids)),
    )


def _batches(span: Record) -> list[_Batch]:
    """A mark is a frame by itself; without marks all frames are there when the span has ended well."""
    marks = sorted(mark.at_ns for mark in span.marks if mark.name == FRAME and mark.at_ns >= span.start_ns)
    if marks:
        starts = [span.start_ns, *marks]
        return [
            _Batch(at_ns, 1, (at_ns - start_ns) / 1e6, span.span_id)
            for start_ns, at_ns in zip(starts, marks, strict=False)
        ]
    frames = count(span.attrs, "frames") if span.name == RENDER and span.outcome == "ok" else None
    if not frames or span.duration_ns < 0:
        return []
    return [_Batch(span.end_ns, frames, span.duration_ns / frames / 1e6, span.span_id)]


def _fps(trace: LoadedTrace, frames: int) -> float | None:
    face = next((span for span in trace.spans if is_stage(span) and row_of(span) == "face"), None)
    if face is None:
        return None
    fps, media_s = measured(face.attrs, "fps"), measured(face.attrs, "media_s")
    if fps is None and media_s is not None and media_s > 0:
        fps = frames / media_s
    # Outside of this range it is no rate of pictures, and sums below would leave the range of whole numbers.
    return fps if fps is not None and 0.01 <= fps <= 10_000 else None


def _played(
    batches: Sequence[_Batch], budget_ms: float, working: Sequence[Interval]
) -> tuple[int, tuple[Stall, ...]]:
    """How many frames were late, and where the player had to hold."""
    budget_ns = budget_ms * 1e6
    due_ns, late, stalls = batches[0].ready_ns + budget_ns, 0, []
    for batch in batches:
        if batch.ready_ns > due_ns:
            late += min(batch.frames, math.ceil((batch.ready_ns - due_ns) / budget_ns))
            held = (round(due_ns), batch.ready_ns)
            rendering = 2 * overlap([held], working) >= held[1] - held[0]
            stalls.append(Stall(*held, rendering, batch.span_id))
            due_ns = float(batch.ready_ns)
        due_ns += batch.frames * budget_ns
    return late, tuple(stalls)


def _delivered_fps(batches: Sequence[_Batch], frames: int) -> float | None:
    passed_s = (batches[-1].ready_ns - batches[0].ready_ns) / 1e9
    return (frames - batches[0].frames) / passed_s if passed_s > 0 else None
