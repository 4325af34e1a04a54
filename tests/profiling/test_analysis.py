"""Decode, pacing, memory, the critical path and what-if: figures that can be checked by hand."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from linly_profiling import CudaUse, LoadedTrace, Mark, Record, Report, Sample
from linly_profiling.analysis import (
    CriticalPath,
    Decode,
    Memory,
    Pacing,
    critical_path,
    decode,
    memory,
    pacing,
    what_if,
)
from linly_profiling.analysis.numbers import length, merged, overlap, percentile
from trace_tools import MS
from turn_tools import START_NS, Turn, ns, with_samples

GB = 1_000_000_000


# numbers


def test_percentiles_are_values_that_were_seen() -> None:
    values = [float(value) for value in range(1, 101)]
    assert [percentile(values, share) for share in (0.0, 0.5, 0.95, 1.0)] == [1, 50, 95, 100]
    assert percentile([1.0, 9.0], 0.5, [1, 99]) == 9
    assert percentile([], 0.5) is None


_interval = st.tuples(st.integers(0, 60), st.integers(0, 60))


@given(st.lists(_interval), st.lists(_interval))
def test_overlap_and_length_count_instants(left: list[tuple[int, int]], right: list[tuple[int, int]]) -> None:
    ours, theirs = ({i for start, end in side for i in range(start, end)} for side in (left, right))
    assert length(left) == len(ours)
    assert overlap(left, right) == len(ours & theirs)
    assert all(first[1] < second[0] for first, second in itertools.pairwise(merged(left)))


# decode


def an_answer(intervals_ms: list[float], first_ms: float = 100, **attrs: int) -> Decode:
    turn = Turn()
    times = list(itertools.accumulate([first_ms, *intervals_ms]))
    turn.span("llm.generate", 0, times[-1], marks={"token": times}, **attrs)
    (found,) = decode(turn.closed(times[-1]))
    return found


def test_a_decode_curve_has_its_first_token_and_its_pace() -> None:
    found = an_answer([10.0] * 18 + [20.0, 200.0], prompt_tokens=300, cached_tokens=100, tokens=25)
    assert (found.prompt_tokens, found.cached_tokens, found.tokens) == (300, 100, 25)
    assert found.first_token_ns == 100 * MS
    assert found.interval is not None
    assert (found.interval.p50_ms, found.interval.p95_ms, found.interval.max_ms) == (10, 20, 200)
    assert found.tokens_per_s == pytest.approx(20 / 0.4)
    assert [point.interval_ns for point in found.points[:2]] == [None, 10 * MS]


def test_what_a_call_did_not_tell_is_null() -> None:
    turn = Turn()
    turn.span("llm.generate", 0, 50)
    (found,) = decode(turn.closed(50))
    assert (found.tokens, found.first_token_ns, found.interval, found.tokens_per_s, found.slows) == (
        None,
    ) * 5
    assert (found.prompt_tokens, found.kv_last_bytes, found.kv_bytes_per_token) == (None,) * 3


def test_any_span_with_tokens_is_a_call_and_a_single_token_has_no_pace() -> None:
    turn = Turn()
    turn.span("chat my-model", 0, 50, marks={"token": [20]})
    turn.span("tts.synthesise", 0, 50, marks={"chunk": [20]})
    (found,) = decode(turn.closed(50))
    assert (found.name, found.tokens, found.first_token_ns, found.interval) == (
        "chat my-model",
        1,
        20 * MS,
        None,
    )


def test_the_kv_cache_grows_as_the_marks_say() -> None:
    turn = Turn()
    turn.at(0)
    span = turn.trace.start("llm.generate")
    for index in range(4):
        turn.at(10 + index)
        span.mark("token", 1_000 + 50 * index)
    span.end()
    (found,) = decode(turn.closed(20))
    assert (found.kv_first_bytes, found.kv_last_bytes, found.kv_bytes_per_token) == (1_000, 1_150, 50)


def test_without_values_the_kv_cache_is_what_the_counter_showed_when_the_token_came() -> None:
    turn = Turn()
    turn.span("llm.generate", 10, 60, marks={"token": [20, 30, 40]})
    turn.counter("kv_cache.bytes", "llm", {5: 7, 25: 1_000, 39: 2_000, 61: 9_000})
    (found,) = decode(turn.closed(70))
    assert [point.kv_bytes for point in found.points] == [None, 1_000, 2_000]
    assert found.kv_bytes_per_token == 1_000


def test_a_slope_is_found_where_each_token_takes_longer() -> None:
    found = an_answer([10 + 0.02 * index for index in range(300)])
    assert found.slope_ms_per_1000_tokens == pytest.approx(20, rel=0.02)
    assert found.slows is True


@pytest.mark.parametrize("intervals", [[10.0] * 60, [10.0] * 59 + [900.0], [10.0, 12.0] * 40])
def test_a_steady_pace_with_a_pause_or_jitter_is_no_trend(intervals: list[float]) -> None:
    found = an_answer(intervals)
    assert found.slope_ms_per_1000_tokens == 0
    assert found.slows is False


def test_few_tokens_make_no_trend() -> None:
    assert an_answer([float(index) for index in range(1, 40)]).slope_ms_per_1000_tokens is None


def test_marks_out_of_order_or_before_their_span_do_no_harm() -> None:
    trace = Turn().closed(100)
    span = trace.spans[0]._replace(
        marks=(
            Mark("token", ns(30)),
            Mark("token", ns(10)),
            Mark("token", START_NS - 5),
            Mark("other", ns(1)),
        )
    )
    (found,) = decode(replace(trace, spans=(span,)))
    assert [point.at_ns for point in found.points] == [ns(10), ns(30)]


# pacing


def frames(*renders: tuple[float, float, int], **attrs: float) -> Pacing:
    """Pacing of batches that were rendered from, until, in ms, so many frames each."""
    turn = Turn()
    face = turn.stage("face", 0, 1, **attrs)
    for start, end, count in renders:
        turn.span("face.render", start, end, face, frames=count)
    found = pacing(turn.closed(60_000))
    assert found is not None
    return found


def test_a_quick_renderer_is_never_late() -> None:
    found = frames((0, 50, 5), (50, 100, 5), (100, 150, 5), fps=25)
    assert (found.fps, found.budget_ms, found.frames) == (25, 40, 15)
    assert found.render is not None
    assert found.render.max_ms == 10
    assert (found.late_frames, found.over_budget_frames, found.stalls) == (0, 0, ())
    assert found.effective_fps == pytest.approx(100)
    assert found.delivered_fps == pytest.approx(100)


def test_a_slow_renderer_holds_the_picture_again_and_again() -> None:
    found = frames(*((100.0 * i, 100.0 * i + 100, 1) for i in range(11)), fps=25)
    # Playing begins at 140 ms; frame 2 comes at 200 instead of 180, each later one 60 ms after it was due.
    assert [stall.duration_ns / MS for stall in found.stalls] == [20, *[60] * 9]
    assert all(stall.rendering for stall in found.stalls)
    assert found.late_frames == 10
    assert found.over_budget_frames == 11
    assert found.effective_fps == pytest.approx(10)


def test_a_batch_that_comes_late_counts_the_frames_that_were_due_by_then() -> None:
    found = frames((0, 10, 5), (300, 310, 5), fps=25)
    # Playing begins at 50 ms, the sixth frame is due at 250 ms and comes at 310: two frames had been due by then.
    (stall,) = found.stalls
    assert (stall.start_ns, stall.end_ns, stall.rendering) == (ns(250), ns(310), False)
    assert found.late_frames == 2


def test_each_mark_is_a_frame() -> None:
    turn = Turn()
    face = turn.stage("face", 0, 1, fps=50)
    span = turn.span("renderer", 0, 60, face, marks={"frame": [10, 20, 50]})
    found = pacing(turn.closed(100))
    assert found is not None
    assert (found.frames, found.span_ids, found.over_budget_frames) == (3, (span.span_id,), 1)
    assert found.render is not None
    assert (found.render.p50_ms, found.render.max_ms) == (10, 30)


def test_without_a_rate_it_follows_from_the_media() -> None:
    assert frames((0, 10, 50), (20, 30, 50), media_s=4.0).fps == 25
    found = frames((0, 10, 50))
    assert (found.fps, found.budget_ms, found.late_frames, found.over_budget_frames) == (None,) * 4
    assert found.effective_fps == pytest.approx(5_000)


def test_what_was_not_rendered_to_its_end_gave_no_frames() -> None:
    turn = Turn()
    turn.span("face.render", 0, 10, frames=5, outcome="cancelled")
    turn.span("face.render", 0, 10)
    turn.span("mp4.write", 0, 10, frames=5)
    assert pacing(turn.closed(20)) is None


def test_a_huge_count_of_frames_costs_nothing() -> None:
    assert frames((0, 10, 2**62), (10, 20, 2**62), fps=25).frames == 2**63


# memory


def gpu(trace: LoadedTrace, **values: float) -> LoadedTrace:
    """With GPU memory, by "used_100": the counter, and when."""
    samples = [
        Sample(f"memory.gpu.{name.split('_')[0]}", "cuda:0", ns(float(name.split("_")[1])), value)
        for name, value in values.items()
    ]
    return with_samples(trace, *samples)


def a_model_call(**attrs: int) -> LoadedTrace:
    turn = Turn(**attrs)
    llm = turn.stage("llm", 0, 10)
    turn.stage("tts", 0, 10)
    turn.span("llm.generate", 50, 150, llm)
    turn.span("tts.synthesise", 150, 250)
    return turn.closed(300)


def test_a_peak_has_its_share_its_growth_and_who_was_at_work() -> None:
    trace = gpu(
        a_model_call(gpu_memory_total_bytes=24 * GB), used_0=4 * GB, used_100=18 * GB, used_260=6 * GB
    )
    (found,) = memory(trace).gpus
    assert (found.device, found.source, found.peak_bytes, found.at_ns) == (
        "cuda:0",
        "memory.gpu.used",
        18 * GB,
        ns(100),
    )
    assert (found.limit_bytes, found.share, found.growth_bytes) == (24 * GB, 0.75, 2 * GB)
    assert (found.active, found.shared) == (("llm.generate",), None)
    assert memory(trace).rss is None


def test_the_highest_figure_counts_and_the_widest_where_they_agree() -> None:
    trace = gpu(a_model_call(), allocated_100=9 * GB, used_100=9 * GB, reserved_90=7 * GB)
    assert memory(trace).gpus[0].source == "memory.gpu.used"
    spans = tuple(
        span._replace(cuda=CudaUse(0, None, 0, 0, 11 * GB)) if span.name == "llm.generate" else span
        for span in trace.spans
    )
    (found,) = memory(replace(trace, spans=spans)).gpus
    assert (found.source, found.peak_bytes, found.at_ns, found.share) == ("torch", 11 * GB, None, None)
    assert found.active == ("llm.generate",)


def test_memory_of_the_process_is_measured_against_its_limit() -> None:
    trace = with_samples(a_model_call(memory_limit_bytes=1000), Sample("memory.rss", "process", ns(200), 990))
    found = memory(trace).rss
    assert found is not None
    assert (found.share, found.active, found.growth_bytes) == (0.99, ("tts.synthesise",), 0)


def test_nothing_measured_is_nothing_known() -> None:
    assert memory(a_model_call()) == Memory(None, ())
    stale = with_samples(a_model_call(), Sample("memory.rss", "process", START_NS - 1, 5))
    assert memory(stale).rss is None


def test_the_size_in_the_root_is_that_of_the_first_gpu() -> None:
    trace = a_model_call(gpu_memory_total_bytes=100)
    samples = [Sample("memory.gpu.used", f"cuda:{device}", ns(50), 50) for device in (1, 0)]
    assert [(peak.device, peak.share) for peak in memory(with_samples(trace, *samples)).gpus] == [
        ("cuda:0", 0.5),
        ("cuda:1", None),
    ]


# the critical path


def parts(path: CriticalPath | None) -> list[tuple[str, float, float]]:
    assert path is not None
    return [(p.label, (p.start_ns - START_NS) / MS, (p.end_ns - START_NS) / MS) for p in path.intervals]


def shares(path: CriticalPath | None) -> dict[str, float]:
    assert path is not None
    return {share.name: share.duration_ns / MS for share in path.shares}


def test_blame_goes_back_from_who_waits_to_who_works() -> None:
    turn = Turn()
    for row in ("llm", "tts", "sink"):
        turn.stage(row, None, None)
    turn.counter("stage.state", "llm", {0: 0, 10: 1, 60: 2, 80: 1})
    turn.counter("stage.state", "tts", {0: 0, 40: 1, 90: 0})
    turn.counter("stage.state", "sink", {0: 0, 70: 1, 75: 0, 95: 1})
    path = critical_path(turn.closed(100))
    assert path is not None
    assert (path.method, path.total_ns) == ("states", 100 * MS)
    assert parts(path) == [
        ("my llm: waits for input", 0, 10),
        ("my llm: work", 10, 40),
        ("my tts: work", 40, 70),
        ("my sink: work", 70, 75),
        ("my tts: work", 75, 90),
        ("my llm: work", 90, 95),
        ("my sink: work", 95, 100),
    ]
    assert shares(path) == {"input": 10, "my llm": 35, "my tts": 45, "my sink": 10}
    assert sum(share.share for share in path.shares) == pytest.approx(1)


def test_a_stage_that_waits_for_room_blames_the_one_behind_it() -> None:
    turn = Turn()
    for row in ("llm", "tts"):
        turn.stage(row, None, None)
    turn.counter("stage.state", "llm", {0: 2})
    turn.counter("stage.state", "tts", {0: 0})
    assert parts(critical_path(turn.closed(10))) == [("my tts: takes over", 0, 10)]


def test_the_wait_for_a_worker_is_named() -> None:
    turn = Turn()
    tts = turn.stage("tts", None, None)
    wait = turn.queue_wait(tts, 20, 50, worker="w", busy_with="turn b")
    turn.counter("stage.state", "tts", {0: 1})
    path = critical_path(turn.closed(100))
    assert parts(path)[1] == ("my tts: waits for worker w (busy with turn b)", 20, 50)
    assert path is not None
    assert path.intervals[1].span_id == wait.span_id
    assert shares(path) == {"my tts": 100}


def test_after_the_last_stage_and_before_the_first_nobody_owns_the_time() -> None:
    turn = Turn()
    turn.at(10)
    stage = turn.trace.start("linly.stage tts", row="tts", stage="my tts")
    turn.trace.counter("stage.state", 1, "tts")
    turn.at(40)
    stage.end()
    assert parts(critical_path(turn.closed(100))) == [
        ("outside the stages", 0, 10),
        ("my tts: work", 10, 40),
        ("outside the stages", 40, 100),
    ]


def test_without_counters_the_last_stage_with_an_open_span_owns_the_instant() -> None:
    turn = Turn()
    llm, tts = turn.stage("llm", 0, 20), turn.stage("tts", 20, 40)
    turn.stage("sink", 60, 70)
    turn.span("llm.generate", 10, 80, llm)
    turn.queue_wait(tts, 20, 30, worker="w")
    turn.span("tts.synthesise", 30, 50, tts)
    path = critical_path(turn.closed(100))
    assert path is not None
    assert path.method == "spans"
    assert parts(path) == [
        ("outside the stages", 0, 10),
        ("my llm: work", 10, 20),
        ("my tts: waits for worker w", 20, 30),
        ("my tts: work", 30, 50),
        ("my llm: work", 50, 60),
        ("my sink: work", 60, 70),
        ("my llm: work", 70, 80),
        ("outside the stages", 80, 100),
    ]


def test_without_stages_the_outermost_spans_are_the_path() -> None:
    turn = Turn()
    turn.span("download", 0, 30)
    inner = turn.span("parse", 20, 60)
    turn.span("download", 60, 70)
    path = critical_path(turn.closed(80))
    assert parts(path) == [
        ("download", 0, 20),
        ("parse", 20, 60),
        ("download", 60, 70),
        ("outside the stages", 70, 80),
    ]
    assert path is not None
    assert path.intervals[1].span_id == inner.span_id


def test_a_trace_without_a_root_has_no_path() -> None:
    assert critical_path(replace(Turn().closed(1), spans=())) is None


_STAGES = ("asr", "llm", "tts", "sink")
_timeline = st.lists(st.tuples(st.integers(-20, 220), st.integers(0, 3)), max_size=12)
_life = st.tuples(st.integers(-20, 220), st.integers(-20, 220))


@settings(deadline=None)
@given(st.lists(_timeline, min_size=4, max_size=4), st.lists(_life, min_size=4, max_size=4), st.booleans())
def test_every_instant_has_the_one_owner_that_the_rule_names(
    timelines: list[list[tuple[int, int]]], lives: list[tuple[int, int]], waits: bool
) -> None:
    turn = Turn()
    trace = turn.closed(200)
    root = trace.spans[0]
    spans, samples = [root], []
    for index, (row, timeline, life) in enumerate(zip(_STAGES, timelines, lives, strict=True)):
        attrs = {"row": row, "stage": row, "order": index}
        stage = root._replace(
            name=f"linly.stage {row}",
            span_id=index + 2,
            parent_id=1,
            start_ns=ns(life[0]),
            end_ns=ns(life[1]),
        )._replace(attrs=attrs)
        spans.append(stage)
        if waits:
            spans.append(
                stage._replace(name="linly.queue.wait", span_id=index + 12, parent_id=index + 2, attrs={})
            )
        samples += [
            Sample("stage.state", row, ns(at), state) for at, state in sorted(timeline, key=lambda t: t[0])
        ]
    trace = replace(trace, spans=tuple(spans), samples=tuple(samples))
    path = _must_cover(trace)
    if path.method == "states":
        by_id = {span.span_id: span for span in trace.spans}
        for part in path.intervals:
            owner = by_id[part.span_id]
            stage_id = owner.parent_id if owner.name == "linly.queue.wait" else owner.span_id
            assert stage_id == _owner(trace, part.start_ns)


def _owner(trace: LoadedTrace, at_ns: int) -> int:
    """The rule once more, looked up instead of swept."""

    def alive(stage: Record) -> bool:
        return stage.start_ns <= at_ns < stage.end_ns

    def state(stage: Record) -> float | None:
        seen = [s.value for s in trace.samples if s.track == stage.attrs["row"] and s.at_ns <= at_ns]
        return seen[-1] if seen and seen[-1] in (0, 1, 2) else None

    stages = [span for span in trace.spans if span.name.startswith("linly.stage")]
    living = [index for index, stage in enumerate(stages) if alive(stage)]
    if not living:
        return 1
    index = living[-1]
    while index and state(stages[index]) == 0 and alive(stages[index - 1]) and state(stages[index - 1]) != 2:
        index -= 1
    return stages[index].span_id


def _must_cover(trace: LoadedTrace) -> CriticalPath:
    """Without gaps from start to end, each part shown by a span of the trace, shares of the same sum."""
    path = critical_path(trace)
    assert path is not None
    cursor = trace.spans[0].start_ns
    for part in path.intervals:
        assert part.start_ns == cursor < part.end_ns
        cursor = part.end_ns
    assert cursor == max(trace.spans[0].start_ns, trace.spans[0].end_ns)
    assert sum(part.duration_ns for part in path.intervals) == path.total_ns
    assert sum(share.duration_ns for share in path.shares) == path.total_ns
    assert {part.span_id for part in path.intervals} <= {span.span_id for span in trace.spans}
    for first, second in itertools.pairwise(path.intervals):
        assert (first.label, first.span_id) != (second.label, second.span_id)
    return path


_span = st.tuples(
    st.sampled_from(["linly.stage tts", "linly.stage", "linly.queue.wait", "work", "linly.gc.pause"]),
    st.integers(1, 8),
    st.integers(-50, 250),
    st.integers(-50, 250),
)


@settings(deadline=None)
@given(st.lists(_span, max_size=10))
def test_open_spans_of_any_shape_cover_the_request_to_the_nanosecond(
    plan: list[tuple[str, int, int, int]],
) -> None:
    trace = Turn().closed(200)
    root = trace.spans[0]
    spans = [root]
    for number, (name, parent, start, end) in enumerate(plan, 2):
        spans.append(
            root._replace(
                name=name,
                span_id=number,
                parent_id=min(parent, number - 1),
                start_ns=ns(start),
                end_ns=ns(end),
            )
        )
    _must_cover(replace(trace, spans=tuple(spans)))


def test_counters_that_are_no_numbers_are_not_counted() -> None:
    turn = Turn()
    turn.stage("tts", 0, 10)
    turn.span("llm.generate", 0, 50, marks={"token": [10, 20]})
    trace = turn.closed(100)
    for value in (math.nan, math.inf, 10**400):
        names = ("stage.state", "kv_cache.bytes", "memory.rss", "memory.gpu.used")
        strange = with_samples(trace, *(Sample(name, "tts", ns(15), value) for name in names))
        assert _must_cover(strange).method == "spans"
        assert memory(strange) == Memory(None, ())
        assert decode(strange)[0].kv_last_bytes is None


# what if


def a_conversation() -> Report:
    turn = Turn()
    turn.stage("asr", 0, 300)
    turn.stage("llm", 300, 800)
    turn.stage("tts", 900, 1_400)
    return Report.of(turn.closed(2_000))


def test_first_audio_with_a_quicker_first_token() -> None:
    found = a_conversation().what_if("first audio", "llm", 200)
    assert found is not None
    assert (found.work_ns, found.before_ns, found.after_ns, found.saved_ns) == (
        500 * MS,
        1_400 * MS,
        1_100 * MS,
        300 * MS,
    )
    slower = a_conversation().what_if("first audio", "my llm", 600)
    assert slower is not None
    assert slower.saved_ns == -100 * MS


def test_no_answer_where_the_milestone_or_the_stage_is_missing() -> None:
    report = a_conversation()
    assert report.what_if("first frame", "llm", 200) is None
    assert report.what_if("first token", "tts", 200) is None
    assert report.what_if("first token", "face", 200) is None


def test_a_negative_time_is_refused() -> None:
    report = a_conversation()
    with pytest.raises(ValueError, match="at least 0"):
        what_if(report.milestones[0], report.stages[0], -1)
