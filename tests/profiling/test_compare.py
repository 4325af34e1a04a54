"""Percentiles over many requests, and what changed between two sets of them."""

from __future__ import annotations

import json
import math
import random
import statistics
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from linly_profiling import LoadedTrace, Sample, Trace, load
from linly_profiling.compare import REQUEST_METRICS, Change, Diff, Distribution, Summary, percentile, shift
from linly_profiling.compare.statistics import cut_off, median
from linly_profiling.formats import save
from linly_profiling.tables import columns
from trace_tools import MS, Clock

START_NS = 1_000 * MS
finite = st.floats(-1e9, 1e9, allow_subnormal=False)


def request(
    request_id: str = "r",
    *,
    llm: float = 150,
    token: float = 20,
    tts: float = 400,
    queue: float = 0,
    tokens: int = 5,
    outcome: str = "ok",
    rss: int | None = 800_000_000,
    engine: str = "my tts",
    busy_with: str = "turn 7",
    **root: Any,
) -> LoadedTrace:
    """A question to a language model and a voice; times in milliseconds.

    The voice begins with the third token, waits for its worker, and gives sound after `tts`; then the request ends.
    """
    clock = Clock(START_NS)
    trace = Trace(request_id, clock_ns=clock)
    trace.root.set(**root)

    def at(ms: float) -> int:
        clock.now_ns = START_NS + round(ms * MS)
        return clock.now_ns

    def stage(name: str, row: str, first_in: float, first_out: float, **attrs: Any) -> Any:
        at(0)
        times = {"first_in_ns": at(first_in), "ready_ns": at(first_in), "first_out_ns": at(first_out)}
        at(0)
        return trace.start(f"linly.stage {row}", None, False, stage=name, row=row, **times, **attrs)

    begins = llm + 2 * token
    end = max(llm + tokens * token, begins + queue + tts)
    model = stage("my llm", "llm", 0, llm, order=0, busy_ns=round((llm + tokens * token) * MS))
    voice = stage(engine, "tts", begins, begins + queue + tts, order=1, busy_ns=round(tts * MS), media_s=2.0)
    call = trace.start("llm.generate", parent=model, tokens=tokens, prompt_tokens=100)
    for index in range(tokens):
        at(llm + index * token)
        call.mark("token")
    call.end()
    at(begins)
    if queue:
        wait = trace.start("linly.queue.wait", parent=voice, worker="hibari", busy_with=busy_with)
        at(begins + queue)
        wait.end()
    work = trace.start("tts.synthesise", parent=voice)
    at(end)
    work.end()
    voice.end()
    model.end()
    trace.close(outcome)
    return without_own_memory(
        trace.snapshot(), () if rss is None else (Sample("memory.rss", "process", START_NS, rss),)
    )


def without_own_memory(trace: LoadedTrace, samples: tuple[Sample, ...]) -> LoadedTrace:
    """What the process of the tests holds is no fact about the request."""
    unknown = {"rss_start_bytes": None, "rss_end_bytes": None, "rss_peak_bytes": None}
    return replace(trace, spans=tuple(span._replace(**unknown) for span in trace.spans), samples=samples)


def repeats(count: int, seed: int, noise: float = 0.05, **means: float) -> list[LoadedTrace]:
    """Requests whose times vary by a share of themselves."""
    draw = random.Random(seed)
    means = {"llm": 150.0, "token": 20.0, "tts": 400.0, **means}
    return [
        request(f"r{i}", **{name: mean * draw.gauss(1, noise) for name, mean in means.items()})  # type: ignore[arg-type]
        for i in range(count)
    ]


def change(diff: Diff, name: str, of: str = "") -> Change:
    (found,) = [each for each in diff.changes if each.name == name and each.of == of]
    return found


# Percentiles


@given(st.lists(finite, min_size=1, max_size=120), st.sampled_from([50, 90, 95, 99]))
def test_a_percentile_is_the_smallest_value_that_enough_values_do_not_exceed(
    values: list[float], percent: int
) -> None:
    found = percentile(sorted(values), percent)
    if found is None:
        return
    enough = [
        value for value in values if sum(other <= value for other in values) * 100 >= percent * len(values)
    ]
    assert found == min(enough)


