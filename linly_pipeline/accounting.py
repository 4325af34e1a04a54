"""Where a stage's wall time goes: waiting for input, busy, or waiting for room behind it.

The runner watches both ends of the stage, so the stage needs no code for it. The same watch tells a stage that
makes no progress from one that only waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import NamedTuple, TypeVar

from linly_pipeline.channel import Channel

T = TypeVar("T")

STATE, DEPTH = "stage.state", "queue.depth"  # counters of a trace
WAITS_FOR_INPUT, BUSY, WAITS_FOR_ROOM = range(3)  # what the counter "stage.state" of a trace shows
_SHORTEST_NS = 100_000  # a state that does not last this long is not told: most reads find their item waiting


class Arrival(NamedTuple):
    """An item that a stage has read.

    Attributes:
        kind: its type's name, in lower case.
        put_ns: when the stage before put it into the channel.
        got_ns: when it was read.
    """

    kind: str
    put_ns: int
    got_ns: int


class StageClock:
    """Splits the time since `start()` into wait-in, busy and wait-out; they sum to the whole.

    A stage may read and write from several tasks: time in which it waits for input at all is wait-in.
    `stalled` is called once if the stage is busy for `limit_s` without reading, writing or ending; `tell` gets
    the counters "stage.state" and "queue.depth" where they change, with the time of the change.
    """

    def __init__(
        self,
        clock_ns: Callable[[], int],
        limit_s: float | None,
        stalled: Callable[[], None],
        tell: Callable[[str, int, int], None] | None = None,
    ) -> None:
        self._clock_ns = clock_ns
        self._limit_s = limit_s
        self._stalled = stalled
        self._tell = tell
        self._state = self._told = BUSY
        self._state_since_ns = 0
        self._depth = 0
        self._timer: asyncio.TimerHandle | None = None
        self._since_ns = 0
        self._reading = self._writing = 0
        self._running = False
        self.wait_in_ns = self.busy_ns = self.wait_out_ns = 0
        self.items_in = self.items_out = 0
        self.arrival: Arrival | None = None
        self.first_in_ns: int | None = None
        self.ready_ns: int | None = None
        self.first_out_ns: int | None = None

    def start(self) -> None:
        self._since_ns = self._state_since_ns = self._clock_ns()
        self._running = True
        if self._tell is not None:
            self._tell(STATE, BUSY, self._since_ns)
        self._arm()

    def stop(self) -> None:
        self._lap()
        self._end_state(self._since_ns)
        self.tell_depth(0)
        if self._tell is not None and self._told != WAITS_FOR_INPUT:
            self._told = WAITS_FOR_INPUT
            self._tell(STATE, WAITS_FOR_INPUT, self._since_ns)  # there is nothing to do any more
        self._running = False
        self._arm()

    async def read(self, channel: Channel[T]) -> AsyncIterator[T]:
        """The channel's items, with the time spent waiting for them counted as wait-in."""
        iterator = channel.__aiter__()
        while True:
            self._lap(reading=1)
            try:
                item = await iterator.__anext__()
            except StopAsyncIteration:
                return
            finally:
                self._lap(reading=-1)
            self.items_in += 1
            self.arrival = Arrival(type(item).__name__.lower(), channel.put_ns or 0, self._since_ns)
            if self.first_in_ns is None:
                self.first_in_ns = self._since_ns
            if self.first_out_ns is None:
                self.ready_ns = self._since_ns
            yield item

    async def write(self, channel: Channel[T], item: T) -> None:
        """Put an item into the channel, with the time spent waiting for room counted as wait-out."""
        self._lap(writing=1)
        if self.first_out_ns is None:
            self.first_out_ns = self._since_ns
        try:
            await channel.put(item)
        finally:
            self._lap(writing=-1)
        self.items_out += 1

    def tell_depth(self, depth: int) -> None:
        """Note how many items wait in front of the stage; a queue that is always empty is not worth a curve."""
        if depth != self._depth and self._tell is not None:
            self._depth = depth
            self._tell(DEPTH, depth, self._since_ns)

    def delivered(self) -> None:
        """An item has reached its end without a channel behind it (the sink's)."""
        self._lap()
        if self.first_out_ns is None:
            self.first_out_ns = self._since_ns
        self.items_out += 1

    def attributes(self) -> dict[str, int | None]:
        """The figures under the names that the report reads."""
        return {
            "wait_in_ns": self.wait_in_ns,
            "busy_ns": self.busy_ns,
            "wait_out_ns": self.wait_out_ns,
            "items_in": self.items_in,
            "items_out": self.items_out,
            "first_in_ns": self.first_in_ns,
            "ready_ns": self.ready_ns,
            "first_out_ns": self.first_out_ns,
        }

    def _lap(self, *, reading: int = 0, writing: int = 0) -> None:
        """Charge the time since the last lap to what the stage did in it, then note what it does now."""
        now_ns = self._clock_ns()
        if self._running:
            passed_ns = now_ns - self._since_ns
            if self._reading:
                self.wait_in_ns += passed_ns
            elif self._writing:
                self.wait_out_ns += passed_ns
            else:
                self.busy_ns += passed_ns
        self._since_ns = now_ns
        self._reading += reading
        self._writing += writing
        state = WAITS_FOR_INPUT if self._reading else WAITS_FOR_ROOM if self._writing else BUSY
        if state != self._state:
            self._end_state(now_ns)
            self._state, self._state_since_ns = state, now_ns
        self._arm()

    def _end_state(self, now_ns: int) -> None:
        lasted = now_ns - self._state_since_ns >= _SHORTEST_NS
        if lasted and self._running and self._state != self._told and self._tell is not None:
            self._told = self._state
            self._tell(STATE, self._state, self._state_since_ns)

    def _arm(self) -> None:
        """Watch for a stall while the stage is busy, and only then."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._running and self._limit_s is not None and not self._reading and not self._writing:
            self._timer = asyncio.get_running_loop().call_later(self._limit_s, self._stalled)
