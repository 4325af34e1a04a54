"""Chrome traces: what viewers need, and nothing lost on the way back."""

from __future__ import annotations

import gzip
import json
import os
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from linly_profiling import CudaUse, LoadedTrace, Span, Trace, TraceFileError, load, save
from trace_tools import MS, Clock, events, nested_as_a_viewer_does, to_ns

HOSTILE = [
    'q"1',
    "a\nb",
    "\x00\x1b[31m\x7f",
    "back\\slash",
    "你好😀",
    "\ud800",
    "\ud83d\ude00",
    "",
    " ",
    "x" * 999,
]


def busy_trace(clock: Clock, request_id: str = "r1") -> Trace:
    """Two stages beside each other, a span inside one, two at once inside the other, marks, arrows, counters."""
    trace = Trace(request_id, clock_ns=clock)
    llm = trace.start("linly.stage llm", row="llm", order=1)
    tts = trace.start("linly.stage tts", row="tts", order=2)
    clock.tick(1_501)
    decode = trace.start("llm.decode", parent=llm, tokens=3, ratio=0.1, tags=["a", None, {"b": 1}])
    decode.mark("token")
    clock.tick(1)
    decode.mark("kv_bytes", 2**40)
    trace.counter("queue.depth", 2, track="llm")
    first = trace.start("tts.speak", parent=tts)
    clock.tick(1)
    second = trace.start("tts.speak", parent=tts)
    trace.flow(decode, first, "sentence")
    decode.end()
    clock.tick(7)
    first.end()
    clock.tick(7)
    second.end("cancelled")
    llm.end(error=ValueError())
    return trace


@pytest.mark.parametrize("name", ["t.json", "t.json.gz", "你好 trace's.json"])
def test_a_trace_comes_back_as_it_was(tmp_path: Path, name: str) -> None:
    trace = busy_trace(Clock())
    trace.close("cancelled")
    path = trace.save(tmp_path / name)
    assert load(path) == [trace.snapshot()]
    (loaded,) = load(path)
    assert loaded.records() == trace.records()
    assert (loaded.outcome, loaded.dropped, loaded.epoch, len(loaded)) == (
        "cancelled",
        0,
        trace.epoch,
        len(trace),
    )


def test_an_open_trace_can_be_saved(tmp_path: Path) -> None:
    clock = Clock()
    (loaded,) = load(busy_trace(clock).save(tmp_path / "t.json"))
    assert loaded.outcome == "open"
    assert {r.outcome for r in loaded.spans} == {"open", "ok", "error", "cancelled"}
    assert loaded.spans[0].end_ns == clock.now_ns


def test_measurements_come_back_and_null_stays_null(tmp_path: Path) -> None:
    with Trace("r") as trace, trace.span("s", exact=True):
        pass
    snapshot = trace.snapshot()
    full = snapshot.spans[1]._replace(cuda=CudaUse(1, 2, -3, None, 5), cpu_ns=7, task="t")
    empty = full._replace(span_id=9, cuda=None, cpu_ns=None, task=None)
    empty = empty._replace(rss_start_bytes=None, rss_end_bytes=None, rss_peak_bytes=None)
    spans = (snapshot.spans[0], full, empty)
    path = save(tmp_path / "t.json", [LoadedTrace("r", "ok", 0, snapshot.epoch, spans)])
    assert load(path)[0].spans == spans


def test_real_time_comes_back_to_the_nanosecond(tmp_path: Path) -> None:
    with Trace("r") as trace:
        for _ in range(100):
            with trace.span("s") as span:
                span.mark("m")
    assert load(trace.save(tmp_path / "t.json")) == [trace.snapshot()]


_text = st.text(st.characters(exclude_categories=[]), max_size=8) | st.sampled_from(HOSTILE)
_values = st.none() | st.booleans() | st.integers() | st.floats() | _text
_keys = _text | st.sampled_from(["linly", "exact", "row"])
_attrs = st.dictionaries(_keys, _values | st.lists(_values, max_size=3), max_size=4)
_spans = st.lists(st.tuples(_text, _attrs, _text, _text), max_size=5)


