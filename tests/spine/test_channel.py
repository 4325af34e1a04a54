"""The bounded link between two stages."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from linly_pipeline.channel import Channel, ReaderGone
from linly_pipeline.testing import run_virtual


@given(items=st.lists(st.integers()), capacity=st.integers(1, 4), slow_reader=st.booleans())
def test_every_item_arrives_once_and_in_order(items: list[int], capacity: int, slow_reader: bool) -> None:
    async def main() -> None:
        channel: Channel[int] = Channel(capacity)

        async def write() -> None:
            for item in items:
                await channel.put(item)
            channel.close()

        writing = asyncio.create_task(write())
        read = []
        async for item in channel:
            read.append(item)
            if slow_reader:
                await asyncio.sleep(1)
        await writing
        assert read == items
        assert channel.statistics().passed == len(items)
        assert channel.statistics().peak <= capacity

    run_virtual(main())


def test_a_full_channel_makes_the_writer_wait_and_counts_it() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        channel: Channel[int] = Channel(1, clock_ns=loop.clock_ns)  # type: ignore[attr-defined]
        await channel.put(1)
        writing = asyncio.create_task(channel.put(2))
        await asyncio.sleep(3)
        assert not writing.done()
        assert await anext(channel) == 1
        await writing
        assert channel.statistics().writer_wait_ns == 3_000_000_000

    run_virtual(main())


def test_an_empty_channel_makes_the_reader_wait_and_counts_it() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        channel: Channel[int] = Channel(1, clock_ns=loop.clock_ns)  # type: ignore[attr-defined]
        loop.call_later(2, channel.put_nowait, 7)
        assert await anext(channel) == 7
        assert channel.statistics().reader_wait_ns == 2_000_000_000

    run_virtual(main())


def test_what_waits_is_still_read_after_the_writer_has_closed() -> None:
    async def main() -> None:
        channel: Channel[int] = Channel(2)
        await channel.put(1)
        channel.close()
        assert [item async for item in channel] == [1]
        with pytest.raises(RuntimeError, match="closed"):
            await channel.put(2)

    run_virtual(main())


def test_a_writer_that_waits_is_told_that_the_reader_has_left() -> None:
    async def main() -> None:
        channel: Channel[int] = Channel(1)
        await channel.put(1)
        writing = asyncio.create_task(channel.put(2))
        await asyncio.sleep(0)
        channel.leave()
        with pytest.raises(ReaderGone):
            await writing
        assert channel.statistics().depth == 0

    run_virtual(main())


def test_a_channel_without_room_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        Channel(0)
