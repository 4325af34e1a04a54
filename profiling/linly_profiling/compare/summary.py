"""Many requests at once: how often what happened, and how long it took at the median and in the tail."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

from linly_profiling.attribution import MILESTONES
from linly_profiling.compare.measure import WHOLE, Request, measure_all
from linly_profiling.compare.metrics import REQUEST_METRICS, STAGE_METRICS
from linly_profiling.compare.statistics import Distribution, median, percentile, rank
from linly_profiling.record import LoadedTrace
from linly_profiling.trace import Trace

_SLOWEST = 5


@dataclass(frozen=True)
class OwnerShare:
    """What one owner takes of a milestone, in nanoseconds. An owner that a request does not have takes 0 of it.

    Attributes:
        owner: the stage, and what it did.
        median_ns: over all requests; medians do not sum.
        typical_ns: in the request at the median; these sum to its milestone.
        slow_ns: in the slow request; these sum to its milestone.
    """

    owner: str
    median_ns: float
    typical_ns: int
    slow_ns: int


@dataclass(frozen=True)
class Breakdown:
    """What a milestone is made of.

    Attributes:
        milestone: "first token", "first audio", "first frame" or "whole request".
        n: how many requests reached it.
        typical_id: the request at the median.
        typical_ns: its milestone.
        slow_id: the request at the 95th percentile, or the slowest where there are fewer than 20.
        slow_ns: its milestone.
        slow_percent: 95, or None where it is the slowest.
        owners: largest median first.
    """

    milestone: str
    n: int
    typical_id: str
    typical_ns: int
    slow_id: str
    slow_ns: int
    slow_percent: int | None
    owners: tuple[OwnerShare, ...]


@dataclass(frozen=True)
class Slow:
    """One of the slowest requests.

    Attributes:
        request_id: its ID.
        wall_ms: how long it took.
        stage: the stage that worked longest; None where none is known.
        busy_ms: for how long.
    """

    request_id: str
    wall_ms: float
    stage: str | None
    busy_ms: float | None


@dataclass(frozen=True)
class Summary:
    """Figures of the requests that ended "ok". The others are counted, and left out of every figure: a request that
    failed early would pass for a fast one.

    `str(summary)` is a text for a terminal, at most 100 columns wide.

    Attributes:
        requests: all of them, as numbers.
        outcomes: how many ended with each outcome.
        dropped: how many requests have incomplete traces.
        metrics: by the names of `REQUEST_METRICS`; all are there.
        stages: by stage, then by the names of `STAGE_METRICS`; stages in the order of the chain.
        milestones: what those that were reached are made of, then what the whole request is.
        slowest: at most five, slowest first.
    """

    requests: tuple[Request, ...]
    outcomes: dict[str, int]
    dropped: int
    metrics: dict[str, Distribution]
    stages: dict[str, dict[str, Distribution]]
    milestones: tuple[Breakdown, ...]
    slowest: tuple[Slow, ...]

    @classmethod
    def of(cls, traces: Trace | LoadedTrace | Iterable[Trace | LoadedTrace]) -> Self:
        """Of any number of requests, running, closed or loaded from files.

        Only numbers are kept: of a generator, one trace is held at a time.
        """
        requests = measure_all(traces)
        ok = [request for request in requests if request.ok]
        return cls(
            requests=requests,
            outcomes=dict(Counter(request.outcome for request in requests).most_common()),
            dropped=sum(request.dropped > 0 for request in requests),
            metrics={name: Distribution.of(values_of(ok, name)) for name in REQUEST_METRICS},
            stages={
                stage: {name: Distribution.of(values_of(ok, name, stage)) for name in STAGE_METRICS}
                for stage in stages_of(ok)
            },
            milestones=tuple(
                _breakdown(name, reached)
                for name in (*MILESTONES, WHOLE)
                if (reached := [request for request in ok if name in request.parts])
            ),
            slowest=tuple(_slow(request) for request in _by_wall(ok)[:_SLOWEST]),
        )

    @property
    def ok(self) -> tuple[Request, ...]:
        """The requests that the figures are of."""
        return tuple(request for request in self.requests if request.ok)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for `json.dumps`, with the fields of this class; for `requests`, their number."""
        return {
            "requests": len(self.requests),
            "ok": len(self.ok),
            "outcomes": self.outcomes,
            "dropped": self.dropped,
            "metrics": {name: asdict(spread) for name, spread in self.metrics.items()},
            "stages": {
                stage: {name: asdict(spread) for name, spread in figures.items()}
                for stage, figures in self.stages.items()
            },
            "milestones": [asdict(each) for each in self.milestones],
            "slowest": [asdict(each) for each in self.slowest],
        }

    def __str__(self) -> str:
        from linly_profiling.compare.summary_text import render

        return render(self)


def values_of(requests: Iterable[Request], metric: str, stage: str | None = None) -> list[float]:
    """One figure of each request that has it."""
    return [value for request in requests if (value := value_of(request, metric, stage)) is not None]


def value_of(request: Request, metric: str, stage: str | None = None) -> float | None:
    """A figure of a request, or of a stage of it."""
    figures = request.values if stage is None else request.stages.get(stage, {})
    return figures.get(metric)


def stages_of(requests: Iterable[Request]) -> list[str]:
    """Every stage that any of the requests has, in the order of the chain."""
    found: dict[str, None] = {}
    for request in sorted(requests, key=lambda request: -len(request.stages)):
        found |= dict.fromkeys(request.stages)
    return list(found)


def _breakdown(milestone: str, reached: Sequence[Request]) -> Breakdown:
    ordered = sorted(reached, key=lambda request: sum(request.parts[milestone].values()))
    at_95 = percentile(range(len(ordered)), 95)
    typical, slow = ordered[rank(len(ordered), 50)], ordered[-1 if at_95 is None else int(at_95)]
    owners = {owner: None for request in ordered for owner in request.parts[milestone]}
    shares = [
        OwnerShare(
            owner,
            median([request.parts[milestone].get(owner, 0) for request in ordered]),
            typical.parts[milestone].get(owner, 0),
            slow.parts[milestone].get(owner, 0),
        )
        for owner in owners
    ]
    return Breakdown(
        milestone=milestone,
        n=len(ordered),
        typical_id=typical.request_id,
        typical_ns=sum(typical.parts[milestone].values()),
        slow_id=slow.request_id,
        slow_ns=sum(slow.parts[milestone].values()),
        slow_percent=None if at_95 is None else 95,
        owners=tuple(sorted(shares, key=lambda share: (-share.median_ns, -share.slow_ns))),
    )


def _by_wall(requests: Iterable[Request]) -> list[Request]:
    timed = [request for request in requests if "wall_ms" in request.values]
    return sorted(timed, key=lambda request: -request.values["wall_ms"])


def _slow(request: Request) -> Slow:
    stage, busy_ms = busiest(request)
    return Slow(request.request_id, request.values["wall_ms"], stage, busy_ms)


def busiest(request: Request) -> tuple[str | None, float | None]:
    """The stage that worked longest, and for how many milliseconds."""
    busy = {stage: figures["busy_ms"] for stage, figures in request.stages.items() if "busy_ms" in figures}
    if not busy:
        return None, None
    stage = max(busy, key=lambda name: busy[name])
    return stage, busy[stage]
