"""What the rules look at: the report, the trace, and what ties them together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from linly_profiling.advice.finding import Advice, Severity
from linly_profiling.analysis.numbers import Interval, length, overlap
from linly_profiling.analysis.tree import below, by_parent, is_work, root_of
from linly_profiling.attribution import Milestone
from linly_profiling.record import LoadedTrace, Record
from linly_profiling.stages import StageRow, is_stage

if TYPE_CHECKING:
    from linly_profiling.report import Report

MS = 1_000_000

# As a share of what was waited for. Removing a fifth is felt at once; below a twentieth it drowns in the differences
# from one request to the next.
HIGH_SHARE = 0.20
MEDIUM_SHARE = 0.05

# Rules about disturbances stay silent below it: one frame at 25 fps and a quarter, within a loaded machine's jitter.
NOTICEABLE_NS = 50 * MS

# Spans that one piece of advice cites: enough to look at, few enough to read.
MOST_CITED = 8


@dataclass(frozen=True)
class Evidence:
    """Attributes:
    report: of the request, all but its advice.
    trace: that it was made of.
    """

    report: Report
    trace: LoadedTrace

    @cached_property
    def root(self) -> Record | None:
        return root_of(self.trace.spans)

    @property
    def wall_ns(self) -> int:
        return max(0, self.report.wall_ns)

    @cached_property
    def by_id(self) -> dict[int, Record]:
        return {span.span_id: span for span in self.trace.spans}

    @cached_property
    def inside(self) -> dict[int, list[Record]]:
        """The spans below each stage, by the stage's span ID."""
        children = by_parent(self.trace.spans)
        return {
            span.span_id: list(below(span.span_id, children)) for span in self.trace.spans if is_stage(span)
        }

    @cached_property
    def stage_of(self) -> dict[int, int]:
        """Span ID of the stage that a span is below."""
        return {span.span_id: stage_id for stage_id, spans in self.inside.items() for span in spans}

    @cached_property
    def owned(self) -> dict[int, list[Interval]]:
        """What each stage owns of the critical path, by the stage's span ID."""
        owned: dict[int, list[Interval]] = defaultdict(list)
        path = self.report.critical_path
        for part in path.intervals if path else ():
            owned[self.stage_of.get(part.span_id, part.span_id)].append((part.start_ns, part.end_ns))
        return owned

    @cached_property
    def milestone(self) -> Milestone | None:
        """What the user waits for: the first audio, or what came of it."""
        by_name = {milestone.name: milestone for milestone in self.report.milestones}
        return next(
            (by_name[name] for name in ("first audio", "first frame", "first token") if name in by_name), None
        )

    def named(self, chosen: Callable[[str], bool]) -> list[Record]:
        """Spans of work whose name is chosen."""
        return [span for span in self.trace.spans if chosen(span.name) and is_work(span)]

    def work_of(self, stage: StageRow) -> list[Record]:
        """The spans of work below a stage."""
        return [span for span in self.inside.get(stage.span_id, ()) if is_work(span)]

    def stalled_ns(self, spans: Iterable[Record]) -> int:
        """Time of these spans for which the request waited: of a stage's spans, the part on the critical path."""
        by_stage: dict[int | None, list[Interval]] = defaultdict(list)
        for span in spans:
            by_stage[self.stage_of.get(span.span_id)].append((span.start_ns, span.end_ns))
        return sum(
            length(parts) if stage_id is None else overlap(parts, self.owned.get(stage_id, ()))
            for stage_id, parts in by_stage.items()
        )


Rule = Callable[[Evidence], Iterator[Advice]]


def severity(cost_ns: float, whole_ns: float) -> Severity:
    """By the share of a wait that it took."""
    share = cost_ns / whole_ns if whole_ns > 0 else 0.0
    return "high" if share >= HIGH_SHARE else "medium" if share >= MEDIUM_SHARE else "low"


def total_ns(spans: Iterable[Record]) -> int:
    """Time that at least one of the spans was open."""
    return length((span.start_ns, span.end_ns) for span in spans)


def longest(spans: Sequence[Record]) -> int:
    """Duration of the longest span; 0 of none."""
    return max((span.duration_ns for span in spans), default=0)


def cited(spans: Iterable[Record]) -> tuple[int, ...]:
    """IDs of the longest spans, the longest first."""
    ordered = sorted(spans, key=lambda span: (-span.duration_ns, span.span_id))
    return tuple(span.span_id for span in ordered[:MOST_CITED])


def percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.0f} %"


def times(number: int, what: str, plural: str = "") -> str:
    """ "1 copy", "12 copies"."""
    return f"{number:,} {what if number == 1 else plural or what + 's'}"
