"""One request as plain numbers: what a comparison keeps of a trace, so that thousands fit into memory."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from linly_profiling.compare.metrics import REQUEST_METRICS, STAGE_METRICS, Metric
from linly_profiling.record import OPEN, LoadedTrace, Record
from linly_profiling.report import Report
from linly_profiling.stages import STAGE_PREFIX, StageRow
from linly_profiling.trace import Trace

From = TypeVar("From")

# Attributes of the root span that say where a request ran: times from different machines are no comparison.
CONDITIONS = ("gpu_name", "cuda_launch_blocking", "memory_limit_bytes", "gpu_memory_total_bytes")

WHOLE = "whole request"  # owned by the stages of its critical path

_BUSY_WITH = re.compile(r" \(busy with (cancelled )?(turn )?.*\)$", re.DOTALL)
_GOES_ON = re.compile(r"^goes on until (.*) can begin$", re.DOTALL)


@dataclass(frozen=True)
class Request:
    """One request. A figure that it does not have is absent.

    Attributes:
        request_id: as in its trace; need not be unique.
        outcome: how it ended, or "open".
        dropped: how much its trace is missing.
        values: figures by the names of `REQUEST_METRICS`.
        stages: for each stage, figures by the names of `STAGE_METRICS`. A stage's key is its row ("tts"), or its name
            where several stages share the row, so that exchanging an engine leaves the key.
        parts: for each milestone, and for `WHOLE`, nanoseconds by owner; they sum to the milestone, and to the wall
            time.
        span_ms: milliseconds of all spans of a name together; stages and the root are left out.
        span_counts: how many spans of each name.
        conditions: attributes of the root span that say where it ran.
    """

    request_id: str
    outcome: str
    dropped: int
    values: dict[str, float]
    stages: dict[str, dict[str, float]]
    parts: dict[str, dict[str, int]]
    span_ms: dict[str, float]
    span_counts: dict[str, int]
    conditions: dict[str, str]

    @property
    def ok(self) -> bool:
        return self.outcome == "ok"

    @property
    def kind(self) -> str:
        """Its outcome as one of "ok", "cancelled", "unfinished" and "errors"."""
        return {"ok": "ok", "cancelled": "cancelled", OPEN: "unfinished"}.get(self.outcome, "errors")


def measure(trace: Trace | LoadedTrace) -> Request:
    """The numbers of one request. A trace without its root span has none: when it began is not known."""
    loaded = trace.snapshot()
    root = next((record for record in loaded.spans if record.parent_id is None), None)
    if root is None:
        return Request(loaded.request_id, loaded.outcome, loaded.dropped, {}, {}, {}, {}, {}, {})
    report = Report.of(loaded)
    keys = _keys(report.stages)
    span_ms, span_counts = _spans(loaded.spans)
    return Request(
        request_id=loaded.request_id,
        outcome=loaded.outcome,
        dropped=loaded.dropped,
        values=_figures(REQUEST_METRICS, report),
        stages={key: _figures(STAGE_METRICS, stage) for key, stage in keys.items()},
        parts=_parts(report, keys),
        span_ms=span_ms,
        span_counts=span_counts,
        conditions={name: str(root.attrs[name]) for name in CONDITIONS if root.attrs.get(name) is not None},
    )


def measure_all(traces: Trace | LoadedTrace | Iterable[Trace | LoadedTrace]) -> tuple[Request, ...]:
    """The numbers of each; of a generator, one trace is held at a time."""
    if isinstance(traces, Trace | LoadedTrace):
        return (measure(traces),)
    return tuple(map(measure, traces))


def _figures(metrics: Mapping[str, Metric[From]], source: From) -> dict[str, float]:
    found = ((name, metric.of(source)) for name, metric in metrics.items())
    return {name: value for name, value in found if value is not None and math.isfinite(value)}


def _keys(stages: Iterable[StageRow]) -> dict[str, StageRow]:
    stages = list(stages)
    rows = Counter(stage.row for stage in stages)
    keyed: dict[str, StageRow] = {}
    for stage in stages:
        base = stage.row if stage.row and rows[stage.row] == 1 else stage.name
        key, turn = base, 2
        while key in keyed:
            key, turn = f"{base} {turn}", turn + 1
        keyed[key] = stage
    return keyed


def _parts(report: Report, keys: Mapping[str, StageRow]) -> dict[str, dict[str, int]]:
    by_span = {stage.span_id: key for key, stage in keys.items()}
    by_span |= {wait.span_id: key for key, stage in keys.items() for wait in stage.waits}
    by_name = {stage.name: key for key, stage in keys.items()}
    parts: dict[str, dict[str, int]] = {}
    for milestone in report.milestones:
        owners: Counter[str] = Counter()
        for part in milestone.contributions:
            owners[_owner(part.label, by_span.get(part.span_id), by_name)] += part.duration_ns
        parts[milestone.name] = dict(owners)
    if path := report.critical_path:
        whole: Counter[str] = Counter()
        for share in path.shares:
            whole[by_span.get(share.span_id, share.name)] += share.duration_ns
        parts[WHOLE] = dict(whole)
    return parts


def _owner(label: str, key: str | None, by_name: Mapping[str, str]) -> str:
    """The label without what differs from request to request, and with the keys of stages for their names."""
    name = next((name for name in by_name if by_name[name] == key), None)
    if key is None or name is None or not label.startswith(f"{name}: "):
        return label
    what = label[len(name) + 2 :]
    if found := _GOES_ON.match(what):
        what = f"goes on until {by_name.get(found[1], found[1])} can begin"
    return f"{key}: {_BUSY_WITH.sub(_busy_with, what)}"


def _busy_with(found: re.Match[str]) -> str:
    """Whose call it was is the request's own story; that there was one, and whether it was still wanted, is not."""
    if found[1]:
        return " (busy with a cancelled turn)"
    return " (busy with another turn)" if found[2] else found[0]


def _spans(records: Iterable[Record]) -> tuple[dict[str, float], dict[str, int]]:
    lengths: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    for record in records:
        if record.parent_id is not None and not record.name.startswith(STAGE_PREFIX):
            lengths[record.name] += record.duration_ns
            counts[record.name] += 1
    return {name: ns / 1e6 for name, ns in lengths.items()}, dict(counts)
