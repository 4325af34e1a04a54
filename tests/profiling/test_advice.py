"""Advice: each rule names its bottleneck with figures and spans, and is silent where nothing is wrong or known."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from linly_profiling import CudaUse, LoadedTrace, Mark, Record, Report, Sample, Trace, load, save
from linly_profiling.advice import RULES, Advice, advise
from linly_profiling.advice.evidence import severity
from linly_profiling.tables import columns
from trace_tools import MS
from turn_tools import START_NS, Turn, ns

GB = 1_000_000_000
DOCS = Path(__file__).parents[2] / "docs" / "advice.md"


def found(trace: LoadedTrace) -> dict[str, Advice]:
    return {advice.rule: advice for advice in Report.of(trace).advice}


def names(trace: LoadedTrace, advice: Advice) -> set[str]:
    by_id = {span.span_id: span.name for span in trace.spans}
    return {by_id[span_id] for span_id in advice.span_ids}


def every(start: float, end: float, count: int) -> list[float]:
    """So many instants, evenly from start to end."""
    return [start + (end - start) * index / (count - 1) for index in range(count)]


# the case to reproduce


def the_case() -> Turn:
    """ASR 800 ms, LLM 2100 ms with its first token after 450 ms at 98 % GPU memory, TTS 900 ms, face 600 ms."""
    turn = Turn(gpu_memory_total_bytes=24 * GB)
    asr = turn.stage("asr", 0, 800, ready_ns=ns(0), busy_ns=800 * MS)
    llm = turn.stage("llm", 800, 1250, ready_ns=ns(800), busy_ns=2100 * MS)
    tts = turn.stage("tts", 1250, 3800, ready_ns=ns(2900), busy_ns=900 * MS, media_s=4.0)
    face = turn.stage("face", 3800, 4400, ready_ns=ns(3800), busy_ns=600 * MS, media_s=4.0, fps=25)
    turn.span("whisper.transcribe", 0, 800, asr)
    tokens = every(1250, 2900, 100)
    turn.span(
        "llm.generate", 800, 2900, llm, {"token": tokens}, prompt_tokens=1840, cached_tokens=0, tokens=100
    )
    turn.counter("memory.gpu.used", "cuda:0", {800: 22 * GB, 2000: 0.98 * 24 * GB, 3000: 22.4 * GB})
    turn.span("tts.synthesise", 2900, 3800, tts)
    turn.span("face.render", 3800, 4400, face, frames=100)
    return turn


def test_the_case_names_the_first_token_and_the_memory_with_their_figures() -> None:
    trace = the_case().closed(4400)
    advice = found(trace)
    memory, token = advice["memory-pressure"], advice["first-token"]
    assert memory.severity == "high"
    assert memory.title == "GPU memory of cuda:0 is nearly full: 98 %"
    assert "23.5 GB of 24.0 GB" in memory.evidence
    assert "while llm.generate ran" in memory.evidence
    assert "paged attention" in memory.remedy
    assert token.title == "The language model's first token took 450 ms"
    assert "12 % of the 3.80 s to first audio" in token.evidence
    assert "which would be 3.55 s with a first token after 200 ms" in token.evidence
    assert "1,840 tokens, none of them cached" in token.evidence
    assert "the whole answer took 2.10 s" in token.evidence
    assert "prefix caching" in token.remedy
    assert "Free GPU memory first" in token.remedy
    assert token.cost_ns == 450 * MS
    assert names(trace, token) == names(trace, memory) == {"llm.generate"}


def test_the_report_of_the_case_can_be_read_aloud() -> None:
    text = str(Report.of(the_case().closed(4400)))
    for line in (
        "  my asr 800 ms (18 %), my llm 2.10 s (48 %), my tts 900 ms (20 %), my face 600 ms (14 %)",
        "memory  cuda:0 23.5 GB of 24.0 GB (98 %)",
        "advice:",
        " 1. GPU memory of cuda:0 is nearly full: 98 % (high)",
        " 2. my tts waited 1.65 s until my llm had given it enough to begin (high)",
        " 3. The language model's first token took 450 ms (medium)",
    ):
        assert line in text.splitlines()
    assert text.index("first audio after") < text.index("critical path") < text.index("advice:")
    assert max(map(columns, text.splitlines())) <= 100


def test_the_advice_survives_the_file(tmp_path: Path) -> None:
    trace = the_case().closed(4400)
    save(tmp_path / "case.json", [trace])
    (loaded,) = load(tmp_path / "case.json")
    assert Report.of(loaded) == Report.of(trace)
    data = json.loads(json.dumps(Report.of(trace).to_dict(), allow_nan=False))
    assert data["advice"][0]["rule"] == "memory-pressure"
    assert data["critical_path"]["intervals"][0]["label"] == "my asr: work"
    assert data["decode"][0]["points"][0]["at_ns"] == ns(1250)
    assert data["pacing"]["render"]["p50_ms"] == 6
    assert data["memory"]["gpus"][0]["share"] == pytest.approx(0.98)


# no advice without evidence


def a_healthy_turn() -> Turn:
    """Quick, streaming, with everything measured: loop lag, memory, KV cache, frames, torch's own spans."""
    turn = Turn(memory_limit_bytes=16 * GB, gpu_memory_total_bytes=24 * GB, cuda_launch_blocking=False)
    asr = turn.stage("asr", 0, 90, busy_ns=90 * MS, wait_in_ns=0, wait_out_ns=0)
    llm = turn.stage("llm", 90, 150, busy_ns=900 * MS, wait_in_ns=90 * MS, wait_out_ns=0)
    tts = turn.stage("tts", 150, 320, ready_ns=ns(250), busy_ns=300 * MS, media_s=8.0, wait_out_ns=0)
    face = turn.stage("face", 320, 360, busy_ns=1000 * MS, media_s=8.0, fps=25, wait_out_ns=900 * MS)
    turn.stage("sink", 360, 365, busy_ns=1600 * MS, media_s=8.0, av_offset_ms=12.0)
    turn.span("whisper.transcribe", 0, 90, asr)
    turn.span(
        "llm.generate", 90, 990, llm, {"token": every(150, 990, 120)}, prompt_tokens=900, cached_tokens=860
    )
    turn.span("tts.mel", 250, 300, tts)
    turn.span("tts.vocoder", 300, 320, tts)
    for start in range(320, 1920, 40):
        turn.span("face.render", start, start + 25, face, frames=5)
    turn.queue_wait(tts, 245, 250, worker="tts", busy_with="turn b")
    turn.span("model.lock", 90, 92, llm)
    turn.span("frames.to_host", 340, 345, face)
    turn.span("linly.gc.pause", 500, 503, generation=2)
    turn.span("cudaStreamSynchronize", 600, 610, llm, source="torch")
    for name, value in (("memory.gpu.used", 12 * GB), ("memory.gpu.reserved", 11 * GB)):
        turn.counter(name, "cuda:0", {100: value})
    turn.counter("kv_cache.bytes", "llm", {150: 1e6, 900: 9e6})
    turn.counter("stage.state", "sink", {0: 0, 360: 1, 1960: 0})
    return turn


