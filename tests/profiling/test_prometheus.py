"""Rules and dashboard against the real thing: promtool, and a Prometheus on loopback that scrapes traced requests."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from linly_profiling import CudaUse, LoadedTrace, Report, TraceFile
from linly_profiling.chrome.repair import salvage
from linly_profiling.metrics import METRICS, Prometheus
from linly_profiling.recorder import Exporter, Recorder
from metric_traffic import GB, Turn
from trace_tools import MS

pytest.importorskip("prometheus_client", reason="needs prometheus_client (extra: prometheus)")

PROFILING = Path(__file__).parents[2] / "profiling"
RULES = PROFILING / "prometheus" / "rules.yml"
RULES_TEST = PROFILING / "prometheus" / "rules_test.yml"
DASHBOARD = PROFILING / "grafana" / "dashboard.json"
DOCS = Path(__file__).parents[2] / "docs" / "monitoring.md"

needs_promtool = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="needs promtool (Debian package prometheus)"
)
needs_prometheus = pytest.mark.skipif(
    shutil.which("prometheus") is None, reason="needs prometheus (Debian package prometheus)"
)


def promtool(*arguments: str, stdin: str | None = None, cwd: Path = RULES.parent) -> str:
    done = subprocess.run(
        ["promtool", *arguments],
        input=stdin,
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def alerts() -> dict[str, str]:
    """The text of each alert, by its name."""
    _, *parts = re.split(r"^      - alert: (\w+)\n", RULES.read_text("utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[::2], parts[1::2], strict=True))


def panels() -> list[dict[str, Any]]:
    return [panel for panel in json.loads(DASHBOARD.read_text("utf-8"))["panels"] if panel["type"] != "row"]


def targets() -> list[tuple[str, dict[str, Any]]]:
    return [(panel["title"], target) for panel in panels() for target in panel["targets"]]


def series_names(text: str) -> set[str]:
    """Metrics that a text mentions, without the suffixes of a histogram's series."""
    found = re.findall(r"(?<![:\w])linly_\w+", text)
    return {re.sub(r"_(bucket|count|sum)$", "", name) for name in found}


# Without a server


@needs_promtool
def test_the_rules_are_valid() -> None:
    assert "SUCCESS" in promtool("check", "rules", RULES.name)


@needs_promtool
def test_the_example_configuration_is_valid() -> None:
    assert "SUCCESS" in promtool("check", "config", "prometheus.yml")


@needs_promtool
def test_every_alert_fires_when_it_must_and_not_otherwise() -> None:
    assert "SUCCESS" in promtool("test", "rules", RULES_TEST.name)


@needs_promtool
def test_the_rule_tests_can_fail(tmp_path: Path) -> None:
    (tmp_path / RULES.name).write_text(RULES.read_text("utf-8").replace("> 1.5", "> 5"))
    shutil.copy(RULES_TEST, tmp_path)
    with pytest.raises(AssertionError, match="LinlyFirstAudioSlow"):
        promtool("test", "rules", RULES_TEST.name, cwd=tmp_path)


def test_every_alert_has_a_test_in_which_it_fires() -> None:
    fired = set(re.findall(r'alertname="(\w+)",alertstate="firing"', RULES_TEST.read_text("utf-8")))
    assert fired == set(alerts())


def test_every_alert_says_what_is_wrong_and_what_to_do() -> None:
    manual = DOCS.read_text("utf-8")
    for name, text in alerts().items():
        for part in ("severity: ", "summary: ", "description: ", "action: "):
            assert part in text, f"{name} has no {part}"
        assert f"### {name}" in manual, f"docs/monitoring.md does not explain {name}"


@needs_promtool
def test_the_exposition_has_no_lint() -> None:
    metrics = Prometheus()
    metrics.end(_with_gpu_time(Turn(fallback=True).run().snapshot()), kept=True)
    with metrics.serve(port=0) as server, urllib.request.urlopen(server.url, timeout=5) as answer:
        promtool("check", "metrics", stdin=answer.read().decode())


def test_rules_and_dashboard_use_only_metrics_that_exist() -> None:
    known = {metric.name for metric in METRICS}
    queries = re.findall(
        r"^ +expr: (.*?)(?=^ +(?:- )?\w+: |\Z)", RULES.read_text("utf-8"), re.MULTILINE | re.DOTALL
    )
    assert len(queries) == 20
    assert series_names("\n".join(queries)) <= known
    assert series_names("\n".join(target["expr"] for _, target in targets())) == known


