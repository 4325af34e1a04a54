"""Who the request waited for, at every instant: the critical path across the queues of a streaming pipeline.

It is read from the end of the chain. A stage that is busy owns the instant. One that waits for input passes the blame
to the stage before it, one that waits for room to the stage behind it. If even the first stage waits for input, the
instant is "input". So each instant has one owner, and the parts sum to the wall time of the request.

Where the runner recorded no counter "stage.state", a stage counts as busy while a span below it is open: less sure,
because a stage that works without spans then looks idle. `CriticalPath.method` tells which of the two it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from linly_profiling.analysis.lanes import (
    BEGIN,
    BUSY,
    END,
    OPEN,
    WAITS_FOR_INPUT,
    WAITS_FOR_ROOM,
    Event,
    Lane,
    lanes_of,
)
from linly_profiling.analysis.tree import root_of
from linly_profiling.attribution import Contribution
from linly_profiling.record import LoadedTrace, Record

INPUT = "input"
NOBODY = "outside the stages"


class PathShare(NamedTuple):
    """What one stage owns of the request.

    Attributes:
        name: of the stage; "input" while the first stage had none; "outside the stages" for the rest.
        span_id: the stage's span; the root's for the rest.
        duration_ns: sum of its intervals.
        share: of the wall time of the request, 0..1.
    """

    name: str
    span_id: int
    duration_ns: int
    share: float


@dataclass(frozen=True)
class CriticalPath:
    """Attributes:
    method: "states", from the counters of the stages; "spans", from what was open.
    total_ns: wall time of the request.
    intervals: without gaps and overlaps, from the start of the request to its end; each shows one span.
    shares: of each stage that owns anything, in the order of the chain.
    """

    method: Literal["states", "spans"]
    total_ns: int
    intervals: tuple[Contribution, ...]
    shares: tuple[PathShare, ...]


def critical_path(trace: LoadedTrace) -> CriticalPath | None:
    """Of the whole request; None where the trace has no root span."""
    root = root_of(trace.spans)
    if root is None:
        return None
    lanes, events, by_state = lanes_of(trace, root)
    parts = _parts(lanes, events, root, by_state)
    total_ns = max(0, root.duration_ns)
    intervals = tuple(part for part, _ in parts)
    return CriticalPath(
        "states" if by_state else "spans", total_ns, intervals, _shares(parts, lanes, total_ns)
    )


class _Owner(NamedTuple):
    """Who owns an instant.

    Attributes:
        share: what it counts for: a name, and the ID of the span that stands for it.
        label: who, and what it did.
        span_id: the span that shows it.
    """

    share: tuple[str, int]
    label: str
    span_id: int


_Part = tuple[Contribution, tuple[str, int]]  # an interval, and the share that it counts for


def _parts(lanes: Sequence[Lane], events: Sequence[Event], root: Record, by_state: bool) -> list[_Part]:
    """The whole request, cut where its owner changes."""
    owner_of = _owner_by_state if by_state else _owner_by_span
    nobody = _Owner((NOBODY, root.span_id), NOBODY, root.span_id)
    parts: list[_Part] = []
    cursor_ns = root.start_ns
    for event in events:
        if event.at_ns > cursor_ns:
            _add(parts, owner_of(lanes) or nobody, cursor_ns, event.at_ns)
            cursor_ns = event.at_ns
        _apply(event, lanes[event.lane])
    if root.end_ns > cursor_ns:
        _add(parts, owner_of(lanes) or nobody, cursor_ns, root.end_ns)
    return parts


def _add(parts: list[_Part], owner: _Owner, start_ns: int, end_ns: int) -> None:
    """One more interval; longer is the last one if it has the same owner."""
    if parts and (parts[-1][0].label, parts[-1][0].span_id) == (owner.label, owner.span_id):
        start_ns = parts.pop()[0].start_ns
    parts.append((Contribution(owner.label, start_ns, end_ns, owner.span_id), owner.share))


def _apply(event: Event, lane: Lane) -> None:
    if event.kind in (BEGIN, END):
        lane.alive = event.kind == BEGIN
    elif isinstance(event.value, tuple):
        span_id, label = event.value
        if event.kind == OPEN:
            lane.details[span_id] = label
        else:
            lane.details.pop(span_id, None)
    else:
        lane.state = event.value


def _owner_by_state(lanes: Sequence[Lane]) -> _Owner | None:
    """From the last stage that is there, back to the one that everybody behind it waits for."""
    index = max((index for index, lane in enumerate(lanes) if lane.alive), default=None)
    if index is None:
        return None
    while lanes[index].state == WAITS_FOR_INPUT:
        lane, before = lanes[index], lanes[index - 1]
        if index == 0:
            return _Owner((INPUT, lane.span_id), f"{lane.name}: waits for input", lane.span_id)
        if not before.alive or before.state == WAITS_FOR_ROOM:
            # What it waits for is on its way, or is only the news that nothing more comes.
            return _Owner((lane.name, lane.span_id), f"{lane.name}: takes over", lane.span_id)
        index -= 1
    return _working(lanes[index])


def _owner_by_span(lanes: Sequence[Lane]) -> _Owner | None:
    """The last stage that is busy."""
    busy = [lane for lane in lanes if lane.alive and lane.state == BUSY]
    return _working(busy[-1]) if busy else None


def _working(lane: Lane) -> _Owner:
    share = (lane.name, lane.span_id)
    if lane.details:
        span_id, label = next(reversed(lane.details.items()))
        return _Owner(share, label, span_id)
    return _Owner(share, f"{lane.name}: work", lane.span_id)


def _shares(parts: Sequence[_Part], lanes: Sequence[Lane], total_ns: int) -> tuple[PathShare, ...]:
    sums: dict[tuple[str, int], int] = {}
    for part, share in parts:
        sums[share] = sums.get(share, 0) + part.duration_ns
    chain = [lane.span_id for lane in lanes]
    order = {span_id: rank for rank, span_id in enumerate(chain)}
    first_input_last_nobody = sorted(sums, key=lambda key: (order.get(key[1], len(chain)), key[0] != INPUT))
    return tuple(PathShare(*key, sums[key], sums[key] / total_ns) for key in first_input_last_nobody)