def test_a_healthy_fast_request_gets_no_advice() -> None:
    trace = a_healthy_turn().closed(2000)
    report = Report.of(trace)
    assert report.advice == ()
    assert "advice" not in str(report)
    assert report.critical_path is not None
    assert report.critical_path.method == "states"


def test_a_request_of_which_nothing_is_known_gets_no_advice() -> None:
    turn = Turn()
    for row in ("asr", "llm", "tts", "motion", "face", "sink"):
        turn.stage(row, None, None)
    turn.span("llm.generate", 0, 9_000)
    turn.span("face.render", 0, 9_000)
    assert Report.of(turn.closed(10_000)).advice == ()
    assert Report.of(LoadedTrace("r", "ok", 0, Trace("r").epoch, ())).advice == ()


# each rule fires, and says so with figures; a little less, and it is silent


def one(trace: LoadedTrace, rule: str) -> Advice:
    """The one piece of advice of this trace."""
    (advice,) = Report.of(trace).advice
    assert advice.rule == rule
    assert advice.evidence
    assert advice.remedy.endswith((".", "`"))
    return advice


def a_first_token(ms: float, audio: float = 5_000, **attrs: Any) -> LoadedTrace:
    turn = Turn()
    llm = turn.stage("llm", 0, ms)
    turn.stage("tts", ms, audio, ready_ns=ns(ms))
    turn.span("llm.generate", 0, audio, llm, {"token": [ms]}, **attrs)
    return turn.closed(audio)


@pytest.mark.parametrize(
    ("ms", "audio", "fires"),
    [(299, 5_000, 0), (300, 5_000, 1), (120, 300, 1), (119, 300, 0), (99, 200, 0), (100, 250, 1)],
)
def test_a_first_token_is_slow_by_itself_or_as_a_part_of_the_wait(
    ms: float, audio: float, fires: bool
) -> None:
    assert ("first-token" in found(a_first_token(ms, audio))) is bool(fires)


