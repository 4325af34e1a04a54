"""Where each span is drawn: its row, its lane in that row, and the time it is drawn until.

Viewers nest slices of one thread by time alone. Two slices of one lane must therefore either not overlap, or
be parent and child, one inside the other; Perfetto drops a slice that sticks out of another by a nanosecond.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from linly_profiling.record import Record

ROOT_ROW = "request"
_JITTER_NS = 1_000  # two threads that end parent and child "together" read the clock in either order


class Place(NamedTuple):
    """A span as drawn.

    Attributes:
        record: the span.
        tid: the virtual thread.
        end_ns: its end, brought back to the parent's where it sticks out by mere jitter.
        depth: number of spans above it in the tree.
    """

    record: Record
    tid: int
    end_ns: int
    depth: int


class Row(NamedTuple):
    """A lane of a row: a virtual thread, with its place from top to bottom as its ID."""

    tid: int
    name: str


@dataclass(frozen=True)
class Layout:
    """Where everything of one trace goes.

    Attributes:
        places: by span ID, in the order to write: by start, parents first.
        rows: from top to bottom.
    """

    places: dict[int, Place]
    rows: list[Row]


def lay_out(records: Sequence[Record]) -> Layout:
    """Place the spans of one trace, given in the order of their IDs."""
    by_id = {record.span_id: record for record in records}
    row_of, depth_of = _rows_and_depths(records)
    lanes = {name: _Lanes(by_id) for name in _row_names(records, row_of)}
    drawing_order = sorted(records, key=lambda r: (r.start_ns, depth_of[r.span_id], -r.end_ns, r.span_id))
    drawn = [(record, *lanes[row_of[record.span_id]].place(record)) for record in drawing_order]
    rows = _rows(lanes)
    places = {
        record.span_id: Place(
            record, rows[row_of[record.span_id], lane].tid, end_ns, depth_of[record.span_id]
        )
        for record, lane, end_ns in drawn
    }
    return Layout(places, list(rows.values()))


def _rows_and_depths(records: Iterable[Record]) -> tuple[dict[int, str], dict[int, int]]:
    """By span ID. A span without a row of its own is drawn in its parent's."""
    rows: dict[int, str] = {}
    depths: dict[int, int] = {}
    for record in records:  # parents have lower IDs; a parent that was dropped counts as none
        row, parent = record.attrs.get("row"), record.parent_id
        inherited = rows.get(parent, ROOT_ROW) if parent is not None else ROOT_ROW
        rows[record.span_id] = row if isinstance(row, str) and row else inherited
        depths[record.span_id] = depths.get(parent, 0) + 1 if parent is not None else 0
    return rows, depths


def rows_of(records: Iterable[Record]) -> dict[int, str]:
    """The row that each span of a trace is drawn in, by span ID."""
    return _rows_and_depths(records)[0]


def _row_names(records: Iterable[Record], row_of: dict[int, str]) -> list[str]:
    """Rows from top to bottom: the request, then stages by their order, then by their first appearance."""
    keys: dict[str, tuple[float, int]] = {}
    for record in records:
        order = record.attrs.get("order")
        rank = float(order) if isinstance(order, int | float) else float("inf")
        key = (rank, record.start_ns)
        name = row_of[record.span_id]
        keys[name] = min(keys.get(name, key), key)
    return sorted(keys, key=lambda name: (name != ROOT_ROW, keys[name]))


def _rows(lanes: dict[str, _Lanes]) -> dict[tuple[str, int], Row]:
    """By row and lane. Thread IDs rise from top to bottom, because Perfetto sorts by them."""
    rows: dict[tuple[str, int], Row] = {}
    for name, row_lanes in lanes.items():
        for lane in range(len(row_lanes)):
            label = name if lane == 0 else f"{name} ({lane + 1})"
            rows[name, lane] = Row(len(rows) + 1, label)
    return rows


class _Slice(NamedTuple):
    """A span on a lane, its end as drawn, and when something that is not its child may follow."""

    span_id: int
    end_ns: int
    over_ns: int


class _Lanes:
    """Lanes of one row. Each is a stack of slices inside each other, as they are at the time reached.

    Spans come in the order of their start. A span goes on top of its own ancestor if one is open in this row
    and nothing else lies on it, and else into the first free lane.
    """

    def __init__(self, by_id: dict[int, Record]) -> None:
        self._by_id = by_id
        self._stacks: list[list[_Slice]] = []
        self._lane_of: dict[int, int] = {}
        self._busy: list[tuple[int, int]] = []  # heap of (when the lowest slice is over, lane)
        self._free: list[int] = []  # heap of lanes; some may have been taken again

    def __len__(self) -> int:
        return len(self._stacks)

    def place(self, record: Record) -> tuple[int, int]:
        """The lane, and the end as drawn."""
        self._release(record.start_ns)
        lane = self._home(record)
        end_ns = self._end_on_top(lane, record) if lane is not None else None
        if lane is None or end_ns is None:
            lane, end_ns = self._free_lane(), record.end_ns
        # Perfetto puts what begins at the instant of a slice without length inside of that slice.
        over_ns = max(end_ns, record.start_ns + 1)
        if not self._stacks[lane]:
            heapq.heappush(self._busy, (over_ns, lane))
        self._stacks[lane].append(_Slice(record.span_id, end_ns, over_ns))
        self._lane_of[record.span_id] = lane
        return lane, end_ns

    def _release(self, now_ns: int) -> None:
        while self._busy and self._busy[0][0] <= now_ns:
            _, lane = heapq.heappop(self._busy)
            self._stacks[lane].clear()
            heapq.heappush(self._free, lane)

    def _free_lane(self) -> int:
        while self._free:
            lane = heapq.heappop(self._free)
            if not self._stacks[lane]:
                return lane
        self._stacks.append([])
        return len(self._stacks) - 1

    def _home(self, record: Record) -> int | None:
        """The lane of the nearest ancestor in this row."""
        return next((self._lane_of[i] for i in self._ancestors(record) if i in self._lane_of), None)

    def _ancestors(self, record: Record) -> Iterator[int]:
        parent = self._by_id.get(record.parent_id or 0)
        while parent is not None:
            yield parent.span_id
            parent = self._by_id.get(parent.parent_id or 0)

    def _end_on_top(self, lane: int, record: Record) -> int | None:
        """Where the record ends as drawn on top of this lane; None if it does not fit there."""
        stack = self._stacks[lane]
        while stack and stack[-1].over_ns <= record.start_ns:
            stack.pop()
        if not stack:
            return record.end_ns
        top = stack[-1]
        if record.end_ns - top.end_ns > _JITTER_NS or top.span_id not in self._ancestors(record):
            return None
        return min(record.end_ns, top.end_ns)
