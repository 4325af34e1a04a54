"""Prometheus metrics of all requests: `with Recorder(metrics := Prometheus()), metrics.serve(): ...`.

`table.METRICS` lists every metric, `figures` says what one request adds to them, `Prometheus` keeps the sums.
"""

from __future__ import annotations

from linly_profiling.metrics.exporter import Prometheus
from linly_profiling.metrics.figures import Figure, figures
from linly_profiling.metrics.server import MetricsServer
from linly_profiling.metrics.table import METRICS, Metric

__all__ = ["METRICS", "Figure", "Metric", "MetricsServer", "Prometheus", "figures"]
