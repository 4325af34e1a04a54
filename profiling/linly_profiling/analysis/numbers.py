"""Numbers out of attributes, and a few statistics of them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from linly_profiling.record import LoadedTrace, Sample
from linly_profiling.values import Value, finite

Interval = tuple[int, int]


@dataclass(frozen=True)
class Spread:
    """How values are spread, in milliseconds; percentiles by nearest rank, so each is a value that was seen.

    Attributes:
        p50_ms: half of the values are at most this.
        p95_ms: 95 % of the values are at most this.
        max_ms: the largest.
    """

    p50_ms: float
    p95_ms: float
    max_ms: float


def spread(values: Sequence[float], weights: Sequence[int] | None = None) -> Spread | None:
    """Of values in milliseconds, each counted `weights` times; None where there is none."""
    p50, p95 = percentile(values, 0.50, weights), percentile(values, 0.95, weights)
    return None if p50 is None or p95 is None else Spread(p50, p95, max(values))


def percentile(values: Sequence[float], share: float, weights: Sequence[int] | None = None) -> float | None:
    """The smallest value that at least this share (0..1) of all values does not exceed; None of nothing."""
    if not values:
        return None
    pairs = sorted(zip(values, weights or [1] * len(values), strict=True))
    needed = share * sum(weight for _, weight in pairs)
    sums = accumulate(weight for _, weight in pairs)
    return next(
        (value for (value, _), reached in zip(pairs, sums, strict=True) if reached >= needed), pairs[-1][0]
    )


def measured(attrs: Mapping[str, Value], name: str) -> float | None:
    """An attribute that is a finite number; a boolean is none."""
    value = attrs.get(name)
    return None if isinstance(value, bool) else finite(value)


def count(attrs: Mapping[str, Value], name: str) -> int | None:
    """An attribute that counts something: a whole number of at least 0."""
    value = measured(attrs, name)
    return math.floor(value) if value is not None and value >= 0 else None


def counter(trace: LoadedTrace, name: str, track: str | None = None) -> list[Sample]:
    """A counter's samples in the order of time, on one track or on all; a value that is no finite number is none."""
    found = [
        sample._replace(value=value)
        for sample in trace.samples
        if sample.name == name
        and track in (None, sample.track)
        and (value := finite(sample.value)) is not None
    ]
    return sorted(found, key=lambda sample: sample.at_ns)


def merged(intervals: Iterable[Interval]) -> list[Interval]:
    """The instants that at least one of the intervals covers, as intervals that do not touch, in order."""
    found: list[Interval] = []
    for start, end in sorted(interval for interval in intervals if interval[0] < interval[1]):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((start, end))
    return found


def length(intervals: Iterable[Interval]) -> int:
    """How many instants at least one of the intervals covers."""
    return sum(end - start for start, end in merged(intervals))


def overlap(left: Iterable[Interval], right: Iterable[Interval]) -> int:
    """How many instants both sides cover."""
    ours, theirs = merged(left), merged(right)
    total, here, there = 0, 0, 0
    while here < len(ours) and there < len(theirs):
        total += max(0, min(ours[here][1], theirs[there][1]) - max(ours[here][0], theirs[there][0]))
        if ours[here][1] < theirs[there][1]:
            here += 1
        else:
            there += 1
    return total
