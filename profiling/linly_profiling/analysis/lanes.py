"""What each stage does over time, as events to sweep over: it begins, works, waits for input or for room, and ends."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from linly_profiling.analysis.numbers import counter, measured, merged
from linly_profiling.analysis.tree import below, by_parent, is_work, row_of
from linly_profiling.attribution import queue_label
from linly_profiling.record import LoadedTrace, Record
from linly_profiling.stages import QUEUE_WAIT, is_stage

STATE = "stage.state"
WAITS_FOR_INPUT, BUSY, WAITS_FOR_ROOM = 0, 1, 2

Detail = tuple[int, str]  # ID of a span that says more than its stage does, and its label


@dataclass
class Lane:
    """A stage, as the sweep through the time knows it.

    Attributes:
        name: of the stage.
        span_id: its span.
        alive: it has begun and not ended.
        state: what it does; None is not known.
        details: open spans that tell more, the last one first in importance.
    """

    name: str
    span_id: int
    alive: bool = False
    state: int | None = None
    details: dict[int, str] = field(default_factory=dict)


class Event(NamedTuple):
    """A change of one lane. At one instant a lane begins, changes its state, opens and closes details, and ends."""

    at_ns: int
    kind: int
    lane: int
    value: int | Detail | None = None


BEGIN, CHANGE, OPEN, CLOSE, END = range(5)


def lanes_of(trace: LoadedTrace, root: Record) -> tuple[list[Lane], list[Event], bool]:
    """The stages in the order of the chain, all events in the order of time, and whether counters told the states.

    What came before the request counts from its start, what came after it not at all.
    """
    stages = [span for span in trace.spans if is_stage(span)]
    stages.sort(key=lambda span: (measured(span.attrs, "order") or 0, span.span_id))
    rows = {row_of(stage) for stage in stages}
    by_state = any(sample.track in rows for sample in counter(trace, STATE))
    children = by_parent(trace.spans)
    if stages:
        lanes, events = _lanes_of_stages(trace, stages, children, by_state)
    else:
        lanes, events = _lanes_of_names([span for span in children[root.span_id] if is_work(span)])
    events.sort(key=lambda event: (event.at_ns, event.kind))
    inside = [
        event._replace(at_ns=max(root.start_ns, event.at_ns)) for event in events if event.at_ns < root.end_ns
    ]
    return lanes, inside, by_state


def _lanes_of_stages(
    trace: LoadedTrace,
    stages: Sequence[Record],
    children: dict[int | None, list[Record]],
    by_state: bool,
) -> tuple[list[Lane], list[Event]]:
    lanes = [Lane(str(stage.attrs.get("stage") or stage.name), stage.span_id) for stage in stages]
    events: list[Event] = []
    for index, stage in enumerate(stages):
        inside = list(below(stage.span_id, children))
        events += _life(index, stage)
        events += _state_samples(index, stage, trace) if by_state else _state_spans(index, stage, inside)
        for wait in inside:
            if wait.name == QUEUE_WAIT:
                events += _detail(index, wait, f"{lanes[index].name}: {queue_label(wait)}")
    return lanes, events


def _lanes_of_names(spans: Sequence[Record]) -> tuple[list[Lane], list[Event]]:
    """Without stages: one lane for each name, in the order in which they first began."""
    by_name: dict[str, list[Record]] = defaultdict(list)
    for span in sorted(spans, key=lambda span: span.start_ns):
        by_name[span.name].append(span)
    events: list[Event] = []
    for index, (name, same) in enumerate(by_name.items()):
        events += _busy(index, [(span.start_ns, span.end_ns) for span in same])
        events += [event for span in same for event in _detail(index, span, name)]
    return [Lane(name, same[0].span_id, alive=True) for name, same in by_name.items()], events


def _life(lane: int, span: Record) -> Iterator[Event]:
    yield Event(span.start_ns, BEGIN, lane)
    yield Event(max(span.start_ns, span.end_ns), END, lane)


def _detail(lane: int, span: Record, label: str) -> Iterator[Event]:
    if span.start_ns < span.end_ns:
        yield Event(span.start_ns, OPEN, lane, (span.span_id, label))
        yield Event(span.end_ns, CLOSE, lane, (span.span_id, label))


def _state_samples(lane: int, stage: Record, trace: LoadedTrace) -> Iterator[Event]:
    for sample in counter(trace, STATE, row_of(stage)):
        known = sample.value in (WAITS_FOR_INPUT, BUSY, WAITS_FOR_ROOM)
        yield Event(sample.at_ns, CHANGE, lane, int(sample.value) if known else None)


def _state_spans(lane: int, stage: Record, inside: Iterable[Record]) -> Iterator[Event]:
    open_spans = [(span.start_ns, span.end_ns) for span in inside if is_work(span) or span.name == QUEUE_WAIT]
    return _busy(lane, open_spans or [_first_answer(stage)])


def _first_answer(stage: Record) -> tuple[int, int]:
    """What is known of a stage without spans: it worked from its first input to its first output."""
    taken, given = measured(stage.attrs, "first_in_ns"), measured(stage.attrs, "first_out_ns")
    start_ns = stage.start_ns if taken is None else int(taken)
    return start_ns, stage.end_ns if given is None else int(given)


def _busy(lane: int, intervals: Iterable[tuple[int, int]]) -> Iterator[Event]:
    for start_ns, end_ns in merged(intervals):
        yield Event(start_ns, CHANGE, lane, BUSY)
        yield Event(end_ns, CHANGE, lane, WAITS_FOR_INPUT)