@pytest.mark.parametrize(
    ("attrs", "says"),
    [
        ({}, "Record prompt_tokens"),
        ({"prompt_tokens": 2_000, "cached_tokens": 0}, "prefix caching"),
        ({"prompt_tokens": 2_000}, "prefix caching"),
        ({"prompt_tokens": 2_000, "cached_tokens": 1_900}, "caching has little left"),
        ({"prompt_tokens": 256}, "prefix caching"),
        ({"prompt_tokens": 255}, "caching has little left"),
    ],
)
def test_the_remedy_for_a_slow_first_token_depends_on_the_prompt(attrs: dict[str, int], says: str) -> None:
    advice = found(a_first_token(800, **attrs))["first-token"]
    assert says in advice.remedy
    assert "GPU memory" not in advice.remedy


def test_a_first_token_without_marks_is_what_the_stage_gave_first() -> None:
    turn = Turn()
    turn.stage("asr", 0, 100)
    llm = turn.stage("llm", 100, 700)
    advice = found(turn.closed(1_000))["first-token"]
    assert (advice.cost_ns, advice.span_ids) == (600 * MS, (llm.span_id,))


def a_decode(late_ms: float) -> LoadedTrace:
    turn = Turn()
    times, at = [], 10.0
    for index in range(90):
        at += 10 if index < 45 else late_ms
        times.append(at)
    turn.span("llm.generate", 0, at, None, {"token": times})
    return turn.closed(at)


def test_a_decode_that_slows_is_named_with_its_slope() -> None:
    advice = one(a_decode(16), "decode-slows")
    assert advice.title == "Tokens take 60 % longer at the end of the answer than at its start"
    assert (
        "10 ms a token in the first third, 16 ms in the last: +100 ms for each 1,000 tokens"
        in advice.evidence
    )
    assert advice.cost_ns == 45 * 6 * MS
    assert Report.of(a_decode(12)).advice == ()


@pytest.mark.parametrize(("used", "fires"), [(0.94, 0), (0.95, 1)])
def test_memory_of_the_process_is_full_from_its_share_on(used: float, fires: bool) -> None:
    turn = Turn(memory_limit_bytes=10 * GB)
    turn.counter("memory.rss", "process", {5: used * 10 * GB})
    trace = turn.close(10).snapshot()
    samples = [sample for sample in trace.samples if sample.at_ns == ns(5)]
    root = trace.spans[0]._replace(attrs=turn.attrs)
    trace = replace(trace, samples=tuple(samples), spans=(root,))
    assert len(Report.of(trace).advice) == fires
    if fires:
        advice = one(trace, "memory-pressure")
        assert advice.title == "Memory is nearly full: 95 %"
        assert advice.cost_ns is None


def test_a_late_answer_names_the_stage_that_takes_most_of_it() -> None:
    turn = Turn()
    asr = turn.stage("asr", 0, 800)
    turn.stage("llm", 800, 900)
    turn.stage("tts", 900, 1_200)
    advice = one(turn.closed(1_300), "stage-dominates")
    assert advice.title == "my asr takes 800 ms of the 1.20 s to first audio"
    assert (advice.span_ids, advice.cost_ns, advice.severity) == ((asr.span_id,), 800 * MS, "high")


def rules_of(trace: LoadedTrace) -> set[str]:
    return set(found(trace))


@pytest.mark.parametrize(("work", "audio", "fires"), [(350, 700, 1), (349.9, 700, 0), (350, 699.9, 0)])
def test_half_of_a_late_answer_dominates_it(work: float, audio: float, fires: bool) -> None:
    turn = Turn()
    turn.stage("asr", 0, work)
    turn.stage("llm", work, audio)
    turn.stage("tts", audio, audio)
    assert ("stage-dominates" in rules_of(turn.closed(audio))) is bool(fires)


@pytest.mark.parametrize(("wait", "audio", "fires"), [(300, 1_200, 1), (299.9, 600, 0), (300, 1_200.1, 0)])
def test_a_handover_is_late_by_itself_and_as_a_part_of_the_wait(
    wait: float, audio: float, fires: bool
) -> None:
    turn = Turn()
    turn.stage("llm", 0, 50)
    turn.stage("tts", 50, audio, ready_ns=ns(50 + wait))
    assert ("late-handover" in rules_of(turn.closed(audio))) is bool(fires)


def test_a_voice_that_waits_for_the_whole_answer_is_named() -> None:
    turn = Turn()
    llm = turn.stage("llm", 0, 100)
    tts = turn.stage("tts", 100, 1_000, ready_ns=ns(700))
    advice = one(turn.closed(1_100), "late-handover")
    assert advice.title == "my tts waited 600 ms until my llm had given it enough to begin"
    assert "60 % of the 1.00 s to first audio" in advice.evidence
    assert advice.span_ids == (llm.span_id, tts.span_id)


def a_voice(mel: float, vocoder: float, wall: float = 1_000) -> LoadedTrace:
    turn = Turn()
    turn.span("tts.mel", 0, mel)
    turn.span("tts.vocoder", mel, mel + vocoder)
    return turn.closed(wall)


