"""Which requests are kept: some by chance, the slow and the failed ones always."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from linly_profiling.record import LoadedTrace
    from linly_profiling.trace import Trace

_RANDOM_BITS = 56  # W3C Trace Context level 2: the last seven bytes of a trace ID are random


@dataclass(frozen=True)
class Sampling:
    """What a recorder keeps. Metrics count every request all the same.

    Attributes:
        rate: share of the requests to keep, 0..1. It depends on the trace ID alone, so all services choose alike; a
            request whose `traceparent` says that it was sampled is kept in any case.
        slow_s: requests that took longer are kept; None: no such rule.
        failed: requests that ended with an error are kept.
    """

    rate: float = 1.0
    slow_s: float | None = None
    failed: bool = True

    def __post_init__(self) -> None:
        if not 0 <= self.rate <= 1:
            raise ValueError(f"a sampling rate is between 0 and 1, not {self.rate!r}")
        if self.slow_s is not None and not self.slow_s >= 0:
            raise ValueError(f"slow_s is a number of seconds from 0, or None, not {self.slow_s!r}")

    def at_start(self, trace: Trace) -> bool:
        """Whether a request is kept whatever becomes of it."""
        if trace.sampled:
            return True
        chance = int(trace.trace_id[-_RANDOM_BITS // 4 :] or "0", 16)
        return chance < int(self.rate * (1 << _RANDOM_BITS))

    def at_end(self, trace: LoadedTrace) -> bool:
        """Whether a request that chance did not choose is kept for what became of it."""
        if self.failed and trace.outcome == "error":
            return True
        wall_ns = max((span.duration_ns for span in trace.spans if span.parent_id is None), default=0)
        return self.slow_s is not None and wall_ns > self.slow_s * 1e9