@pytest.mark.parametrize(("percent", "needed"), [(50, 1), (90, 10), (95, 20), (99, 100)])
def test_a_percentile_with_no_value_above_it_is_unknown(percent: int, needed: int) -> None:
    assert percentile(list(range(needed - 1)), percent) is None
    assert percentile(list(range(1, needed + 1)), percent) == math.ceil(percent / 100 * needed)


def test_percentiles_of_one_to_a_hundred_are_themselves() -> None:
    assert Distribution.of(random.Random(1).sample(range(1, 101), 100)) == Distribution(
        100, 1, 50, 90, 95, 99, 100
    )


@given(st.lists(finite, min_size=1))
def test_the_median_is_that_of_the_standard_library(values: list[float]) -> None:
    assert median(values) == pytest.approx(statistics.median(values))


# Whether a change is one


@pytest.mark.parametrize(
    ("before", "after", "critical"),
    [(5, 5, 0), (6, 6, 2), (8, 8, 7), (5, 8, 2), (10, 10, 16), (15, 15, 51), (20, 20, 105)],
)
def test_the_interval_cuts_where_published_tables_of_the_mann_whitney_test_do(
    before: int, after: int, critical: int
) -> None:
    """Two-sided, 1 %; for example in Siegel, Nonparametric Statistics, 1956, table K."""
    assert cut_off(before, after) == critical


@pytest.mark.parametrize(("before", "after"), [(3, 8), (4, 6), (5, 6), (2, 9)])
def test_the_cut_is_right_for_every_order_of_the_values(before: int, after: int) -> None:
    orders = [
        sum(left > right for left in chosen for right in set(range(before + after)) - set(chosen))
        for chosen in combinations(range(before + after), before)
    ]

    def share(most: int) -> float:
        return sum(order <= most for order in orders) / len(orders)

    cut = cut_off(before, after)
    assert share(-1 if cut is None else cut) <= 0.005 < share(0 if cut is None else cut + 1)


def test_counting_and_the_normal_curve_agree_where_one_takes_over_from_the_other() -> None:
    counted, curve = cut_off(20, 20), cut_off(20, 21)
    assert counted is not None
    assert curve is not None
    assert 3 <= curve - counted <= 7  # the table's step from 19 to 20 is 6


@given(st.lists(finite, min_size=1, max_size=200), st.randoms(use_true_random=False))
def test_a_set_does_not_differ_from_itself(values: list[float], draw: random.Random) -> None:
    shuffled = draw.sample(values, len(values))
    found = shift(values, shuffled)
    assert found.change == 0
    assert found.verdict in ("no clear change", "too few to say")


@given(st.lists(finite, min_size=1, max_size=40), st.lists(finite, min_size=1, max_size=40))
def test_what_is_up_one_way_is_down_the_other(before: list[float], after: list[float]) -> None:
    forth, back = shift(before, after), shift(after, before)
    assert back.change == -forth.change
    if forth.low is not None and forth.high is not None:
        assert (back.low, back.high) == (-forth.high, -forth.low)
        assert forth.low <= forth.high


def called(
    trials: int, before: Callable[[random.Random], list[float]], after: Callable[[random.Random], list[float]]
) -> float:
    """In what share of the trials a change is called."""
    verdicts = [shift(before(draw), after(draw)).verdict for draw in map(random.Random, range(trials))]
    return sum(verdict in ("up", "down") for verdict in verdicts) / trials


def normal(count: int, mean: float, share: float) -> Callable[[random.Random], list[float]]:
    return lambda draw: [draw.gauss(mean, share * mean) for _ in range(count)]


def skewed(count: int) -> Callable[[random.Random], list[float]]:
    return lambda draw: [draw.lognormvariate(5, 0.8) for _ in range(count)]


