"""Where the monotonic clock of a trace stands in wall time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

_TRIES = 20  # the narrowest of 20 readings is within about 100 ns of the truth


class Epoch(NamedTuple):
    """One instant on both clocks.

    Attributes:
        clock_ns: the trace's clock.
        wall_ns: nanoseconds since 1970-01-01 UTC.
    """

    clock_ns: int
    wall_ns: int

    def wall_of(self, at_ns: int) -> int:
        """Wall time of an instant on the trace's clock."""
        return self.wall_ns + at_ns - self.clock_ns


def anchor(clock_ns: Callable[[], int]) -> Epoch:
    """Read both clocks as closely together as this process manages."""
    best_width = None
    best = Epoch(0, 0)
    for _ in range(_TRIES):
        before, wall, after = clock_ns(), time.time_ns(), clock_ns()
        if best_width is None or after - before < best_width:
            best_width = after - before
            best = Epoch((before + after) // 2, wall)
    return best
