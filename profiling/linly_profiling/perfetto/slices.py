"""What happens on the rows: beginnings and ends of slices, and instants inside of them.

Message: track_event/track_event.proto.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from linly_profiling.chrome.layout import Place
from linly_profiling.perfetto.notes import Interned, Notes
from linly_profiling.perfetto.packets import Event
from linly_profiling.protobuf import fixed64, number
from linly_profiling.record import Flow

_BEGIN, _END = number(9, 1), number(9, 2)  # TrackEvent.Type
CATEGORIES = Interned(3, ("linly", "linly.mark", "linly.flow"))  # the same as in a Chrome trace
_SPAN, _MARK, _FLOW = CATEGORIES.values()
_LEAVES, _ARRIVES = 47, 48  # flow_ids, terminating_flow_ids


class Instant(NamedTuple):
    """A mark in a span, or one end of an arrow.

    Attributes:
        at_ns: on the trace's clock, not outside of the span.
        arrives: it is the head of an arrow.
        content: of its event, without type and track.
    """

    at_ns: int
    arrives: bool
    content: bytes


def instants(
    places: Mapping[int, Place], flows: Iterable[Flow], first_flow: int, names: Interned, notes: Notes
) -> dict[int, list[Instant]]:
    """Marks and arrows by the ID of their span, the last one first.

    Arrows end in instants: one from slice to slice would leave a long slice at its end.
    """
    found: dict[int, list[Instant]] = defaultdict(list)
    for place in places.values():
        if place.record.marks:
            found[place.record.span_id] += _marks(place, names, notes)
    for flow_id, flow in enumerate(flows, start=first_flow):
        source, target = places.get(flow.from_id), places.get(flow.to_id)
        if source is not None and target is not None:
            from_ns, to_ns = _ends(flow, source, target)
            name = _FLOW + names[flow.name]
            found[flow.from_id].append(Instant(from_ns, False, name + fixed64(_LEAVES, flow_id)))
            found[flow.to_id].append(Instant(to_ns, True, name + fixed64(_ARRIVES, flow_id)))
    for each in found.values():
        each.sort(key=lambda instant: (instant.at_ns, instant.arrives))  # at once: tails before heads
        each.reverse()
    return found


def _marks(place: Place, names: Interned, notes: Notes) -> Iterator[Instant]:
    for mark in place.record.marks:
        value = b"" if mark.value is None else notes.note("value", mark.value)
        yield Instant(_within(place, mark.at_ns), False, _MARK + names[mark.name] + value)


def _ends(flow: Flow, source: Place, target: Place) -> tuple[int, int]:
    """Both lie in their slices, and the arrow does not point back in time where that can be helped."""
    to_ns = _within(target, flow.to_ns)
    from_ns = min(_within(source, flow.from_ns), max(to_ns, source.record.start_ns))
    return from_ns, _within(target, max(to_ns, from_ns))


def _within(place: Place, at_ns: int) -> int:
    return min(max(at_ns, place.record.start_ns), place.end_ns)


class Lane:
    """The events of one lane.

    Viewers lay events of one instant into each other in the order in which they are written: what ends at the
    instant at which another begins is ended first, unless the other belongs into it. A mark is a slice without length,
    because Perfetto lays whatever follows an event of its type "instant" at the same nanosecond into that.

    Args:
        track: its number.
        places: of all spans, by ID.
        instants: of all spans, by ID, the last one first; they are used up.
    """

    def __init__(
        self, track: int, places: Mapping[int, Place], instants: Mapping[int, list[Instant]]
    ) -> None:
        on_track = number(11, track)
        self._begin, self._end = _BEGIN + on_track, _END + on_track
        self._places = places
        self._instants = instants
        self._open: list[Place] = []  # from the outside in
        self._events: list[Event] = []
        self._arrival_ns: int | None = None

    def events(self, lane: Iterable[Place], names: Interned, notes: Notes) -> list[Event]:
        """All that happens on the lane.

        Args:
            lane: its spans in the order of their start, outer ones first.
            names: of the slices.
            notes: what to tell of them.
        """
        begin, inside = self._begin + _SPAN, self._open
        for place in lane:
            record = place.record
            start_ns = record.start_ns
            while inside and inside[-1].end_ns <= start_ns and self._is_over(inside[-1], place):
                self._end_top()
            if inside and inside[-1].record.span_id in self._instants:
                self._catch_up(inside[-1], start_ns)
            exact_ns = None if place.end_ns == record.end_ns else record.duration_ns
            self._put(start_ns, begin + names[record.name] + notes.of(record, exact_ns))
            inside.append(place)
        while inside:
            self._end_top()
        return self._events

    def _is_over(self, top: Place, place: Place) -> bool:
        """Whether a slice that ends no later than another begins is not what the other is drawn in."""
        return top.end_ns < place.end_ns or not self._holds(top, place)

    def _holds(self, outer: Place, inner: Place) -> bool:
        above: Place | None = inner
        while above is not None and above.depth > outer.depth:
            above = self._places.get(above.record.parent_id or 0)
        return above is outer

    def _catch_up(self, top: Place, now_ns: int) -> None:
        """Write the instants of the innermost slice up to now."""
        coming = self._instants[top.record.span_id]
        while coming and coming[-1].at_ns <= now_ns:
            at_ns, arrives, content = coming.pop()
            self._put(at_ns, self._begin + content, arrives)
            self._put(at_ns, self._end)

    def _end_top(self) -> None:
        top = self._open.pop()
        if top.record.span_id in self._instants:
            self._catch_up(top, top.end_ns)
        self._put(top.end_ns, self._end)

    def _put(self, at_ns: int, content: bytes, arrives: bool = False) -> None:
        """The head of an arrow waits for all tails of that instant, and what follows it here for the head."""
        if arrives:
            self._arrival_ns = at_ns
        self._events.append((2 * at_ns + (at_ns == self._arrival_ns), content))