def test_a_vocoder_slower_than_its_spectrogram_is_named() -> None:
    advice = one(a_voice(100, 250), "vocoder-over-mel")
    assert advice.title == "The vocoder takes 2.5 times as long as the mel spectrogram"
    assert "250 ms in 1 call of tts.vocoder, 100 ms of tts.mel" in advice.evidence
    one(a_voice(10, 50), "vocoder-over-mel")
    for trace in (a_voice(100, 99), a_voice(10, 49.9), a_voice(0, 250)):
        assert Report.of(trace).advice == ()


def a_renderer(frame_ms: float, frames: int = 50) -> LoadedTrace:
    turn = Turn()
    face = turn.stage("face", 0, frame_ms, fps=25)
    for index in range(frames):
        turn.span("face.render", index * frame_ms, (index + 1) * frame_ms, face, frames=1)
    return turn.closed(frames * frame_ms)


def test_a_renderer_below_its_rate_is_named_with_what_is_missing() -> None:
    advice = one(a_renderer(50), "renderer-below-fps")
    assert advice.title == "The renderer makes 20.0 frames a second of 25"
    assert advice.evidence == (
        "50.0 ms a frame (p95 50.0 ms), 40.0 ms for each; 45 of 50 frames late;"
        " the picture would stand still for 450 ms in all"
    )
    assert advice.cost_ns == 500 * MS
    assert len(advice.span_ids) == 8
    one(a_renderer(50, frames=10), "renderer-below-fps")
    for trace in (a_renderer(40), a_renderer(40.5), a_renderer(50, frames=9)):
        assert Report.of(trace).advice == ()


def a_gap(length_ms: float) -> LoadedTrace:
    turn = Turn()
    llm = turn.stage("llm", None, None)
    face = turn.stage("face", None, None, fps=25)
    turn.span("face.render", 0, 10, face, frames=10)  # enough until 450 ms
    turn.span("llm.generate", 10, 440 + length_ms, llm)
    turn.span("face.render", 440 + length_ms, 450 + length_ms, face, frames=10)
    return turn.closed(1_000)


def test_a_starved_renderer_blames_the_stage_that_was_waited_for() -> None:
    advice = one(a_gap(200), "playback-starved")
    assert advice.title == "Playback would run dry for 200 ms"
    assert "1 gap" in advice.evidence
    assert "the request waited for my llm 95 %, my face 5 %" in advice.evidence
    one(a_gap(100), "playback-starved")
    assert Report.of(a_gap(99)).advice == ()


@pytest.mark.parametrize(
    ("offset", "side"), [(45, None), (46, "46 ms behind"), (-125, None), (-126, "126 ms before")]
)
def test_sound_and_picture_apart_are_named_beyond_what_viewers_notice(offset: int, side: str | None) -> None:
    turn = Turn()
    sink = turn.stage("sink", 0, 10, av_offset_ms=offset)
    trace = turn.closed(100)
    if side is None:
        assert Report.of(trace).advice == ()
    else:
        advice = one(trace, "av-offset")
        assert advice.title == f"The picture is {side} the sound"
        assert advice.span_ids == (sink.span_id,)


def a_queue(wait_ms: float, busy_with: str, work_ms: float = 100) -> LoadedTrace:
    turn = Turn()
    tts = turn.stage("tts", 0, wait_ms + work_ms)
    turn.queue_wait(tts, 0, wait_ms, worker="voice", busy_with=busy_with)
    turn.span("tts.synthesise", wait_ms, wait_ms + work_ms, tts)
    return turn.closed(600)


def test_a_queue_longer_than_the_work_is_named() -> None:
    trace = a_queue(200, "turn b")
    advice = one(trace, "queue-wait")
    assert advice.title == "my tts waited 200 ms for its worker, for 100 ms of work"
    assert "1 wait, the longest 200 ms; the worker was busy with turn b" in advice.evidence
    assert names(trace, advice) == {"linly.queue.wait"}
    one(a_queue(100, "turn b"), "queue-wait")
    assert Report.of(a_queue(99, "turn b")).advice == ()
    assert Report.of(a_queue(49, "turn b", work_ms=10)).advice == ()


def test_a_queue_behind_work_that_was_not_measured_is_no_evidence() -> None:
    turn = Turn()
    tts = turn.stage("tts", 0, 300)
    turn.queue_wait(tts, 0, 200, busy_with="turn b")
    assert Report.of(turn.closed(600)).advice == ()


def test_a_cancelled_call_that_blocks_the_worker_is_named() -> None:
    advice = one(a_queue(200, "cancelled turn b"), "cancelled-call")
    assert advice.title == "200 ms of waiting for calls that had been cancelled"
    assert "cancelled turn b" in advice.evidence
    assert Report.of(a_queue(49, "cancelled turn b")).advice == ()