@settings(deadline=None)
@given(_text, _spans)
def test_any_text_is_valid_json_and_comes_back(
    request_id: str, spans: list[tuple[str, Any, str, str]]
) -> None:
    trace = Trace(request_id)
    for name, attrs, mark, counter in spans:
        with trace.span(name) as span:
            span.set(**attrs)
            span.mark(mark)
            span.mark(mark, 3)
            trace.counter(counter, 1.5, track=mark)
            trace.flow(trace.root, span, counter)
    trace.close()
    with tempfile.TemporaryDirectory() as folder:
        path = trace.save(Path(folder) / "t.json")
        assert load(path) == [trace.snapshot()]
        _must_suit_viewers(path.read_text("utf-8"))


def _must_suit_viewers(text: str) -> None:
    def no_constant(name: str) -> None:
        raise AssertionError(f"{name} is no JSON")

    json.loads(text, parse_constant=no_constant)
    assert "\\" not in text.replace('\\"', "")
    assert not [char for char in text if char != "\n" and (char == "\x7f" or ord(char) < 0x20)]


def test_viewers_nest_the_spans_as_they_were(tmp_path: Path) -> None:
    trace = busy_trace(Clock())
    trace.close()
    slices = [event for event in events(trace.save(tmp_path / "t.json")) if event["ph"] == "X"]
    assert nested_as_a_viewer_does(slices) == {1: None, 2: None, 3: None, 4: 2, 5: 3, 6: None}


def test_each_request_is_a_process_and_each_stage_a_named_row(tmp_path: Path) -> None:
    traces = [busy_trace(Clock(), "one"), busy_trace(Clock(), "two\n")]
    found = events(save(tmp_path / "t.json", traces))
    names = {(e["pid"], e["tid"]): e["args"]["name"] for e in found if e["name"] == "thread_name"}
    processes = [(e["pid"], e["args"]["name"]) for e in found if e["name"] == "process_name"]
    assert processes == [(2**30, "request one"), (2**30 + 1, "request two␊")]
    assert [names[2**30, tid] for tid in range(1, 5)] == ["request", "llm", "tts", "tts (2)"]
    assert len(names) == 8
    assert [trace.request_id for trace in load(tmp_path / "t.json")] == ["one", "two\n"]


def test_times_have_three_decimals_and_touching_slices_touch(tmp_path: Path) -> None:
    clock = Clock(999)
    trace = Trace("r", clock_ns=clock)
    for _ in range(3):
        with trace.span("s", row="x"):
            clock.tick(1)
    text = trace.save(tmp_path / "t.json").read_text("utf-8")
    slices = [line for line in text.splitlines() if '"name":"s"' in line]
    starts = [line.partition('"ts":')[2].partition(",")[0] for line in slices]
    assert ['"dur":0.001,' in line for line in slices] == [True] * 3
    assert [int(s.replace(".", "")) - int(starts[0].replace(".", "")) for s in starts] == [0, 1, 2]
    assert all(len(s.partition(".")[2]) == 3 for s in starts)


def test_base_time_and_ts_give_wall_time(tmp_path: Path) -> None:
    trace = Trace("r")
    path = trace.save(tmp_path / "t.json")
    base_ns = json.loads(path.read_text("utf-8"))["baseTimeNanoseconds"]
    (root,) = [event for event in events(path) if event["ph"] == "X"]
    assert base_ns % (7_889_238 * 10**9) == 0
    assert base_ns + round(root["ts"] * 1000) == pytest.approx(
        trace.epoch.wall_of(trace.root.start_ns), abs=1000
    )


def test_events_are_in_the_order_of_time_with_parents_first(tmp_path: Path) -> None:
    trace = busy_trace(Clock())
    timed = [event for event in events(trace.save(tmp_path / "t.json")) if event["ph"] != "M"]
    assert [e["ts"] for e in timed] == sorted(e["ts"] for e in timed)
    assert [e["name"] for e in timed[:3]] == ["linly.request", "linly.stage llm", "linly.stage tts"]


