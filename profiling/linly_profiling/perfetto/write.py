"""The whole of a file: clocks, names, tracks, and what happens on them.

Messages: clock_snapshot.proto, interned_data/interned_data.proto and
track_event/{track_descriptor,process_descriptor,counter_descriptor}.proto.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from linly_profiling.chrome.events import counter_name
from linly_profiling.chrome.layout import Place, lay_out
from linly_profiling.perfetto.notes import Interned, Notes
from linly_profiling.perfetto.packets import NAMES_BEGIN, Event, description, packets
from linly_profiling.perfetto.slices import CATEGORIES, Lane, instants
from linly_profiling.protobuf import double, number, part, text
from linly_profiling.record import LoadedTrace, Sample

_COUNTER = number(9, 4)  # TrackEvent.Type
_EXPLICIT_ORDER = 3  # TrackDescriptor.ChildTracksOrdering
_UNMERGED = number(15, 2)  # TrackDescriptor.SiblingMergeBehavior: tracks of one name stay apart
_REALTIME, _BOOTTIME = 1, 6  # built-in clocks; the second is what times count in by default
_SIZE_BYTES = 3  # CounterDescriptor.Unit
_MAX_INT64 = 2**63
_NUMBERS = 2**20  # of tracks and of arrows, for one request
_FIRST_COUNTER = _NUMBERS // 2  # rows come before


def document(traces: Sequence[LoadedTrace]) -> bytes:
    """The bytes of a `.pftrace` file. Times are wall time: traces of several machines lie beside each other."""
    names, notes = Interned(10), Notes()
    requests = [
        data
        for place, trace in enumerate(traces, start=1)
        for data in _request(trace, place * _NUMBERS, names, notes)
    ]
    return b"".join((_clocks(traces), _texts(names, notes), *requests))


def _clocks(traces: Iterable[LoadedTrace]) -> bytes:
    now_ns = min((trace.epoch.wall_ns for trace in traces), default=0)
    return description(
        part(6, b"".join(part(1, number(1, clock) + number(2, now_ns)) for clock in (_BOOTTIME, _REALTIME)))
    )


def _texts(names: Interned, notes: Notes) -> bytes:
    texts = CATEGORIES.definitions(1) + names.definitions(2) + notes.names.definitions(3)
    return description(part(12, texts) + NAMES_BEGIN)


def _request(trace: LoadedTrace, first: int, names: Interned, notes: Notes) -> Iterator[bytes | bytearray]:
    """A track, with one below it for each lane and each counter, and all that happens on them.

    Tracks and arrows are numbered from `first`.
    """
    layout, counters = lay_out(trace.spans), _counters(trace)
    yield _request_track(trace, first)
    for row in layout.rows:
        yield _track(first, row.tid, row.name)
    for rank, (name, samples) in enumerate(counters.items(), start=_FIRST_COUNTER):
        yield _track(first, rank, name, part(8, _unit(samples[0])))
    events = _slices(trace, layout.places, first, names, notes)
    for rank, samples in enumerate(counters.values(), start=_FIRST_COUNTER):
        events += _curve(samples, first + rank)
    yield packets(events, trace.epoch.wall_ns - trace.epoch.clock_ns)


def _request_track(trace: LoadedTrace, first: int) -> bytes:
    """No process: viewers sort the rows of a process by name."""
    said = trace.outcome if not trace.dropped else f"{trace.outcome}, {trace.dropped} dropped"
    own = number(1, first) + text(2, f"request {trace.request_id}") + text(14, said)
    return description(part(60, own + number(11, _EXPLICIT_ORDER) + _UNMERGED))


def _track(first: int, rank: int, name: str, kind: bytes = b"") -> bytes:
    own = number(1, first + rank) + text(2, name) + number(5, first) + number(12, rank)
    return description(part(60, own + _UNMERGED + kind))


def _slices(
    trace: LoadedTrace, places: Mapping[int, Place], first: int, names: Interned, notes: Notes
) -> list[Event]:
    lanes: dict[int, list[Place]] = defaultdict(list)
    for place in places.values():
        lanes[place.tid].append(place)
    within = instants(places, trace.flows, first, names, notes)
    events: list[Event] = []
    for tid, lane in lanes.items():
        events += Lane(first + tid, places, within).events(lane, names, notes)
    return events


def _counters(trace: LoadedTrace) -> dict[str, list[Sample]]:
    """By name, in the order of their appearance."""
    found: dict[str, list[Sample]] = defaultdict(list)
    for sample in trace.samples:
        if math.isfinite(sample.value):  # Perfetto counts for ever when one is not
            found[counter_name(sample)].append(sample)
    end_ns = max((record.end_ns for record in trace.spans), default=0)
    for samples in found.values():
        # Viewers draw the last value to the end of the file: bring it to 0 when the request is over.
        samples.append(samples[-1]._replace(value=0, at_ns=max(end_ns, samples[-1].at_ns + 1)))
    return found


def _unit(sample: Sample) -> bytes:
    in_bytes = sample.name.endswith("bytes") or sample.name.startswith("memory.")
    return number(3, _SIZE_BYTES) if in_bytes else b""


def _curve(samples: Iterable[Sample], track: int) -> Iterator[Event]:
    head = _COUNTER + number(11, track)
    for sample in samples:
        value = sample.value
        whole = isinstance(value, int) and -_MAX_INT64 <= value < _MAX_INT64
        yield 2 * sample.at_ns, head + (number(30, int(value)) if whole else double(44, value))