def test_loading_on_the_way_of_a_request_is_named() -> None:
    assert one(a_queue(200, "loading"), "cold-start").evidence == "The request waited for worker voice"
    turn = Turn()
    turn.span("llm.load", 0, 150)
    assert one(turn.closed(300), "cold-start").title == "150 ms of loading on the way of a request"
    one(a_queue(100, "loading"), "cold-start")
    assert Report.of(a_queue(99, "loading")).advice == ()


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("cache.lock", "lock-wait"),
        ("model lock.wait", "lock-wait"),
        ("frames.copy", "copy-stall"),
        ("mel.h2d", "copy-stall"),
        ("mel.d2h", "copy-stall"),
        ("mel.to_device", "copy-stall"),
        ("mel.to_host", "copy-stall"),
    ],
)
def test_a_lock_or_copy_that_stalls_is_named(name: str, rule: str) -> None:
    turn = Turn()
    tts = turn.stage("tts", None, None)
    turn.span(name, 0, 80, tts)
    turn.span(name, 100, 120, tts)
    advice = one(turn.closed(1_000), rule)
    assert name in advice.title
    assert (advice.cost_ns, advice.severity) == (100 * MS, "medium")
    assert "2 spans, the longest 80.0 ms, 10 % of the request" in advice.evidence


def test_a_lock_beside_the_critical_path_stalls_nobody() -> None:
    turn = Turn()
    llm, tts = turn.stage("llm", None, None), turn.stage("tts", None, None)
    turn.span("cache.lock", 0, 300, llm)
    turn.span("tts.synthesise", 0, 280, tts)
    assert Report.of(turn.closed(300)).advice == ()


def a_jam(row: str, factor: float, held_ms: float) -> LoadedTrace:
    turn = Turn()
    turn.stage("tts", None, None, wait_out_ns=round(held_ms * MS))
    turn.stage(row, None, None, wait_out_ns=0, busy_ns=round(factor * 1e9), media_s=1.0)
    return turn.closed(1_000)


def test_a_stage_held_up_by_one_that_can_hardly_keep_up_is_named() -> None:
    advice = one(a_jam("face", 0.9, 400), "backpressure")
    assert advice.title == "my tts is held up by my face"
    assert (
        "waited 400 ms of its 1.00 s for room; my face needs 0.90 s for each second of media"
        in advice.evidence
    )
    assert advice.cost_ns == 400 * MS
    for trace in (a_jam("face", 0.8, 250), a_jam("sink", 1.1, 250)):
        one(trace, "backpressure")


@pytest.mark.parametrize(
    ("row", "factor", "held_ms"), [("face", 0.79, 400), ("face", 0.9, 249), ("sink", 1.09, 400)]
)
def test_being_held_up_by_a_stage_with_reserves_or_by_playing_is_fine(
    row: str, factor: float, held_ms: float
) -> None:
    assert Report.of(a_jam(row, factor, held_ms)).advice == ()


def a_blocked_loop(ms: float, **attrs: Any) -> LoadedTrace:
    turn = Turn()
    turn.span("linly.loop.blocked", 100, 100 + ms, row="event loop", **attrs)
    return turn.closed(1_000)


def test_a_blocked_event_loop_is_named_with_its_stack() -> None:
    stack = [
        "app/main.py:3 main",
        "app/app.py:7 serve",
        "app/web.py:12 Handler.get",
        "app/prices.py:40 total",
    ]
    advice = one(a_blocked_loop(180, stack=stack), "event-loop-blocked")
    assert advice.title == "The event loop was blocked for 180 ms"
    assert advice.evidence == (
        "1 time, the longest for 180 ms, in app/prices.py:40 total, called from app/web.py:12 Handler.get,"
        " called from app/app.py:7 serve"
    )
    assert Report.of(a_blocked_loop(49, stack=stack)).advice == ()


@pytest.mark.parametrize(
    ("frame", "kind"),
    [
        ("lib/pathlib.py:1058 Path.read_bytes", "blocking file I/O"),
        ("pathlib/_local.py:546 Path.read_text", "blocking file I/O"),
        ("app/store.py:9 Store.read_text", "blocking file I/O"),
        ("python3.11/socket.py:706 SocketIO.readinto", "blocking file I/O"),
        ("python3.11/ssl.py:1166 SSLSocket.read", "a blocking network call"),
        ("python3.11/subprocess.py:1264 Popen.wait", "waiting for another program"),
        ("python3.11/threading.py:320 Condition.wait", "waiting for another thread"),
        ("<frozen importlib._bootstrap>:1147 _find_and_load_unlocked", "the import of a module"),
    ],
)
def test_the_innermost_frame_tells_what_kind_of_call_blocks(frame: str, kind: str) -> None:
    advice = one(a_blocked_loop(180, stack=["app/web.py:12 get", frame]), "event-loop-blocked")
    assert advice.title == f"The event loop was blocked for 180 ms by {kind}"
    assert f"in {frame}, called from app/web.py:12 get" in advice.evidence


