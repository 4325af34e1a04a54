"""What the runner leaves in a turn's trace beside the spans of its stages: states, queues and arrows."""

from __future__ import annotations

from collections import defaultdict

from helpers import fake_pipeline, stage_spans
from linly_profiling import Report

from linly_pipeline import Turn
from linly_pipeline.accounting import BUSY, WAITS_FOR_INPUT
from linly_pipeline.testing import run_virtual, tone

MS = 1_000_000
ROWS = ["asr", "llm", "tts", "motion", "face", "sink"]


def asked(**first_ms: float) -> Turn:
    async def main() -> Turn:
        async with fake_pipeline(**first_ms).session() as session:
            return await session.ask(tone(1.0))

    return run_virtual(main())


def test_the_counter_of_a_stage_tells_when_it_waits_and_when_it_works() -> None:
    turn = asked(asr=300, llm=200)
    start_ns = turn.trace.root.start_ns
    states = defaultdict(list)
    for sample in turn.trace.snapshot().samples:
        if sample.name == "stage.state":
            states[sample.track].append((sample.value, (sample.at_ns - start_ns) / MS))
    assert set(states) == set(ROWS)
    assert states["asr"][0] == (BUSY, 0.0)
    assert states["llm"][:3] == [(BUSY, 0.0), (WAITS_FOR_INPUT, 0.0), (BUSY, 300.0)]
    for told in states.values():
        assert all(one[0] != next_[0] for one, next_ in zip(told, told[1:], strict=False))


def test_the_critical_path_of_a_turn_goes_through_whoever_was_waited_for() -> None:
    report = Report.of(asked(asr=300, llm=200).trace)
    assert report.critical_path is not None
    first, second, *_ = report.critical_path.intervals
    assert ("fake-asr" in first.label, first.duration_ns) == (True, 300 * MS)
    assert "fake-llm" in second.label
    assert second.duration_ns >= 200 * MS
    assert sum(part.duration_ns for part in report.critical_path.intervals) == report.wall_ns


def test_arrows_lead_from_each_stage_to_what_the_next_made_of_it() -> None:
    turn = asked()
    row_of = {span.span_id: row for row, span in stage_spans(turn).items()}
    arrows = turn.trace.snapshot().flows
    assert {(arrow.name, row_of[arrow.from_id], row_of[arrow.to_id]) for arrow in arrows} == {
        ("text", "asr", "llm"),
        ("text", "llm", "tts"),
        ("speech", "tts", "motion"),
        ("motion", "motion", "face"),
        ("video", "face", "sink"),
    }
    assert all(arrow.from_ns <= arrow.to_ns for arrow in arrows)
    made = {row: span.attrs["items_out"] for row, span in stage_spans(turn).items()}
    for row in ROWS[1:]:
        drawn = sum(row_of[arrow.to_id] == row for arrow in arrows)
        assert drawn <= made[row], "one for each output, not for each token that went into it"


def test_a_queue_in_which_something_waits_is_a_curve_and_an_empty_one_is_none() -> None:
    depths = defaultdict(list)
    for sample in asked(face=500).trace.snapshot().samples:
        if sample.name == "queue.depth":
            depths[sample.track].append(sample.value)
    assert max(depths["face"]) > 1, "the face is slow: what it is to draw piles up"
    assert depths["face"][-1] == 0
    assert "asr" not in depths
    for values in depths.values():
        assert all(one != following for one, following in zip(values, values[1:], strict=False))
