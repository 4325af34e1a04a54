"""Who owns the wait for the first token, the first sound, the first frame: a sum that adds up to the nanosecond.

The time from the start of the request to a stage's first output is cut where each stage before it gave its own first
output. Every piece is cut again: until the stage had the input for that output the one before it owns the time, then
come waiting for a worker, and work.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from linly_profiling.record import Record
from linly_profiling.stages import StageRow

MILESTONES = {"first token": "llm", "first audio": "tts", "first frame": "face"}  # by the row of the stage


class Contribution(NamedTuple):
    """An interval with one owner.

    Attributes:
        label: the owner, and what it did.
        start_ns: on the trace's clock.
        end_ns: on the trace's clock; the next contribution's start.
        span_id: the span that shows it.
    """

    label: str
    start_ns: int
    end_ns: int
    span_id: int

    @property
    def duration_ns(self) -> int:
        return self.end_ns - self.start_ns


@dataclass(frozen=True)
class Milestone:
    """The time to a first output, and what it is made of.

    Attributes:
        name: "first token", "first audio" or "first frame".
        total_ns: from the start of the request.
        contributions: without gaps and overlaps; their durations sum to `total_ns`.
    """

    name: str
    total_ns: int
    contributions: tuple[Contribution, ...]


def milestones(start_ns: int, stages: Sequence[StageRow]) -> tuple[Milestone, ...]:
    """Every milestone that was reached.

    Args:
        start_ns: when the request began.
        stages: in the order of the chain.
    """
    found = []
    for name, row in MILESTONES.items():
        for index, stage in enumerate(stages):
            if stage.row == row and stage.first_out_ns is not None:
                found.append(_milestone(name, start_ns, stage.first_out_ns, stages[: index + 1]))
                break
    return tuple(found)


def _milestone(name: str, start_ns: int, reached_ns: int, stages: Sequence[StageRow]) -> Milestone:
    end_ns = max(start_ns, reached_ns)
    contributions: list[Contribution] = []
    cursor = start_ns
    before: StageRow | None = None
    for stage in stages:
        if stage.first_out_ns is None:
            continue  # it let nothing through: whoever came after it did not wait for it
        # A stage may answer before its predecessor did, or only after the milestone: then it owns nothing, or less.
        boundary = min(max(stage.first_out_ns, cursor), end_ns)
        contributions += _pieces(stage, before, cursor, boundary)
        cursor, before = boundary, stage
    return Milestone(name, end_ns - start_ns, tuple(contributions))


def _pieces(stage: StageRow, before: StageRow | None, start_ns: int, end_ns: int) -> Iterator[Contribution]:
    """From the first output of the stage before to that of this one, cut into what is known about it."""
    cursor = start_ns
    for label, from_ns, until_ns, span_id in _waits(stage, before):
        begin, end = max(from_ns, cursor), min(until_ns, end_ns)
        if begin >= end:
            continue
        if begin > cursor:
            yield Contribution(f"{stage.name}: work", cursor, begin, stage.span_id)
        yield Contribution(label, begin, end, span_id)
        cursor = end
    if cursor < end_ns:
        yield Contribution(f"{stage.name}: work", cursor, end_ns, stage.span_id)


def _waits(stage: StageRow, before: StageRow | None) -> Iterator[tuple[str, int, int, int]]:
    """Label, start, end and span of every known wait, in the order of time."""
    ready_ns = stage.first_in_ns if stage.ready_ns is None else stage.ready_ns
    if ready_ns is not None and ready_ns <= (stage.first_out_ns or 0):
        if before is None:
            yield f"{stage.name}: waits for input", 0, ready_ns, stage.span_id
        else:  # what it needed had not come yet: the stage before it owns that time
            yield f"{before.name}: goes on until {stage.name} can begin", 0, ready_ns, before.span_id
    for wait in sorted(stage.waits, key=lambda record: record.start_ns):
        yield f"{stage.name}: {queue_label(wait)}", wait.start_ns, wait.end_ns, wait.span_id


def queue_label(wait: Record) -> str:
    """What the stage waited for: a worker, and what that worker was busy with if that is known."""
    worker, busy_with = wait.attrs.get("worker"), wait.attrs.get("busy_with")
    label = f"waits for worker {worker}" if worker else "waits for a worker"
    return f"{label} (busy with {busy_with})" if busy_with else label
