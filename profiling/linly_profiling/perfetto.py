"""Perfetto's own format: integer nanoseconds, exact names, and tracks with parents.

Field numbers are those of https://github.com/google/perfetto, `protos/perfetto/trace/`: trace_packet.proto,
track_event/{track_event,track_descriptor,process_descriptor,counter_descriptor,debug_annotation}.proto and
clock_snapshot.proto. Times are wall time, so that traces of several machines lie beside each other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from linly_profiling.chrome.events import counter_name
from linly_profiling.chrome.layout import Place, lay_out
from linly_profiling.chrome.names import FIRST_PID
from linly_profiling.protobuf import double, fixed64, number, part, text
from linly_profiling.record import Flow, LoadedTrace, Record, Sample
from linly_profiling.values import Value

_SEQUENCE = 1
_NEEDS_NO_EARLIER_STATE = 1  # SEQ_INCREMENTAL_STATE_CLEARED
_BEGIN, _END, _INSTANT, _COUNTER = 1, 2, 3, 4  # TrackEvent.Type
_EXPLICIT_ORDER = 3  # TrackDescriptor.ChildTracksOrdering
_REALTIME, _BOOTTIME = 1, 6  # built-in clocks
_MAX_INT64 = 2**63
_TRACKS = 2**20  # tracks of one request


class _Event(NamedTuple):
    at_ns: int
    packet: bytes


def document(traces: Sequence[LoadedTrace]) -> bytes:
    """The bytes of a `.pftrace` file."""
    packets = [_clocks(traces)]
    for place, trace in enumerate(traces):
        packets += _trace(trace, FIRST_PID + place)
    return b"".join(part(1, packet) for packet in packets)


def _clocks(traces: Sequence[LoadedTrace]) -> bytes:
    """Trace time is wall time."""
    now_ns = min((trace.epoch.wall_ns for trace in traces), default=0)
    clocks = b"".join(part(1, number(1, clock) + number(2, now_ns)) for clock in (_BOOTTIME, _REALTIME))
    return part(6, clocks) + number(10, _SEQUENCE) + number(13, _NEEDS_NO_EARLIER_STATE)


def _trace(trace: LoadedTrace, pid: int) -> Iterator[bytes]:
    layout = lay_out(trace.spans)
    shift_ns = trace.epoch.wall_ns - trace.epoch.clock_ns
    top = pid * _TRACKS
    yield _process(trace, pid, top)
    for row in layout.rows:
        yield _track(top + row.tid, top, row.name, row.tid)
    events = [*_slices(layout.places.values(), top, shift_ns)]
    events += _arrows(trace.flows, layout.places, top, shift_ns, pid)
    counters, samples = _counters(trace.samples, top, len(layout.rows) + 1, shift_ns)
    yield from counters
    events += samples
    events.sort(key=lambda event: event.at_ns)  # stable: what touches keeps its order
    for event in events:
        yield event.packet


def _process(trace: LoadedTrace, pid: int, uuid: int) -> bytes:
    name = f"request {trace.request_id}"
    label = trace.outcome if not trace.dropped else f"{trace.outcome}, {trace.dropped} dropped"
    process = number(1, pid) + text(6, name) + text(8, label)
    return _descriptor(number(1, uuid) + part(3, process) + number(11, _EXPLICIT_ORDER))


def _track(uuid: int, parent: int, name: str, rank: int, kind: bytes = b"") -> bytes:
    return _descriptor(number(1, uuid) + text(2, name) + number(5, parent) + number(12, rank) + kind)


def _descriptor(data: bytes) -> bytes:
    return part(60, data) + number(10, _SEQUENCE)


def _event(at_ns: int, kind: int, track: int, rest: bytes = b"") -> _Event:
    event = number(9, kind) + number(11, track) + rest
    return _Event(at_ns, number(8, at_ns) + number(10, _SEQUENCE) + part(11, event))


def _slices(places: Iterable[Place], top: int, shift_ns: int) -> Iterator[_Event]:
    """Beginnings and ends, lane by lane, so that inner slices end before outer ones."""
    lanes: dict[int, list[Place]] = defaultdict(list)
    for place in places:
        lanes[place.tid].append(place)
    for tid, lane in lanes.items():
        waiting: list[Place] = []
        for place in lane:
            while waiting and waiting[-1].end_ns <= place.record.start_ns:
                yield _event(waiting.pop().end_ns + shift_ns, _END, top + tid)
            waiting.append(place)
            yield from _beginning(place, top + tid, shift_ns)
        while waiting:
            yield _event(waiting.pop().end_ns + shift_ns, _END, top + tid)


def _beginning(place: Place, track: int, shift_ns: int) -> Iterator[_Event]:
    record = place.record
    notes = b"".join(_note(4, name, value) for name, value in _notes(record).items())
    yield _event(record.start_ns + shift_ns, _BEGIN, track, _name(record.name) + notes)
    for mark in record.marks:
        at_ns = min(max(mark.at_ns, record.start_ns), place.end_ns)
        value = _note(4, "value", mark.value) if mark.value is not None else b""
        yield _event(at_ns + shift_ns, _INSTANT, track, _name(mark.name) + value)


@lru_cache(maxsize=4096)
def _name(name: str) -> bytes:
    return text(23, name or "?")


def _notes(record: Record) -> dict[str, Value]:
    """The attributes, and what was measured."""
    measured: dict[str, Value] = {
        "span_id": record.span_id,
        "parent_id": record.parent_id,
        "outcome": record.outcome,
        "error_type": record.error_type,
        "thread": record.thread_name,
        "task": record.task,
        "rss_start_bytes": record.rss_start_bytes,
        "rss_end_bytes": record.rss_end_bytes,
        "rss_peak_bytes": record.rss_peak_bytes,
        "cpu_ns": record.cpu_ns,
        "cuda": None
        if record.cuda is None
        else {k: v for k, v in record.cuda._asdict().items() if v is not None},
    }
    return {**record.attrs, "linly": {key: value for key, value in measured.items() if value is not None}}


@lru_cache(maxsize=4096)
def _note_name(name: str) -> bytes:
    return text(10, name)


def _note(field: int, name: str, value: Value) -> bytes:
    """A debug annotation."""
    return part(field, _note_name(name) + _note_value(value))


def _note_value(value: Value) -> bytes:
    if isinstance(value, bool):
        return number(2, value)
    if isinstance(value, int):
        return number(4, value) if -_MAX_INT64 <= value < _MAX_INT64 else text(6, str(value))
    if isinstance(value, float):
        return double(5, value)
    if isinstance(value, dict):
        return b"".join(_note(11, key, item) for key, item in value.items())
    if isinstance(value, list):
        return b"".join(part(12, _note_value(item)) for item in value)
    return text(6, "null" if value is None else value)


def _arrows(
    flows: Iterable[Flow], places: dict[int, Place], top: int, shift_ns: int, pid: int
) -> Iterator[_Event]:
    """An instant at each end: an arrow from slice to slice would leave a long slice at its end."""
    for count, flow in enumerate(flows, start=1):
        source, target = places.get(flow.from_id), places.get(flow.to_id)
        if source is None or target is None:
            continue
        flow_id = pid * _TRACKS + count
        from_ns, to_ns = _within(source, flow.from_ns), _within(target, flow.to_ns)
        from_ns = min(from_ns, max(to_ns, source.record.start_ns))
        yield _event(from_ns + shift_ns, _INSTANT, top + source.tid, _name(flow.name) + fixed64(47, flow_id))
        yield _event(
            max(from_ns, to_ns) + shift_ns,
            _INSTANT,
            top + target.tid,
            _name(flow.name) + fixed64(48, flow_id),
        )


def _within(place: Place, at_ns: int) -> int:
    return min(max(at_ns, place.record.start_ns), place.end_ns)


def _counters(
    samples: Iterable[Sample], top: int, first: int, shift_ns: int
) -> tuple[list[bytes], list[_Event]]:
    """The tracks, and the values."""
    tracks: dict[str, int] = {}
    descriptors: list[bytes] = []
    events: list[_Event] = []
    for sample in samples:
        name = counter_name(sample)
        if name not in tracks:
            # Above the rows' threads and their lanes, in the order of their appearance.
            tracks[name] = rank = _TRACKS // 2 + first + len(tracks)
            descriptors.append(_track(top + rank, top, name, rank, part(8, b"")))
        events.append(_value(sample, top + tracks[name], shift_ns))
    return descriptors, events


def _value(sample: Sample, track: int, shift_ns: int) -> _Event:
    value = number(30, sample.value) if isinstance(sample.value, int) else double(44, sample.value)
    return _event(sample.at_ns + shift_ns, _COUNTER, track, value)
