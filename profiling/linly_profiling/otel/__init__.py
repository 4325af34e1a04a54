"""OpenTelemetry: spans under its names, sent as OTLP over HTTP. Standard library only."""

from __future__ import annotations

from linly_profiling.otel.otlp import Otlp, OtlpStatistics

__all__ = ["Otlp", "OtlpStatistics"]
