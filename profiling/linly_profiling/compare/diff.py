"""Two traces, or two sets of repeats: what got slower, what grew, and whether that can be told from noise."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, Self

from linly_profiling.compare.measure import CONDITIONS, WHOLE, Request
from linly_profiling.compare.metrics import REQUEST_METRICS, STAGE_METRICS, Better, Unit
from linly_profiling.compare.statistics import LEAST_CHANGE, median, shift
from linly_profiling.compare.summary import Summary, stages_of, values_of
from linly_profiling.record import LoadedTrace
from linly_profiling.trace import Trace

Side = Summary | Trace | LoadedTrace | Iterable[Trace | LoadedTrace]
Group = Literal["request", "part", "stage", "span"]
Verdict = Literal[
    "slower", "faster", "more", "less", "no clear change", "too few to say", "only before", "only after"
]
CLEAR = ("slower", "faster", "more", "less")


@dataclass(frozen=True)
class Change:
    """One figure before and after.

    Attributes:
        group: "request", "part" of a milestone, "stage" or "span".
        of: the milestone, the stage or the span's name; "" for the request.
        name: the figure, or the owner of a part.
        title: for tables.
        unit: of the figures.
        n_before: how many requests have it.
        n_after: how many requests have it.
        before: median; None where no request has it.
        after: median.
        change: difference of the medians.
        ratio: change over before; None where that is 0.
        low: lower end of the 99 % interval of the shift; None where there are too few for one.
        high: upper end.
        verdict: "slower" or "faster" for times, "more" or "less" for all else, only where the interval excludes 0 and
            the change is 1 % or more.
        worse: True or False for a clear change, None otherwise or where neither way is better.
    """

    group: Group
    of: str
    name: str
    title: str
    unit: Unit
    n_before: int
    n_after: int
    before: float | None
    after: float | None
    change: float | None
    ratio: float | None
    low: float | None
    high: float | None
    verdict: Verdict
    worse: bool | None

    @property
    def clear(self) -> bool:
        return self.verdict in CLEAR


@dataclass(frozen=True)
class Diff:
    """What changed between two sets of requests; of each, the figures of those that ended "ok".

    A verdict needs repeats: five on both sides, or three against nine. Single runs are compared, never judged.
    About one figure in a hundred passes for changed by chance. `str(diff)` is at most 100 columns wide.

    Attributes:
        before: one side.
        after: the other.
        work: how the work differed, such as "tokens 120 → 240 (+100 %)"; times are then not of the same thing.
        conditions: how the machines differed.
        changes: requests in the order of `REQUEST_METRICS`; then parts, stages and spans, in each what changed
            clearly first, then by the size of the change.
    """

    before: Summary
    after: Summary
    work: tuple[str, ...]
    conditions: tuple[str, ...]
    changes: tuple[Change, ...]

    @classmethod
    def of(cls, before: Side, after: Side) -> Self:
        """Compare one trace, several, or a summary on each side."""
        left, right = _summary(before), _summary(after)
        changes = _ordered(_changes(left.ok, right.ok))
        return cls(
            before=left,
            after=right,
            work=tuple(_work(changes)),
            conditions=tuple(_conditions(left.ok, right.ok)),
            changes=tuple(changes),
        )

    @property
    def single(self) -> bool:
        """One run on each side: nothing can be called significant."""
        return len(self.before.ok) == 1 == len(self.after.ok)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for `json.dumps`: outcomes of both sides, `work`, `conditions` and `changes`."""
        return {
            "before": self.before.outcomes,
            "after": self.after.outcomes,
            "work": list(self.work),
            "conditions": list(self.conditions),
            "changes": [asdict(change) for change in self.changes],
        }

    def __str__(self) -> str:
        from linly_profiling.compare.diff_text import render

        return render(self)


def _summary(side: Side) -> Summary:
    return side if isinstance(side, Summary) else Summary.of(side)


def largest_part(diff: Diff, change: Change) -> Change | None:
    """Of a milestone, or the wall time, that changed clearly: the owner whose part moved most, and the same way."""
    owned = WHOLE if change.name == "wall_ms" else change.title
    parts = [
        part
        for part in diff.changes
        if part.group == "part" and part.of == owned and part.clear and part.verdict == change.verdict
    ]
    return max(parts, key=lambda part: abs(part.change or 0), default=None)


def _request_change(before: Sequence[Request], after: Sequence[Request], name: str) -> Change:
    metric = REQUEST_METRICS[name]
    left, right = values_of(before, name), values_of(after, name)
    return _change("request", "", name, metric.title, metric.unit, metric.better, left, right)


