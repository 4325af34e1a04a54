"""Perfetto's own format, read with Perfetto's own descriptions of its messages."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given, settings
from linly_profiling import Flow, LoadedTrace, Sample, Trace
from linly_profiling.chrome.layout import Place, lay_out
from linly_profiling.perfetto import document
from trace_strategies import traces
from trace_tools import Clock

protos = pytest.importorskip(
    "perfetto.protos.perfetto.trace.perfetto_trace_pb2", reason="perfetto is missing"
)
BEGIN, END, COUNTER = 1, 2, 4  # TrackEvent.Type
some = settings(max_examples=40, deadline=None)


@dataclass
class Slice:
    """A slice as a viewer understands it; times are wall time."""

    track: int
    name: str
    category: str
    start_ns: int
    end_ns: int | None
    parent: Slice | None
    args: dict[str, Any]
    leaves: list[int]
    arrives: list[int]

    @property
    def span_id(self) -> int | None:
        found: int | None = self.args.get("linly", {}).get("span_id")
        return found

    def inside(self, span_id: int) -> bool:
        return self.span_id == span_id or (self.parent is not None and self.parent.inside(span_id))


@dataclass
class Viewed:
    """What a viewer makes of a file: it takes packets in the order of time, and keeps a stack for each track."""

    data: bytes
    tracks: dict[int, Any] = field(default_factory=dict)
    slices: list[Slice] = field(default_factory=list)
    counters: dict[int, list[tuple[int, float]]] = field(default_factory=lambda: defaultdict(list))

    def __post_init__(self) -> None:
        packets = protos.Trace.FromString(self.data).packet
        self._names: dict[str, dict[int, str]] = {}
        self._stacks: dict[int, list[Slice]] = defaultdict(list)
        for packet in packets:
            assert packet.trusted_packet_sequence_id == 1
            if packet.HasField("interned_data"):
                assert packet.sequence_flags == packet.SEQ_INCREMENTAL_STATE_CLEARED
                for texts in ("event_names", "event_categories", "debug_annotation_names"):
                    self._names[texts] = {
                        each.iid: each.name for each in getattr(packet.interned_data, texts)
                    }
            if packet.HasField("track_descriptor"):
                assert packet.track_descriptor.uuid not in self.tracks
                self.tracks[packet.track_descriptor.uuid] = packet.track_descriptor
        events = [packet for packet in packets if packet.HasField("track_event")]
        for packet in sorted(events, key=lambda packet: packet.timestamp):
            assert packet.sequence_flags == packet.SEQ_NEEDS_INCREMENTAL_STATE
            self._take(packet.timestamp, packet.track_event)
        assert not any(self._stacks.values()), "a slice does not end"

    def _take(self, at_ns: int, event: Any) -> None:
        stack = self._stacks[event.track_uuid]
        if event.type == COUNTER:
            whole = event.HasField("counter_value")
            value = event.counter_value if whole else event.double_counter_value
            self.counters[event.track_uuid].append((at_ns, value))
        elif event.type == END:
            stack.pop().end_ns = at_ns
        else:
            assert event.type == BEGIN
            (category,) = event.category_iids
            drawn = Slice(
                event.track_uuid,
                self._names["event_names"][event.name_iid],
                self._names["event_categories"][category],
                at_ns,
                None,
                stack[-1] if stack else None,
                self._dict(event.debug_annotations),
                list(event.flow_ids),
                list(event.terminating_flow_ids),
            )
            self.slices.append(drawn)
            stack.append(drawn)

    def _dict(self, notes: Any) -> dict[str, Any]:
        return {self._names["debug_annotation_names"][note.name_iid]: self._value(note) for note in notes}

    def _value(self, note: Any) -> Any:
        kind = note.WhichOneof("value")
        if kind is not None:
            return getattr(note, kind)
        return (
            self._dict(note.dict_entries)
            if note.dict_entries
            else [self._value(v) for v in note.array_values]
        )

    def of(self, category: str) -> list[Slice]:
        return [drawn for drawn in self.slices if drawn.category == category]

    def spans(self) -> dict[int, Slice]:
        found = {drawn.span_id: drawn for drawn in self.of("linly")}
        assert None not in found
        assert len(found) == len(self.of("linly"))
        return found  # type: ignore[return-value]


def as_written(value: Any) -> Any:
    """What Perfetto's annotations can hold of a value: no null, nothing empty, and no half of a surrogate pair."""
    if isinstance(value, str):
        return "".join("\ufffd" if "\ud800" <= char <= "\udfff" else char for char in value)
    if isinstance(value, dict):
        return {as_written(key) or "?": as_written(item) for key, item in value.items()} or "{}"
    if isinstance(value, list):
        return [as_written(item) for item in value] or "[]"
    return "null" if value is None else value


