"""The link between two stages: bounded, closable from either side, and measured."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


class ReaderGone(Exception):
    """The reader of a channel has closed it: whatever is written would be lost."""


@dataclass(frozen=True, slots=True)
class ChannelStatistics:
    """A channel's state and its past.

    Attributes:
        depth: items waiting now.
        peak: most items that ever waited.
        capacity: items that may wait before the writer does.
        passed: items that were read.
        writer_wait_ns: time that `put` spent waiting for room.
        reader_wait_ns: time that the reader spent waiting for an item.
    """

    depth: int
    peak: int
    capacity: int
    passed: int
    writer_wait_ns: int
    reader_wait_ns: int


class Channel(Generic[T]):
    """One writer, one reader, at most `capacity` items between them.

    The writer calls `put` and at last `close`; the reader iterates. Either side may leave first: after
    `close` the reader gets what is left and then the end; after `leave` the writer's `put` raises `ReaderGone`.
    """

    def __init__(self, capacity: int, *, clock_ns: Callable[[], int] = time.perf_counter_ns) -> None:
        if capacity < 1:
            raise ValueError(f"a channel holds at least one item, not {capacity}")
        self._items: deque[tuple[T, int]] = deque()
        self._capacity = capacity
        self._clock_ns = clock_ns
        self._closed = False
        self._left = False
        self._writer: asyncio.Future[None] | None = None
        self._reader: asyncio.Future[None] | None = None
        self.put_ns: int | None = None  # when the item that was read last had been put
        self._peak = self._passed = self._writer_wait_ns = self._reader_wait_ns = 0

    async def put(self, item: T) -> None:
        """Add an item, waiting for room.

        Raises:
            ReaderGone: the reader has left.
            RuntimeError: the channel was closed by its writer.
        """
        if self._closed:
            raise RuntimeError("put() on a channel that its writer has closed")
        while len(self._items) >= self._capacity and not self._left:
            self._writer = asyncio.get_running_loop().create_future()
            self._writer_wait_ns += await self._timed(self._writer)
        if self._left:
            raise ReaderGone
        self.put_nowait(item)

    def put_nowait(self, item: T) -> None:
        """Add an item without waiting; for a writer that keeps to `capacity` by other means."""
        self._items.append((item, self._clock_ns()))
        self._peak = max(self._peak, len(self._items))
        _wake(self._reader)

    def close(self) -> None:
        """Writer: nothing more will come. Safe to call again."""
        self._closed = True
        _wake(self._reader)

    def leave(self) -> None:
        """Reader: nothing more will be taken; what waits is dropped. Safe to call again."""
        self._left = True
        self._items.clear()
        _wake(self._writer)

    def __aiter__(self) -> AsyncIterator[T]:
        return self

    async def __anext__(self) -> T:
        while not self._items:
            if self._closed or self._left:
                raise StopAsyncIteration
            self._reader = asyncio.get_running_loop().create_future()
            self._reader_wait_ns += await self._timed(self._reader)
        item, self.put_ns = self._items.popleft()
        self._passed += 1
        _wake(self._writer)
        return item

    @property
    def depth(self) -> int:
        """Items waiting now."""
        return len(self._items)

    def statistics(self) -> ChannelStatistics:
        return ChannelStatistics(
            depth=len(self._items),
            peak=self._peak,
            capacity=self._capacity,
            passed=self._passed,
            writer_wait_ns=self._writer_wait_ns,
            reader_wait_ns=self._reader_wait_ns,
        )

    async def _timed(self, future: asyncio.Future[None]) -> int:
        start_ns = self._clock_ns()
        await future
        return self._clock_ns() - start_ns


def _wake(waiter: asyncio.Future[None] | None) -> None:
    if waiter is not None and not waiter.done():
        waiter.set_result(None)
