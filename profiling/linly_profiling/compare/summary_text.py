"""A summary as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from linly_profiling.compare.metrics import REQUEST_METRICS
from linly_profiling.compare.statistics import PERCENTILES, Distribution
from linly_profiling.compare.text import (
    count_text,
    fitting,
    left_out_text,
    listed,
    outcomes_text,
    value_text,
)
from linly_profiling.tables import NOTHING, shown

if TYPE_CHECKING:
    from linly_profiling.compare.summary import Breakdown, OwnerShare, Slow, Summary

_STAGE_FIGURES = ("busy_ms", "wait_in_ms", "wait_out_ms", "queue_ms")
_MOST_STAGES = 16
_MOST_OWNERS = 8
_LEAST_SHARE = 0.005  # owners below this share of both requests are added up in one line
_ID_COLUMNS = 24


def render(summary: Summary) -> str:
    """The summary, at most 100 columns wide."""
    return "\n".join(_lines(summary))


def _lines(summary: Summary) -> Iterator[str]:
    yield outcomes_text(summary.outcomes)
    if note := left_out_text(summary.outcomes):
        yield f"  {note}"
    if summary.dropped:
        yield f"  incomplete: {summary.dropped:,} of the traces lost records; their figures may be too low"
    known = {name: spread for name, spread in summary.metrics.items() if spread.n}
    if not known:
        return
    yield from ("", *fitting([("", "n", *(f"p{p}" for p in PERCENTILES), "max"), *map(_row, known.items())]))
    if any(spread.p99 is None for spread in known.values()):
        yield f"  {NOTHING}: too few requests for it; p90 needs 10, p95 20, p99 100"
    for milestone in summary.milestones:
        yield from ("", *_breakdown(milestone))
    if summary.stages:
        yield from ("", *_stages(summary.stages))
    if len(summary.ok) > 1:
        yield from ("", *listed("slowest: ", [*map(_slow, summary.slowest)]))


def _row(item: tuple[str, Distribution]) -> tuple[str, ...]:
    metric = REQUEST_METRICS[item[0]]
    spread = item[1]
    figures = (spread.p50, spread.p90, spread.p95, spread.p99, spread.most)
    return metric.title, f"{spread.n:,}", *(value_text(value, metric.unit) for value in figures)


def _breakdown(milestone: Breakdown) -> Iterator[str]:
    """Each owner at the median of all, and in two requests, whose columns sum."""
    slow = "slowest" if milestone.slow_percent is None else f"at p{milestone.slow_percent}"
    owners = [share for share in milestone.owners if _matters(share, milestone)][:_MOST_OWNERS]
    rows: list[tuple[str, float | None, int, int]] = [
        (share.owner, share.median_ns, share.typical_ns, share.slow_ns) for share in owners
    ]
    typical_ns = milestone.typical_ns - sum(share.typical_ns for share in owners)
    slow_ns = milestone.slow_ns - sum(share.slow_ns for share in owners)
    if typical_ns or slow_ns:
        rows.append(("all smaller parts", None, typical_ns, slow_ns))
    rows.append(("in all", None, milestone.typical_ns, milestone.slow_ns))
    cells = [(shown(owner, 60), *map(_time, times)) for owner, *times in rows]
    yield f"{milestone.milestone}, by owner ({count_text(milestone.n, 'request')})"
    if milestone.n == 1:
        yield from fitting([(owner, typical) for owner, _, typical, _ in cells])
        return
    yield from fitting([("", "median", "at p50", slow), *cells])
    typical_id, slow_id = shown(milestone.typical_id, _ID_COLUMNS), shown(milestone.slow_id, _ID_COLUMNS)
    yield f"  at p50: request {typical_id}; {slow}: request {slow_id}"


def _matters(share: OwnerShare, milestone: Breakdown) -> bool:
    typical, slow = _LEAST_SHARE * milestone.typical_ns, _LEAST_SHARE * milestone.slow_ns
    return share.typical_ns > typical or share.slow_ns > slow or share.median_ns > typical


def _time(ns: float | None) -> str:
    return "" if ns is None else value_text(ns / 1e6, "ms")


def _stages(stages: Mapping[str, Mapping[str, Distribution]]) -> Iterator[str]:
    rows: list[tuple[str, ...]] = [
        ("stage", "n", "busy p50", "p95", "wait in p50", "p95", "wait out p50", "p95", "queue p50", "p95")
    ]
    for stage, figures in [*stages.items()][:_MOST_STAGES]:
        cells = [
            value_text(value, "ms")
            for name in _STAGE_FIGURES
            for value in (figures[name].p50, figures[name].p95)
        ]
        rows.append((shown(stage, 14), f"{figures['wall_ms'].n:,}", *cells))
    yield from fitting(rows, indent="")
    if len(stages) > _MOST_STAGES:
        yield f"and {len(stages) - _MOST_STAGES:,} more stages"


def _slow(slow: Slow) -> str:
    text = f"{shown(slow.request_id, _ID_COLUMNS)} {value_text(slow.wall_ms, 'ms')}"
    if slow.stage is None:
        return text
    return f"{text} ({shown(slow.stage, 14)} busy {value_text(slow.busy_ms, 'ms')})"
