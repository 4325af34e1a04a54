"""Between which slices an arrow is drawn.

A program knows that something went from one stage to another, and when; a viewer shows arrows of the slice that one
selects. So an arrow between two stages is drawn between their pieces of work: the last that had begun when the thing
was handed over, and the first that began when it had arrived.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from operator import attrgetter

from linly_profiling.chrome.layout import Place
from linly_profiling.record import Flow
from linly_profiling.stages import is_stage

_START = attrgetter("record.start_ns")


def drawn_between(flows: Iterable[Flow], places: Mapping[int, Place]) -> Iterator[tuple[Flow, Place, Place]]:
    """Every arrow whose spans are there, and the two slices."""
    work = _work(places.values())
    for flow in flows:
        source, target = places.get(flow.from_id), places.get(flow.to_id)
        if source is not None and target is not None:
            yield flow, _giver(source, flow.from_ns, work), _taker(target, flow.to_ns, work)


def _work(places: Iterable[Place]) -> dict[int, list[Place]]:
    """By span, what lies directly below it in its row, in the order of its start."""
    below: dict[int, list[Place]] = defaultdict(list)
    for place in places:
        parent = place.record.parent_id
        if parent is not None and not place.record.name.startswith("linly."):
            below[parent].append(place)
    for each in below.values():
        each.sort(key=_START)
    return below


def _giver(source: Place, from_ns: int, work: Mapping[int, list[Place]]) -> Place:
    inside = work.get(source.record.span_id, []) if is_stage(source.record) else []
    place = bisect_right(inside, from_ns, key=_START)
    return inside[place - 1] if place else source


def _taker(target: Place, to_ns: int, work: Mapping[int, list[Place]]) -> Place:
    inside = work.get(target.record.span_id, []) if is_stage(target.record) else []
    place = bisect_left(inside, to_ns, key=_START)
    return inside[place] if place < len(inside) else target