def _changes(before: Sequence[Request], after: Sequence[Request]) -> Iterator[Change]:
    """All that both sides, or one, have figures for."""
    everything = [
        *(_request_change(before, after, name) for name in REQUEST_METRICS),
        *_parts(before, after),
        *_stages(before, after),
        *_spans(before, after),
    ]
    return (change for change in everything if change.n_before or change.n_after)


def _parts(before: Sequence[Request], after: Sequence[Request]) -> Iterator[Change]:
    for milestone in _names(request.parts for request in (*before, *after)):
        left = [request.parts[milestone] for request in before if milestone in request.parts]
        right = [request.parts[milestone] for request in after if milestone in request.parts]
        for owner in _names((*left, *right)):
            times = [[parts.get(owner, 0) / 1e6 for parts in side] for side in (left, right)]
            yield _change("part", milestone, owner, owner, "ms", "lower", *times)


def _stages(before: Sequence[Request], after: Sequence[Request]) -> Iterator[Change]:
    for stage in stages_of((*before, *after)):
        for name, metric in STAGE_METRICS.items():
            left, right = values_of(before, name, stage), values_of(after, name, stage)
            title = f"{stage}: {metric.title}"
            yield _change("stage", stage, name, title, metric.unit, metric.better, left, right)


def _spans(before: Sequence[Request], after: Sequence[Request]) -> Iterator[Change]:
    """Time and number of the spans of each name in a request; one that has none took 0 ms for them."""
    for name in _names(request.span_counts for request in (*before, *after)):
        times = [[request.span_ms.get(name, 0.0) for request in side] for side in (before, after)]
        yield _change("span", name, "total_ms", name, "ms", "lower", *times)
        counts = [[float(request.span_counts.get(name, 0)) for request in side] for side in (before, after)]
        yield _change("span", name, "count", f"{name}: how many", "count", "neither", *counts)


def _names(dicts: Iterable[dict[str, Any]]) -> list[str]:
    return list({name: None for each in dicts for name in each})


def _change(
    group: Group,
    of: str,
    name: str,
    title: str,
    unit: Unit,
    better: Better,
    before: Sequence[float],
    after: Sequence[float],
) -> Change:
    left, right = median(before) if before else None, median(after) if after else None
    head = (group, of, name, title, unit, len(before), len(after), left, right)
    if left is None or right is None:
        return Change(*head, None, None, None, None, "only after" if left is None else "only before", None)
    change, low, high, moved = shift(before, after)
    ratio = change / left if left else None
    if moved != "up" and moved != "down":
        return Change(*head, change, ratio, low, high, moved, None)
    words: tuple[Verdict, Verdict] = (
        ("slower", "faster") if unit in ("ms", "ratio") and better == "lower" else ("more", "less")
    )
    worse = None if better == "neither" else (moved == "up") == (better == "lower")
    return Change(*head, change, ratio, low, high, words[moved == "down"], worse)


def _ordered(changes: Iterable[Change]) -> list[Change]:
    groups: dict[Group, list[Change]] = {"request": [], "part": [], "stage": [], "span": []}
    for change in changes:
        groups[change.group].append(change)
    for group in ("part", "stage", "span"):
        groups[group].sort(key=_importance)
    return [change for group in groups.values() for change in group]


def _importance(change: Change) -> tuple[bool, bool, float]:
    """Clear changes first, then times by what they cost or save; other units cannot be weighed against these."""
    weight = (
        abs(change.change if change.unit == "ms" else change.ratio or 0) if change.change is not None else 0
    )
    return (not change.clear, change.unit != "ms", -weight)


def _work(changes: Iterable[Change]) -> Iterator[str]:
    """How much more or less there was to do, where that is more than chance."""
    from linly_profiling.compare.text import percent_text, value_text

    for change in changes:
        if change.group != "request" or REQUEST_METRICS[change.name].better != "neither":
            continue
        if change.clear or (change.verdict == "too few to say" and abs(change.ratio or 0) >= LEAST_CHANGE):
            before, after = value_text(change.before, change.unit), value_text(change.after, change.unit)
            yield f"{change.title} {before} → {after} ({percent_text(change.ratio)})"


def _conditions(before: Sequence[Request], after: Sequence[Request]) -> Iterator[str]:
    for name in CONDITIONS:
        left, right = _seen(before, name), _seen(after, name)
        if left and right and left != right:
            yield f"{name} {' / '.join(left)} → {' / '.join(right)}"


def _seen(requests: Iterable[Request], name: str) -> list[str]:
    return sorted({request.conditions[name] for request in requests if name in request.conditions})