@some
@given(traces())
def test_every_span_is_a_slice_with_its_name_its_nanoseconds_and_its_arguments(trace: LoadedTrace) -> None:
    drawn = Viewed(document([trace])).spans()
    places = lay_out(trace.spans).places
    assert set(drawn) == set(places)
    for span in trace.spans:
        found = drawn[span.span_id]
        assert found.name == (as_written(span.name) or "?")
        assert found.start_ns == trace.epoch.wall_of(span.start_ns)
        assert found.end_ns == trace.epoch.wall_of(places[span.span_id].end_ns)
        own = found.args.pop("linly")
        assert found.args == as_written(span.attrs) or (found.args, span.attrs) == ({}, {})
        assert own.get("duration_ns", found.end_ns - found.start_ns) == span.duration_ns
        assert own.get("parent_id") == span.parent_id
        assert (own["outcome"], own["thread"]) == (span.outcome, span.thread_name)
        cuda = {} if span.cuda is None else span.cuda._asdict()
        assert own.get("cuda", {}) == {name: value for name, value in cuda.items() if value is not None}


@some
@given(traces())
def test_a_slice_lies_in_its_parents_wherever_that_encloses_it_in_the_same_row(trace: LoadedTrace) -> None:
    drawn = Viewed(document([trace])).spans()
    places = lay_out(trace.spans).places
    for span in trace.spans:
        around = drawn[span.span_id].parent
        assert around is None or around.span_id in ancestors(span.span_id, places)
        parent = places.get(span.parent_id or 0)
        if parent is not None and encloses(parent, places[span.span_id]):
            assert around is drawn[parent.record.span_id]


def ancestors(span_id: int, places: dict[int, Place]) -> list[int]:
    parent_id = places[span_id].record.parent_id
    return [] if parent_id is None else [parent_id, *ancestors(parent_id, places)]


def encloses(outer: Place, inner: Place) -> bool:
    begins_inside = outer.record.start_ns <= inner.record.start_ns
    return outer.tid == inner.tid and begins_inside and inner.end_ns <= outer.end_ns


@some
@given(traces())
def test_marks_and_both_ends_of_arrows_lie_in_their_spans(trace: LoadedTrace) -> None:
    viewed = Viewed(document([trace]))
    marks = [(span, mark) for span in trace.spans for mark in span.marks]
    assert len(viewed.of("linly.mark")) == len(marks)
    places = lay_out(trace.spans).places
    for span, mark in marks:
        at_ns = trace.epoch.wall_of(min(mark.at_ns, places[span.span_id].end_ns))
        same = [
            each
            for each in viewed.of("linly.mark")
            if (each.start_ns, each.name) == (at_ns, as_written(mark.name) or "?")
            and each.args.get("value") == mark.value
        ]
        assert any(each.inside(span.span_id) for each in same)
    tails = {each.leaves[0]: each for each in viewed.of("linly.flow") if each.leaves}
    heads = {each.arrives[0]: each for each in viewed.of("linly.flow") if each.arrives}
    assert len(tails) == len(heads) == len(trace.flows)
    for flow, flow_id in zip(trace.flows, sorted(tails), strict=True):
        assert tails[flow_id].inside(flow.from_id)
        assert heads[flow_id].inside(flow.to_id)
        assert tails[flow_id].start_ns <= heads[flow_id].start_ns or span_begins_after(trace, flow)


def span_begins_after(trace: LoadedTrace, flow: Flow) -> bool:
    """The arrow's source begins when its target has ended."""
    by_id = {span.span_id: span for span in trace.spans}
    return by_id[flow.from_id].start_ns > by_id[flow.to_id].end_ns


@some
@given(traces())
def test_counters_keep_their_values_and_come_to_rest_at_zero(trace: LoadedTrace) -> None:
    viewed = Viewed(document([trace]))
    expected: dict[str, list[tuple[int, float]]] = defaultdict(list)
    for sample in trace.samples:
        name = f"{sample.track} {sample.name}" if sample.track else sample.name
        expected[name].append((trace.epoch.wall_of(sample.at_ns), sample.value))
    assert len(viewed.counters) == len(expected)
    for track, (name, curve) in zip(sorted(viewed.counters), expected.items(), strict=True):
        assert viewed.tracks[track].name == as_written(name)
        *values, rest = viewed.counters[track]
        assert values == curve
        assert rest[0] > curve[-1][0]
        assert rest[1] == 0


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_a_request_is_a_group_with_its_stages_as_rows_in_order_and_counters_below(clock: Clock) -> None:
    trace = Trace('turn "1"\n你好', clock_ns=clock)
    trace.counter("memory.gpu.used", 5, track="cuda:0")
    trace.counter("queue.depth", 1, track="llm")
    for order, row in ((2, "tts"), (1, "llm")):
        with trace.span(f"linly.stage {row}", row=row, order=order):
            clock.tick(5)
    trace.close("cancelled")
    request, *below = Viewed(document([trace.snapshot()])).tracks.values()
    assert request.name == 'request turn "1"\n你好'
    assert request.description == "cancelled"
    assert request.child_ordering == request.EXPLICIT
    assert {track.parent_uuid for track in below} == {request.uuid}
    below.sort(key=lambda track: track.sibling_order_rank)
    assert [track.name for track in below] == [
        "request", "llm", "tts", "cuda:0 memory.gpu.used", "llm queue.depth", "process memory.rss",
    ]  # fmt: skip
    assert [track.HasField("counter") for track in below] == [False] * 3 + [True] * 3
    assert below[3].counter.unit == below[3].counter.UNIT_SIZE_BYTES
    assert below[4].counter.unit == below[4].counter.UNIT_UNSPECIFIED


