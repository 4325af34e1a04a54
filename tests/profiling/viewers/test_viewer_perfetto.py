"""Perfetto's own trace processor, asked in SQL, sees in our files what happened."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from linly_profiling import Span, Trace, save
from trace_tools import MS, Clock, events, in_event_loop
from viewer_slices import Loaded
from viewer_traces import ROWS, answers

if TYPE_CHECKING:
    from viewer_node import NodeViewers

FIRST_PID = 2**30


@pytest.fixture(params=["t.json", "t.json.gz"])
def three(request: pytest.FixtureRequest, viewers: NodeViewers, tmp_path: Path) -> Loaded:
    """Three requests at once, in one file."""
    return Loaded(viewers, save(tmp_path / request.param, answers(3)))


def test_every_request_is_a_process_of_its_own_with_a_row_for_each_stage(three: Loaded) -> None:
    processes = {drawn.pid: drawn.process for drawn in three.everything}
    assert processes == {FIRST_PID + i: f"request turn {i + 1}" for i in range(3)}
    for pid in processes:
        assert three.rows(pid) == ["request", *ROWS]


def test_no_slice_is_missing(three: Loaded) -> None:
    assert Counter(drawn.name for drawn in three.spans) == {
        "linly.request": 3,
        **{f"linly.stage {row}": 3 for row in ROWS},
        "linly.queue.wait": 2,
        "whisper.transcribe": 3,
        "llm.generate": 3,
        **dict.fromkeys(("tts.synthesise", "tts.mel", "tts.vocoder", "face.render", "mp4.write"), 9),
    }
    assert Counter(drawn.name for drawn in three.marks) == {"token": 90, "frame": 180}


def test_every_slice_lies_in_its_parent(three: Loaded) -> None:
    parents = Counter((drawn.name, three.parent_name(drawn)) for drawn in three.everything)
    inside = {
        name: parent for name, parent in parents if not name.startswith(("linly.request", "linly.stage"))
    }
    assert inside == {
        "linly.queue.wait": "linly.stage asr",
        "whisper.transcribe": "linly.stage asr",
        "llm.generate": "linly.stage llm",
        "token": "llm.generate",
        "tts.synthesise": "linly.stage tts",
        "tts.mel": "tts.synthesise",
        "tts.vocoder": "tts.synthesise",
        "face.render": "linly.stage face",
        "frame": "face.render",
        "mp4.write": "linly.stage sink",
    }
    assert len(parents) == len(inside) + 1 + len(ROWS)


def test_arrows_lead_from_text_to_sound_to_frames_to_the_file(three: Loaded) -> None:
    names = [({s.name for s in source}, {t.name for t in target}) for source, target in three.arrows]
    for here, there in (
        ("llm.generate", "tts.synthesise"),
        ("tts.synthesise", "face.render"),
        ("face.render", "mp4.write"),
    ):
        assert sum(here in sources and there in targets for sources, targets in names) == 9
    assert len(names) == 27


def test_arrows_stay_in_their_request(three: Loaded) -> None:
    assert all(source[0].pid == target[0].pid for source, target in three.arrows)


def test_counters_belong_to_their_request_and_come_to_rest_at_zero(three: Loaded) -> None:
    samples = three.query(
        "SELECT pid, process_counter_track.name, value FROM counter "
        "JOIN process_counter_track ON process_counter_track.id = track_id JOIN process USING (upid) ORDER BY ts"
    )
    for pid in range(FIRST_PID, FIRST_PID + 3):
        curves: dict[str, list[float]] = {}
        for _, name, value in (sample for sample in samples if sample[0] == pid):
            curves.setdefault(str(name).removesuffix("value").strip(), []).append(float(str(value)))
        assert curves.pop("process memory.rss")[-1] == 0
        assert curves.pop("tts queue.depth") == [1, 0, 1, 0, 1, 0, 0]
        assert curves.pop("llm kv_cache.bytes") == [(412 + token) * 2**17 for token in range(1, 31)] + [0]
        assert list(curves) == ["cuda:0 memory.gpu.allocated"]


def test_times_are_exact_to_the_nanosecond(viewers: NodeViewers, tmp_path: Path) -> None:
    clock = Clock(123_456_789_987_654_321)
    trace = Trace("r", clock_ns=clock)
    for length_ns in range(50):
        with trace.span("s", row="x"):
            clock.tick(length_ns)
    trace.close()
    path = trace.save(tmp_path / "t.json")
    base_ns = json.loads(path.read_text("utf-8"))["baseTimeNanoseconds"]
    spans = {drawn.span_id: drawn for drawn in Loaded(viewers, path).spans}
    for record in trace.records():
        drawn = spans.pop(record.span_id)
        assert base_ns + drawn.start_ns == trace.epoch.wall_of(record.start_ns)
        assert drawn.dur_ns == record.duration_ns
    assert not spans


def test_attributes_and_measurements_can_be_queried(three: Loaded) -> None:
    found = three.query(
        "SELECT DISTINCT extract_arg(arg_set_id, 'args.prompt_tokens'), "
        "extract_arg(arg_set_id, 'args.linly.outcome') FROM slice WHERE name = 'llm.generate'"
    )
    assert found == [(412, "ok")]


@pytest.mark.parametrize("outcome", ["cancelled", "error"])
def test_a_request_that_was_broken_off_ends_there(viewers: NodeViewers, tmp_path: Path, outcome: str) -> None:
    clock = Clock()
    trace = Trace("r", clock_ns=clock)
    stage = trace.start("linly.stage llm", row="llm")
    clock.tick()
    trace.start("llm.generate", stage).mark("token")
    clock.tick()
    trace.close(outcome)
    clock.tick(1000 * MS)
    loaded = Loaded(viewers, trace.save(tmp_path / "t.json"))
    assert [(drawn.name, drawn.dur_ns) for drawn in loaded.spans] == [
        ("linly.request", 2 * MS),
        ("linly.stage llm", 2 * MS),
        ("llm.generate", MS),
    ]
    outcomes = loaded.query(
        "SELECT DISTINCT extract_arg(arg_set_id, 'args.linly.outcome') FROM slice WHERE category = 'linly'"
    )
    assert outcomes == [(outcome,)]


def test_an_open_request_is_drawn_until_now(viewers: NodeViewers, tmp_path: Path) -> None:
    clock = Clock()
    trace = Trace("r", clock_ns=clock)
    trace.start("linly.stage llm", row="llm")
    clock.tick()
    loaded = Loaded(viewers, trace.save(tmp_path / "t.json"))
    assert [drawn.dur_ns for drawn in loaded.spans] == [MS, MS]


@in_event_loop
async def test_streams_of_several_tasks_at_once(viewers: NodeViewers, tmp_path: Path) -> None:
    """Real time, real tasks: each reads the stream of the one before, and the last one stops early."""

    async def tokens(count: int) -> AsyncIterator[int]:
        for number in range(count):
            await asyncio.sleep(0)
            yield number

    async def request(trace: Trace, count: int) -> None:
        with trace, trace.span("linly.stage llm", row="llm") as stage:
            stream = trace.iterate("llm.generate", tokens(count))
            async for number in stream:
                with trace.span("tts.synthesise", row="tts"):
                    await asyncio.sleep(0)
                if number == 5:
                    break
            await stream.aclose()
            assert stage.end_ns is None

    traces = [Trace(f"r{count}") for count in (3, 4, 100)]
    async with asyncio.TaskGroup() as group:
        for trace, count in zip(traces, (3, 4, 100), strict=True):
            group.create_task(request(trace, count))
    loaded = Loaded(viewers, await asyncio.to_thread(save, tmp_path / "t.json", traces))
    seen = Counter(
        (drawn.pid - FIRST_PID, drawn.name, loaded.parent_name(drawn)) for drawn in loaded.everything
    )
    for number, items in enumerate((3, 4, 6)):
        assert seen[number, "llm.generate", "linly.stage llm"] == 1
        assert seen[number, "item", "llm.generate"] == items
        assert seen[number, "tts.synthesise", None] == items
    outcomes = loaded.query(
        "SELECT extract_arg(arg_set_id, 'args.linly.outcome') FROM slice WHERE name = 'llm.generate' ORDER BY ts"
    )
    assert sorted(str(outcome) for (outcome,) in outcomes) == ["cancelled", "ok", "ok"]


def test_a_deep_tree_keeps_its_depth(viewers: NodeViewers, tmp_path: Path) -> None:
    clock = Clock()
    trace = Trace("r", clock_ns=clock)
    chain = [trace.root]
    for _ in range(300):
        clock.tick(1)
        chain.append(trace.start("s", chain[-1]))
    for span in reversed(chain):
        clock.tick(1)
        span.end()
    loaded = Loaded(viewers, trace.save(tmp_path / "t.json"))
    assert loaded.query("SELECT max(depth) FROM slice") == [(300,)]
    assert _tree(loaded) == {span.span_id: span.span_id - 1 or None for span in chain}


def test_slices_of_the_same_instant_and_without_length_nest_as_they_were_made(
    viewers: NodeViewers, tmp_path: Path
) -> None:
    clock = Clock()
    trace = Trace("r", clock_ns=clock)
    chain = [trace.root]
    for _ in range(20):
        chain.append(trace.start("s", chain[-1]))
    for span in reversed(chain):
        span.end()
    loaded = Loaded(viewers, trace.save(tmp_path / "t.json"))
    assert {drawn.dur_ns for drawn in loaded.spans} == {0}
    assert _tree(loaded) == {span.span_id: span.span_id - 1 or None for span in chain}


def test_one_span_after_the_other_without_a_gap_does_not_nest(viewers: NodeViewers, tmp_path: Path) -> None:
    clock = Clock()
    trace = Trace("r", clock_ns=clock)
    spans = []
    for length_ns in (0, 1, 5, 0, 0, 1):
        spans.append(trace.start("s"))
        clock.tick(length_ns)
        spans[-1].end()
    trace.close()
    tree = _tree(Loaded(viewers, trace.save(tmp_path / "t.json")))
    assert len(tree) == 7
    assert {tree[span.span_id] for span in spans} <= {trace.root.span_id, None}


def test_siblings_that_overlap_get_a_lane_each(viewers: NodeViewers, tmp_path: Path) -> None:
    clock = Clock()
    trace = Trace("r", clock_ns=clock)
    stage = trace.start("linly.stage tts", row="tts")
    spans = []
    for _ in range(5):
        clock.tick(10)
        spans.append(trace.start("tts.synthesise", stage))
    for span in spans:
        clock.tick(10)
        inner = trace.start("tts.vocoder", span)
        clock.tick(1)
        inner.end()
        span.end()
    stage.end()
    trace.close()
    loaded = Loaded(viewers, trace.save(tmp_path / "t.json"))
    assert len(loaded.spans) == 12
    assert loaded.rows(FIRST_PID) == ["request", "tts", *(f"tts ({lane})" for lane in range(2, 6))]
    parents = [loaded.parent(drawn) for drawn in loaded.spans if drawn.name == "tts.vocoder"]
    assert [parent and parent.span_id for parent in parents] == [span.span_id for span in spans]


def test_ends_that_two_threads_read_in_the_wrong_order_lose_nothing(
    viewers: NodeViewers, tmp_path: Path
) -> None:
    clock = Clock()
    trace = Trace("r", clock_ns=clock)
    pairs: list[tuple[Span, Span]] = []
    for late_ns in (1, 2, 999, 1000):
        parent = trace.start("parent", row="x")
        clock.tick(5_000)
        child = trace.start("child", parent)
        clock.tick(5_000)
        parent.end()
        clock.tick(late_ns)
        child.end()
        clock.tick(5_000)
        pairs.append((parent, child))
    trace.close()
    tree = _tree(Loaded(viewers, trace.save(tmp_path / "t.json")))
    assert [tree[child.span_id] for _, child in pairs] == [parent.span_id for parent, _ in pairs]


def test_an_arrow_from_the_end_of_a_slice_does_not_begin_in_the_next(
    viewers: NodeViewers, tmp_path: Path
) -> None:
    clock = Clock()
    trace = Trace("r", clock_ns=clock)
    first = trace.start("first", row="llm")
    clock.tick()
    first.end()
    second = trace.start("second", row="llm")
    target = trace.start("target", row="tts")
    trace.flow(first, target)
    clock.tick()
    trace.close()
    loaded = Loaded(viewers, trace.save(tmp_path / "t.json"))
    assert [(source[0].span_id, end[0].span_id) for source, end in loaded.arrows] == [
        (first.span_id, target.span_id)
    ]
    assert second.start_ns == first.end_ns


def test_an_arrow_to_a_stage_that_began_before_its_source_points_forward(
    viewers: NodeViewers, tmp_path: Path
) -> None:
    clock = Clock()
    trace = Trace("r", clock_ns=clock)
    motion = trace.start("linly.stage motion", row="motion")
    clock.tick()
    speech = trace.start("tts.synthesise", row="tts")
    clock.tick()
    speech.end()
    trace.flow(speech, motion, "speech", to_ns=clock.now_ns)
    clock.tick()
    trace.close()
    loaded = Loaded(viewers, trace.save(tmp_path / "t.json"))
    assert [(source[0].row, target[0].row) for source, target in loaded.arrows] == [("tts", "motion")]


def test_a_mark_at_the_last_instant_lies_in_its_span(viewers: NodeViewers, tmp_path: Path) -> None:
    clock = Clock()
    trace = Trace("r", clock_ns=clock)
    with trace.span("s", row="x"):
        with trace.span("inner") as inner:
            clock.tick(1)
            inner.mark("m")
        clock.tick(1)
    loaded = Loaded(viewers, trace.save(tmp_path / "t.json"))
    assert [loaded.parent_name(mark) for mark in loaded.marks] == ["inner"]


def test_thousands_of_spans_load_whole(viewers: NodeViewers, tmp_path: Path) -> None:
    clock = Clock()
    trace = Trace("r", clock_ns=clock)
    for number in range(1_000):
        with trace.span("llm.decode", row="llm") as decode:
            clock.tick(MS)
            with trace.span("llm.sample", number=number):
                clock.tick(MS)
            decode.mark("token")
        trace.counter("queue.depth", number % 7, track="llm")
        span = trace.start("face.render", row="face")
        trace.flow(decode, span)
        clock.tick(1)
        span.end()
    trace.close()
    loaded = Loaded(viewers, trace.save(tmp_path / "t.json"))
    assert (len(loaded.spans), len(loaded.marks)) == (3_001, 1_000)
    assert loaded.query("SELECT count() FROM flow") == [(1_000,)]
    assert loaded.query("SELECT count() FROM counter WHERE value > 0")[0][0] == 857 + _memory_samples(trace)


def _memory_samples(trace: Trace) -> int:
    return sum(sample.name == "memory.rss" for sample in trace.snapshot().samples)


def _tree(loaded: Loaded) -> dict[int | None, int | None]:
    """Parent of each span, as drawn."""
    parents = ((drawn.span_id, loaded.parent(drawn)) for drawn in loaded.spans)
    return {span_id: parent and parent.span_id for span_id, parent in parents}


@pytest.mark.parametrize("cut", [1, 2, 50, 100_000])
def test_complete_records_of_a_file_cut_in_the_middle_of_one_are_shown(
    viewers: NodeViewers, tmp_path: Path, cut: int
) -> None:
    """What a killed process leaves behind, if it writes the same events as an array, one a line."""
    path = tmp_path / "t.json"
    found = events(save(path, answers(2)))
    lines = [line.rstrip(",") for line in path.read_text("utf-8").splitlines() if line.startswith('{"ph":')]
    assert len(lines) == len(found)
    *whole, last = lines[:-100]
    path.write_text("[\n" + ",\n".join([*whole, last[:cut]]), "utf-8")
    loaded = Loaded(viewers, path)
    kept = Counter(json.loads(line)["ph"] for line in (lines[:-100] if cut > len(last) else whole))
    assert Counter(drawn.category for drawn in loaded.everything) == {
        "linly": kept["X"],
        "linly.mark": kept["i"],
    }
    assert {drawn.process for drawn in loaded.everything} == {"request turn 1", "request turn 2"}


def test_nothing_but_complete_lines_of_an_array_are_shown(viewers: NodeViewers, tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text('[\n{"ph":"X","pid":1,"tid":1,"ts":1,"dur":3,"name":"a"},\n{', "utf-8")
    assert len(Loaded(viewers, tmp_path / "t.json").everything) == 1