@pytest.mark.parametrize("count", [5, 8, 30])
def test_noise_alone_is_called_a_change_in_about_one_of_a_hundred_trials(count: int) -> None:
    assert called(800, normal(count, 100, 0.1), normal(count, 100, 0.1)) <= 0.02
    assert called(800, skewed(count), skewed(count)) <= 0.02


def test_thirty_percent_are_found_in_eight_noisy_repeats() -> None:
    assert called(200, normal(8, 100, 0.07), normal(8, 130, 0.07)) >= 0.98


def test_one_percent_in_ten_percent_of_noise_is_not_called() -> None:
    assert called(500, normal(8, 100, 0.1), normal(8, 101, 0.1)) <= 0.02


def test_large_sets_are_thinned_without_losing_what_they_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = random.Random(2)
    before, after = normal(600, 100, 0.1)(draw), normal(500, 103, 0.1)(draw)
    thinned = shift(before, after)
    monkeypatch.setattr("linly_profiling.compare.statistics._MOST_VALUES", 600)
    whole = shift(before, after)
    assert thinned.verdict == whole.verdict == "up"
    assert (thinned.low, thinned.high) == pytest.approx((whole.low, whole.high), abs=0.05)


def test_the_interval_holds_the_true_shift() -> None:
    draw = random.Random(5)
    shifts = [shift(normal(10, 100, 0.1)(draw), normal(10, 120, 0.1)(draw)) for _ in range(400)]
    held = sum(
        each.low is not None and each.high is not None and each.low <= 20 <= each.high for each in shifts
    )
    assert 0.975 <= held / 400 < 1


def test_a_change_too_small_to_matter_is_not_called_however_sure_it_is() -> None:
    assert shift([100.0] * 10, [100.5] * 10).verdict == "no clear change"
    assert shift([100.0] * 10, [102.0] * 10).verdict == "up"


def test_an_interval_that_touches_zero_calls_nothing() -> None:
    found = shift([100.0] * 10, [100.0] * 4 + [150.0] * 6)
    assert (found.change, found.low, found.verdict) == (50, 0, "no clear change")


def test_a_change_from_nothing_is_called() -> None:
    assert shift([0.0] * 8, [5.0] * 8).verdict == "up"


@pytest.mark.parametrize("sizes", [(1, 1), (1, 500), (4, 5), (2, 18)])
def test_too_few_values_are_compared_and_never_called(sizes: tuple[int, int]) -> None:
    before, after = sizes
    found = shift([100.0] * before, [900.0] * after)
    assert (found.change, found.low, found.high, found.verdict) == (800, None, None, "too few to say")


def test_nothing_cannot_be_compared() -> None:
    with pytest.raises(ValueError, match="no values"):
        shift([], [1.0])


# Summary


def test_a_summary_has_the_figures_of_its_requests() -> None:
    summary = Summary.of(request(f"r{i}", llm=100 + i, tts=400, tokens=5) for i in range(1, 101))
    assert summary.metrics["first_token_ms"] == Distribution(100, 101, 150, 190, 195, 199, 200)
    first_audio = summary.metrics["first_audio_ms"]
    assert (first_audio.p50, first_audio.p99) == (150 + 40 + 400, 199 + 40 + 400)
    assert summary.metrics["token_ms"].p95 == 20
    assert summary.metrics["tokens"].p50 == 5
    assert summary.metrics["rss_peak_mb"].most == 800
    assert summary.stages["tts"]["busy_ms"].p50 == 400
    assert list(summary.stages) == ["llm", "tts"]


def test_what_was_not_measured_is_absent_not_zero() -> None:
    summary = Summary.of([request(f"r{i}", rss=None) for i in range(3)])
    assert summary.metrics["gpu_peak_mb"] == Distribution(0, None, None, None, None, None, None)
    assert summary.metrics["rss_peak_mb"].n == 0
    assert summary.metrics["first_frame_ms"].n == 0
    assert "GPU" not in str(summary)


def test_a_request_that_did_not_wait_for_a_worker_waited_zero() -> None:
    summary = Summary.of([request(queue=queue) for queue in (0, 0, 0, 50)])
    assert summary.metrics["queue_wait_ms"] == replace(summary.metrics["queue_wait_ms"], n=4, p50=0, most=50)


