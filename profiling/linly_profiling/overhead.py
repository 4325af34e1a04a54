"""What tracing itself costs, measured in this process."""

from __future__ import annotations

import functools
import time

from linly_profiling.trace import Trace

_SPANS = 500  # about a millisecond in all
_ROUNDS = 3


@functools.cache
def ns_per_span() -> int:
    """Time that one span takes from its program, in ns; the best of three rounds. Measured once a process, in 2 ms."""
    return min(_round() for _ in range(_ROUNDS))


def _round() -> int:
    with Trace("overhead", enabled=True, observed=False) as trace:
        start_ns = time.perf_counter_ns()
        for _ in range(_SPANS):
            with trace.span("overhead"):
                pass
        return (time.perf_counter_ns() - start_ns) // _SPANS
