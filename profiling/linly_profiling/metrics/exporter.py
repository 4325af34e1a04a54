"""Keeps the metrics of all requests for Prometheus, in the recorder's thread."""

from __future__ import annotations

import math
import platform
import time
from collections.abc import Mapping
from importlib import metadata
from typing import TYPE_CHECKING, Any

from linly_profiling.metrics.figures import Figure, figures
from linly_profiling.metrics.server import MetricsServer
from linly_profiling.metrics.table import METRICS, Metric
from linly_profiling.record import LoadedTrace
from linly_profiling.recorder import Exporter
from linly_profiling.trace import Trace

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

PORT = 9464  # where OpenTelemetry's Prometheus exporters listen
MAX_SERIES = 100  # of one metric; real programs have a dozen
MAX_LABEL = 64
OTHER = "other"  # all label values beyond MAX_SERIES
OUTCOMES = ("ok", "cancelled", "error")
TOKEN_TYPES = ("input", "cached", "output")
_DISTRIBUTION = "linly-pipeline"
_TRACE_ID_DIGITS = 32


class Prometheus(Exporter):
    """Counts every request, also those that the sampling does not keep.

    An exemplar with the label `trace_id` leads from a histogram's bucket, or an outcome, to the newest request that
    fell into it. Requests that were not kept get none: there would be no trace to find.

    Attributes:
        registry: holds the metrics; give it to `prometheus_client.make_asgi_app` or `make_wsgi_app`.
    """

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        """Register all metrics.

        Args:
            registry: a new one if None. `prometheus_client.REGISTRY` adds them to those of the program.

        Raises:
            ImportError: prometheus_client is not installed.
            ValueError: the registry has these metrics already.
        """
        client = _client()
        self.registry: CollectorRegistry = client.CollectorRegistry() if registry is None else registry
        self._metrics = {metric.name: _Series(client, metric, self.registry) for metric in METRICS}
        self._running = 0
        self._show_zeros()

    def serve(self, port: int = PORT, host: str = "127.0.0.1") -> MetricsServer:
        """Answer scrapes at `http://host:port/metrics`, in threads of its own, until it is closed.

        Args:
            port: 0 chooses a free one, see `MetricsServer.port`.
            host: the address to listen on. Other than loopback, whoever reaches it can read the metrics.

        Raises:
            OSError: the port is taken, or the address is not this machine's.
        """
        return MetricsServer(self.registry, port, host)

    def begin(self, trace: Trace) -> None:
        self._set_running(self._running + 1)

    def end(self, trace: LoadedTrace, kept: bool) -> None:
        start_s = time.perf_counter()
        self._set_running(max(0, self._running - 1))
        exemplar = {"trace_id": trace.trace_id} if kept and len(trace.trace_id) == _TRACE_ID_DIGITS else None
        for figure in figures(trace):
            self._metrics[figure.metric].add(figure, exemplar)
        self._add("linly_metrics_newest_request_timestamp_seconds", time.time())
        self._add("linly_metrics_cost_seconds_total", time.perf_counter() - start_s)

    def forked(self) -> None:
        self._set_running(0)

    def _set_running(self, count: int) -> None:
        self._running = count
        self._add("linly_requests_in_progress", count)

    def _add(self, name: str, value: float, *labels: str) -> None:
        self._metrics[name].add(Figure(name, value, labels), None)

    def _show_zeros(self) -> None:
        """A counter that appears with its first event hides that event from `rate` and `increase`."""
        for outcome in OUTCOMES:
            self._add("linly_requests_total", 0, outcome)
        for kind in TOKEN_TYPES:
            self._add("linly_llm_tokens_total", 0, kind)
        self._add("linly_requests_in_progress", 0)
        self._add("linly_build_info", 1, _version(), platform.python_version())


class _Series:
    """One metric of the client library, with a limit on its number of series."""

    def __init__(self, client: Any, metric: Metric, registry: CollectorRegistry) -> None:
        self._kind = metric.kind
        self._signed = bool(metric.buckets) and metric.buckets[0] < 0
        self._labels = metric.labels
        self._parent = _make(client, metric, registry)
        self._children: dict[tuple[str, ...], Any] = {}

    def add(self, figure: Figure, exemplar: Mapping[str, str] | None) -> None:
        if not math.isfinite(figure.value) or (figure.value < 0 and not self._signed):
            return  # of a broken trace; NaN would stay in a sum for ever
        child = self._child(figure.labels)
        if self._kind == "gauge":
            child.set(figure.value)
        elif self._kind == "counter":
            child.inc(figure.value, exemplar if figure.value else None)
        else:
            for _ in range(figure.times - 1):
                child.observe(figure.value)
            child.observe(figure.value, exemplar)  # a bucket keeps one

    def _child(self, labels: tuple[str, ...]) -> Any:
        if not self._labels:
            return self._parent
        child = self._children.get(labels)
        if child is None:
            if len(self._children) >= MAX_SERIES:
                return self._parent.labels(*[OTHER] * len(labels))
            child = self._children[labels] = self._parent.labels(*map(_label, labels))
        return child


def _make(client: Any, metric: Metric, registry: CollectorRegistry) -> Any:
    common = (metric.name, metric.meaning, metric.labels)
    if metric.kind == "counter":
        return client.Counter(*common, unit=metric.unit, registry=registry)
    if metric.kind == "gauge":
        return client.Gauge(*common, unit=metric.unit, registry=registry, multiprocess_mode=metric.merge)
    return client.Histogram(*common, unit=metric.unit, registry=registry, buckets=metric.buckets)


def _label(value: str) -> str:
    """As it can be written: half a surrogate pair would make every scrape fail."""
    return value[:MAX_LABEL].encode("utf-8", "replace").decode()


def _client() -> Any:
    try:
        import prometheus_client
    except ImportError as error:
        raise ImportError(
            'metrics need prometheus_client, which is not installed: pip install "linly-pipeline[prometheus]"'
        ) from error
    return prometheus_client


def _version() -> str:
    try:
        return metadata.version(_DISTRIBUTION)
    except metadata.PackageNotFoundError:  # run from a source tree
        return "unknown"