def test_sound_that_is_early_is_as_bad_as_sound_that_is_late() -> None:
    summary = Summary.of([request(av_offset_ms=offset) for offset in (-120, 10, 30)])
    assert (summary.metrics["av_offset_ms"].p50, summary.metrics["av_offset_ms"].most) == (30, 120)


def test_failed_cancelled_and_unfinished_requests_are_counted_and_left_out() -> None:
    fast = [request(outcome=outcome, tts=1) for outcome in ("error", "cancelled", "open", "error")]
    summary = Summary.of([*(request(tts=400) for _ in range(3)), *fast])
    assert summary.outcomes == {"ok": 3, "error": 2, "cancelled": 1, "open": 1}
    assert summary.metrics["first_audio_ms"].n == 3
    assert summary.metrics["first_audio_ms"].least == 590
    assert "figures are of the 3 that ended ok; the other 4 are left out" in str(summary)


def test_without_a_request_that_ended_well_there_are_no_figures() -> None:
    for traces, line in (([], "0 requests"), ([request(outcome="cancelled")], "1 request (1 cancelled)")):
        summary = Summary.of(traces)
        assert str(summary).splitlines()[0] == line
        assert all(spread.n == 0 for spread in summary.metrics.values())
        json.dumps(summary.to_dict(), allow_nan=False)
    assert "none ended ok" in str(Summary.of([request(outcome="error")]))


def test_the_parts_of_a_milestone_sum_in_the_typical_and_in_the_slow_request() -> None:
    summary = Summary.of(repeats(40, seed=3))
    assert [each.milestone for each in summary.milestones] == ["first token", "first audio", "whole request"]
    for breakdown in summary.milestones:
        assert sum(owner.typical_ns for owner in breakdown.owners) == breakdown.typical_ns
        assert sum(owner.slow_ns for owner in breakdown.owners) == breakdown.slow_ns
        assert breakdown.slow_percent == 95
    audio = summary.milestones[1]
    assert audio.typical_ns / MS == pytest.approx(summary.metrics["first_audio_ms"].p50)
    assert audio.slow_ns / MS == pytest.approx(summary.metrics["first_audio_ms"].p95)
    assert audio.owners[0].owner == "tts: work"


def test_the_slow_request_of_few_is_the_slowest() -> None:
    (_, audio, _) = Summary.of([request("a"), request("b", tts=900), request("c")]).milestones
    assert (audio.slow_id, audio.slow_percent, audio.typical_id) == ("b", None, "c")


def test_waits_for_different_turns_are_one_owner() -> None:
    traces = [request(queue=30 + i, busy_with=f"turn {i}") for i in range(3)]
    traces.append(request(queue=40, busy_with="cancelled turn 9"))
    owners = {owner.owner: owner for owner in Summary.of(traces).milestones[1].owners}
    assert owners["tts: waits for worker hibari (busy with another turn)"].median_ns == 30.5 * MS
    assert owners["tts: waits for worker hibari (busy with a cancelled turn)"].median_ns == 0
    assert "llm: goes on until tts can begin" in owners


def test_two_stages_of_a_kind_keep_their_names() -> None:
    clock = Clock(START_NS)
    trace = Trace("r", clock_ns=clock)
    for name in ("a", "b", "b"):
        trace.start("linly.stage motion", stage=name, row="motion")
    clock.tick()
    trace.close("ok")
    assert list(Summary.of(trace).stages) == ["a", "b", "b 2"]


def test_the_slowest_requests_are_named() -> None:
    summary = Summary.of([request(f"r{i}", tts=100 * i) for i in range(1, 9)])
    assert [slow.request_id for slow in summary.slowest] == ["r8", "r7", "r6", "r5", "r4"]
    assert summary.slowest[0].stage == "tts"
    assert summary.slowest[0].busy_ms == 800
    assert "slowest: r8 990 ms (tts busy 800 ms), r7" in str(summary)


