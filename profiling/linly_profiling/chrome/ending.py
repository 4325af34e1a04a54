"""Lanes for spans that become known in the order of their end, which is how a running program gives them.

`layout` knows all spans before it places one; here a span is placed when it ends, after what lies inside it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

_REMEMBERED = (
    256  # slices of a lane that are not inside another; a span that is longer swallows the older ones
)

Belongs = Callable[[int, int], bool]  # whether the first span lies below the second in the tree


class _Slice(NamedTuple):
    start_ns: int
    end_ns: int
    span_id: int


class EndingLanes:
    """The lanes of one row. `place` gives the lane of a span that has just ended."""

    def __init__(self, belongs: Belongs) -> None:
        self._belongs = belongs
        self._lanes: list[list[_Slice]] = []

    def place(self, span_id: int, start_ns: int, end_ns: int) -> int:
        new = _Slice(start_ns, end_ns, span_id)
        for number, lane in enumerate(self._lanes):
            inside = self._inside(lane, new)
            if inside is not None:
                lane[inside] = [new]
                if len(lane) > 2 * _REMEMBERED:
                    del lane[:_REMEMBERED]
                return number
        self._lanes.append([new])
        return len(self._lanes) - 1

    def _inside(self, lane: list[_Slice], new: _Slice) -> slice | None:
        """The slices of a lane that lie inside the new one; its place if none does. None: it does not fit."""
        last = len(lane)
        while last and lane[last - 1].start_ns >= new.end_ns and not _overlap(lane[last - 1], new):
            last -= 1  # a span of another time, told of late
        first = last
        while first and _overlap(lane[first - 1], new):
            inner = lane[first - 1]
            # Of two slices that begin together, viewers take the first in the file for the outer one: side by side.
            inside = inner.start_ns > new.start_ns and inner.end_ns <= new.end_ns
            if not inside or not self._belongs(inner.span_id, new.span_id):
                return None
            first -= 1
        return slice(first, last)


def _overlap(one: _Slice, other: _Slice) -> bool:
    # Viewers put what begins at the instant of a slice without length inside of that slice: it counts as touching.
    touching = one.start_ns == one.end_ns or other.start_ns == other.end_ns
    return one.end_ns + touching > other.start_ns and one.start_ns < other.end_ns + touching