@pytest.mark.parametrize("stack", [None, "a.py:1 f", [], [1, None], ["no line"], ["pathlib.py: read_text"]])
def test_a_stack_of_another_shape_is_told_as_it_is(stack: Any) -> None:
    title = one(a_blocked_loop(180, stack=stack), "event-loop-blocked").title
    assert title == "The event loop was blocked for 180 ms"


def test_without_a_stack_what_ran_meanwhile_is_the_only_hint() -> None:
    turn = Turn()
    tts = turn.stage("tts", None, None)
    turn.span("tts.synthesise", 120, 400, tts)
    turn.span("mp4.write", 290, 300)
    turn.span("llm.generate", 281, 400)
    turn.span("linly.loop.blocked", 100, 280)
    advice = one(turn.closed(1_000), "event-loop-blocked")
    assert (
        advice.evidence
        == "1 time, the longest for 180 ms, no stack was recorded; open meanwhile: tts.synthesise"
    )
    assert "what ran meanwhile" in advice.remedy


def test_each_place_that_blocks_has_its_own_advice() -> None:
    turn = Turn()
    for index, place in enumerate(["a.py:1 f", "b.py:2 g", "a.py:1 f"]):
        turn.span("linly.loop.blocked", 200 * index, 200 * index + 60, stack=[place])
    advice = Report.of(turn.closed(1_000)).advice
    assert [each.cost_ns for each in advice] == [120 * MS, 60 * MS]
    assert "2 times, the longest for 60.0 ms, in a.py:1 f" in advice[0].evidence


@pytest.mark.parametrize(
    ("pause", "count", "wall", "fires"),
    [(19, 2, 1_000, 0), (20, 1, 1_000, 1), (5, 10, 2_500, 1), (5, 10, 2_501, 0), (4.9, 10, 600, 0)],
)
def test_garbage_collection_is_named_if_it_is_long_or_frequent(
    pause: float, count: int, wall: float, fires: bool
) -> None:
    turn = Turn()
    for index in range(count):
        turn.span("linly.gc.pause", 50 * index, 50 * index + pause, row="gc", generation=2)
    trace = turn.closed(wall)
    assert len(Report.of(trace).advice) == fires
    if fires:
        assert one(trace, "gc-pauses").cost_ns == pause * count * MS


def torch_spans(each_ms: float, *operations: str, repeat: int) -> LoadedTrace:
    """So often one operation inside the other, as torch's profiler shows them."""
    turn = Turn()
    for index in range(repeat):
        parent = None
        for operation in operations:
            turn.at(10 * index)
            parent = turn.trace.start(operation, parent, source="torch")
        turn.at(10 * index + each_ms)
        for span in list(turn.trace._open.values())[::-1]:
            if span is not turn.trace.root:
                span.end()
    return turn.closed(1_000)


@pytest.mark.parametrize(
    "name", ["Memcpy HtoD (Pageable -> Device)", "Memcpy DtoH (Device -> Pinned)", "cudaMemcpyAsync"]
)
def test_repeated_copies_are_named(name: str) -> None:
    advice = one(torch_spans(2, name, repeat=30), "repeated-copies")
    assert advice.title == "30 copies between host and GPU"
    assert advice.evidence == f"30 × {name}: 60.0 ms, 6 % of the request"
    assert ("these copies are from pageable memory" in advice.remedy) is ("Pageable" in name)
    one(torch_spans(1, name, repeat=20), "repeated-copies")
    assert Report.of(torch_spans(2, name, repeat=19)).advice == ()
    assert Report.of(torch_spans(0.99, name, repeat=20)).advice == ()


def test_a_copy_and_the_call_that_ordered_it_are_one_copy() -> None:
    trace = torch_spans(2, "cudaMemcpyAsync", "Memcpy HtoD (Pinned -> Device)", repeat=30)
    assert one(trace, "repeated-copies").title == "30 copies between host and GPU"


def test_implicit_synchronisation_is_named_and_counted_once() -> None:
    trace = torch_spans(2, "aten::item", "aten::_local_scalar_dense", "cudaStreamSynchronize", repeat=30)
    advice = one(trace, "implicit-sync")
    assert advice.title == "The host waited 30 times for the GPU to finish"
    assert advice.evidence == "30 × aten::item: 60.0 ms, 6 % of the request"
    assert names(trace, advice) == {"aten::item"}
    assert Report.of(torch_spans(2, "cudaDeviceSynchronize", repeat=19)).advice == ()