def test_of_a_generator_one_trace_is_held_at_a_time() -> None:
    alive: weakref.WeakSet[LoadedTrace] = weakref.WeakSet()
    most = 0

    class Weak(LoadedTrace):
        __hash__ = object.__hash__

    def traces() -> Iterator[LoadedTrace]:
        nonlocal most
        for index in range(20):
            trace = request(f"r{index}")
            weak = Weak(**vars(trace))
            alive.add(weak)
            most = max(most, len(alive))
            del trace
            yield weak
            del weak

    assert Summary.of(traces()).outcomes == {"ok": 20}
    assert most <= 2


def test_a_trace_without_its_root_has_no_figures() -> None:
    trace = request()
    summary = Summary.of(replace(trace, spans=trace.spans[1:], dropped=1))
    assert all(spread.n == 0 for spread in summary.metrics.values())
    assert summary.dropped == 1
    assert "incomplete: 1 of the traces lost records" in str(summary)


def test_numbers_that_are_none_do_no_harm() -> None:
    trace = request()
    spans = tuple(
        span._replace(attrs={**span.attrs, "media_s": 5e-324, "av_offset_ms": math.nan})
        for span in trace.spans
    )
    summary = Summary.of(replace(trace, spans=spans))
    json.dumps(summary.to_dict(), allow_nan=False)
    assert summary.metrics["real_time_factor"].n == 0


def test_a_summary_is_the_same_of_a_running_trace_and_of_a_file(tmp_path: Path) -> None:
    traces = [request("a"), request("b", tts=500)]
    save(tmp_path / "x.json", traces)
    assert Summary.of(load(tmp_path / "x.json")).to_dict() == Summary.of(traces).to_dict()


# Diff


@pytest.mark.parametrize("seed", range(25))
def test_a_set_of_requests_does_not_differ_from_itself(seed: int) -> None:
    traces = repeats(6, seed, noise=0.3)
    diff = Diff.of(traces, random.Random(seed).sample(traces, len(traces)))
    assert {each.verdict for each in diff.changes} == {"no clear change"}
    assert str(diff).splitlines()[3] == "no clear change"
    assert not diff.work
    assert not diff.conditions


def test_a_slower_voice_is_found_and_named() -> None:
    diff = Diff.of(repeats(8, seed=1), repeats(8, seed=2, tts=520))
    audio = change(diff, "first_audio_ms")
    assert (audio.verdict, audio.worse) == ("slower", True)
    assert audio.low is not None
    assert audio.low > 0
    assert audio.change == pytest.approx(120, abs=25)
    assert change(diff, "first_token_ms").verdict == "no clear change"
    assert change(diff, "tts: work", "first audio").verdict == "slower"
    assert change(diff, "busy_ms", "tts").verdict == "slower"
    assert change(diff, "total_ms", "tts.synthesise").verdict == "slower"
    assert change(diff, "total_ms", "llm.generate").verdict == "no clear change"
    headline = next(line for line in str(diff).splitlines() if line.startswith("worse"))
    assert "first audio +" in headline
    assert "(tts: work +" in headline


def test_a_faster_voice_is_better() -> None:
    audio = change(Diff.of(repeats(8, seed=1, tts=520), repeats(8, seed=2)), "first_audio_ms")
    assert (audio.verdict, audio.worse) == ("faster", False)


def test_memory_grows_it_does_not_get_slower() -> None:
    diff = Diff.of([request(rss=800_000_000)] * 6, [request(rss=1_000_000_000)] * 6)
    rss = change(diff, "rss_peak_mb")
    assert (rss.before, rss.after, rss.ratio, rss.verdict, rss.worse) == (800, 1000, 0.25, "more", True)


def test_single_runs_are_compared_and_never_called() -> None:
    diff = Diff.of(request(), request(tts=4000))
    assert diff.single
    assert change(diff, "first_audio_ms").change == 3600
    assert {each.verdict for each in diff.changes} == {"too few to say"}
    assert {each.worse for each in diff.changes} == {None}
    assert "single runs" in str(diff)
    assert "slower" not in str(diff)


