"""Prometheus metrics: what a finished request adds, and how the sums are scraped."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from linly_profiling import CudaUse, LoadedTrace, Report, Sampling, Trace
from linly_profiling.metrics import METRICS, Figure, Prometheus, figures
from linly_profiling.metrics.exporter import MAX_SERIES, OTHER
from linly_profiling.recorder import Recorder
from metric_traffic import FRAMES, GB, SENTENCES, TOKENS, Turn
from trace_tools import MS, Clock

from linly_pipeline import Pipeline
from linly_pipeline.testing import (
    FakeChat,
    FakeFace,
    FakeMotion,
    FakeRecogniser,
    FakeVoice,
    run_virtual,
    tone,
)

client = pytest.importorskip("prometheus_client", reason="needs prometheus_client (extra: prometheus)")
from prometheus_client.openmetrics import exposition as open_metrics  # noqa: E402
from prometheus_client.parser import text_string_to_metric_families  # noqa: E402

OPEN_METRICS = {"Accept": "application/openmetrics-text; version=1.0.0"}
DOCS = Path(__file__).parents[2] / "docs" / "monitoring.md"


def seen(trace: Trace | LoadedTrace) -> dict[tuple[str, ...], list[float]]:
    """Values by metric and labels."""
    found: dict[tuple[str, ...], list[float]] = {}
    for figure in figures(trace.snapshot()):
        found.setdefault((figure.metric, *figure.labels), []).extend([figure.value] * figure.times)
    return found


def names(trace: Trace | LoadedTrace) -> set[str]:
    return {key[0] for key in seen(trace)}


def values(metrics: Prometheus) -> dict[str, float]:
    """Every sample as the exposition names it, without the labels' order mattering."""
    return {
        sample.name + "".join(f",{key}={value}" for key, value in sorted(sample.labels.items())): sample.value
        for family in metrics.registry.collect()
        for sample in family.samples
    }


def exemplars(metrics: Prometheus) -> set[str]:
    return {
        sample.exemplar.labels["trace_id"]
        for family in metrics.registry.collect()
        for sample in family.samples
        if sample.exemplar
    }


def exposition(metrics: Prometheus) -> str:
    """What a scrape reads. In both formats, because each must be writable."""
    open_metrics.generate_latest(metrics.registry)  # type: ignore[no-untyped-call]
    text: str = client.generate_latest(metrics.registry).decode()
    return text


# The table


def test_names_units_and_labels_follow_the_conventions() -> None:
    for metric in METRICS:
        assert metric.name.startswith("linly_")
        assert metric.name.endswith("_total") == (metric.kind == "counter"), metric.name
        assert metric.unit in metric.name, metric.name
        assert bool(metric.buckets) == (metric.kind == "histogram"), metric.name
        assert metric.meaning.endswith("."), metric.name
        assert not {"request_id", "trace_id", "session"} & set(metric.labels)
    assert len({metric.name for metric in METRICS}) == len(METRICS)


def test_the_agreed_metrics_are_there() -> None:
    agreed = {
        "linly_requests_total{outcome}",
        "linly_requests_in_progress",
        "linly_request_duration_seconds",
        "linly_stage_duration_seconds{stage}",
        "linly_stage_queue_wait_seconds{stage}",
        "linly_stage_cuda_seconds{stage}",
        "linly_llm_time_to_first_token_seconds",
        "linly_llm_time_per_output_token_seconds",
        "linly_llm_tokens_total{type}",
        "linly_llm_kv_cache_bytes",
        "linly_time_to_first_audio_seconds",
        "linly_time_to_first_frame_seconds",
        "linly_render_frame_duration_seconds",
        "linly_render_late_frames_total",
        "linly_av_offset_seconds",
        "linly_stage_real_time_factor_ratio{stage}",
        "linly_queue_depth{stage}",
        "linly_gpu_memory_allocated_bytes{device}",
        "linly_gpu_memory_utilization_ratio",
        "linly_process_resident_memory_bytes",
        "linly_stage_fallbacks_total{stage,from_backend,to_backend}",
        "linly_trace_spans_total",
        "linly_trace_spans_dropped_total",
    }
    ours = {m.name + (f"{{{','.join(m.labels)}}}" if m.labels else "") for m in METRICS}
    assert agreed <= ours


def test_the_manual_has_every_metric() -> None:
    manual = DOCS.read_text("utf-8")
    assert [metric.name for metric in METRICS if f"`{metric.name}" not in manual] == []


# What a request adds


