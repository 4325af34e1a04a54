"""What a milestone would be if one stage had answered sooner, or later."""

from __future__ import annotations

from dataclasses import dataclass

from linly_profiling.attribution import Milestone
from linly_profiling.stages import StageRow


@dataclass(frozen=True)
class WhatIf:
    """The answer, under one assumption: everything else takes as long as it did, only sooner or later.

    That holds where the stages of a milestone come one after the other, which is how it is cut. It does not know
    that a faster stage may need another's cores, or that a worker would have been free at another time.

    Attributes:
        milestone: the name of the milestone.
        stage: the name of the stage.
        work_ns: time at work of that stage that the milestone contains.
        new_work_ns: the time put in its place.
        before_ns: the milestone as it was.
        after_ns: the milestone with it.
        span_id: the stage's span.
    """

    milestone: str
    stage: str
    work_ns: int
    new_work_ns: int
    before_ns: int
    after_ns: int
    span_id: int

    @property
    def saved_ns(self) -> int:
        """Negative where the new time is longer."""
        return self.before_ns - self.after_ns


def what_if(milestone: Milestone, stage: StageRow, new_work_ns: int) -> WhatIf | None:
    """Put another time in the place of a stage's work on the way to a milestone.

    For a language model that work is the time to its first token, for a voice that to its first sound. What the
    stage waited for, a worker or an input, stays.

    Args:
        milestone: of the request's report.
        stage: of the same report.
        new_work_ns: nanoseconds, at least 0.

    Returns:
        None where the milestone contains no work of this stage.
    """
    if new_work_ns < 0:
        raise ValueError(f"new_work_ns is {new_work_ns}; a stage takes at least 0 ns")
    label = f"{stage.name}: work"
    work_ns = sum(part.duration_ns for part in milestone.contributions if part.label == label)
    if not work_ns:
        return None
    return WhatIf(
        milestone=milestone.name,
        stage=stage.name,
        work_ns=work_ns,
        new_work_ns=new_work_ns,
        before_ns=milestone.total_ns,
        after_ns=milestone.total_ns - work_ns + new_work_ns,
        span_id=stage.span_id,
    )