def test_other_work_is_said_before_any_time() -> None:
    diff = Diff.of(repeats(6, seed=1), [request(tokens=tokens) for tokens in (10, 10, 11, 10, 10, 10)])
    assert diff.work == ("tokens 5 → 10 (+100 %)",)
    text = str(diff)
    assert text.index("the work differed") < text.index("tokens 5 → 10") < text.index("first audio")
    assert change(diff, "tokens").worse is None


def test_other_machines_are_said() -> None:
    diff = Diff.of(request(gpu_name="A"), [request(gpu_name="B"), request(gpu_name="A")])
    assert diff.conditions == ("gpu_name A → A / B",)
    assert "the machines differed" in str(diff)


def test_exchanging_an_engine_leaves_the_names_of_what_is_compared() -> None:
    diff = Diff.of(request(engine="hibari"), request(engine="piper", tts=300))
    assert change(diff, "busy_ms", "tts").change == -100
    assert change(diff, "tts: work", "first audio").change == -100
    assert not [each for each in diff.changes if each.verdict in ("only before", "only after")]


def test_what_only_one_side_has_is_said() -> None:
    diff = Diff.of(request(rss=None), request())
    rss = change(diff, "rss_peak_mb")
    assert (rss.before, rss.after, rss.change, rss.verdict) == (None, 800, None, "only after")
    assert change(Diff.of(request(), request(rss=None)), "rss_peak_mb").verdict == "only before"


def test_what_changed_clearly_and_most_comes_first() -> None:
    changes = Diff.of(repeats(8, seed=1), repeats(8, seed=2, tts=520, llm=190)).changes
    for group in ("part", "stage", "span"):
        rows = [each for each in changes if each.group == group]
        assert [each.clear for each in rows] == sorted((each.clear for each in rows), reverse=True)
        sizes = [abs(each.change or 0) for each in rows if each.clear and each.unit == "ms"]
        assert sizes == sorted(sizes, reverse=True)
        assert len(sizes) >= 2


@pytest.mark.parametrize("side", [[], [request(outcome="cancelled")] * 3])
def test_nothing_is_compared_with_nothing(side: Sequence[LoadedTrace]) -> None:
    for diff in (Diff.of(side, repeats(5, 1)), Diff.of(repeats(5, 1), side), Diff.of(side, side)):
        assert "nothing to compare" in str(diff)
        assert not [each for each in diff.changes if each.clear]
        json.dumps(diff.to_dict(), allow_nan=False)


def test_a_diff_of_summaries_is_that_of_their_traces() -> None:
    before, after = repeats(6, seed=1), repeats(6, seed=2, tts=600)
    assert Diff.of(Summary.of(before), Summary.of(after)).to_dict() == Diff.of(before, after).to_dict()


# Both


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.builds(
            request,
            st.text(max_size=60),
            llm=st.floats(0, 1e7),
            tts=st.floats(0, 1e7),
            queue=st.floats(0, 1e7),
            tokens=st.integers(0, 30),
            outcome=st.sampled_from(["ok", "ok", "ok", "error"]) | st.text(max_size=40),
            engine=st.text(max_size=60),
            busy_with=st.text(max_size=60),
            rss=st.none() | st.integers(0, 2**62),
            gpu_name=st.none() | st.text(max_size=60),
        ),
        max_size=8,
    )
)
def test_any_text_fits_a_terminal_and_any_figure_fits_json(traces: list[LoadedTrace]) -> None:
    summary, diff = Summary.of(traces), Diff.of(traces[:4], traces[4:])
    for text in (str(summary), str(diff)):
        assert not [line for line in text.split("\n") if columns(line) > 100]
        assert not any(char in text for char in "\r\t\x1b\x00")
    for data in (summary.to_dict(), diff.to_dict()):
        assert json.loads(json.dumps(data, allow_nan=False)) is not None


def test_the_names_of_figures_tell_their_units() -> None:
    endings = {"ms": "_ms", "MB": "_mb", "s": "_s", "ratio": "_factor"}
    for name, metric in REQUEST_METRICS.items():
        assert name == metric.name
        assert name.endswith(endings.get(metric.unit, "")), name