def test_the_dashboard_is_what_build_py_builds() -> None:
    pytest.importorskip("grafana_foundation_sdk", reason="needs grafana-foundation-sdk (extra: dev)")
    code = "import sys; from build import built; sys.stdout.buffer.write(built().encode())"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=DASHBOARD.parent, capture_output=True, timeout=30, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.decode() == DASHBOARD.read_text("utf-8"), "run profiling/grafana/build.py"


def test_panels_do_not_overlap_and_have_ids_of_their_own() -> None:
    everything = json.loads(DASHBOARD.read_text("utf-8"))["panels"]
    cells = [
        (x, y)
        for place in (panel["gridPos"] for panel in everything)
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24
    assert len({panel["id"] for panel in everything}) == len(everything)


def test_panels_can_be_read() -> None:
    for panel in panels():
        assert panel["title"]
        assert panel["description"].endswith(".")
        assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
        assert panel["datasource"]["uid"] == "${datasource}"
        legends = [target["legendFormat"] for target in panel["targets"]]
        assert all(legends), panel["title"]
        assert len(legends) == len(set(legends)), panel["title"]


def test_percentiles_come_with_exemplars() -> None:
    for panel in panels():
        if any("histogram_quantile" in target["expr"] for target in panel["targets"]):
            assert any(target["exemplar"] for target in panel["targets"]), panel["title"]


# With a server


class Keep(Exporter):
    """Holds all requests, by trace ID."""

    def __init__(self) -> None:
        self.traces: dict[str, LoadedTrace] = {}

    def end(self, trace: LoadedTrace, kept: bool) -> None:
        self.traces[trace.trace_id] = trace


class WithGpuTime(Prometheus):
    """Metrics of a program on a machine with a GPU."""

    def end(self, trace: LoadedTrace, kept: bool) -> None:
        super().end(_with_gpu_time(trace), kept)


def _with_gpu_time(trace: LoadedTrace) -> LoadedTrace:
    spans = [
        span._replace(cuda=CudaUse(0, 300 * MS)) if span.name == "llm.generate" else span
        for span in trace.spans
    ]
    return dataclasses.replace(trace, spans=tuple(spans))


TURNS = (
    Turn(),
    Turn(slow=0.7),
    Turn(slow=1.8, fallback=True),
    Turn(frame_ms=60, av_offset_ms=-90),
    Turn("cancelled"),
    Turn("error", av_offset_ms=150),
    Turn(gpu_bytes=95 * GB),
)


class Server:
    """A Prometheus that has scraped requests, and goes on doing so."""

    def __init__(self, port: int, keep: Keep, file: Path) -> None:
        self.url = f"http://127.0.0.1:{port}/api/v1/"
        self.keep = keep
        self.file = file

    def get(self, path: str, **parameters: str | float) -> Any:
        url = f"{self.url}{path}?{urllib.parse.urlencode(parameters)}"
        with urllib.request.urlopen(url, timeout=5) as answer:
            reply = json.load(answer)
        assert reply["status"] == "success", reply
        return reply["data"]

    def values(self, expr: str) -> list[float]:
        """What a query finds, without the values that are no number."""
        found = [float(result["value"][1]) for result in self.get("query", query=expr)["result"]]
        return [value for value in found if value == value]

    def eventually(self, expr: str, deadline_s: float = 10.0) -> list[float]:
        end_s = time.monotonic() + deadline_s
        while not (found := self.values(expr)):
            assert time.monotonic() < end_s, f"no data: {expr}"
            time.sleep(0.1)
        return found

    def exemplars(self, expr: str) -> list[dict[str, Any]]:
        now_s = time.time()
        found = self.get("query_exemplars", query=expr, start=now_s - 300, end=now_s + 1)
        return [exemplar for series in found for exemplar in series["exemplars"]]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    if shutil.which("prometheus") is None:
        pytest.skip("needs prometheus (Debian package prometheus)")
    folder, keep, metrics = tmp_path_factory.mktemp("prometheus"), Keep(), WithGpuTime()
    stop, file = threading.Event(), folder / "run.json"
    with Recorder(metrics, keep, TraceFile(file)), metrics.serve(port=0) as scraped:
        traffic = threading.Thread(target=_run_requests, args=(stop,))
        traffic.start()
        process, port = _start_prometheus(folder, scraped.port)
        try:
            running = Server(port, keep, file)
            _wait_until_it_scrapes(running, process, folder)
            yield running
        finally:
            stop.set()
            traffic.join()
            process.terminate()
            process.wait(10)


def _run_requests(stop: threading.Event) -> None:
    number = 0
    while not stop.wait(0.05):
        dataclasses.replace(TURNS[number % len(TURNS)], request_id=f"turn-{number}").run()
        number += 1


def _start_prometheus(folder: Path, target_port: int) -> tuple[subprocess.Popen[bytes], int]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    (folder / "prometheus.yml").write_text(
        f"global: {{scrape_interval: 200ms, scrape_timeout: 200ms, evaluation_interval: 200ms}}\n"
        f"rule_files: ['{RULES}']\n"
        f"scrape_configs: [{{job_name: linly, static_configs: [{{targets: ['127.0.0.1:{target_port}']}}]}}]\n"
    )
    command = [
        "prometheus",
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--enable-feature=exemplar-storage",
        "--log.level=warn",
    ]
    with (folder / "log").open("wb") as log:
        return subprocess.Popen(command, stdout=log, stderr=log), port


def _wait_until_it_scrapes(server: Server, process: subprocess.Popen[bytes], folder: Path) -> None:
    end_s = time.monotonic() + 15
    while True:
        assert process.poll() is None, (folder / "log").read_text()
        try:
            if server.values('sum_over_time(up{job="linly"}[1m]) >= 8'):
                return
        except OSError:  # it has not come up yet
            pass
        assert time.monotonic() < end_s, (folder / "log").read_text()
        time.sleep(0.1)


def asked(expr: str) -> str:
    """The query as Grafana would send it."""
    return expr.replace("$__rate_interval", "1m").replace("$job", ".*")


@needs_prometheus
@pytest.mark.parametrize(
    ("title", "target"), targets(), ids=lambda value: value if isinstance(value, str) else ""
)
def test_every_query_of_the_dashboard_returns_data(
    server: Server, title: str, target: dict[str, Any]
) -> None:
    values = server.eventually(asked(target["expr"]))
    assert target["expr"].startswith("vector(-") or "av_offset" in target["expr"] or min(values) >= 0, title


@needs_prometheus
def test_every_rule_is_evaluated_without_an_error(server: Server) -> None:
    rules = [rule for group in server.get("rules")["groups"] for rule in group["rules"]]
    assert {rule["name"] for rule in rules if rule["type"] == "alerting"} == set(alerts())
    for rule in rules:
        server.get("query", query=rule["query"])
        assert (rule["health"], rule.get("lastError", "")) in (("ok", ""), ("unknown", "")), rule["name"]
        if rule["type"] == "recording":
            server.eventually(rule["name"])


@needs_prometheus
def test_the_parts_of_the_wait_stack_up_to_the_mean_wait(server: Server) -> None:
    (stack,) = [
        target["expr"] for title, target in targets() if title == "Where the time to first audio goes"
    ]
    # A window that the first scrapes have left: until then `rate` cannot know how a new series began.
    stack = asked(stack).replace("[1m]", "[2s]")
    mean = "linly_time_to_first_audio_seconds"
    whole = f"sum(rate({mean}_sum[2s])) / sum(rate({mean}_count[2s]))"
    server.eventually(f"abs(sum({stack}) / ({whole}) - 1) < 1e-6")


@needs_prometheus
@pytest.mark.parametrize(
    ("title", "target"),
    [pair for pair in targets() if pair[1]["exemplar"]],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_exemplars_of_the_dashboard_lead_to_traces(
    server: Server, title: str, target: dict[str, Any]
) -> None:
    found = server.exemplars(asked(target["expr"]))
    assert found, title
    assert {exemplar["labels"]["trace_id"] for exemplar in found} <= set(server.keep.traces)


@needs_prometheus
def test_the_trace_of_an_exemplar_shows_what_the_metric_said(server: Server) -> None:
    slowest = max(
        server.exemplars("linly_time_to_first_audio_seconds_bucket"), key=lambda each: float(each["value"])
    )
    (trace,) = [
        trace for trace in salvage(server.file).traces if trace.trace_id == slowest["labels"]["trace_id"]
    ]
    (milestone,) = [each for each in Report.of(trace).milestones if each.name == "first audio"]
    assert milestone.total_ns / 1e9 == pytest.approx(float(slowest["value"]))
    assert float(slowest["value"]) == pytest.approx(0.5 * 1.8)


@needs_prometheus
def test_a_failed_request_can_be_found_by_its_outcome(server: Server) -> None:
    found = server.exemplars('linly_requests_total{outcome="error"}')
    assert {server.keep.traces[each["labels"]["trace_id"]].outcome for each in found} == {"error"}
