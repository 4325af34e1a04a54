"""Percentiles that the data can support, and whether two sets of repeats differ. Nothing here draws random numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from typing import Literal, NamedTuple, Self

PERCENTILES = (50, 90, 95, 99)

# How sure a change must be before it is called one. A comparison has dozens of rows: at 95 % each, several would be
# called by chance alone.
CONFIDENCE = 0.99
_Z = 2.5758293035489  # the normal quantile of a two-sided interval at that confidence

# A clear change below this share of the value is real but of no use to anybody.
LEAST_CHANGE = 0.01

_EXACT_UP_TO = 400  # pairs of values for which the distribution is counted; above, the normal one is as good
_MOST_VALUES = 128  # of each set in an interval: beyond, their quantiles say the same


def percentile(ordered: Sequence[float], percent: int) -> float | None:
    """The nearest-rank percentile: a value that was measured, never one in between.

    None where fewer than one value in `100 / (100 - percent)` would lie above it: a 99th percentile needs 100 values,
    a 95th 20, a 90th 10. The median needs one.

    Args:
        ordered: rising.
        percent: 1 to 99.
    """
    count = len(ordered)
    if not count or (percent > 50 and count * (100 - percent) < 100):
        return None
    return ordered[rank(count, percent)]


def rank(count: int, percent: int) -> int:
    """Where in `count` rising values the nearest-rank percentile stands, from 0."""
    return -(-percent * count // 100) - 1


def median(values: Sequence[float]) -> float:
    """The middle value, or the mean of the two middle ones.

    Raises:
        ValueError: there are no values.
    """
    if not values:
        raise ValueError("no values have no median")
    ordered, half = sorted(values), len(values) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


@dataclass(frozen=True)
class Distribution:
    """How a figure spreads over requests; a percentile that `n` values cannot support is None.

    Attributes:
        n: how many requests have the figure.
        least: the smallest.
        p50: median, by nearest rank like the others.
        p90: needs 10 values.
        p95: needs 20 values.
        p99: needs 100 values.
        most: the largest.
    """

    n: int
    least: float | None
    p50: float | None
    p90: float | None
    p95: float | None
    p99: float | None
    most: float | None

    @classmethod
    def of(cls, values: Sequence[float]) -> Self:
        ordered = sorted(values)
        p50, p90, p95, p99 = (percentile(ordered, percent) for percent in PERCENTILES)
        least, most = (ordered[0], ordered[-1]) if ordered else (None, None)
        return cls(len(ordered), least, p50, p90, p95, p99, most)


Verdict = Literal["up", "down", "no clear change", "too few to say"]


class Shift(NamedTuple):
    """How two sets of repeats differ.

    Attributes:
        change: difference of the medians.
        low: lower end of the interval of the shift; None where there are too few values for one.
        high: upper end.
        verdict: "up" or "down" only if the interval excludes 0 and the medians moved the same way, by
            `LEAST_CHANGE` or more.
    """

    change: float
    low: float | None
    high: float | None
    verdict: Verdict


def shift(before: Sequence[float], after: Sequence[float]) -> Shift:
    """Compare two sets of independent repeats by ranks: no assumption on how the values spread.

    The interval is that of Hodges and Lehmann (Annals of Mathematical Statistics 34, 1963) at `CONFIDENCE`: all
    differences between a value after and one before, less as many at both ends as the Mann-Whitney test allows. It
    excludes 0 exactly if that test calls the sets different. Ties make it wider, never narrower.

    Raises:
        ValueError: one of the sets is empty.
    """
    base = median(before)
    change = median(after) - base
    cut = cut_off(len(before), len(after))
    if cut is None:
        return Shift(change, None, None, "too few to say")
    low, high = _interval(before, after, cut)
    if low > 0 < change or high < 0 > change:
        useful = abs(change) >= LEAST_CHANGE * abs(base)
        return Shift(change, low, high, ("up" if change > 0 else "down") if useful else "no clear change")
    return Shift(change, low, high, "no clear change")


def _interval(before: Sequence[float], after: Sequence[float], cut: int) -> tuple[float, float]:
    left, right = _thinned(before), _thinned(after)
    differences = sorted(y - x for x in left for y in right)
    thinned = len(differences) / (len(before) * len(after))
    at = math.floor(cut * thinned)
    return differences[at], differences[-1 - at]


def _thinned(values: Sequence[float]) -> Sequence[float]:
    """At most `_MOST_VALUES` of the values, evenly spread over their ranks."""
    if len(values) <= _MOST_VALUES:
        return values
    ordered = sorted(values)
    return [ordered[(2 * i + 1) * len(ordered) // (2 * _MOST_VALUES)] for i in range(_MOST_VALUES)]


@cache
def cut_off(before: int, after: int) -> int | None:
    """How many differences to leave out at each end; None if so few values can never be called different.

    Args:
        before: how many values.
        after: how many values.
    """
    tail, pairs = (1 - CONFIDENCE) / 2, before * after
    if pairs > _EXACT_UP_TO:
        spread = math.sqrt(pairs * (before + after + 1) / 12)
        found = math.floor(pairs / 2 - _Z * spread - 0.5)
    else:
        most = tail * math.comb(before + after, before)
        found = sum(below <= most for below in accumulate(_arrangements(before, after))) - 1
    return found if found >= 0 else None


def _arrangements(before: int, after: int) -> list[int]:
    """In how many orders of the values the Mann-Whitney statistic is 0, 1, 2, …: the Gaussian binomial coefficient."""
    counts = [1] + [0] * (before * after)
    for i in range(1, before + 1):
        for at in range(len(counts) - 1, after + i - 1, -1):
            counts[at] -= counts[at - after - i]
        for at in range(i, len(counts)):
            counts[at] += counts[at - i]
    return counts
