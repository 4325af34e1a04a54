"""An event loop whose clock jumps: an hour of timeouts passes in a millisecond, in the right order."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine, Mapping
from typing import Any, TypeVar

T = TypeVar("T")

# With nothing scheduled only a thread can still wake the loop; longer than this it is a deadlock.
DEADLOCK_S = 5.0


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """Time stands still while there is work and jumps to the next timer when there is none.

    Traces of turns that run in it count virtual time too. Work on threads takes no virtual time, and timers may
    fire before it ends: use fakes here, and real engines in a real loop.
    """

    def __init__(self) -> None:
        self._now_s = 0.0
        super().__init__(_JumpingSelector(self))

    def time(self) -> float:
        return self._now_s

    def clock_ns(self) -> int:
        """Virtual nanoseconds."""
        return round(self._now_s * 1e9)

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        """Wait for threads as long as it takes: Python 3.12 and newer would give them 300 virtual seconds."""
        await super().shutdown_default_executor()

    def advance(self, seconds: float) -> None:
        """Jump. Timers that become due run next."""
        self._now_s += seconds


class _JumpingSelector(selectors.BaseSelector):
    def __init__(self, loop: VirtualTimeLoop) -> None:
        self._loop = loop
        self._real = selectors.DefaultSelector()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            events = self._real.select(DEADLOCK_S)
            if not events:
                raise RuntimeError("deadlock: every task waits, and nothing is scheduled that could wake one")
            return events
        events = self._real.select(0)
        if not events and timeout > 0:
            self._loop.advance(timeout)
        return events

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._real.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._real.unregister(fileobj)

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._real.modify(fileobj, events, data)

    def close(self) -> None:
        self._real.close()

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._real.get_map()


def run_virtual(work: Coroutine[Any, Any, T]) -> T:
    """`asyncio.run` in virtual time."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(work)
