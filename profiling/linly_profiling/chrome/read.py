"""Reading back what `save` and `TraceFile` wrote, also if the writer was killed."""

from __future__ import annotations

import gzip
import json
import os
import zlib
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from linly_profiling.chrome.codec import OWN, flow_of, mark_of, sample_of, span_of
from linly_profiling.chrome.names import END, FLOW, HEAD, OPEN_SPAN, VERSION
from linly_profiling.chrome.text import unpack
from linly_profiling.clock import Epoch
from linly_profiling.record import OPEN, LoadedTrace, Mark, Record, Sample

_GZIP_MAGIC = b"\x1f\x8b"
_Event = dict[str, Any]


class TraceFileError(ValueError):
    """A file is no trace that this library wrote, or not all of it; the message says which file and why."""


def load(path: str | os.PathLike[str]) -> list[LoadedTrace]:
    """Read a file written by `Trace.save`, `save` or `TraceFile`: the same nanoseconds, attributes and marks.

    Raises:
        OSError: the file cannot be read.
        TraceFileError: it is broken, or was written by something else.
    """
    path = Path(path)
    document = _parse(path, text_of(path))
    own = document.get(OWN) if isinstance(document, dict) else None
    if not isinstance(own, dict):
        raise TraceFileError(f"{path}: not written by linly_profiling: it has no {OWN!r} at its top")
    if own.get("version") != VERSION:
        raise TraceFileError(f"{path}: it has version {own.get('version')!r}; this library reads {VERSION}")
    try:
        events = document["traceEvents"]
        return traces_of(events) if own.get("grown") else _traces(own["traces"], events)
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise TraceFileError(f"{path}: damaged: {type(error).__name__}: {error}") from error


def text_of(path: Path) -> str:
    """The text of a file, compressed or not.

    Raises:
        OSError: the file cannot be read.
        TraceFileError: it is damaged.
    """
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
        hint = "; 'linly trace repair' reads what is whole of it" if text.startswith("[") else ""
        raise TraceFileError(f"{path}: not JSON, or cut short{hint}: {error}") from error


def check_event(event: _Event) -> None:
    """Whether `traces_of` will be able to read an event.

    Raises:
        KeyError, TypeError, ValueError, AttributeError: it will not.
    """
    kind, name, pid = event["ph"], event["name"], event["pid"]
    if not isinstance(pid, int):
        raise ValueError(f"a process number is {pid!r}")
    if (kind == "X" and "args" in event) or (kind == "M" and name == OPEN_SPAN):
        span_of(event["args"], "")
    elif kind == "i":
        mark_of(event["args"])
    elif kind == "C" and OWN in event:
        sample_of(event[OWN])
    elif kind == "M" and name == HEAD:
        _trace(unpack(event["args"]), [])
    elif kind == "M" and name == FLOW:
        flow_of(unpack(event["args"])["flow"])
    elif kind == "M" and name == END:
        int(unpack(event["args"])["dropped"])


def traces_of(events: Iterable[_Event]) -> list[LoadedTrace]:
    """The requests of a grown file, as far as they were written.

    Raises:
        KeyError, TypeError, ValueError, AttributeError: the events are not from a `TraceFile`.
    """
    by_pid: dict[int, list[_Event]] = defaultdict(list)
    for event in events:
        by_pid[event["pid"]].append(event)
    return [_grown(found) for found in by_pid.values() if any(event["name"] == HEAD for event in found)]


def _grown(events: list[_Event]) -> LoadedTrace:
    def said(name: str) -> list[_Event]:
        return [unpack(event["args"]) for event in events if event["ph"] == "M" and event["name"] == name]

    head, ends = said(HEAD)[0], said(END)
    trace = _trace({**head, **(ends[-1] if ends else {})}, events)
    whole = {span.span_id for span in trace.spans}
    last_ns = max((_last_ns(event, trace.epoch) for event in events), default=0)
    still_open = {span.span_id: span for span in _open_spans(events, trace.request_id)}
    lost = [
        span._replace(outcome=OPEN, end_ns=max(span.end_ns, last_ns))
        for span in still_open.values()
        if span.span_id not in whole
    ]
    flows = trace.flows or tuple(flow_of(args["flow"]) for args in said(FLOW))
    spans = sorted((*trace.spans, *lost), key=lambda span: span.span_id)
    return LoadedTrace(
        trace.request_id, trace.outcome, trace.dropped, trace.epoch, tuple(spans), trace.samples, flows,
        trace.trace_id, trace.remote_parent_id,
    )  # fmt: skip


def _open_spans(events: list[_Event], request_id: str) -> list[Record]:
    return [
        span_of(event["args"], request_id)
        for event in events
        if event["ph"] == "M" and event["name"] == OPEN_SPAN
    ]


def _last_ns(event: _Event, epoch: Epoch) -> int:
    """The latest instant on the trace's clock that an event tells of."""
    args = event.get("args", {})
    if event["ph"] in ("X", "M"):
        return int(args.get(OWN, {}).get("end_ns", 0))
    if event["ph"] == "C":
        return int(event.get(OWN, {}).get("at_ns", 0))
    return int(args.get("at_ns", 0))


def _traces(heads: list[dict[str, Any]], events: list[_Event]) -> list[LoadedTrace]:
    by_pid: dict[int, list[_Event]] = defaultdict(list)
    for event in events:
        by_pid[event["pid"]].append(event)
    return [_trace(unpack(head), by_pid[head["pid"]]) for head in heads]


def _trace(head: dict[str, Any], events: list[_Event]) -> LoadedTrace:
    clock_ns, wall_ns = head["epoch"]
    request_id = str(head["request_id"])
    remote = head.get("remote_parent_id")
    return LoadedTrace(
        request_id=request_id,
        outcome=str(head["outcome"]),
        dropped=int(head["dropped"]),
        epoch=Epoch(int(clock_ns), int(wall_ns)),
        spans=tuple(_spans(events, request_id)),
        samples=tuple(_samples(events)),
        flows=tuple(flow_of(fields) for fields in head["flows"]),
        trace_id=str(head.get("trace_id", "")),
        remote_parent_id=None if remote is None else str(remote),
    )


def _spans(events: list[_Event], request_id: str) -> list[Record]:
    marks: dict[int, list[Mark]] = defaultdict(list)
    for event in events:
        if event["ph"] == "i":
            span_id, mark = mark_of(event["args"])
            marks[span_id].append(mark)
    # Slices without our own data are there for an arrow to end in.
    bare = [span_of(event["args"], request_id) for event in events if event["ph"] == "X" and "args" in event]
    spans = [span._replace(marks=tuple(marks[span.span_id])) for span in bare]
    return sorted(spans, key=lambda span: span.span_id)


def _samples(events: list[_Event]) -> list[Sample]:
    # Samples without our own data close a counter, for the viewer's sake.
    return [sample_of(event[OWN]) for event in events if event["ph"] == "C" and OWN in event]
