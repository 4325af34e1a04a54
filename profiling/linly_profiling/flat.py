"""Formats without a viewer: CSV, one row a span; and plain JSON, which `load` reads back without loss."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from linly_profiling.chrome.layout import rows_of
from linly_profiling.clock import Epoch
from linly_profiling.record import CudaUse, Flow, LoadedTrace, Mark, Record, Sample

SCHEMA = "linly-trace/1"

COLUMNS = (
    "request_id", "trace_id", "span_id", "parent_id", "name", "row", "started_at", "start_ns", "duration_ns",
    "outcome", "error_type", "thread", "task", "rss_start_bytes", "rss_end_bytes", "rss_peak_bytes", "cpu_ns",
    "cuda_device", "cuda_time_ns", "cuda_allocated_bytes", "cuda_reserved_bytes", "cuda_peak_bytes", "cuda_shared",
    "marks", "attributes",
)  # fmt: skip
_UNIX = datetime(1970, 1, 1, tzinfo=UTC)
# A spreadsheet runs what begins like this as a formula (OWASP, "CSV Injection").
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def csv_of(traces: Sequence[LoadedTrace]) -> str:
    """Spans of all requests. A null is an empty cell; lone surrogates are U+FFFD."""
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(COLUMNS)
    for trace in traces:
        rows = rows_of(trace.spans)
        writer.writerows(_cells(trace, record, rows[record.span_id]) for record in trace.spans)
    return text.getvalue()


def _cells(trace: LoadedTrace, record: Record, row: str) -> Iterator[object]:
    started_at = _UNIX + timedelta(microseconds=trace.epoch.wall_of(record.start_ns) // 1000)
    yield _cell(trace.request_id)
    yield trace.trace_id
    yield record.span_id
    yield record.parent_id
    yield _cell(record.name)
    yield _cell(row)
    yield started_at.isoformat(timespec="microseconds")
    yield record.start_ns
    yield record.duration_ns
    yield _cell(record.outcome)
    yield _cell(record.error_type)
    yield _cell(record.thread_name)
    yield _cell(record.task)
    yield record.rss_start_bytes
    yield record.rss_end_bytes
    yield record.rss_peak_bytes
    yield record.cpu_ns
    yield from record.cuda or (None,) * len(CudaUse._fields)
    yield _json([list(mark) for mark in record.marks]) if record.marks else None
    yield _json(record.attrs) if record.attrs else None


def _cell(text: str | None) -> str | None:
    if text is None:
        return None
    text = text.encode("utf-8", "replace").decode("utf-8") if not text.isascii() else text
    return f"'{text}" if text.startswith(_FORMULA) else text


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def json_of(traces: Sequence[LoadedTrace]) -> str:
    """All that is known, exactly: ASCII, with escapes for everything else."""
    document = {"schema": SCHEMA, "traces": [_trace_dict(trace) for trace in traces]}
    return json.dumps(document, separators=(",", ":"), allow_nan=False)


def _trace_dict(trace: LoadedTrace) -> dict[str, Any]:
    return {
        "request_id": trace.request_id,
        "trace_id": trace.trace_id,
        "remote_parent_id": trace.remote_parent_id,
        "outcome": trace.outcome,
        "dropped": trace.dropped,
        "epoch": trace.epoch._asdict(),
        "spans": [_span_dict(record) for record in trace.spans],
        "samples": [sample._asdict() for sample in trace.samples],
        "flows": [flow._asdict() for flow in trace.flows],
    }


def _span_dict(record: Record) -> dict[str, Any]:
    span = record._asdict()
    del span["request_id"]
    span["marks"] = [mark._asdict() for mark in record.marks]
    span["cuda"] = None if record.cuda is None else record.cuda._asdict()
    return span


def traces_of(document: object) -> list[LoadedTrace]:
    """What `json_of` was given.

    Raises:
        KeyError, TypeError, ValueError: the data is of another kind, or of a later version.
    """
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise ValueError(f"its schema is not {SCHEMA!r}")
    return [_trace(each) for each in document["traces"]]


def _trace(each: dict[str, Any]) -> LoadedTrace:
    return LoadedTrace(
        request_id=each["request_id"],
        outcome=each["outcome"],
        dropped=each["dropped"],
        epoch=Epoch(**each["epoch"]),
        spans=tuple(_span(span, each["request_id"]) for span in each["spans"]),
        samples=tuple(Sample(**sample) for sample in each["samples"]),
        flows=tuple(Flow(**flow) for flow in each["flows"]),
        trace_id=each["trace_id"],
        remote_parent_id=each["remote_parent_id"],
    )


def _span(span: dict[str, Any], request_id: str) -> Record:
    marks = tuple(Mark(**mark) for mark in span["marks"])
    cuda = None if span["cuda"] is None else CudaUse(**span["cuda"])
    return Record(**{**span, "marks": marks, "cuda": cuda, "request_id": request_id})
