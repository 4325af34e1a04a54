"""A trace as OpenTelemetry sees it: spans with world-wide IDs, wall time, links and events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from linly_profiling.clock import Epoch
from linly_profiling.context import new_trace_id, otel_span_id, span_salt
from linly_profiling.otel.names import (
    Attributes,
    attributes,
    flow_attributes,
    for_below,
    request_attributes,
    span_kind,
    span_name,
    stage_attributes,
)
from linly_profiling.record import Flow, LoadedTrace, Record
from linly_profiling.stages import stage_rows

MAX_EVENTS, MAX_LINKS = 128, 128  # of one span: the limits of OpenTelemetry's own SDKs
_LATEST_NS = 2**64 - 1


class OtelEvent(NamedTuple):
    """An instant of a span, in nanoseconds since 1970-01-01 UTC."""

    name: str
    at_unix_ns: int


class OtelLink(NamedTuple):
    """Another span of the same trace that this one was made from."""

    span_id: int
    attributes: Attributes


class OtelSpan(NamedTuple):
    """One span.

    Attributes:
        trace_id: 32 hexadecimal digits.
        span_id: 64 bits, not 0.
        parent_id: 64 bits, or None for a request that nobody else began.
        remote: the parent is a span of another program.
        name: with few distinct values.
        kind: `SpanKind` of the protocol.
        start_unix_ns: since 1970-01-01 UTC.
        end_unix_ns: not before the start.
        attributes: under OpenTelemetry's names.
        events: the first of each kind of mark; all others are in the attributes.
        links: to the spans that this one was made from.
        left_out_links: how many more there were.
        failed: its status is ERROR; else it is unset.
    """

    trace_id: str
    span_id: int
    parent_id: int | None
    remote: bool
    name: str
    kind: int
    start_unix_ns: int
    end_unix_ns: int
    attributes: Attributes
    events: tuple[OtelEvent, ...]
    links: tuple[OtelLink, ...]
    left_out_links: int
    failed: bool


def otel_spans(trace: LoadedTrace, *, content: bool = False) -> Iterator[OtelSpan]:
    """All spans of a trace, parents before their children.

    Args:
        trace: one that has ended, as a rule; an open span ends when the trace was read.
        content: also what was said, where the trace holds it.
    """
    trace_id = trace.trace_id or new_trace_id()
    salt = span_salt(trace)
    ids = {record.span_id: otel_span_id(trace_id, record.span_id, salt) for record in trace.spans}
    root = next((record for record in trace.spans if record.parent_id is None), None)
    start_ns = root.start_ns if root is not None else 0
    stages = stage_rows(trace.spans, start_ns)
    figures = {stage.span_id: stage_attributes(stage) for stage in stages}
    if root is not None:
        figures[root.span_id] = request_attributes(trace, root, stages)
    links = _links(trace.flows, ids)
    above: dict[int | None, Attributes] = {}
    for record in trace.spans:
        found = attributes(record, start_ns, above.get(record.parent_id), content=content)
        above[record.span_id] = for_below(found)
        found |= figures.get(record.span_id, {})
        remote_parent = trace.remote_parent_id if record is root else None
        linked = links.get(record.span_id, ())
        yield OtelSpan(
            trace_id=trace_id,
            span_id=ids[record.span_id],
            parent_id=int(remote_parent, 16) if remote_parent else _parent(record, root, ids),
            remote=remote_parent is not None,
            name=span_name(record),
            kind=span_kind(record),
            start_unix_ns=_unix_ns(trace.epoch, record.start_ns),
            end_unix_ns=_unix_ns(trace.epoch, max(record.start_ns, record.end_ns)),
            attributes=found,
            events=_events(record, trace.epoch) if record.marks else (),
            links=tuple(linked[:MAX_LINKS]),
            left_out_links=max(0, len(linked) - MAX_LINKS),
            failed=record.outcome == "error",
        )


def _parent(record: Record, root: Record | None, ids: Mapping[int, int]) -> int | None:
    """The parent's ID; for a parent that the trace has dropped the request stands in."""
    if record.parent_id is None:
        return None
    return ids.get(record.parent_id, None if root is None else ids[root.span_id])


def _unix_ns(epoch: Epoch, at_ns: int) -> int:
    return min(max(0, epoch.wall_of(at_ns)), _LATEST_NS)


def _events(record: Record, epoch: Epoch) -> tuple[OtelEvent, ...]:
    """The first of each kind of mark: a viewer shows where the first token came, and is not flooded by the rest."""
    first: dict[str, int] = {}
    for mark in record.marks:
        first.setdefault(mark.name, mark.at_ns)
    return tuple(OtelEvent(name, _unix_ns(epoch, at_ns)) for name, at_ns in first.items())[:MAX_EVENTS]


def _links(flows: Iterable[Flow], ids: Mapping[int, int]) -> dict[int, list[OtelLink]]:
    """By the span that an arrow points to."""
    links: dict[int, list[OtelLink]] = {}
    for flow in flows:
        if flow.from_id in ids:
            links.setdefault(flow.to_id, []).append(OtelLink(ids[flow.from_id], flow_attributes(flow)))
    return links