def test_a_request_adds_what_the_report_says() -> None:
    found = seen(Turn(fallback=True).run())
    assert found["linly_requests_total", "ok"] == [1]
    assert found["linly_request_duration_seconds",] == [4.0]
    assert found["linly_time_to_first_audio_seconds",] == [0.5]
    assert found["linly_time_to_first_frame_seconds",] == [1.005]
    assert found["linly_stage_duration_seconds", "llm"] == [0.85]
    assert found["linly_stage_queue_wait_seconds", "tts"] == [0.03]
    assert found["linly_stage_real_time_factor_ratio", "face"] == [0.5]
    assert found["linly_stage_fallbacks_total", "tts", "loud voice", "plain voice"] == [1]
    assert found["linly_av_offset_seconds",] == [0.01]
    assert found["linly_queue_depth", "tts"] == [3]


def test_a_request_adds_its_tokens_and_frames() -> None:
    found = seen(Turn().run())
    assert found["linly_llm_time_to_first_token_seconds",] == [0.1]
    assert found["linly_llm_time_per_output_token_seconds",] == [0.018] * (TOKENS - 1)
    assert [found["linly_llm_tokens_total", kind] for kind in ("input", "cached", "output")] == [
        [20],
        [100],
        [40],
    ]
    assert found["linly_llm_kv_cache_bytes",] == [1_000_000 + 40_000 * (TOKENS - 1)]
    assert found["linly_render_frame_duration_seconds",] == [0.02] * FRAMES * SENTENCES
    assert found["linly_render_late_frames_total",] == [0]


def test_a_request_adds_the_peaks_of_its_memory() -> None:
    found = seen(Turn(gpu_bytes=98 * GB).run())
    assert found["linly_gpu_memory_allocated_bytes", "cuda:0"] == [97 * GB]
    assert found["linly_gpu_memory_utilization_ratio",] == [0.98]
    assert found["linly_process_resident_memory_bytes",][0] > 1e6


def test_a_slow_renderer_has_late_frames() -> None:
    (late,) = seen(Turn(frame_ms=60).run())["linly_render_late_frames_total",]
    assert 0 < late <= FRAMES * SENTENCES


def test_a_mark_ends_each_frame() -> None:
    trace = Trace("r", clock_ns=(clock := Clock()))
    span = trace.start("face.render", frames=2)
    for ms in (30, 50):
        clock.tick(ms * MS)
        span.mark("frame")
    clock.tick(500 * MS)
    span.end()
    assert seen(trace)["linly_render_frame_duration_seconds",] == [0.03, 0.05]


def test_a_span_that_claims_to_have_a_million_million_frames_is_not_counted() -> None:
    trace = Trace("r", clock_ns=(clock := Clock()))
    face = trace.start("linly.stage face", None, False, row="face", fps=25)
    for frames in (2, 10**12):
        span = trace.start("face.render", face, frames=frames)
        clock.tick(4_000 * MS)
        span.end()
    found = seen(trace)
    assert found["linly_render_frame_duration_seconds",] == [2.0, 2.0]
    assert found["linly_render_late_frames_total",][0] <= 2


def test_the_parts_of_the_time_to_first_audio_sum_to_it() -> None:
    found = seen(Turn(slow=1.37).run())
    for milestone in ("first_audio", "first_frame"):
        parts = [sum(value) for key, value in found.items() if key[1:2] == (milestone,)]
        assert len(parts) > 3
        assert sum(parts) == pytest.approx(found[f"linly_time_to_{milestone}_seconds",][0], abs=1e-9)
    assert found["linly_contribution_seconds_total", "first_audio", "tts", "queue"] == [pytest.approx(0.0411)]


def test_a_barge_in_is_an_outcome_and_no_error() -> None:
    trace = Trace("r", clock_ns=(clock := Clock()))
    stage = trace.start(
        "linly.stage tts", row="tts", first_out_ns=clock.now_ns + 300 * MS, busy_ns=MS, media_s=1
    )
    span = trace.start("face.render", stage, frames=5)
    clock.tick(400 * MS)
    span.end("cancelled")
    trace.close("cancelled")
    found = seen(trace)
    assert found["linly_requests_total", "cancelled"] == [1]
    assert found["linly_time_to_first_audio_seconds",] == [0.3]  # it was reached
    incomplete = {
        "linly_request_duration_seconds",
        "linly_stage_duration_seconds",
        "linly_stage_real_time_factor_ratio",
        "linly_render_frame_duration_seconds",
    }
    assert not incomplete & names(trace)


