"""One row per stage, out of the spans that a runner leaves behind.

The runner's side of the agreement, all by name: spans `linly.stage …` with the attributes `stage` (its name), `row`
(its kind), `order` (place in the chain), `wait_in_ns`, `busy_ns`, `wait_out_ns`, `items_in`, `items_out`,
`first_in_ns`, `ready_ns`, `first_out_ns` (on the trace's clock), `media_s` (media produced), `lookahead_ms`,
`fallbacks` and `retries`; below them spans `linly.queue.wait` with `worker` and `busy_with`. What is missing is null.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from linly_profiling.record import Record
from linly_profiling.values import Value

STAGE_PREFIX = "linly.stage"
QUEUE_WAIT = "linly.queue.wait"


@dataclass(frozen=True)
class StageRow:
    """What one stage did in one request; None where it is not known.

    Attributes:
        name: of the stage.
        row: its kind.
        span_id: its span.
        outcome: of its span.
        start_ns: when its span began, on the trace's clock.
        wall_ns: length of its span.
        wait_in_ns: time without input.
        busy_ns: time at work.
        wait_out_ns: time held up by whoever comes next.
        queue_ns: time in the queue of its worker.
        items_in: packets taken.
        items_out: packets given.
        first_in_ns: when it took its first packet, on the trace's clock.
        ready_ns: when it took the last packet before its first output: only then could it begin to work on that.
        first_out_ns: when it gave its first packet, on the trace's clock.
        first_after_ns: from the start of the request to its first packet given.
        media_s: seconds of media given.
        real_time_factor: seconds at work per second of media; below 1 is faster than real time.
        rss_peak_bytes: most memory of the process during the stage.
        cuda_ns: GPU time of its spans.
        waits: the spans of its queue waits.
        fallbacks: {"from", "to", "error"} of each fallback that happened.
        retries: how often it was tried again.
    """

    name: str
    row: str
    span_id: int
    outcome: str
    start_ns: int
    wall_ns: int
    wait_in_ns: int | None
    busy_ns: int | None
    wait_out_ns: int | None
    queue_ns: int | None
    items_in: int | None
    items_out: int | None
    first_in_ns: int | None
    ready_ns: int | None
    first_out_ns: int | None
    first_after_ns: int | None
    media_s: float | None
    real_time_factor: float | None
    rss_peak_bytes: int | None
    cuda_ns: int | None
    waits: tuple[Record, ...]
    fallbacks: tuple[dict[str, str], ...]
    retries: int | None


def stage_rows(records: Sequence[Record], request_start_ns: int) -> tuple[StageRow, ...]:
    """The stages in the order of the chain."""
    stages = [record for record in records if is_stage(record)]
    stages.sort(key=lambda record: (whole(record.attrs, "order") or 0, record.span_id))
    children = _children(records)
    return tuple(_stage_row(stage, list(_below(stage, children)), request_start_ns) for stage in stages)


def is_stage(record: Record) -> bool:
    """Whether a span is a stage's."""
    return record.name == STAGE_PREFIX or record.name.startswith(f"{STAGE_PREFIX} ")


def _children(records: Iterable[Record]) -> dict[int, list[Record]]:
    children: dict[int, list[Record]] = {}
    for record in records:
        if record.parent_id is not None:
            children.setdefault(record.parent_id, []).append(record)
    return children


def _below(record: Record, children: Mapping[int, Sequence[Record]]) -> Iterator[Record]:
    """All spans under a span, but not those of another stage inside it."""
    waiting = [record]
    while waiting:
        parent = waiting.pop()
        # A child has a higher ID than its parent; in a damaged file, where it has not, it could be its own ancestor.
        for child in children.get(parent.span_id, ()):
            if child.span_id > parent.span_id and not is_stage(child):
                yield child
                waiting.append(child)


def _stage_row(stage: Record, below: Sequence[Record], request_start_ns: int) -> StageRow:
    attrs = stage.attrs
    busy_ns, media_s = whole(attrs, "busy_ns"), number(attrs, "media_s")
    first_out_ns = whole(attrs, "first_out_ns")
    waits = tuple(record for record in below if record.name == QUEUE_WAIT)
    return StageRow(
        name=str(attrs.get("stage") or stage.name),
        row=str(attrs.get("row") or ""),
        span_id=stage.span_id,
        outcome=stage.outcome,
        start_ns=stage.start_ns,
        wall_ns=stage.duration_ns,
        wait_in_ns=whole(attrs, "wait_in_ns"),
        busy_ns=busy_ns,
        wait_out_ns=whole(attrs, "wait_out_ns"),
        queue_ns=sum(wait.duration_ns for wait in waits) if waits else None,
        items_in=whole(attrs, "items_in"),
        items_out=whole(attrs, "items_out"),
        first_in_ns=whole(attrs, "first_in_ns"),
        ready_ns=whole(attrs, "ready_ns"),
        first_out_ns=first_out_ns,
        first_after_ns=None if first_out_ns is None else first_out_ns - request_start_ns,
        media_s=media_s,
        real_time_factor=busy_ns / 1e9 / media_s if busy_ns is not None and media_s else None,
        rss_peak_bytes=stage.rss_peak_bytes,
        cuda_ns=_cuda_ns(stage, below),
        waits=waits,
        fallbacks=_fallbacks(attrs.get("fallbacks")),
        retries=_retries(attrs.get("retries")),
    )


def _cuda_ns(stage: Record, below: Sequence[Record]) -> int | None:
    """GPU time of the outermost spans that have one: what is inside them is counted with them."""
    timed = {record.span_id for record in (stage, *below) if record.cuda and record.cuda.time_ns is not None}
    parents = {record.span_id: record.parent_id for record in below}
    times = [
        record.cuda.time_ns
        for record in (stage, *below)
        if record.cuda and record.cuda.time_ns is not None and not _inside(record, timed, parents)
    ]
    return sum(times) if times else None


def _inside(record: Record, timed: set[int], parents: Mapping[int, int | None]) -> bool:
    span_id, parent = record.span_id, parents.get(record.span_id)
    while parent is not None and parent < span_id:
        if parent in timed:
            return True
        span_id, parent = parent, parents.get(parent)
    return False


def _fallbacks(value: Value) -> tuple[dict[str, str], ...]:
    if not isinstance(value, list):
        return ()
    return tuple({key: str(item[key]) for key in item} for item in value if isinstance(item, dict))


def _retries(value: Value) -> int | None:
    """A count, or a list with one entry a retry."""
    if isinstance(value, list):
        return len(value)
    return value if isinstance(value, int) else None


def whole(attrs: Mapping[str, Value], name: str) -> int | None:
    """An attribute that is a whole number."""
    value = number(attrs, name)
    return None if value is None else round(value)


def number(attrs: Mapping[str, Value], name: str) -> float | None:
    """An attribute that is a number."""
    value = attrs.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return value
