"""Who a request belongs to, beyond this program: W3C Trace Context, and the IDs that OpenTelemetry gives spans.

Follows https://www.w3.org/TR/trace-context/ (level 1) and the "random" flag of level 2.
Nothing here raises for what a stranger sends: a header that is malformed is None, and a new trace begins.
"""

from __future__ import annotations

import os
import random
import re
import zlib
from typing import NamedTuple, Protocol

from linly_profiling.clock import Epoch

MAX_TRACESTATE = 512  # characters; the specification asks for at least this much to be passed on
_LONG_MEMBER = 128  # members longer than this go first, says the specification
_HOPELESS = 8192  # characters; servers refuse headers longer than this

_SAMPLED, _RANDOM_ID = 1, 2  # bits of the flags
_MASK = 2**64 - 1
_GOLDEN = 0x9E3779B97F4A7C15

_TRACEPARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.DOTALL)
_HEADER_TEXT = re.compile(r"[\t -~]*")
_NO_TRACE_ID, _NO_SPAN_ID = "0" * 32, "0" * 16

# Its own generator: a program that seeds `random` for repeatable results must not get repeating trace IDs.
_random = random.Random()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_random.seed)


class TraceContext(NamedTuple):
    """What the headers of a request say about where it comes from.

    Attributes:
        trace_id: 32 lower-case hexadecimal digits, not all zero.
        parent_id: the caller's span: 16 lower-case hexadecimal digits, not all zero.
        sampled: the caller records this trace.
        random: the last 14 digits of the trace ID are random (level 2), so they may decide about sampling.
        tracestate: what other systems want passed on, for the headers of requests sent out; may be "".
    """

    trace_id: str
    parent_id: str
    sampled: bool = False
    random: bool = False
    tracestate: str = ""


class Identified(Protocol):
    """What tells spans of this trace from all others; `Trace` and `LoadedTrace` have it."""

    @property
    def trace_id(self) -> str: ...
    @property
    def remote_parent_id(self) -> str | None: ...
    @property
    def request_id(self) -> str: ...
    @property
    def epoch(self) -> Epoch: ...


def parse_traceparent(text: str | None, tracestate: str | None = None) -> TraceContext | None:
    """Read the header `traceparent`, and `tracestate` with it.

    Args:
        text: the header's value. Space around it is ignored; of a later version the part known today is read.
        tracestate: the value of that header; several are joined with commas. Only good with a valid traceparent.

    Returns:
        None if there is no header, or it is malformed: then a new trace begins.
    """
    found = _TRACEPARENT.fullmatch(text.strip(" \t")) if isinstance(text, str) else None
    if found is None:
        return None
    version, trace_id, parent_id, flags, extra = found.groups()
    if version == "ff" or (version == "00" and extra) or trace_id == _NO_TRACE_ID or parent_id == _NO_SPAN_ID:
        return None
    bits = int(flags, 16)
    return TraceContext(
        trace_id, parent_id, bool(bits & _SAMPLED), bool(bits & _RANDOM_ID), clean_tracestate(tracestate)
    )


def format_traceparent(trace_id: str, span_id64: int, sampled: bool = True, random: bool = False) -> str:
    """The header `traceparent` of a request sent out, in version 00.

    Args:
        trace_id: 32 lower-case hexadecimal digits, not all zero.
        span_id64: `otel_span_id` of the span that sends the request.
        sampled: whether this trace is recorded.
        random: the trace ID comes from `new_trace_id`, or from a context that said so.
    """
    return f"00-{trace_id}-{span_id64:016x}-{sampled * _SAMPLED | random * _RANDOM_ID:02x}"


def clean_tracestate(text: str | None) -> str:
    """The header's value as it came, if it can stand in a header and is no longer than 512 characters.

    Of a longer one whole members are left out, those over 128 characters first, then from the end; one with
    characters other than printable ASCII and tabs is "", as is one of more than 8,192.
    """
    if not isinstance(text, str) or len(text) > _HOPELESS or not _HEADER_TEXT.fullmatch(text):
        return ""
    return text if len(text) <= MAX_TRACESTATE else _shortened(text.split(","))


def _shortened(members: list[str]) -> str:
    excess = len(",".join(members)) - MAX_TRACESTATE
    for least in (_LONG_MEMBER + 1, 0):
        for place in reversed(range(len(members))):
            if excess > 0 and len(members[place]) >= least:
                excess -= len(members.pop(place)) + 1
    return ",".join(members)


def new_trace_id() -> str:
    """32 hexadecimal digits, random, never all zero. About 0.3 µs: no system call."""
    bits = 0
    while not bits:
        bits = _random.getrandbits(128)
    return f"{bits:032x}"


def span_salt(trace: Identified) -> int:
    """For `otel_span_id`: 0 for a trace with an ID of its own, else a number that tells it from its siblings.

    Several requests may continue one foreign trace: they share the trace ID, and all count their spans from 1.
    When they began, to the nanosecond, and their request IDs tell them apart; both are kept in files.
    """
    if trace.remote_parent_id is None:
        return 0
    text = f"{trace.remote_parent_id} {trace.request_id}".encode("utf-8", "surrogatepass")
    return _mixed(trace.epoch.wall_ns + _GOLDEN * zlib.crc32(text) & _MASK)


def otel_span_id(trace_id: str, span_id: int, salt: int = 0) -> int:
    """The 64-bit ID of a span for other programs: the same in a header sent out and in a later export.

    The sum of the trace ID's halves, the salt, and the span number times an odd constant, goes through the
    output function of SplitMix64 (Steele, Lea, Flood 2014). Each step is one to one for a given trace, so spans
    of one trace never share an ID.

    Args:
        trace_id: 32 hexadecimal digits.
        span_id: `Span.span_id`; 0 to 2^63 - 1.
        salt: `span_salt` of the trace.

    Returns:
        1 to 2^64 - 1.
    """
    bits = int(trace_id, 16)
    key = (bits >> 64) + (bits & _MASK) + salt
    # Zero is not an ID. Its one span gets the ID of a span number that no trace reaches.
    return _mixed(key + span_id * _GOLDEN & _MASK) or _mixed(key + (span_id + 2**63) * _GOLDEN & _MASK)


def _mixed(bits: int) -> int:
    """SplitMix64's output function: one to one on 64 bits; 0 stays 0."""
    bits = (bits ^ bits >> 30) * 0xBF58476D1CE4E5B9 & _MASK
    bits = (bits ^ bits >> 27) * 0x94D049BB133111EB & _MASK
    return bits ^ bits >> 31