def test_a_child_that_ends_with_its_parent_but_for_jitter_is_drawn_inside(tmp_path: Path) -> None:
    clock = Clock()
    trace = Trace("r", clock_ns=clock)
    parent, late = trace.start("parent", row="x"), trace.start("late")
    child, straggler = trace.start("child", parent=parent), trace.start("straggler", parent=parent)
    clock.tick()
    parent.end()
    clock.tick(300)
    child.end()
    clock.tick()
    straggler.end()
    late.end()
    slices = [event for event in events(trace.save(tmp_path / "t.json")) if event["ph"] == "X"]
    drawn = {event["name"]: event for event in slices}
    assert nested_as_a_viewer_does(slices)[child.span_id] == parent.span_id
    assert drawn["child"]["dur"] == drawn["parent"]["dur"] == 1000
    assert drawn["straggler"]["dur"] == 2000.3
    assert drawn["child"]["args"]["linly"]["end_ns"] == child.end_ns


def test_many_spans_at_once_get_lanes_of_their_own(tmp_path: Path) -> None:
    clock = Clock()
    trace = Trace("r", clock_ns=clock)
    spans = [trace.start("s", row="tts") for _ in range(40)]
    clock.tick()
    for span in spans:
        span.end()
    with trace.span("s", row="tts"):
        clock.tick()
    slices = [e for e in events(trace.save(tmp_path / "t.json")) if e["name"] == "s"]
    assert sorted(e["tid"] for e in slices[:40]) == list(range(2, 42))
    assert slices[40]["tid"] == 2


def test_arrows_lie_inside_their_slices_and_never_point_back(tmp_path: Path) -> None:
    clock = Clock()
    trace = Trace("r", clock_ns=clock)
    spans: list[Span] = []
    for _ in range(4):
        spans.append(trace.start("s", row=f"row {len(spans)}"))
        clock.tick(10)
    for span in reversed(spans[1:]):
        span.end()
        clock.tick(10)
    for source in spans:
        for target in spans:
            trace.flow(source, target)
            trace.flow(source, target, from_ns=0, to_ns=clock.now_ns + MS)
    trace.close()
    found = events(trace.save(tmp_path / "t.json"))
    slices = {e["tid"]: e for e in found if e["ph"] == "X" and e["name"] == "s"}
    begins, ends = ({e["id"]: e for e in found if e["ph"] == ph} for ph in "sf")
    assert len(begins) == len(ends) == 32
    for number, begin in begins.items():
        for end in (begin, ends[number]):
            own = slices[end["tid"]]
            start_ns = to_ns(own["ts"])
            assert start_ns <= to_ns(end["ts"]) < start_ns + to_ns(own["dur"])
        assert to_ns(begin["ts"]) <= to_ns(ends[number]["ts"])
        assert ends[number]["bp"] == "e"
    assert load(tmp_path / "t.json") == [trace.snapshot()]


def test_arrows_to_dropped_spans_are_not_drawn_but_kept(tmp_path: Path) -> None:
    trace = Trace("r", max_records=3)
    gone = trace.start("gone")
    trace.flow(gone, trace.root)
    gone.end()
    for _ in range(5):
        trace.start("s").end()
    trace.close()
    path = trace.save(tmp_path / "t.json")
    assert not [event for event in events(path) if event["ph"] in "sf"]
    assert load(path) == [trace.snapshot()]


def test_counters_fall_to_zero_at_the_end(tmp_path: Path) -> None:
    clock = Clock()
    trace = Trace("r", clock_ns=clock)
    trace.counter("queue.depth", 5, track="llm")
    clock.tick()
    trace.close()
    path = trace.save(tmp_path / "t.json")
    samples = [e for e in events(path) if e["name"] == "llm queue.depth"]
    assert [e["args"][""] for e in samples] == [5, 0]
    assert samples[1]["ts"] - samples[0]["ts"] == pytest.approx(1000)
    assert [s.value for s in load(path)[0].samples if s.name == "queue.depth"] == [5]


def test_spans_whose_parents_were_dropped_are_still_drawn(tmp_path: Path) -> None:
    trace = Trace("r", max_records=5)
    parent = trace.start("parent", row="x")
    child = trace.start("child", parent=parent)
    parent.end()
    for _ in range(10):
        trace.start("s").end()
    child.end()
    trace.close()
    path = trace.save(tmp_path / "t.json")
    assert load(path) == [trace.snapshot()]
    assert "dropped" in next(e["args"]["labels"] for e in events(path) if e["name"] == "process_labels")


