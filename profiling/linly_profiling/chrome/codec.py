"""Spans, marks, counters and arrows as plain data, and back.

Every `…_of` raises ValueError, KeyError or TypeError for data that its counterpart did not write.
"""

from __future__ import annotations

from typing import Any

from linly_profiling.chrome.text import EXACT, decode, display_tree, encode, pack, unpack
from linly_profiling.record import CudaUse, Flow, Mark, Record, Sample

OWN = "linly"  # the key of our own data, among the attributes that a viewer shows

_SPAN_FIELDS: dict[str, tuple[type, ...]] = {
    "name": (str,),
    "span_id": (int,),
    "parent_id": (int, type(None)),
    "start_ns": (int,),
    "end_ns": (int,),
    "outcome": (str,),
    "error_type": (str, type(None)),
    "thread_id": (int,),
    "thread_name": (str,),
    "task": (str, type(None)),
    "rss_start_bytes": (int, type(None)),
    "rss_end_bytes": (int, type(None)),
    "rss_peak_bytes": (int, type(None)),
    "cpu_ns": (int, type(None)),
    "cuda": (dict, type(None)),
}


def span_args(record: Record) -> dict[str, Any]:
    """What a viewer shows of a span: its attributes, and under "linly" all the rest that was measured."""
    own = {name: getattr(record, name) for name in _SPAN_FIELDS}
    if record.cuda is not None:
        own["cuda"] = _present(record.cuda._asdict())
    tree = {OWN: _present(own), "attrs": record.attrs}
    shown = display_tree(tree)
    if shown != tree or OWN in record.attrs:
        shown[OWN][EXACT] = encode(tree)
    return {**shown["attrs"], OWN: shown[OWN]}


def span_of(args: dict[str, Any], request_id: str) -> Record:
    """The span that `span_args` was given, without its marks: those are events of their own."""
    own = args[OWN]
    attrs = {key: value for key, value in args.items() if key != OWN}
    if EXACT in own:
        tree = decode(own[EXACT])
        own, attrs = tree[OWN], dict(tree["attrs"])
    fields = {name: own.get(name) for name in _SPAN_FIELDS}
    for name, types in _SPAN_FIELDS.items():
        if not isinstance(fields[name], types):
            raise ValueError(f"a span's {name!r} is {fields[name]!r}")
    if fields["cuda"] is not None:
        fields["cuda"] = CudaUse(**fields["cuda"])
    return Record(**fields, attrs=attrs, marks=(), request_id=request_id)


def mark_args(mark: Mark, span_id: int) -> dict[str, Any]:
    return pack(_present({"span_id": span_id, **mark._asdict()}))


def mark_of(args: dict[str, Any]) -> tuple[int, Mark]:
    """The ID of its span, and the mark."""
    tree = unpack(args)
    span_id, at_ns, value = tree["span_id"], tree["at_ns"], tree.get("value")
    if not isinstance(span_id, int) or not isinstance(at_ns, int) or not isinstance(value, int | None):
        raise ValueError(f"a mark is {tree!r}")
    return span_id, Mark(str(tree["name"]), at_ns, value)


def sample_own(sample: Sample) -> dict[str, Any]:
    return pack(sample._asdict())


def sample_of(own: dict[str, Any]) -> Sample:
    tree = unpack(own)
    if not isinstance(tree["at_ns"], int) or not isinstance(tree["value"], int | float):
        raise ValueError(f"a counter's value is {tree!r}")
    return Sample(str(tree["name"]), str(tree["track"]), tree["at_ns"], tree["value"])


def flow_of(fields: list[Any]) -> Flow:
    name, *ends = fields
    if not all(isinstance(end, int) for end in ends):
        raise ValueError(f"an arrow is {fields!r}")
    return Flow(str(name), *ends)


def _present(fields: dict[str, Any]) -> dict[str, Any]:
    """Without what was not measured: null is shown by its absence."""
    return {name: value for name, value in fields.items() if value is not None}
