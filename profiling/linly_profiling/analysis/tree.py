"""The spans of a trace as a tree, and what kind of span each is."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from linly_profiling.pauses import GC_PAUSE, LOOP_BLOCKED
from linly_profiling.record import Record
from linly_profiling.stages import QUEUE_WAIT, is_stage


def root_of(spans: Sequence[Record]) -> Record | None:
    """The span of the whole request."""
    return next((span for span in spans if span.parent_id is None), None)


def by_parent(spans: Iterable[Record]) -> dict[int | None, list[Record]]:
    """The spans below each span, by its ID."""
    children: dict[int | None, list[Record]] = defaultdict(list)
    for span in spans:
        children[span.parent_id].append(span)
    return children


def below(span_id: int, children: dict[int | None, list[Record]]) -> Iterator[Record]:
    """All spans under a span, but not those of a stage inside it. A circle of parents ends the search."""
    waiting, seen = list(children.get(span_id, ())), {span_id}
    while waiting:
        child = waiting.pop()
        if child.span_id not in seen and not is_stage(child):
            seen.add(child.span_id)
            yield child
            waiting.extend(children.get(child.span_id, ()))


def is_torch(span: Record) -> bool:
    """One of the many small spans that torch's profiler recorded."""
    return span.attrs.get("source") == "torch"


def is_work(span: Record) -> bool:
    """Something that somebody wrote to be measured as work: no stage, no wait, no disturbance, no kernel."""
    return not is_stage(span) and span.name not in (QUEUE_WAIT, LOOP_BLOCKED, GC_PAUSE) and not is_torch(span)


def row_of(span: Record) -> str:
    return str(span.attrs.get("row") or "")


def clipped(span: Record, start_ns: int, end_ns: int) -> tuple[int, int]:
    """The part of a span that lies within two instants; empty, start at end, where none does."""
    start = min(max(span.start_ns, start_ns), end_ns)
    return start, max(start, min(span.end_ns, end_ns))