def test_a_wait_that_was_given_up_counts() -> None:
    trace = Trace("r", clock_ns=(clock := Clock()))
    wait = trace.start("linly.queue.wait", trace.start("linly.stage tts", row="tts"))
    clock.tick(700 * MS)
    wait.end("cancelled")
    trace.close("cancelled")
    assert seen(trace)["linly_stage_queue_wait_seconds", "tts"] == [0.7]


def test_what_was_not_measured_is_not_observed() -> None:
    trace = Trace("r", clock_ns=Clock())
    trace.start("llm.generate").end()
    trace.start("linly.stage llm", row="llm", fallbacks=[{"from": "a", "to": "a"}]).end()
    trace.start("face.render").end()
    trace.close()
    assert names(trace) - {"linly_process_resident_memory_bytes"} == {
        "linly_requests_total",
        "linly_request_duration_seconds",
        "linly_trace_spans_total",
        "linly_trace_spans_dropped_total",
        "linly_stage_duration_seconds",
    }


def test_without_stages_the_first_token_is_that_of_the_call() -> None:
    trace = Trace("r", clock_ns=(clock := Clock()))
    with trace.span("llm.generate") as span:
        clock.tick(90 * MS)
        span.mark("token")
    trace.close()
    found = seen(trace)
    assert found["linly_llm_time_to_first_token_seconds",] == [0.09]
    assert found["linly_llm_tokens_total", "output"] == [1]


def test_gpu_time_is_charged_to_its_stage() -> None:
    loaded = Turn().run().snapshot()
    spans = [
        span._replace(cuda=CudaUse(0, 250 * MS, 0, 0, 60 * GB)) if span.name == "llm.generate" else span
        for span in loaded.spans
    ]
    found = seen(dataclasses.replace(loaded, spans=tuple(spans)))
    assert found["linly_stage_cuda_seconds", "llm"] == [0.25]
    assert found["linly_gpu_memory_allocated_bytes", "cuda:0"] == [60 * GB]


_hostile = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(),
    st.lists(st.dictionaries(st.text(), st.text())),
)
_ATTRS = (
    "stage", "row", "order", "busy_ns", "first_in_ns", "ready_ns", "first_out_ns", "media_s", "fps", "frames",
    "av_offset_ms", "fallbacks", "tokens", "prompt_tokens", "cached_tokens", "gpu_memory_total_bytes",
)  # fmt: skip
_span_plan = st.tuples(
    st.sampled_from(
        ["linly.stage llm", "linly.stage tts", "linly.stage face", "llm.generate", "face.render"]
    ),
    st.dictionaries(st.sampled_from(_ATTRS), _hostile),
    st.integers(-(10**12), 10**12),
    st.lists(st.tuples(st.sampled_from(["token", "frame"]), st.none() | st.integers()), max_size=4),
)


@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(st.text(), st.lists(_span_plan, max_size=5), st.dictionaries(st.text(), st.floats() | st.integers()))
def test_no_trace_breaks_the_metrics_or_the_scrape(
    outcome: str, plan: list[tuple[str, dict[str, Any], int, list[Any]]], counters: dict[str, float]
) -> None:
    trace = Trace("r", clock_ns=(clock := Clock()))
    for name, attrs, jump_ns, marks in plan:
        span = trace.start(name, None, False, **attrs)
        clock.tick(jump_ns)
        for mark, value in marks:
            span.mark(mark, value)
        span.end()
    for track, value in counters.items():
        for name in ("queue.depth", "memory.gpu.used", "memory.gpu.allocated", "kv_cache.bytes"):
            trace.counter(name, value, track)
    trace.close(outcome)
    metrics = Prometheus()
    metrics.end(trace.snapshot(), kept=True)
    families = text_string_to_metric_families(exposition(metrics))
    assert "nan" not in {str(sample.value) for family in families for sample in family.samples}


# The exporter


def test_the_sums_of_many_requests_are_scraped() -> None:
    metrics = Prometheus()
    for outcome in ("ok", "ok", "cancelled", "error"):
        metrics.end(Turn(outcome).run().snapshot(), kept=True)
    found = values(metrics)
    assert [found[f"linly_requests_total,outcome={o}"] for o in ("ok", "cancelled", "error")] == [2, 1, 1]
    assert found["linly_request_duration_seconds_count"] == 2
    assert found["linly_time_to_first_audio_seconds_sum"] == pytest.approx(2.0)
    assert found["linly_render_frame_duration_seconds_bucket,le=0.02"] == 4 * FRAMES * SENTENCES
    assert found["linly_render_frame_duration_seconds_bucket,le=0.0167"] == 0
    assert 0 < found["linly_metrics_cost_seconds_total"] < 1


