"""Plain JSON: all that is known of a trace, exactly, in a schema with a version, to be read by any program."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from linly_profiling.clock import Epoch
from linly_profiling.record import CudaUse, Flow, LoadedTrace, Mark, Record, Sample

SCHEMA = "linly-trace/1"

_Types = Mapping[str, tuple[type, ...]]
_NONE = type(None)
# What stands in a file, by key. What may be null may also be missing; keys that are not known are ignored.
_TRACE: _Types = {
    "request_id": (str,), "trace_id": (str,), "remote_parent_id": (str, _NONE), "outcome": (str,), "dropped": (int,),
    "epoch": (dict,), "spans": (list,), "samples": (list,), "flows": (list,),
}  # fmt: skip
_EPOCH: _Types = {"clock_ns": (int,), "wall_ns": (int,)}
_SPAN: _Types = {
    "name": (str,), "span_id": (int,), "parent_id": (int, _NONE), "thread_id": (int,), "thread_name": (str,),
    "task": (str, _NONE), "start_ns": (int,), "end_ns": (int,), "outcome": (str,), "error_type": (str, _NONE),
    "attrs": (dict,), "marks": (list,), "rss_start_bytes": (int, _NONE), "rss_end_bytes": (int, _NONE),
    "rss_peak_bytes": (int, _NONE), "cpu_ns": (int, _NONE), "cuda": (dict, _NONE),
}  # fmt: skip
_MARK: _Types = {"name": (str,), "at_ns": (int,), "value": (int, _NONE)}
_CUDA: _Types = {
    "device": (int,), "time_ns": (int, _NONE), "allocated_bytes": (int, _NONE), "reserved_bytes": (int, _NONE),
    "peak_bytes": (int, _NONE), "shared": (bool, _NONE),
}  # fmt: skip
_SAMPLE: _Types = {"name": (str,), "track": (str,), "at_ns": (int,), "value": (int, float)}
_FLOW: _Types = {"name": (str,), "from_id": (int,), "from_ns": (int,), "to_id": (int,), "to_ns": (int,)}


def json_of(traces: Sequence[LoadedTrace]) -> bytes:
    """The file's content: ASCII, with escapes for everything else, lone surrogates included."""
    document = {"schema": SCHEMA, "traces": [_trace_dict(trace) for trace in traces]}
    return json.dumps(document, separators=(",", ":"), allow_nan=False).encode("ascii")


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


def traces_of(text: str) -> list[LoadedTrace]:
    """What `json_of` was given.

    Raises:
        ValueError, RecursionError: it is something else, damaged, or of a later version; the message says what.
    """
    document = json.loads(text, parse_constant=_refuse)
    schema = document.get("schema") if isinstance(document, dict) else None
    if schema != SCHEMA:
        raise ValueError(f"its schema is {schema!r}; this library reads {SCHEMA!r}")
    return [_trace(each) for each in _list(document, "traces")]


def _refuse(constant: str) -> None:
    raise ValueError(f"it holds {constant}, which is not JSON")


def _list(data: dict[str, Any], name: str) -> list[Any]:
    found = data.get(name)
    if not isinstance(found, list):
        raise ValueError(f"{name!r} is no list")
    return found


def _trace(data: object) -> LoadedTrace:
    fields = _fields("a trace", data, _TRACE)
    fields["epoch"] = Epoch(**_fields("an epoch", fields["epoch"], _EPOCH))
    fields["spans"] = tuple(_spans(fields["spans"], fields["request_id"]))
    fields["samples"] = tuple(Sample(**_fields("a sample", each, _SAMPLE)) for each in fields["samples"])
    fields["flows"] = tuple(Flow(**_fields("a flow", each, _FLOW)) for each in fields["flows"])
    return LoadedTrace(**fields)


def _spans(data: Iterable[object], request_id: str) -> list[Record]:
    """In the order of their IDs; a parent has a lower one than its children, or a file could name itself a parent."""
    spans = sorted((_span(each, request_id) for each in data), key=lambda span: span.span_id)
    last = None
    for span in spans:
        if span.span_id == last or (span.parent_id is not None and span.parent_id >= span.span_id):
            raise ValueError(f"the span with ID {span.span_id} and parent {span.parent_id} is out of order")
        last = span.span_id
    return spans


def _span(data: object, request_id: str) -> Record:
    fields = _fields("a span", data, _SPAN)
    fields["marks"] = tuple(Mark(**_fields("a mark", each, _MARK)) for each in fields["marks"])
    if fields["cuda"] is not None:
        fields["cuda"] = CudaUse(**_fields("a span's 'cuda'", fields["cuda"], _CUDA))
    return Record(**fields, request_id=request_id)


def _fields(kind: str, data: object, types: _Types) -> dict[str, Any]:
    if not isinstance(data, dict):
        raise ValueError(f"{kind} is {data!r:.80}")
    fields = {name: data.get(name) for name in types}
    for name, value in fields.items():
        if type(value) not in types[name]:  # exactly: true is no number
            raise ValueError(f"{name!r} of {kind} is {value!r:.80}")
    return fields
