"""One thread per model: results, errors, streams, and calls that outlive their turn."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest

from linly_pipeline.testing import fake_turn
from linly_pipeline.workers import Worker


def test_calls_run_one_at_a_time_on_the_named_thread() -> None:
    async def main() -> None:
        worker = Worker("model-x")
        names = await asyncio.gather(
            *(worker.call(None, lambda: threading.current_thread().name) for _ in range(3))
        )
        assert names == ["model-x"] * 3
        assert worker.statistics().calls == 3
        assert await worker.close()

    asyncio.run(main())


def test_an_error_reaches_the_caller_and_the_worker_goes_on() -> None:
    async def main() -> None:
        worker = Worker("w")
        with pytest.raises(ZeroDivisionError):
            await worker.call(None, lambda: 1 // 0)
        with pytest.raises(RuntimeError, match="StopIteration"):
            await worker.call(None, next, iter(()))
        assert await worker.call(None, lambda: 5) == 5
        await worker.close()

    asyncio.run(main())


def test_the_next_turns_wait_names_the_cancelled_turn_that_still_runs() -> None:
    async def main() -> None:
        worker, go, running = Worker("w"), threading.Event(), threading.Event()

        def stubborn() -> None:
            running.set()
            go.wait()

        old, new = fake_turn("old"), fake_turn("new")
        abandoned = asyncio.create_task(worker.call(old, stubborn))
        await asyncio.to_thread(running.wait)
        abandoned.cancel()
        with pytest.raises(asyncio.CancelledError):
            await abandoned
        assert worker.statistics().running == "old"
        assert worker.statistics().running_is_abandoned
        waiting = asyncio.create_task(worker.call(new, lambda: "done"))
        await asyncio.sleep(0)
        go.set()
        assert await waiting == "done"
        [wait] = [record for record in new.trace.records() if record.name == "linly.queue.wait"]
        assert wait.attrs["busy_with"] == "cancelled turn old"
        assert wait.outcome == "ok"
        await worker.close()

    asyncio.run(main())


def test_a_call_that_was_cancelled_while_it_waited_is_never_made() -> None:
    async def main() -> None:
        worker, go = Worker("w"), threading.Event()
        made: list[str] = []
        first = asyncio.create_task(worker.call(None, go.wait))
        second = asyncio.create_task(worker.call(None, made.append, "second"))
        await asyncio.sleep(0)
        second.cancel()
        await asyncio.gather(second, return_exceptions=True)
        go.set()
        await first
        await worker.call(None, made.append, "third")
        assert made == ["third"]
        await worker.close()

    asyncio.run(main())


def test_a_stream_yields_what_is_emitted_and_then_raises_what_the_producer_raised() -> None:
    async def main() -> None:
        worker = Worker("w")

        def produce(emit: Callable[[int], bool]) -> None:
            for number in range(100):
                assert emit(number)
            raise ValueError("enough")

        items = []
        with pytest.raises(ValueError, match="enough"):
            async for item in worker.stream(fake_turn(), produce, ahead=3):
                items.append(item)
        assert items == list(range(100))
        await worker.close()

    asyncio.run(main())


def test_a_producer_that_waits_for_room_stops_when_nobody_reads_any_more() -> None:
    async def main() -> None:
        worker, ended = Worker("w"), threading.Event()

        def produce(emit: Callable[[int], bool]) -> None:
            while emit(1):
                pass
            ended.set()

        stream = worker.stream(fake_turn(), produce, ahead=2)
        assert await anext(stream) == 1
        await stream.aclose()  # type: ignore[attr-defined]
        assert await asyncio.to_thread(ended.wait, 5)
        await worker.close()

    asyncio.run(main())


def test_closing_does_not_wait_for_ever_for_a_stuck_call() -> None:
    async def main() -> None:
        worker, go = Worker("w"), threading.Event()
        stuck = asyncio.create_task(worker.call(None, go.wait))
        await asyncio.sleep(0)
        assert not await worker.close(deadline_s=0.05)
        go.set()
        await stuck
        assert (
            await worker.call(None, lambda: "a closed worker starts again") == "a closed worker starts again"
        )
        assert await worker.close()

    asyncio.run(main())


def test_the_callers_span_is_current_on_the_worker() -> None:
    from linly_profiling import current_span

    async def main() -> None:
        worker, turn = Worker("w"), fake_turn()
        with turn.span("outer") as outer:
            assert await worker.call(turn, current_span) is outer
        await worker.close()

    asyncio.run(main())