def test_outcomes_are_there_before_the_first_request() -> None:
    found = values(Prometheus())
    assert [found[f"linly_requests_total,outcome={o}"] for o in ("ok", "cancelled", "error")] == [0, 0, 0]


def test_an_exemplar_leads_to_a_trace_that_was_kept() -> None:
    metrics = Prometheus()
    kept, other = Turn().run().snapshot(), Turn().run().snapshot()
    metrics.end(kept, kept=True)
    metrics.end(other, kept=False)
    assert exemplars(metrics) == {kept.trace_id}
    assert values(metrics)["linly_requests_total,outcome=ok"] == 2
    metrics.end(dataclasses.replace(kept, trace_id=""), kept=True)
    metrics.end(dataclasses.replace(kept, trace_id="x" * 500), kept=True)
    assert exemplars(metrics) == {kept.trace_id}


def test_a_program_with_ever_new_stage_names_does_not_make_ever_new_series() -> None:
    metrics = Prometheus()
    for number in range(3 * MAX_SERIES):
        trace = Trace("r", clock_ns=Clock())
        trace.start("linly.stage x", None, False, row=f"stage {number}", busy_ns=MS).end()
        metrics.end(trace.snapshot(), kept=True)
    counts = {
        key: value
        for key, value in values(metrics).items()
        if key.startswith("linly_stage_duration_seconds_count")
    }
    assert len(counts) == MAX_SERIES + 1
    assert counts[f"linly_stage_duration_seconds_count,stage={OTHER}"] == 2 * MAX_SERIES


def test_a_label_can_always_be_written() -> None:
    metrics = Prometheus()
    trace = Trace("r", clock_ns=Clock())
    trace.start("linly.stage x", None, False, row='\ud800"\n\\' + "长" * 500).end()
    metrics.end(trace.snapshot(), kept=True)
    (stage,) = {
        sample.labels["stage"]
        for family in text_string_to_metric_families(exposition(metrics))
        for sample in family.samples
        if "stage" in sample.labels
    }
    assert stage.startswith('?"\n\\长')
    assert len(stage) < 100


def test_requests_in_progress_rise_and_fall() -> None:
    metrics = Prometheus()
    with Recorder(metrics, period_s=0.001):
        first, second = Trace("1"), Trace("2")
        eventually(lambda: values(metrics)["linly_requests_in_progress"] == 2)
        first.close("cancelled")
        eventually(lambda: values(metrics)["linly_requests_in_progress"] == 1)
        second.close()
        eventually(lambda: values(metrics)["linly_requests_in_progress"] == 0)
    assert values(metrics)["linly_requests_total,outcome=cancelled"] == 1


def test_requests_that_are_not_sampled_are_counted() -> None:
    metrics = Prometheus()
    with Recorder(metrics, sampling=Sampling(rate=0)):
        for _ in range(3):
            Trace("r").close()
    assert values(metrics)["linly_requests_total,outcome=ok"] == 3
    assert exemplars(metrics) == set()


def test_a_forked_child_has_no_requests_of_its_parent() -> None:
    metrics = Prometheus()
    metrics.begin(Trace("r"))
    metrics.forked()
    assert values(metrics)["linly_requests_in_progress"] == 0


def test_a_registry_takes_the_metrics_once() -> None:
    registry = client.CollectorRegistry()
    Prometheus(registry)
    with pytest.raises(ValueError, match="linly_requests"):
        Prometheus(registry)


def test_two_exporters_do_not_disturb_each_other() -> None:
    first, second = Prometheus(), Prometheus()
    first.end(Turn().run().snapshot(), kept=True)
    assert values(second)["linly_requests_total,outcome=ok"] == 0


# Scraping


def test_scrapes_are_answered_until_the_server_is_closed() -> None:
    metrics = Prometheus()
    metrics.end((trace := Turn().run().snapshot()), kept=True)
    threads = set(threading.enumerate())
    with metrics.serve(port=0) as server:
        text = scrape(server.url, OPEN_METRICS)
        assert 'linly_requests_total{outcome="ok"} 1.0' in text
        assert f'trace_id="{trace.trace_id}"' in text
        assert "trace_id" not in scrape(server.url, {})  # the old text format has no exemplars
    server.close()  # a second time
    with pytest.raises(urllib.error.URLError):
        scrape(server.url, {})
    eventually(lambda: set(threading.enumerate()) <= threads)


