"""Spans as the bytes of an `ExportTraceServiceRequest`, and what the answer to one says.

Field numbers are those of https://github.com/open-telemetry/opentelemetry-proto, version 1: `trace/v1/trace.proto`,
`common/v1/common.proto`, `resource/v1/resource.proto` and `collector/trace/v1/trace_service.proto`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple

from linly_profiling.otel.names import SCOPE, Attributes, OtelValue
from linly_profiling.otel.spans import OtelLink, OtelSpan
from linly_profiling.protobuf import BYTES, FIXED32, FIXED64, VARINT, double, fixed64, number, part, tag, text

_ERROR = 2  # `Status.StatusCode`
_SAMPLED, _KNOWN_REMOTE, _REMOTE = 0x01, 0x100, 0x200  # `SpanFlags`
_INT64 = 2**63

_fixed32 = struct.Struct("<I").pack
_id64 = struct.Struct(">Q").pack


def _any_value(value: OtelValue) -> bytes:
    if isinstance(value, str):
        return text(1, value)
    if isinstance(value, bool):
        return number(2, value)
    if isinstance(value, int):
        in_range = -_INT64 <= value < _INT64
        return number(3, value) if in_range else text(1, str(value))
    if isinstance(value, float):
        return double(4, value)
    return part(5, b"".join(part(1, _any_value(item)) for item in value))


@lru_cache(maxsize=1024)
def _key(name: str) -> bytes:
    return text(1, name)


def _key_value(field: int, name: str, value: OtelValue) -> bytes:
    return part(field, _key(name) + part(2, _any_value(value)))


# Typed: 1, True and 1.0 are equal, but not the same to encode.
_frequent_key_value = lru_cache(maxsize=4096, typed=True)(_key_value)


def _attributes(field: int, attributes: Attributes) -> Iterator[bytes]:
    for name, value in attributes.items():
        # Names of threads and engines come again and again; times do not.
        if isinstance(value, int) or (isinstance(value, str) and len(value) <= 64):
            yield _frequent_key_value(field, name, value)
        else:
            yield _key_value(field, name, value)


def span_bytes(span: OtelSpan) -> bytes:
    """A `Span`, as a field of `ScopeSpans`."""
    flags = _SAMPLED | _KNOWN_REMOTE | (_REMOTE if span.remote else 0)
    parts = [
        part(1, bytes.fromhex(span.trace_id)),
        part(2, _id64(span.span_id)),
        b"" if span.parent_id is None else part(4, _id64(span.parent_id)),
        text(5, span.name),
        number(6, span.kind),
        fixed64(7, span.start_unix_ns),
        fixed64(8, span.end_unix_ns),
        *_attributes(9, span.attributes),
        *(part(11, fixed64(1, at_ns) + text(2, name)) for name, at_ns in span.events),
        *(part(13, _link(span.trace_id, link)) for link in span.links),
        number(14, span.left_out_links) if span.left_out_links else b"",
        part(15, number(3, _ERROR)) if span.failed else b"",
        tag(16, FIXED32) + _fixed32(flags),
    ]
    return part(2, b"".join(parts))


def _link(trace_id: str, link: OtelLink) -> bytes:
    parts = (
        part(1, bytes.fromhex(trace_id)),
        part(2, _id64(link.span_id)),
        *_attributes(4, link.attributes),
        tag(6, FIXED32) + _fixed32(_SAMPLED | _KNOWN_REMOTE),
    )
    return b"".join(parts)


def request_bytes(spans: Iterable[bytes], resource: Attributes, version: str) -> bytes:
    """An `ExportTraceServiceRequest`.

    Args:
        spans: of `span_bytes`.
        resource: what they have in common.
        version: of this package.
    """
    scope = part(1, text(1, SCOPE) + text(2, version))
    resource_bytes = part(1, b"".join(_attributes(1, resource)))
    return part(1, resource_bytes + part(2, scope + b"".join(spans)))


class Answer(NamedTuple):
    """What a receiver says about a request that it took: how many spans it refused, and why."""

    rejected: int
    message: str


def answer_of(body: bytes) -> Answer:
    """Read an `ExportTraceServiceResponse`.

    Raises:
        ValueError: it is none.
    """
    rejected, message = 0, ""
    for field, partial_success in _fields(body):
        if field != 1 or not isinstance(partial_success, bytes):
            continue
        for inner, value in _fields(partial_success):
            if inner == 1 and isinstance(value, int):
                rejected = value
            elif inner == 2 and isinstance(value, bytes):
                message = value.decode("utf-8", "replace")
    return Answer(rejected, message)


def status_message(body: bytes) -> str:
    """The text of a `google.rpc.Status`, which explains a refusal; "" if there is none."""
    try:
        found = [value for field, value in _fields(body) if field == 2 and isinstance(value, bytes)]
    except ValueError:
        return ""
    return found[-1].decode("utf-8", "replace") if found else ""


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Numbers and values of a message's fields; those of a wire type that is not needed are left out."""
    at = 0
    while at < len(data):
        key, at = _read_varint(data, at)
        wire_type = key & 7
        if wire_type == VARINT:
            value, at = _read_varint(data, at)
            yield key >> 3, value
            continue
        if wire_type == BYTES:
            size, at = _read_varint(data, at)
        elif wire_type in (FIXED64, FIXED32):
            size = 8 if wire_type == FIXED64 else 4
        else:
            raise ValueError(f"not a protobuf message: wire type {wire_type}")
        if at + size > len(data):
            raise ValueError("not a protobuf message: it ends in the middle of a field")
        if wire_type == BYTES:
            yield key >> 3, data[at : at + size]
        at += size


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for place, byte in enumerate(data[at : at + 10]):
        value |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return value, at + place + 1
    raise ValueError("not a protobuf message: it ends in the middle of a number")
