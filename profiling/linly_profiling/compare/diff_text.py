"""A diff as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from linly_profiling.attribution import MILESTONES
from linly_profiling.compare.diff import largest_part
from linly_profiling.compare.measure import WHOLE
from linly_profiling.compare.text import (
    change_text,
    count_text,
    fitting,
    left_out_text,
    listed,
    outcomes_text,
    percent_text,
    value_text,
)
from linly_profiling.tables import shown

if TYPE_CHECKING:
    from linly_profiling.compare.diff import Change, Diff, Group

_MOST_ROWS = 8
_TITLE_COLUMNS = 50
# A part, stage or span that moved by less than this share of the whole request is not worth a line.
_LEAST_SHARE = 0.005
# What a stage does itself. Its wall time, its waits for input and its first output tell what others did.
_OWN_FIGURES = ("busy_ms", "wait_out_ms", "queue_ms", "real_time_factor", "cuda_ms")
_GROUPS: tuple[tuple[Group, str], ...] = (("stage", "stages"), ("span", "spans, all of a name in a request"))


def render(diff: Diff) -> str:
    """The diff, at most 100 columns wide."""
    return "\n".join(_lines(diff))


def _lines(diff: Diff) -> Iterator[str]:
    for name, side in (("before: ", diff.before), ("after:  ", diff.after)):
        yield name + outcomes_text(side.outcomes)
        if note := left_out_text(side.outcomes):
            yield f"        {note}"
    yield from _warnings(diff)
    if not (diff.before.ok and diff.after.ok):
        yield "nothing to compare: each side needs a request that ended ok"
        return
    yield from ("", *_headline(diff), "")
    yield from _table(diff, [change for change in diff.changes if change.group == "request"], "", full=True)
    for milestone in (*MILESTONES, WHOLE):
        parts = [change for change in diff.changes if change.group == "part" and change.of == milestone]
        yield from _table(diff, parts, f"{milestone}, by owner")
    for group, title in _GROUPS:
        yield from _table(diff, [change for change in diff.changes if change.group == group], title)
    yield from ("", *_legend(diff))


def _warnings(diff: Diff) -> Iterator[str]:
    if diff.work:
        yield "the work differed; compare what is per token, per frame or per second of media:"
        yield from (f"  {shown(line, 96)}" for line in diff.work)
    if diff.conditions:
        yield "the machines differed:"
        yield from (f"  {shown(line, 96)}" for line in diff.conditions)
    if diff.before.dropped or diff.after.dropped:
        yield "incomplete: some of the traces lost records; their figures may be too low"


def _headline(diff: Diff) -> Iterator[str]:
    """The answer in a line for each direction."""
    requests = [change for change in diff.changes if change.group == "request" and change.worse is not None]
    if diff.single:
        yield "single runs: what differs is shown, none of it can be told from noise"
    elif not requests:
        few = all(change.verdict == "too few to say" for change in diff.changes if change.group == "request")
        yield "too few to say: a verdict needs 5 requests on both sides" if few else "no clear change"
    for word, worse in (("worse:  ", True), ("better: ", False)):
        names = [_named(diff, change) for change in requests if change.worse is worse]
        if names:
            yield from listed(word, names)


def _named(diff: Diff, change: Change) -> str:
    """The change, and of a milestone the part that moved most with it."""
    moved = (
        change_text(change.change or 0, change.unit) if change.ratio is None else percent_text(change.ratio)
    )
    text = f"{change.title} {moved}"
    part = largest_part(diff, change)
    if part is None:
        return text
    return f"{text} ({shown(part.title, 40)} {change_text(part.change or 0, 'ms')})"


def _table(diff: Diff, changes: Sequence[Change], title: str, full: bool = False) -> Iterator[str]:
    rows = list(changes) if full else [change for change in changes if _matters(diff, change)]
    if not rows:
        return
    if title:
        yield ""
    shown_rows = rows if full else rows[:_MOST_ROWS]
    cells = [_row(change, diff.single) for change in shown_rows]
    intervals = any(change.low is not None for change in shown_rows)
    heading = ("before", "after", "change", "", *(() if diff.single else ("99 % interval" * intervals, "")))
    yield from fitting([(title, *heading), *cells], indent="")
    if len(rows) > len(shown_rows):
        yield f"  and {count_text(len(rows) - len(shown_rows), 'smaller change')}"


def _matters(diff: Diff, change: Change) -> bool:
    """Worth a line below the figures of the request."""
    if change.group == "stage" and change.name not in _OWN_FIGURES:
        return False
    if change.verdict in ("only before", "only after"):
        return False
    if change.unit != "ms":
        return change.clear or (change.verdict == "too few to say" and abs(change.ratio or 0) >= 0.1)
    walls = [side.metrics["wall_ms"].p50 or 0.0 for side in (diff.before, diff.after)]
    large = abs(change.change or 0.0) >= _LEAST_SHARE * max(walls)
    return large and (change.clear or change.verdict == "too few to say")


def _row(change: Change, single: bool) -> tuple[str, ...]:
    moved = "" if change.change is None else change_text(change.change, change.unit)
    cells = (
        f"  {shown(change.title, _TITLE_COLUMNS)}",
        value_text(change.before, change.unit),
        value_text(change.after, change.unit),
        moved,
        "" if change.ratio is None else percent_text(change.ratio),
    )
    return cells if single else (*cells, _interval(change), change.verdict)


def _interval(change: Change) -> str:
    """In percent of before; of a figure that was 0, in its unit."""
    if change.low is None or change.high is None:
        return ""
    if not change.before:
        return f"{change_text(change.low, change.unit)} … {change_text(change.high, change.unit)}"
    low, high = change.low / change.before, change.high / change.before
    return f"{percent_text(low)} … {percent_text(high)}"


def _legend(diff: Diff) -> Iterable[str]:
    quiet = sum(change.verdict == "no clear change" for change in diff.changes if change.group != "request")
    if quiet:
        yield f"no clear change in {quiet:,} other figures of parts, stages and spans"
    if any(change.low is not None for change in diff.changes):
        yield "medians; the interval is of the shift between the two sets, by ranks; about one figure in a hundred"
        yield "passes for changed by chance"