def test_the_server_listens_on_loopback_and_says_when_its_port_is_taken() -> None:
    with Prometheus().serve(port=0) as server:
        assert server.url == f"http://127.0.0.1:{server.port}/metrics"
        with pytest.raises(
            OSError, match=f"metrics cannot be served at 127.0.0.1:{server.port}: Address already"
        ):
            Prometheus().serve(port=server.port)


def test_an_app_can_mount_the_metrics() -> None:
    metrics = Prometheus()
    metrics.end(Turn().run().snapshot(), kept=True)
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request"}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "GET", "path": "/metrics", "query_string": b"", "headers": []}
    asyncio.run(client.make_asgi_app(metrics.registry)(scope, receive, send))
    assert b'linly_requests_total{outcome="ok"} 1.0' in sent[-1]["body"]
    environ = {"PATH_INFO": "/metrics", "REQUEST_METHOD": "GET"}
    answer = b"".join(client.make_wsgi_app(metrics.registry)(environ, lambda *_: None))
    assert b'linly_requests_total{outcome="ok"} 1.0' in answer


_WORKER = """
import sys
sys.path[:0] = sys.argv[1:]
from linly_profiling.metrics import Prometheus
from metric_traffic import Turn
metrics = Prometheus()
metrics.begin(None)
metrics.begin(None)
metrics.end(Turn().run().snapshot(), kept=True)
"""
_COLLECT = """
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector
registry = CollectorRegistry()
MultiProcessCollector(registry)
print(generate_latest(registry).decode())
"""


def test_several_processes_are_one_service(tmp_path: Path) -> None:
    env = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(tmp_path)}
    for _ in range(2):
        run_python(_WORKER, env, str(Path(__file__).parent))
    lines = run_python(_COLLECT, env).splitlines()
    assert 'linly_requests_total{outcome="ok"} 2.0' in lines
    assert "linly_render_late_frames_total 0.0" in lines
    assert not [line for line in lines if "pid=" in line]


# Without the package


def test_the_package_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(ImportError, match=r'pip install "linly-pipeline\[prometheus\]"'):
        Prometheus()


def test_the_figures_need_no_third_party_package() -> None:
    code = "import sys, linly_profiling.metrics; print('prometheus_client' in sys.modules, 'numpy' in sys.modules)"
    assert run_python(code, dict(os.environ)).split() == ["False", "False"]


def test_a_turn_of_the_pipeline_fills_the_metrics() -> None:
    async def main() -> None:
        stages = (
            FakeRecogniser(first_ms=300),
            FakeChat(per_item_ms=10),
            FakeVoice(),
            FakeMotion(),
            FakeFace(),
        )
        async with Pipeline(*stages).session() as session:
            await session.ask(tone(1.0))

    metrics = Prometheus()
    with Recorder(metrics):
        run_virtual(main())
    found = values(metrics)
    assert found["linly_requests_total,outcome=ok"] == 1
    assert found["linly_time_to_first_audio_seconds_count"] == 1
    assert found["linly_time_to_first_frame_seconds_sum"] >= 0.3
    assert found["linly_contribution_seconds_total,cause=work,milestone=first_audio,stage=asr"] == 0.3
    rows = {"asr", "llm", "tts", "motion", "face", "sink"}
    assert {row for row in rows if found.get(f"linly_stage_duration_seconds_count,stage={row}") == 1} == rows


def test_the_report_and_the_metrics_agree() -> None:
    trace = Turn(slow=0.83).run()
    assert seen(trace)["linly_av_offset_seconds",] == [(Report.of(trace).av_offset_ms or 0) / 1e3]
    (first_audio,) = seen(trace)["linly_time_to_first_audio_seconds",]
    assert first_audio == next(
        m.total_ns / 1e9 for m in Report.of(trace).milestones if m.name == "first audio"
    )


def test_every_figure_has_a_metric_with_its_labels() -> None:
    labels = {metric.name: len(metric.labels) for metric in METRICS}
    found = Counter(
        (figure.metric, len(figure.labels)) for figure in figures(Turn(fallback=True).run().snapshot())
    )
    assert {(name, labels[name]) for name, _ in found} == set(found)
    assert Figure("linly_requests_total", 1, ("ok",)) in list(figures(Turn().run().snapshot()))


def scrape(url: str, headers: dict[str, str]) -> str:
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=5) as answer:
        text: str = answer.read().decode()
    return text


def run_python(code: str, env: dict[str, str], *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env=env,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def eventually(holds: Callable[[], bool], deadline_s: float = 5.0) -> None:
    end_s = time.monotonic() + deadline_s
    while not holds():
        assert time.monotonic() < end_s, "it did not happen in time"
        time.sleep(0.002)
