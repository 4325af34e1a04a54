"""The report: who owns the wait, what each stage did, and what went wrong."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from linly_profiling import CudaUse, LoadedTrace, Report, Sample, Trace, load
from linly_profiling.attribution import Milestone, milestones
from linly_profiling.stages import StageRow, stage_rows
from linly_profiling.tables import columns, duration, figure, flowed, size, wrapped
from trace_tools import MS
from turn_tools import START_NS, Turn, ns


def a_turn(request_id: str = "turn-1") -> Turn:
    turn = Turn(request_id)
    turn.stage(
        "asr", 1, 300, busy_ns=200 * MS, wait_in_ns=90 * MS, wait_out_ns=10 * MS, items_in=1, items_out=1
    )
    turn.stage("llm", 301, 450, items_in=1, items_out=40)
    tts = turn.stage(
        "tts", 500, 900, media_s=2.0, busy_ns=400 * MS, fallbacks=[{"from": "a", "to": "b", "error": "E"}]
    )
    turn.stage("face", 910, 1000, media_s=2.0)
    turn.stage("sink", 1001, 1010, media_s=2.0, av_offset_ms=-12)
    turn.queue_wait(tts, 550, 700, worker="hibari", busy_with="a cancelled turn")
    return turn


def parts(report: Report, name: str) -> list[tuple[str, float]]:
    (milestone,) = [milestone for milestone in report.milestones if milestone.name == name]
    return [(part.label, part.duration_ns / MS) for part in milestone.contributions]


def test_each_part_of_the_wait_has_one_owner() -> None:
    report = Report.of(a_turn().close(1200))
    assert [(m.name, m.total_ns / MS) for m in report.milestones] == [
        ("first token", 450),
        ("first audio", 900),
        ("first frame", 1000),
    ]
    assert parts(report, "first audio") == [
        ("my asr: waits for input", 1),
        ("my asr: work", 299),
        ("my asr: goes on until my llm can begin", 1),
        ("my llm: work", 149),
        ("my llm: goes on until my tts can begin", 50),
        ("my tts: work", 50),
        ("my tts: waits for worker hibari (busy with a cancelled turn)", 150),
        ("my tts: work", 200),
    ]


def test_the_evidence_of_a_wait_is_its_span() -> None:
    trace = a_turn().close(1200)
    part = next(p for p in Report.of(trace).milestones[1].contributions if "hibari" in p.label)
    (span,) = [record for record in trace.records() if record.span_id == part.span_id]
    assert (span.name, span.start_ns, span.end_ns) == ("linly.queue.wait", part.start_ns, part.end_ns)


def test_a_milestone_that_was_not_reached_is_absent() -> None:
    turn = Turn()
    turn.stage("llm", 1, 20)
    turn.stage("tts", 20, None)
    report = Report.of(turn.close(30, "cancelled"))
    assert [milestone.name for milestone in report.milestones] == ["first token"]
    assert report.outcome == "cancelled"


def test_a_stage_that_let_nothing_through_owns_nothing() -> None:
    turn = Turn()
    turn.stage("asr", None, None)
    turn.stage("llm", 5, 20)
    assert parts(Report.of(turn.close(30)), "first token") == [
        ("my llm: waits for input", 5),
        ("my llm: work", 15),
    ]


def test_a_stage_that_answered_before_its_predecessor_owns_nothing() -> None:
    turn = Turn()
    turn.stage("asr", 0, 50)
    turn.stage("custom", 0, 30)
    turn.stage("llm", 0, 60)
    assert parts(Report.of(turn.close(70)), "first token") == [("my asr: work", 50), ("my llm: work", 10)]


def test_a_predecessor_slower_than_the_milestone_is_cut_there() -> None:
    turn = Turn()
    turn.stage("asr", 0, 500)
    turn.stage("llm", 0, 60)
    assert parts(Report.of(turn.close(600)), "first token") == [("my asr: work", 60)]


_Plan = list[tuple[str, int | None, int | None, list[tuple[int, int]]]]
_instant = st.none() | st.integers(-50, 1_000)
_stage = st.tuples(
    st.sampled_from(["asr", "llm", "tts", "face", "custom"]),
    _instant,
    _instant,
    st.lists(st.tuples(st.integers(-50, 1_000), st.integers(0, 400)), max_size=3),
)


@settings(deadline=None)
@given(st.lists(_stage, max_size=7))
def test_contributions_always_sum_to_the_whole(plan: _Plan) -> None:
    turn = Turn()
    for row, first_in, first_out, waits in plan:
        stage = turn.stage(row, first_in, first_out)
        for start, length in waits:
            turn.queue_wait(stage, start, start + length)
    turn.at(2000)
    _must_add_up(Report.of(turn.trace).milestones)


def _must_add_up(found: tuple[Milestone, ...]) -> None:
    for milestone in found:
        cursor = START_NS
        for part in milestone.contributions:
            assert part.start_ns == cursor < part.end_ns
            cursor = part.end_ns
        assert cursor - START_NS == milestone.total_ns


def rows(trace: Trace) -> dict[str, StageRow]:
    return {stage.row: stage for stage in Report.of(trace).stages}


def test_a_stage_row_tells_what_the_runner_recorded() -> None:
    asr = rows(a_turn().close(1200))["asr"]
    assert (asr.name, asr.wall_ns, asr.busy_ns, asr.wait_in_ns, asr.wait_out_ns) == (
        "my asr",
        1200 * MS,
        200 * MS,
        90 * MS,
        10 * MS,
    )
    assert (asr.items_in, asr.items_out, asr.first_after_ns) == (1, 1, 300 * MS)


def test_what_was_not_recorded_is_null() -> None:
    llm = rows(a_turn().close(1200))["llm"]
    assert (llm.busy_ns, llm.queue_ns, llm.media_s, llm.real_time_factor, llm.cuda_ns, llm.retries) == (
        None,
    ) * 6


def test_real_time_factors_of_a_stage_and_of_the_whole() -> None:
    trace = a_turn().close(1200)
    assert rows(trace)["tts"].real_time_factor == pytest.approx(0.2)
    assert Report.of(trace).real_time_factor == pytest.approx(0.6)
    assert Report.of(Turn().close(5)).real_time_factor is None


def test_stages_stand_in_the_order_of_the_chain() -> None:
    turn = Turn()
    turn.stage("tts", 1, 2, order=2)
    turn.stage("llm", 1, 2, order=1)
    assert [stage.row for stage in Report.of(turn.close(3)).stages] == ["llm", "tts"]


def test_gpu_time_is_charged_to_the_stage_and_counted_once() -> None:
    turn = Turn()
    llm = turn.stage("llm", 1, 2)
    outer = turn.trace.start("outer", parent=llm)
    turn.trace.start("inner", parent=outer)
    turn.trace.start("second", parent=llm)
    turn.trace.start("memory only", parent=llm)
    tts = turn.stage("tts", 1, 2)
    turn.trace.start("tts.speak", parent=tts)
    times = {"outer": 5, "inner": 4, "second": 2, "memory only": None}
    records = [
        record._replace(cuda=CudaUse(0, times[record.name])) if record.name in times else record
        for record in turn.close(9).records()
    ]
    llm_row, tts_row = stage_rows(records, START_NS)
    assert (llm_row.cuda_ns, tts_row.cuda_ns) == (7, None)


def test_strange_attributes_do_not_break_the_report() -> None:
    turn = Turn()
    turn.stage(
        "llm", 1, 2, busy_ns="long", media_s=0, order="first", fallbacks="none", retries="many", items_in=True
    )
    turn.stage("tts", 1, 2, media_s=float("nan"), fallbacks=[1, {"from": "a"}], retries=[{}, {}])
    report = Report.of(turn.close(3))
    assert (report.stages[0].busy_ns, report.stages[0].fallbacks, report.stages[0].items_in) == (
        None,
        (),
        None,
    )
    assert (report.stages[1].fallbacks, report.stages[1].retries) == (({"from": "a"},), 2)
    assert "fell back from a to ?" in str(report)


def test_an_empty_or_headless_trace_has_a_report() -> None:
    empty = LoadedTrace("r", "ok", 3, Trace("r").epoch, ())
    report = Report.of(empty)
    assert (report.wall_ns, report.milestones, report.stages) == (0, (), ())
    assert "3 records were dropped" in str(report)


def test_the_report_of_a_loaded_trace_is_the_same(tmp_path: Path) -> None:
    trace = a_turn("q\n😀").close(1200)
    (loaded,) = load(trace.save(tmp_path / "t.json"))
    assert Report.of(loaded) == Report.of(trace)


def test_a_report_is_plain_data() -> None:
    data = Report.of(a_turn().close(1200)).to_dict()
    again = json.loads(json.dumps(data, allow_nan=False))
    assert again["milestones"][0]["contributions"][0] == {
        "label": "my asr: waits for input",
        "start_ns": START_NS,
        "end_ns": START_NS + MS,
        "span_id": 2,
    }
    assert again["stages"][2]["waits"][0]["busy_with"] == "a cancelled turn"
    assert again["av_offset_ms"] == -12


def test_the_text_tells_the_story() -> None:
    text = str(Report.of(a_turn().close(1200)))
    assert text.splitlines()[:4] == [
        "request turn-1: ok",
        "  wall 1.20 s, media 2.00 s, real-time factor 0.60, A/V offset -12 ms",
        "",
        "first token after 450 ms",
    ]
    assert "my tts: waits for worker hibari (busy with a cancelled turn): 150 ms" in text
    assert "my tts: fell back from a to b after E" in text


def test_the_text_fits_a_terminal_and_its_columns_stand() -> None:
    turn = Turn("\x1b[2J" + "长" * 300)
    for row in ("asr", "llm", "tts", "face"):
        turn.stage(
            row,
            10_000,
            99_000,
            stage="舞台" * 20,
            **dict.fromkeys(("busy_ns", "wait_in_ns", "wait_out_ns"), 99_900_000_000),
            items_in=123456,
            items_out=1234567,
            media_s=12345.678,
        )
    text = str(Report.of(turn.close(99_999)))
    assert max(columns(line) for line in text.splitlines()) <= 100
    assert "\x1b" not in text
    table = [line for line in text.splitlines() if line.startswith(("stage ", "舞台舞"))]
    assert len({columns(line) for line in table if "wall" in line or "—" in line}) == 1


def test_durations_and_sizes_read_well() -> None:
    shown = [duration(ns) for ns in (None, 0, 999, 1_000, 45_600, 999_999, 1_234_567, 61e9, 3_600e9)]
    assert shown == ["—", "0 ns", "999 ns", "1.00 µs", "45.6 µs", "1.00 ms", "1.23 ms", "61.0 s", "3600 s"]
    assert [duration(ns) for ns in (9.8e9, 9.996e9, 99.94e6, 99.96e6)] == [
        "9.80 s",
        "10.0 s",
        "99.9 ms",
        "100 ms",
    ]
    assert [size(count) for count in (None, 5e6, 999.4e6, 2.5e9)] == ["—", "5.00 MB", "999 MB", "2.50 GB"]
    assert [size(count) for count in (0, 512, 36_864, 999_600)] == ["0 B", "512 B", "36.9 kB", "1.00 MB"]


def test_nothing_reached_means_no_milestones() -> None:
    assert milestones(0, ()) == ()


def test_recording_does_not_load_the_analysis() -> None:
    code = "import sys, linly_profiling; print([name for name in sys.modules if name.startswith('linly_profiling')])"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "linly_profiling.trace" in loaded
    for part in ("report", "analysis", "advice", "chrome"):
        assert f"linly_profiling.{part}" not in loaded


def test_a_sentence_is_wrapped_and_its_parts_stay_whole() -> None:
    assert wrapped("one two three four", 9, "- ", "  ") == ["- one two", "  three", "  four"]
    assert flowed(["one two", "three four"], 12, "", "  ") == ["one two", "  three four"]
    assert wrapped("字字字字 a", 8) == ["字字字字", "a"]
    assert wrapped("incomprehensible", 8, "  ") == ["  incom…"]
    assert wrapped("", 8, "> ") == [">"]


def test_waits_for_the_same_worker_are_told_in_one_line() -> None:
    turn = Turn()
    tts = turn.stage("tts", 0, 900)
    for start in (100, 300, 500):
        turn.queue_wait(tts, start, start + 100, worker="voice", busy_with="turn b")
    lines = [line for line in str(Report.of(turn.closed(1_000))).splitlines() if "turn b): " in line]
    assert lines == ["my tts: waits for worker voice (busy with turn b): 300 ms"]


def test_the_analysis_is_told_in_a_few_lines() -> None:
    turn = Turn(memory_limit_bytes=2_000_000_000)
    llm = turn.stage("llm", 0, 100)
    face = turn.stage("face", 100, 200, fps=25)
    tokens = [100.0 + 10 * index for index in range(11)]
    turn.span("llm.generate", 0, 200, llm, {"token": tokens}, prompt_tokens=1_200, cached_tokens=1_100)
    turn.span("face.render", 200, 300, face, frames=5)
    turn.span("face.render", 600, 700, face, frames=5)
    turn.counter("kv_cache.bytes", "llm", {100: 1_000_000, 200: 2_000_000})
    trace = turn.closed(800)
    trace = replace(trace, samples=(*trace.samples, Sample("memory.rss", "process", ns(10), 500_000_000)))
    lines = str(Report.of(trace)).splitlines()
    first = next(index for index, line in enumerate(lines) if line.startswith("critical path"))
    assert lines[first : first + 9] == [
        "critical path: whom the request waited for at each instant, judged by which spans were open",
        "  my llm 200 ms (25 %), my face 200 ms (25 %), outside the stages 400 ms (50 %)",
        "tokens  prompt of 1,200 tokens (1,100 cached); first token after 100 ms;",
        "        then 10.0 ms each (p95 10.0 ms, most 10.0 ms); 11 tokens at 100 a second;",
        "        KV cache 2.00 MB, 100 kB a token",
        "frames  10; to be shown at 25 a second, 40.0 ms for each;",
        "        20.0 ms to render (p95 20.0 ms, most 20.0 ms); enough for 50 a second; 4 late;",
        "        1 hold, 160 ms in all",
        "memory  process 500 MB of 2.00 GB (25 %)",
    ]


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.5, "0.5"), (50, "50"), (999.4, "999"), (2750, "2,750"), (1e6, "1,000,000"), (-3.14159, "-3.14")],
)
def test_a_figure_has_three_digits_and_never_an_exponent(value: float, text: str) -> None:
    assert figure(value) == text
