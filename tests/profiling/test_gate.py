"""The gate of a CI run: what passes, what fails, and what cannot be checked."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from linly_profiling import LoadedTrace
from linly_profiling.cli import main
from linly_profiling.compare import (
    REQUEST_METRICS,
    STAGE_METRICS,
    Budget,
    BudgetError,
    Check,
    GateResult,
    check,
)
from linly_profiling.formats import save
from linly_profiling.tables import columns
from test_compare import repeats, request

EXAMPLE = Path(__file__).parents[2] / "examples" / "budget.toml"
FIGURES = Path(__file__).parents[2] / "docs" / "compare.md"


def gate(
    budget: str, traces: Sequence[LoadedTrace], baseline: Sequence[LoadedTrace] | None = None
) -> GateResult:
    return check(Budget.parse(budget), traces, baseline)


def one(budget: str, traces: Sequence[LoadedTrace]) -> Check:
    """The one check of a budget of one bound."""
    (found,) = gate(f"[budget]\n{budget}", traces).checks
    return found


def twenty(**changes: float) -> list[LoadedTrace]:
    """First audio after 491, 492, … 510 ms."""
    return [request(f"r{i}", llm=50 + i, **changes) for i in range(1, 21)]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("bound", "status"),
    [
        ("first_audio_ms = { p50 = 500 }", "ok"),
        ("first_audio_ms = { p50 = 499.9 }", "FAILED"),
        ("first_audio_ms = { p95 = 509 }", "ok"),
        ("first_audio_ms = { p95 = 508 }", "FAILED"),
        ("first_audio_ms = { max = 510 }", "ok"),
        ("first_audio_ms = { max = 509 }", "FAILED"),
        ("first_audio_ms = { min = 491 }", "ok"),
        ("first_audio_ms = { min = 492 }", "FAILED"),
        ("first_audio_ms = { p99 = 9000 }", "ERROR"),
        ("real_time_factor = { p50 = 0.251 }", "ok"),
        ("real_time_factor = { p50 = 0.249 }", "FAILED"),
        ("rss_peak_mb = { max = 800 }", "ok"),
        ("rss_peak_mb = { max = 799 }", "FAILED"),
        ("tokens = { max = 5 }", "ok"),
        ("stage.tts.busy_ms = { p95 = 400 }", "ok"),
        ("stage.tts.busy_ms = { p95 = 399 }", "FAILED"),
        ("errors = { max_ratio = 0.0 }", "ok"),
        ("first_audio_ms = { reached = 1.0 }", "ok"),
        ("first_frame_ms = { reached = 0.5 }", "FAILED"),
        ("first_frame_ms = { p50 = 1e9 }", "FAILED"),
        ("stage.face.busy_ms = { p50 = 1e9 }", "FAILED"),
        ("queue_wait_ms = { max = 0 }", "ok"),
    ],
)
def test_each_bound_holds_what_it_says(bound: str, status: str) -> None:
    assert one(bound, twenty()).status == status


def test_a_line_has_the_figures_and_who_had_the_largest_part() -> None:
    result = gate("[budget]\nfirst_audio_ms = { p50 = 400, p95 = 600 }", twenty())
    assert str(result) == (
        "FAILED  first_audio_ms p50  500 ms > 400 ms, n = 20\n"
        "        largest part: tts: work 400 ms, 80 % (request r10)\n"
        "ok      first_audio_ms p95  509 ms ≤ 600 ms, n = 20\n"
        "FAILED: 1 failed, 1 ok; 20 requests (20 ok)"
    )
    assert result.checks[0].owner == "tts: work 400 ms, 80 % (request r10)"
    assert result.checks[1].owner is None


def test_the_owner_of_the_whole_request_is_the_stage_on_its_critical_path() -> None:
    assert (one("wall_ms = { p50 = 1 }", [request(tts=900)]).owner or "").startswith("tts 9")


def test_a_value_and_a_bound_that_differ_are_never_printed_alike() -> None:
    found = one("rss_peak_mb = { max = 1000 }", [request(rss=1_000_000_123)])
    assert found.text == "1000.0001 MB > 1000 MB, n = 1"


def test_errors_are_a_share_of_all_requests() -> None:
    traces = [*twenty()[:7], request(outcome="error"), request(outcome="what?"), request(outcome="cancelled")]
    assert one("errors = { max_ratio = 0.2 }", traces).status == "ok"
    failed = one("errors = { max_ratio = 0.1 }", traces)
    assert failed.text == "0.2 > 0.1, 2 of 10 requests ended neither ok nor cancelled"
    assert one("cancelled = { max_ratio = 0 }", traces).value == 0.1
    assert one("unfinished = { max_ratio = 0 }", [*traces, request(outcome="open")]).value == 1 / 11


def test_what_only_some_requests_reached_says_so() -> None:
    text = one("gpu_peak_mb = { max = 1 }", twenty()).text
    assert text == "never reached: of 20 requests, none has it"
    traces = [request(), request(rss=None), request(rss=None)]
    assert one("rss_peak_mb = { max = 900 }", traces).text == "800 MB ≤ 900 MB, n = 1 of 3"
    assert one("rss_peak_mb = { reached = 0.9 }", traces).text == "0.3333 < 0.9, 1 of 3 have it"


def test_too_few_requests_for_a_percentile_are_an_error_not_a_pass() -> None:
    result = gate("[budget]\nfirst_audio_ms = { p95 = 1e9 }", twenty()[:19])
    assert result.checks[0].text == "too few requests: n = 19, it needs 20"
    assert (result.passed, result.exit_code) == (False, 2)


def test_only_cancelled_requests_fail_every_latency() -> None:
    result = gate(
        "[budget]\nwall_ms = { p50 = 1e9 }\nerrors = { max_ratio = 0 }", [request(outcome="cancelled")] * 3
    )
    assert [each.status for each in result.checks] == ["FAILED", "ok"]
    assert result.checks[0].text == "never reached: of 3 requests, none ended ok"
    assert result.exit_code == 1


def test_without_requests_nothing_passes() -> None:
    for budget in ("[budget]\nerrors = { max_ratio = 1 }", "[baseline]"):
        result = gate(budget, [], [])
        assert (result.passed, result.exit_code) == (False, 2)


def test_a_stage_that_no_request_has_fails_with_a_suggestion() -> None:
    assert (
        one("stage.tss.busy_ms = { p50 = 1 }", twenty()).text
        == "no request has a stage 'tss'; did you mean 'tts'?"
    )
    assert (
        one("stage.x.busy_ms = { p50 = 1 }", twenty()).text
        == "no request has a stage 'x'; there are: llm, tts"
    )


def test_incomplete_traces_are_noted() -> None:
    from dataclasses import replace

    assert (
        "incomplete: 1 trace lost records"
        in gate("[budget]\nerrors.max_ratio = 0", [replace(request(), dropped=3)]).lines
    )


# Baseline


@pytest.mark.parametrize(
    ("tts", "status", "verdict"),
    [(400, "ok", "no clear change"), (425, "ok", ""), (560, "FAILED", "slower"), (300, "ok", "faster")],
)
def test_a_median_that_is_clearly_worse_than_the_baseline_fails(
    tts: float, status: str, verdict: str
) -> None:
    result = gate(
        '[baseline]\nslower = 0.10\nmetrics = ["first_audio_ms"]',
        repeats(10, seed=1, noise=0.03, tts=tts),
        repeats(10, seed=2, noise=0.03),
    )
    (found,) = result.checks
    assert (found.status, found.name) == (status, "first_audio_ms vs baseline")
    assert verdict in found.text
    assert result.passed == (status == "ok")
    assert (found.owner or "").startswith("tts: work +" if status == "FAILED" else "")


def test_a_median_that_is_worse_by_chance_does_not_fail() -> None:
    noisy = [request(tts=tts) for tts in (100, 900, 500, 850, 150)]
    result = gate(
        '[baseline]\nmetrics = ["first_audio_ms"]', noisy, [request(tts=t) for t in (100, 880, 400, 860, 140)]
    )
    assert result.checks[0].text == "590 ms → 690 ms (+17 %), no clear change"
    assert result.passed


def test_growth_of_memory_is_compared_as_well() -> None:
    result = gate("[baseline]", [request(rss=2_000_000_000)] * 5, [request()] * 5)
    failed = [each.name for each in result.checks if each.status == "FAILED"]
    assert failed == ["rss_peak_mb vs baseline"]


@pytest.mark.parametrize(
    ("before", "after", "side"), [(4, 9, "the baseline"), (9, 4, "this run"), (0, 5, "the baseline")]
)
def test_too_few_repeats_on_one_side_are_an_error(before: int, after: int, side: str) -> None:
    result = gate("[baseline]", [request()] * after, [request()] * before)
    assert result.exit_code == 2
    assert f"{side} has {min(before, after)} requests that ended ok, it needs 5" in str(result)


def test_fewer_repeats_than_a_verdict_takes_are_an_error_even_if_the_budget_allows_them() -> None:
    result = gate(
        '[baseline]\nmin_requests = 2\nmetrics = ["wall_ms"]', [request(tts=9000)] * 3, [request()] * 3
    )
    assert [each.status for each in result.checks] == ["ERROR"]
    assert "too few to say" in result.checks[0].text


def test_a_figure_that_is_lost_since_the_baseline_fails() -> None:
    result = gate("[baseline]", [request(rss=None)] * 5, [request()] * 5)
    lost = [each.text for each in result.checks if each.status == "FAILED"]
    assert lost == ["never reached; the baseline has it"]


def test_a_figure_that_only_this_run_has_cannot_be_compared() -> None:
    result = gate('[baseline]\nmetrics = ["rss_peak_mb"]', [request()] * 5, [request(rss=None)] * 5)
    assert result.checks == (Check("ERROR", "rss_peak_mb vs baseline", "the baseline does not have it"),)


def test_a_figure_that_was_asked_for_and_nobody_has_fails() -> None:
    result = gate('[baseline]\nmetrics = ["gpu_peak_mb"]', [request()] * 5, [request()] * 5)
    assert result.checks[0].text == "never reached, by neither"
    assert result.exit_code == 1


def test_other_work_and_other_machines_are_noted() -> None:
    result = gate("[baseline]", [request(tokens=9, gpu_name="B")] * 5, [request(gpu_name="A")] * 5)
    assert "not the same as in the baseline: tokens 5 → 9 (+80 %)" in result.lines
    assert "not the same as in the baseline: gpu_name A → B" in result.lines


def test_a_budget_that_compares_with_nothing_is_unusable() -> None:
    with pytest.raises(BudgetError, match="names no file; add baseline.file"):
        gate("[baseline]\nslower = 0.2", [request()])


# The file


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "it sets no bound, so it can never fail"),
        ("[budget]", "it sets no bound"),
        ("x =", "not TOML"),
        ("[budgte]", r"unknown table \[budgte\]; did you mean 'budget'"),
        (
            "[budget]\nfirst_adio_ms = { p50 = 1 }",
            "unknown key budget.first_adio_ms; did you mean 'first_audio_ms'",
        ),
        ("[budget]\nwall_ms = { p98 = 1 }", "unknown key budget.wall_ms.p98; did you mean 'p9"),
        ("[budget]\nwall_ms = { zzz = 1 }", "known are p50, p90, p95, p99, max, min, reached"),
        ("[budget]\nwall_ms = { max_ratio = 1 }", "unknown key budget.wall_ms.max_ratio"),
        ("[budget]\nerrors = { p50 = 1 }", "unknown key budget.errors.p50"),
        ("[budget]\nerrors = { max_ratio = 1.5 }", "budget.errors.max_ratio is 1.5; it has to be 0 to 1"),
        ("[budget]\nwall_ms = { reached = 90 }", "budget.wall_ms.reached is 90; it has to be 0 to 1"),
        ("[budget]\nwall_ms = 700", r"budget.wall_ms is 700; it has to be a table, like \{ p95 = 400 \}"),
        ("[budget]\nwall_ms = {}", "budget.wall_ms is empty"),
        ("[budget]\nwall_ms = { p50 = '1' }", "budget.wall_ms.p50 is a number, not '1'"),
        ("[budget]\nwall_ms = { p50 = true }", "budget.wall_ms.p50 is a number, not True"),
        ("[budget]\nwall_ms = { p50 = nan }", "budget.wall_ms.p50 is nan"),
        ("[budget]\nwall_ms = { p50 = inf }", "budget.wall_ms.p50 is inf"),
        ("[budget]\nwall_ms = { p50 = -1 }", "budget.wall_ms.p50 is -1"),
        ("[budget.stage.tts]\nbusy_mss = { p50 = 1 }", "budget.stage.tts.busy_mss; did you mean 'busy_ms'"),
        ("[budget.stage]\ntts = 1", "budget.stage.tts is 1"),
        ("budget = 1", "budget is 1"),
        ("[baseline]\nslow = 0.1", "unknown key baseline.slow; did you mean 'slower'"),
        ("[baseline]\nslower = '10 %'", "baseline.slower is a number"),
        ("[baseline]\nfile = 1", "baseline.file is the path of a trace, not 1"),
        ("[baseline]\nmin_requests = 0", "baseline.min_requests is a whole number of at least 1, not 0"),
        ("[baseline]\nmin_requests = true", "baseline.min_requests is a whole number"),
        ("[baseline]\nmetrics = []", "baseline.metrics is a list of names"),
        ("[baseline]\nmetrics = ['wal_ms']", "baseline.metrics.wal_ms; did you mean 'wall_ms'"),
        ("[baseline]\nmetrics = ['tokens']", "unknown key baseline.metrics.tokens"),
    ],
)
def test_a_budget_that_makes_no_sense_names_the_key(text: str, message: str) -> None:
    with pytest.raises(BudgetError, match=message):
        Budget.parse(text)


@settings(max_examples=100)
@given(
    st.recursive(
        st.booleans() | st.integers(-5, 5) | st.floats() | st.text(max_size=5) | st.none(),
        lambda inner: st.dictionaries(
            st.sampled_from(["budget", "baseline", "stage", "wall_ms", "p50", "file", "metrics", "busy_ms"]),
            inner,
        ),
        max_leaves=12,
    )
)
def test_any_toml_is_a_budget_or_a_sentence_that_says_why_not(value: object) -> None:
    text = (
        "\n".join(f"{key} = {_toml(item)}" for key, item in value.items())
        if isinstance(value, dict)
        else _toml(value)
    )
    found: Budget | str
    try:
        found = Budget.parse(text)
    except BudgetError as error:
        found = str(error)
    assert found.startswith("budget: ") if isinstance(found, str) else found.limits or found.baseline


def _toml(value: object) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_toml(item)}" for key, item in value.items()) + " }"
    return str(value) if isinstance(value, float) else json.dumps(value)


def test_every_figure_of_the_summary_can_be_bounded() -> None:
    lines = ["[budget]", *(f"{name}.max = 1" for name in REQUEST_METRICS), "[budget.stage.tts]"]
    budget = Budget.parse("\n".join([*lines, *(f"{name}.max = 1" for name in STAGE_METRICS)]))
    assert len(check(budget, twenty()).checks) == len(REQUEST_METRICS) + len(STAGE_METRICS)


def test_the_example_is_a_budget() -> None:
    budget = Budget.load(EXAMPLE)
    assert len(budget.limits) >= 6
    assert budget.baseline is not None
    assert budget.baseline.file == "baseline.trace.json"


def test_the_manual_names_every_figure() -> None:
    text = FIGURES.read_text("utf-8")
    assert [name for name in (*REQUEST_METRICS, *STAGE_METRICS) if f"`{name}`" not in text] == []


# Files and exit codes


def report(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str]:
    """Exit code and output of `linly report`."""
    code = main(["report", *map(str, arguments)])
    captured = capsys.readouterr()
    return code, captured.out + captured.err


def test_exit_codes_for_ci(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace, slow, budget = tmp_path / "t.json", tmp_path / "slow.json.gz", tmp_path / "b.toml"
    save(trace, twenty())
    save(slow, [request("x", tts=9000)])
    budget.write_text("[budget]\nfirst_audio_ms.max = 600\n")
    code, text = report(capsys, "--gate", budget, trace)
    assert (code, text.splitlines()[-1]) == (0, "passed: 1 ok; 20 requests (20 ok)")
    code, text = report(capsys, "--gate", budget, trace, slow)
    assert (code, "request x" in text) == (1, True)
    budget.write_text("[budget]\nfirst_audio_ms.p99 = 600\n")
    assert report(capsys, "--gate", budget, trace)[0] == 2
    for bad in (tmp_path / "none.toml", trace):
        assert report(capsys, "--gate", bad, trace)[0] == 2
        assert report(capsys, "--gate", budget, bad)[0] == 2


def test_a_budget_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    with pytest.raises(BudgetError, match="cannot read .*none.toml"):
        Budget.load(tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_bytes(b"\xff")
    with pytest.raises(BudgetError, match="not UTF-8"):
        Budget.load(tmp_path / "bad.toml")


def test_the_file_of_a_baseline_is_found_beside_the_budget(tmp_path: Path) -> None:
    (tmp_path / "ci").mkdir()
    base = tmp_path / "ci" / "base.json"
    save(base, repeats(8, seed=1))
    (tmp_path / "ci" / "b.toml").write_text('[baseline]\nfile = "base.json"\n')
    budget = Budget.load(tmp_path / "ci" / "b.toml")
    assert check(budget, repeats(8, seed=2, tts=800)).exit_code == 1
    assert check(budget, repeats(8, seed=1)).passed
    assert check(budget, repeats(8, seed=2, tts=800), baseline=repeats(8, seed=3, tts=800)).passed
    base.write_text("{}")
    with pytest.raises(BudgetError, match="baseline.file: .*base.json"):
        check(budget, [request()])
    base.unlink()
    with pytest.raises(BudgetError, match="baseline.file: cannot read"):
        check(budget, [request()])


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.builds(
            request,
            st.text(max_size=60),
            llm=st.floats(0, 1e9),
            outcome=st.sampled_from(["ok", "ok", "error", "cancelled"]) | st.text(max_size=60),
            engine=st.text(max_size=60),
        ),
        max_size=6,
    ),
    st.text(max_size=60),
)
def test_any_text_fits_a_terminal_and_any_result_fits_json(traces: list[LoadedTrace], stage: str) -> None:
    bounds = (
        f"[budget]\nwall_ms = {{ p50 = 1, p95 = 1 }}\nstage.{json.dumps(stage)}.busy_ms.max = 0\n[baseline]"
    )
    try:
        rules = Budget.parse(bounds)
    except BudgetError:
        return  # TOML has no lone surrogates and no control characters
    result = check(rules, traces, traces)
    assert not result.passed
    assert not [line for line in str(result).split("\n") if columns(line) > 100]
    assert not any(char in str(result) for char in "\r\t\x1b\x00")
    json.dumps(result.to_dict(), allow_nan=False)
