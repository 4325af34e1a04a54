"""Single events of a Chrome trace, as lines of JSON.

`ts` and `dur` are microseconds with exactly three decimals, made from whole nanoseconds once, so that slices that
touch still touch after rounding.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from linly_profiling.chrome.codec import OWN, mark_args, sample_own, span_args
from linly_profiling.chrome.text import display, dumps
from linly_profiling.record import Flow, Mark, Record, Sample

_COLOURS = {"error": "terrible", "cancelled": "grey"}  # names of Chrome's palette; Perfetto ignores them


class Event(NamedTuple):
    """A line of the file, and what decides its place: at one instant, slices (parents first), then the rest."""

    at_ns: int
    kind: int
    depth: int
    text: str


_SLICE, _MARK, _FLOW, _COUNTER = range(4)
_DEEP = 1_000_000  # behind all slices that begin at the same instant, and so inside of them
ARROW = "linly.flow"  # category of arrows, and of the points that they end in


class Spot(NamedTuple):
    """Where a span is drawn: its virtual thread, and its times on the trace's clock."""

    tid: int
    start_ns: int
    end_ns: int


def us(ns: int) -> str:
    """Microseconds with three decimals."""
    return f"{ns // 1000}.{ns % 1000:03d}" if ns >= 0 else f"-{us(-ns)}"


def metadata(name: str, pid: int, tid: int, /, **args: Any) -> str:
    return dumps({"ph": "M", "name": name, "pid": pid, "tid": tid, "args": args})


def _line(
    ph: str, at_ns: int, pid: int, tid: int, name: str, dur_ns: int | None = None, **fields: Any
) -> str:
    """The times are put in as text, because a float would not keep three decimals."""
    dur = "" if dur_ns is None else f'"dur":{us(dur_ns)},'
    rest = dumps({"name": display(name) or "?", **fields})
    return f'{{"ph":"{ph}","pid":{pid},"tid":{tid},"ts":{us(at_ns)},{dur}{rest[1:]}'


def slice_event(record: Record, spot: Spot, depth: int, pid: int, shift_ns: int) -> Event:
    """A span. Adding `shift_ns` to a time on the trace's clock gives a time in the file."""
    fields: dict[str, Any] = {"cat": "linly", "args": span_args(record)}
    if record.outcome in _COLOURS:
        fields["cname"] = _COLOURS[record.outcome]
    dur_ns = spot.end_ns - spot.start_ns
    text = _line("X", spot.start_ns + shift_ns, pid, spot.tid, record.name, dur_ns, **fields)
    return Event(spot.start_ns, _SLICE, depth, text)


def mark_event(mark: Mark, span_id: int, spot: Spot, depth: int, pid: int, shift_ns: int) -> Event:
    at_ns = _inside(spot, mark.at_ns)
    args = mark_args(mark, span_id)
    text = _line("i", at_ns + shift_ns, pid, spot.tid, mark.name, cat="linly.mark", s="t", args=args)
    return Event(at_ns, _MARK, depth, text)


def arrow_events(
    flow: Flow, source: Spot, target: Spot, number: int, pid: int, shift_ns: int
) -> Iterator[Event]:
    """A start and a finish. Both lie in their slices, and the arrow does not point back in time."""
    to_ns = _inside(target, flow.to_ns)
    from_ns = min(_inside(source, flow.from_ns), max(to_ns, source.start_ns))
    to_ns = _inside(target, max(to_ns, from_ns))
    shared: dict[str, Any] = {"cat": ARROW, "id": pid * 2**20 + number}
    if target.start_ns < source.start_ns:
        # Perfetto draws an arrow from the slice that began first: give it one that begins where the arrow ends.
        point = _line("X", to_ns + shift_ns, pid, target.tid, flow.name, 1, cat=ARROW)
        yield Event(to_ns, _SLICE, _DEEP, point)
    yield Event(from_ns, _FLOW, 0, _line("s", from_ns + shift_ns, pid, source.tid, flow.name, **shared))
    # "bp": bind to the slice around the end, not to the next one.
    finish = _line("f", to_ns + shift_ns, pid, target.tid, flow.name, **shared, bp="e")
    yield Event(to_ns, _FLOW, 1, finish)


def _inside(spot: Spot, at_ns: int) -> int:
    """The nearest instant that viewers count as inside the slice: before its end, where another may begin."""
    return max(spot.start_ns, min(at_ns, spot.end_ns - 1))


def counter_event(sample: Sample, pid: int, shift_ns: int) -> Event:
    return _counter(sample, sample.at_ns, pid, shift_ns, **{OWN: sample_own(sample)})


def closing_counters(last: Mapping[str, Sample], end_ns: int, pid: int, shift_ns: int) -> Iterator[Event]:
    """Viewers draw the last value to the end of the file: bring it to 0 when the request is over."""
    for sample in last.values():
        yield _counter(sample._replace(value=0), max(end_ns, sample.at_ns + 1), pid, shift_ns)


def _counter(sample: Sample, at_ns: int, pid: int, shift_ns: int, **own: Any) -> Event:
    # Perfetto puts the key behind the counter's name: without one, the name stands for itself.
    text = _line("C", at_ns + shift_ns, pid, 0, counter_name(sample), args={"": sample.value}, **own)
    return Event(at_ns, _COUNTER, 0, text)


def counter_name(sample: Sample) -> str:
    return f"{sample.track} {sample.name}" if sample.track else sample.name