def test_launch_blocking_is_named_if_it_is_set() -> None:
    advice = one(Turn(cuda_launch_blocking=True).closed(10), "cuda-launch-blocking")
    assert advice.severity == "high"
    for value in (False, None, "1", 1):
        assert Report.of(Turn(cuda_launch_blocking=value).closed(10)).advice == ()


def test_a_fallback_whose_cost_is_not_known_has_none() -> None:
    turn = Turn()
    turn.stage("tts", 0, 10, fallbacks=[{"from": "a", "to": "b", "error": "no voice"}])
    advice = one(turn.closed(1_000), "fallbacks")
    assert advice.evidence == "a was replaced by b after no voice"
    assert (advice.cost_ns, advice.severity) == (None, "low")


def test_failed_calls_before_a_retry_are_its_cost() -> None:
    turn = Turn()
    llm = turn.stage("llm", 0, 10, fallbacks=[{"from": "a", "to": "a", "error": "busy"}], retries=1)
    failed = turn.span("llm.generate", 0, 300, llm, outcome="error")
    advice = one(turn.closed(1_000), "fallbacks")
    assert advice.evidence == "a was tried again after busy; tried again 1 time; the failed calls took 300 ms"
    assert (advice.cost_ns, advice.severity) == (300 * MS, "high")
    assert advice.span_ids == (failed.span_id, llm.span_id)


def test_dropped_records_make_the_figures_doubtful() -> None:
    turn = Turn()
    for index in range(8):
        turn.span("work", index, index + 1)
    advice = one(replace(turn.closed(10), dropped=1), "dropped-records")  # one of ten
    assert advice.evidence == "1 record was dropped; the figures above lack them"
    assert advice.severity == "medium"
    turn = Turn()
    for index in range(9):
        turn.span("work", index, index + 1)
    assert one(replace(turn.closed(10), dropped=1), "dropped-records").severity == "low"


# all rules


@pytest.mark.parametrize(
    ("cost", "of", "is_"),
    [(20, 100, "high"), (19, 100, "medium"), (5, 100, "medium"), (4, 100, "low"), (1, 0, "low")],
)
def test_severity_follows_from_the_share_of_the_wait(cost: int, of: int, is_: str) -> None:
    assert severity(cost, of) == is_


def test_of_many_spans_the_text_shows_the_worst_four() -> None:
    turn = Turn()
    for index in range(6):
        turn.span("linly.gc.pause", 100 * index, 100 * index + 30 + index)
    text = str(Report.of(turn.closed(1_000)))
    assert "6 pauses, the longest 35.0 ms [spans #7, #6, #5, #4, …]" in text