def test_requests_of_one_name_share_no_track_and_no_arrow(clock: Clock) -> None:
    """Unless told otherwise, viewers merge tracks of one name."""
    both = []
    for _ in range(2):
        trace = Trace("again", clock_ns=clock)
        trace.flow(trace.root, trace.start("work"), "text")
        trace.close()
        both.append(trace.snapshot())
    viewed = Viewed(document(both))
    tracks = list(viewed.tracks.values())
    assert [track.name for track in tracks].count("request again") == 2
    assert {track.sibling_merge_behavior for track in tracks} == {tracks[0].SIBLING_MERGE_BEHAVIOR_NONE}
    assert len({flow_id for each in viewed.slices for flow_id in each.leaves}) == 2


def test_times_are_wall_time_to_the_nanosecond(clock: Clock) -> None:
    trace = Trace("r", clock_ns=clock)
    trace.close()
    packets = protos.Trace.FromString(document([trace.snapshot()])).packet
    (snapshot,) = [packet.clock_snapshot for packet in packets if packet.HasField("clock_snapshot")]
    readings = {reading.clock_id: reading.timestamp for reading in snapshot.clocks}
    assert set(readings) == {1, 6}, "real time, and the clock that times count in by default"
    assert len(set(readings.values())) == 1
    assert not any(packet.HasField("timestamp_clock_id") for packet in packets)


def test_an_arrow_between_rows_in_the_same_nanosecond_starts_before_it_arrives(clock: Clock) -> None:
    """Viewers lose an arrow whose head comes first."""
    trace = Trace("r", clock_ns=clock)
    upper, lower = (trace.start(row, row=row, order=order) for order, row in enumerate(("llm", "tts")))
    clock.tick(5)
    trace.flow(lower, upper, "up", from_ns=clock(), to_ns=clock())
    trace.flow(upper, lower, "down", from_ns=clock(), to_ns=clock())
    trace.close()
    ends = Viewed(document([trace.snapshot()])).of("linly.flow")
    assert [bool(each.leaves) for each in ends] == [True, True, False, False]


def test_an_arrow_to_a_span_that_was_dropped_is_left_out(clock: Clock) -> None:
    trace = Trace("r", clock_ns=clock)
    trace.close()
    snapshot = replace(trace.snapshot(), flows=(Flow("text", 1, 0, 99, 0), Flow("text", 99, 0, 1, 0)))
    assert Viewed(document([snapshot])).of("linly.flow") == []


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_a_counter_that_is_no_number_is_left_out(clock: Clock, value: float) -> None:
    """Perfetto counts for ever when one is not finite."""
    trace = Trace("r", clock_ns=clock)
    trace.close()
    samples = (Sample("depth", "", clock(), value), Sample("depth", "", clock(), 3))
    (curve,) = Viewed(document([replace(trace.snapshot(), samples=samples)])).counters.values()
    assert [each for _, each in curve] == [3, 0]


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (True, True), (1, 1), (1.0, 1.0), (-0.0, -0.0), (0.0, 0.0), (2**63 - 1, 2**63 - 1), (-(2**63), -(2**63)),
        (None, "null"), ([], "[]"), ({}, "{}"), ("", ""), ([{"a": [1, None]}], [{"a": [1, "null"]}]),
    ],
)  # fmt: skip
def test_values_keep_their_type(clock: Clock, value: Any, written: Any) -> None:
    """Equal values of several types in one file are not taken for each other."""
    trace = Trace("r", clock_ns=clock)
    trace.start("before", x=[True, 1, 1.0, 0.0, -0.0], a=True, b=1, c=1.0, d=0.0, e=-0.0).end()
    trace.start("work", x=value).end()
    trace.close()
    (found,) = [each for each in Viewed(document([trace.snapshot()])).slices if each.name == "work"]
    assert repr(found.args["x"]) == repr(written)


def test_an_attribute_called_linly_stands_beside_what_was_measured(clock: Clock) -> None:
    trace = Trace("r", clock_ns=clock)
    trace.start("work", linly="mine").end()
    trace.close()
    packets = protos.Trace.FromString(document([trace.snapshot()])).packet
    notes = [note for packet in packets for note in packet.track_event.debug_annotations if note.string_value]
    assert [note.string_value for note in notes] == ["mine"]


def test_a_file_without_requests_is_a_trace() -> None:
    assert Viewed(document([])).slices == []


@some
@given(traces(), traces())
def test_requests_look_alike_alone_and_in_company(one: LoadedTrace, other: LoadedTrace) -> None:
    """They share their texts, which stand once in the file."""
    together = Viewed(document([one, other])).slices
    alone = [*Viewed(document([one])).slices, *Viewed(document([other])).slices]
    assert looks(together) == looks(alone)


def looks(slices: list[Slice]) -> list[str]:
    return sorted(repr((each.name, each.category, each.start_ns, each.end_ns, each.args)) for each in slices)
