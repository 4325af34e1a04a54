"""Reading back what `save_chrome` wrote."""

from __future__ import annotations

import gzip
import json
import os
import zlib
from collections import defaultdict
from pathlib import Path
from typing import Any

from linly_profiling.chrome.codec import OWN, flow_of, mark_of, sample_of, span_of
from linly_profiling.chrome.text import unpack
from linly_profiling.chrome.write import VERSION
from linly_profiling.clock import Epoch
from linly_profiling.record import LoadedTrace, Mark, Record, Sample

_GZIP_MAGIC = b"\x1f\x8b"


class TraceFileError(ValueError):
    """A file is no trace that this library wrote, or not all of it; the message says which file and why."""


def load(path: str | os.PathLike[str]) -> list[LoadedTrace]:
    """Read a file written by `Trace.save` or `save_chrome`: the same nanoseconds, attributes and marks.

    Raises:
        OSError: the file cannot be read.
        TraceFileError: it is broken, or was written by something else.
    """
    path = Path(path)
    document = _parse(path, _text(path))
    own = document.get(OWN) if isinstance(document, dict) else None
    if not isinstance(own, dict):
        raise TraceFileError(f"{path}: not written by linly_profiling: it has no {OWN!r} at its top")
    if own.get("version") != VERSION:
        raise TraceFileError(f"{path}: it has version {own.get('version')!r}; this library reads {VERSION}")
    try:
        return _traces(own["traces"], document["traceEvents"])
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise TraceFileError(f"{path}: damaged: {type(error).__name__}: {error}") from error


def _text(path: Path) -> str:
    data = path.read_bytes()
    try:
        return (gzip.decompress(data) if data.startswith(_GZIP_MAGIC) else data).decode("utf-8")
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise TraceFileError(f"{path}: the compressed data is cut short or damaged: {error}") from error
    except UnicodeDecodeError as error:
        raise TraceFileError(f"{path}: not UTF-8 text: {error}") from error


def _parse(path: Path, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise TraceFileError(f"{path}: not JSON, or cut short: {error}") from error


def _traces(heads: list[dict[str, Any]], events: list[dict[str, Any]]) -> list[LoadedTrace]:
    by_pid: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for event in events:
        by_pid[event["pid"]].append(event)
    return [_trace(unpack(head), by_pid[head["pid"]]) for head in heads]


def _trace(head: dict[str, Any], events: list[dict[str, Any]]) -> LoadedTrace:
    clock_ns, wall_ns = head["epoch"]
    request_id = str(head["request_id"])
    return LoadedTrace(
        request_id=request_id,
        outcome=str(head["outcome"]),
        dropped=int(head["dropped"]),
        epoch=Epoch(int(clock_ns), int(wall_ns)),
        spans=tuple(_spans(events, request_id)),
        samples=tuple(_samples(events)),
        flows=tuple(flow_of(fields) for fields in head["flows"]),
    )


def _spans(events: list[dict[str, Any]], request_id: str) -> list[Record]:
    marks: dict[int, list[Mark]] = defaultdict(list)
    for event in events:
        if event["ph"] == "i":
            span_id, mark = mark_of(event["args"])
            marks[span_id].append(mark)
    bare = [span_of(event["args"], request_id) for event in events if event["ph"] == "X"]
    spans = [span._replace(marks=tuple(marks[span.span_id])) for span in bare]
    return sorted(spans, key=lambda span: span.span_id)


def _samples(events: list[dict[str, Any]]) -> list[Sample]:
    # Samples without our own data close a counter, for the viewer's sake.
    return [sample_of(event[OWN]) for event in events if event["ph"] == "C" and OWN in event]