def test_a_rule_of_ones_own_is_asked_too(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = Advice("mine", "low", "A title", "A figure", "A remedy.", (1,), 5)
    monkeypatch.setitem(RULES, "mine", lambda seen: iter([mine] if seen.trace.request_id == "turn-1" else []))
    assert Report.of(Turn().closed(10)).advice == (mine,)
    assert Report.of(Turn("other").closed(10)).advice == ()


def test_the_worst_stands_first() -> None:
    turn = the_case()
    turn.trace.dropped = 1
    turn.span("linly.loop.blocked", 0, 60, stack=["a.py:1 f"])
    turn.span("linly.loop.blocked", 100, 1_500, stack=["b.py:1 f"])
    advice = Report.of(turn.closed(4400)).advice
    ranks = ["high", "medium", "low"]
    assert [ranks.index(each.severity) for each in advice] == sorted(
        ranks.index(each.severity) for each in advice
    )
    for first, second in pairwise(advice):
        if first.severity == second.severity and second.cost_ns is not None:
            assert first.cost_ns is None or first.cost_ns >= second.cost_ns


def test_the_manual_explains_every_rule() -> None:
    rows = re.findall(r"^\| `([a-z-]+)` \|", DOCS.read_text("utf-8"), re.MULTILINE)
    assert sorted(rows) == sorted(RULES)


_NAMES = (
    "llm.generate", "face.render", "tts.mel", "tts.vocoder", "linly.queue.wait", "linly.loop.blocked",
    "linly.gc.pause", "linly.stage llm", "linly.stage tts", "linly.stage face", "linly.stage sink", "linly.stage",
    "x.lock", "x.copy", "x.load", "aten::item", "cudaMemcpyAsync", "Memcpy HtoD", "else",
)  # fmt: skip
_ATTRS = (
    "row", "stage", "order", "busy_ns", "wait_in_ns", "wait_out_ns", "first_in_ns", "ready_ns", "first_out_ns",
    "media_s", "fps", "frames", "fallbacks", "retries", "worker", "busy_with", "stack", "callback", "prompt_tokens",
    "cached_tokens", "tokens", "memory_limit_bytes", "gpu_memory_total_bytes", "cuda_launch_blocking", "source",
    "av_offset_ms",
)  # fmt: skip
_words = st.sampled_from(
    [
        "llm",
        "tts",
        "face",
        "sink",
        "torch",
        "loading",
        "cancelled turn",
        "turn b",
        "a.py:3 open",
        "\x1b[2J",
        "长",
        "",
    ]
)
_numbers = (
    st.integers(-(2**63), 2**63 - 1)
    | st.integers(-5, 5_000 * MS)
    | st.floats(allow_nan=False, allow_infinity=False)
)
_scalars = st.booleans() | _numbers | _words | st.text(max_size=5)
_values = (
    st.none()
    | _scalars
    | st.lists(_scalars, max_size=3)
    | st.lists(st.dictionaries(_words, _scalars, max_size=3), max_size=2)
)
_times = st.integers(START_NS - 100 * MS, START_NS + 2_000 * MS)
_marks = st.lists(
    st.builds(Mark, st.sampled_from(["token", "frame", "item"]), _times, st.none() | st.integers(-9, 2**40)),
    max_size=6,
)
_cuda = st.none() | st.builds(CudaUse, st.integers(0, 2), *[st.none() | st.integers(-9, 2**40)] * 4)
_samples = st.lists(
    st.builds(
        Sample,
        st.sampled_from(["stage.state", "memory.rss", "memory.gpu.used", "kv_cache.bytes", "loop.lag_ms"]),
        st.sampled_from(["llm", "tts", "face", "process", "cuda:0", "", "cuda:x"]),
        _times,
        st.integers(0, 3)
        | st.integers(-(2**63), 2**63 - 1)
        | st.floats(allow_nan=False, allow_infinity=False),
    ),
    max_size=8,
)
_memory = st.none() | st.integers(0, 2**50)


@st.composite
def _traces(draw: Callable[..., Any]) -> LoadedTrace:
    spans = []
    for span_id in range(1, 1 + draw(st.integers(0, 9))):
        start_ns, end_ns = draw(_times), draw(_times)
        spans.append(
            Record(
                name=draw(st.sampled_from(_NAMES)) if span_id > 1 else "linly.request",
                span_id=span_id,
                parent_id=draw(st.integers(1, span_id - 1)) if span_id > 1 else None,
                request_id="r",
                thread_id=1,
                thread_name="t",
                task=None,
                start_ns=min(start_ns, end_ns),
                end_ns=max(start_ns, end_ns),
                outcome=draw(st.sampled_from(["ok", "error", "cancelled", "open"])),
                error_type=None,
                attrs=draw(st.dictionaries(st.sampled_from(_ATTRS), _values, max_size=6)),
                marks=tuple(draw(_marks)),
                rss_start_bytes=draw(_memory),
                rss_end_bytes=draw(_memory),
                rss_peak_bytes=draw(_memory),
                cpu_ns=None,
                cuda=draw(_cuda),
            )
        )
    dropped = draw(st.integers(0, 5))
    return LoadedTrace("r", "ok", dropped, Trace("r").epoch, tuple(spans), tuple(draw(_samples)))


def _must_hold(trace: LoadedTrace) -> None:
    report = Report.of(trace)
    known = {span.span_id for span in trace.spans}
    assert report.advice == advise(report, trace)
    for advice in report.advice:
        assert advice.rule in RULES
        assert set(advice.span_ids) <= known
        assert len(set(advice.span_ids)) == len(advice.span_ids)
        assert advice.cost_ns is None or advice.cost_ns > 0
        assert "None" not in advice.title + advice.evidence + advice.remedy
    for milestone in report.milestones:
        assert sum(part.duration_ns for part in milestone.contributions) == milestone.total_ns
    if report.critical_path is not None:
        assert sum(part.duration_ns for part in report.critical_path.intervals) == report.wall_ns
    json.dumps(report.to_dict(), allow_nan=False)
    assert max(map(columns, str(report).splitlines())) <= 100


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(_traces())
def test_no_trace_whatever_it_holds_breaks_the_report_or_its_advice(trace: LoadedTrace) -> None:
    _must_hold(trace)


@settings(
    deadline=None,
    max_examples=25,
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.function_scoped_fixture,
    ],
)
@given(st.lists(_traces(), min_size=1, max_size=2))
def test_nor_does_one_that_comes_from_a_file(tmp_path: Path, traces: Sequence[LoadedTrace]) -> None:
    for trace in load(save(tmp_path / "t.json", traces)):
        _must_hold(trace)
