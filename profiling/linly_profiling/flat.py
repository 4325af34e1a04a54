"""A table for spreadsheets and data frames: CSV as in RFC 4180, UTF-8, one row a span.

It is for reading elsewhere, and not read back: plain JSON and Chrome traces are.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from functools import lru_cache

from linly_profiling.chrome.layout import rows_of
from linly_profiling.protobuf import utf8
from linly_profiling.record import CudaUse, LoadedTrace, Record
from linly_profiling.values import Value

COLUMNS = (
    "request_id", "trace_id", "span_id", "parent_id", "name", "row", "started_at", "start_ns", "end_ns",
    "duration_ns", "outcome", "error_type", "thread", "task", "rss_start_bytes", "rss_end_bytes", "rss_peak_bytes",
    "cpu_ns", "cuda_device", "cuda_time_ns", "cuda_allocated_bytes", "cuda_reserved_bytes", "cuda_peak_bytes",
    "cuda_shared", "marks", "attributes",
)  # fmt: skip
_LINE_END = "\r\n"
_NO_CUDA = "," * (len(CudaUse._fields) - 1)
_SECOND_NS = 10**9

# A spreadsheet runs what begins like this as a formula. Source: OWASP, "CSV Injection".
_FORMULA = (
    "=",
    "+",
    "-",
    "@",
    "\t",
    "\r",
    "\n",
    "\uff1d",
    "\uff0b",
    "\uff0d",
    "\uff20",
)  # also in full width
_NEEDS_QUOTES = re.compile(r'[",;\t\r\n]|^\s|\s$')


def csv_of(traces: Sequence[LoadedTrace]) -> bytes:
    """Spans of all requests, with a line of column names. What was not measured is an empty cell.

    Texts that a spreadsheet would run have an apostrophe before them; lone surrogates are U+FFFD.
    """
    lines = [",".join(COLUMNS), *(line for trace in traces for line in _lines(trace))]
    return utf8(_LINE_END.join(lines) + _LINE_END)


def _lines(trace: LoadedTrace) -> Iterator[str]:
    rows = rows_of(trace.spans)
    of_request = f"{_cell(trace.request_id)},{_cell(trace.trace_id)}"
    to_wall_ns = trace.epoch.wall_ns - trace.epoch.clock_ns
    for record in trace.spans:
        start_ns, end_ns = record.start_ns, record.end_ns
        yield (
            f"{of_request},{record.span_id},{_or_empty(record.parent_id)},"
            f"{_cell(record.name)},{_cell(rows[record.span_id])},"
            f"{_iso_time(start_ns + to_wall_ns)},{start_ns},{end_ns},{end_ns - start_ns},"
            f"{_cells(record.outcome, record.error_type, record.thread_name, record.task)},"
            f"{_numbers(record.rss_start_bytes, record.rss_end_bytes, record.rss_peak_bytes)},"
            f"{_or_empty(record.cpu_ns)},{_NO_CUDA if record.cuda is None else _cuda(record.cuda)},"
            f"{_marks(record) if record.marks else ''},{_attributes(record.attrs) if record.attrs else ''}"
        )


def _or_empty(number: int | None) -> str:
    return "" if number is None else str(number)


@lru_cache(maxsize=4096)
def _cell(text: str) -> str:
    if text.startswith(_FORMULA):
        text = f"'{text}"
    return _quoted(text) if _NEEDS_QUOTES.search(text) else text


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


# Most values come again and again.
@lru_cache(maxsize=1024)
def _cells(*texts: str | None) -> str:
    return ",".join("" if text is None else _cell(text) for text in texts)


@lru_cache(maxsize=1024)
def _numbers(*numbers: int | None) -> str:
    return ",".join(map(_or_empty, numbers))


def _cuda(use: CudaUse) -> str:
    return ",".join("" if value is None else str(value).lower() for value in use)


def _iso_time(wall_ns: int) -> str:
    """ISO 8601, to the microsecond; "" for a time that no calendar has."""
    seconds, rest_ns = divmod(wall_ns, _SECOND_NS)
    whole = _iso_second(seconds)
    return f"{whole}.{rest_ns // 1000:06d}+00:00" if whole else ""


@lru_cache(maxsize=64)
def _iso_second(seconds: int) -> str:
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    except (ValueError, OverflowError, OSError):
        return ""


def _marks(record: Record) -> str:
    return _quoted(_dumps([list(mark) for mark in record.marks]))


def _attributes(attrs: dict[str, Value]) -> str:
    # Floats are not looked up: 0.0 equals -0.0.
    pairs = [_frequent(k, v) if isinstance(v, (str, int)) else _pair(k, v) for k, v in attrs.items()]
    return _quoted(f"{{{','.join(pairs)}}}")


def _pair(name: str, value: Value) -> str:
    return f"{_dumps(name)}:{_dumps(value)}"


_frequent = lru_cache(maxsize=4096, typed=True)(_pair)  # typed: 1 equals True


def _dumps(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))