def test_an_empty_file_of_no_traces_is_fine(tmp_path: Path) -> None:
    assert load(save(tmp_path / "t.json", [])) == []


def test_compressed_files_are_the_same_for_the_same_trace(tmp_path: Path) -> None:
    trace = busy_trace(Clock())
    trace.close()
    one, other = trace.save(tmp_path / "a.json.gz"), trace.save(tmp_path / "b.json.gz")
    assert one.read_bytes() == other.read_bytes()
    assert gzip.decompress(one.read_bytes()) == trace.save(tmp_path / "c.json").read_bytes()


def test_a_failed_save_keeps_the_old_file_and_leaves_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = Trace("old").save(tmp_path / "t.json")

    def full(self: Path, target: Path) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="No space"):
        Trace("new").save(path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["t.json"]
    assert load(path)[0].request_id == "old"


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no such folder.*nowhere"):
        Trace("r").save(tmp_path / "nowhere" / "t.json")


def _saved(tmp_path: Path, name: str = "t.json") -> bytes:
    trace = busy_trace(Clock())
    trace.close()
    return trace.save(tmp_path / name).read_bytes()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "not JSON"),
        (b"RIFF\x00\xff\xfe", "not UTF-8"),
        (b"[]", "not written by linly_profiling"),
        (b'{"traceEvents":[]}', "not written by linly_profiling"),
        (b'{"linly":{"version":99,"traces":[]},"traceEvents":[]}', "version 99"),
        (b'{"linly":{"version":1},"traceEvents":[]}', "damaged: KeyError"),
        (b'{"linly":{"version":1,"traces":[{"pid":1}]},"traceEvents":[]}', "damaged"),
        (b'{"linly":{"version":1,"traces":[7]},"traceEvents":[]}', "damaged"),
        (b'{"linly":{"version":1,"traces":[]},"traceEvents":[7]}', "damaged"),
        (b"[" * 100_000, "not JSON"),
        (b"\x1f\x8b\x08broken", "damaged"),
    ],
)
def test_a_foreign_or_broken_file_is_named_with_the_reason(
    tmp_path: Path, content: bytes, reason: str
) -> None:
    path = tmp_path / "strange.json"
    path.write_bytes(content)
    with pytest.raises(TraceFileError, match=f"strange.json.*{reason}"):
        load(path)


@pytest.mark.parametrize("name", ["t.json", "t.json.gz"])
def test_a_file_cut_anywhere_is_named_with_the_reason(tmp_path: Path, name: str) -> None:
    whole = _saved(tmp_path, name)
    for size in range(1, len(whole) - 2, max(1, len(whole) // 50)):
        (tmp_path / name).write_bytes(whole[:size])
        with pytest.raises(TraceFileError, match=name):
            load(tmp_path / name)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"span_id":4', '"span_id":"4"'),
        ('"span_id":4', '"id":4'),
        ('"outcome":"error"', '"outcome":null'),
        ('"at_ns":', '"at":'),
        ('"linly":{"name":"queue.depth"', '"linly":{"name":"queue.depth","exact":"%7B"'),
        ('"epoch":[', '"epoch":[1,'),
        ('"flows":[[', '"flows":[["a",'),
    ],
)
def test_a_damaged_entry_is_named_with_the_reason(tmp_path: Path, old: str, new: str) -> None:
    text = _saved(tmp_path).decode("utf-8")
    assert old in text
    (tmp_path / "t.json").write_text(text.replace(old, new), "utf-8")
    with pytest.raises(TraceFileError, match=r"t\.json: damaged"):
        load(tmp_path / "t.json")


def test_a_missing_file_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "none.json")


@pytest.mark.skipif(os.name != "posix", reason="modes are POSIX")
def test_the_file_has_the_usual_mode(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.write_text("")
    assert Trace("r").save(tmp_path / "t.json").stat().st_mode == plain.stat().st_mode
