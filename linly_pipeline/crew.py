"""The tasks of one turn: the first failure stops the rest, and the end comes within a deadline.

`asyncio.TaskGroup` waits for ever for a task that swallows its cancellation. A stage is somebody else's code, so
here the wait is bounded: what does not end in time is named, left behind and never awaited again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from linly_pipeline.errors import StageTimeout

T = TypeVar("T")


class Crew:
    """A bounded nursery. `start` tasks, then `await wait()` once.

    Args:
        grace_s: how long cancelled tasks may take to end.
    """

    def __init__(self, grace_s: float) -> None:
        self._grace_s = grace_s
        self._tasks: dict[asyncio.Task[None], str] = {}
        self._dismissed: set[asyncio.Task[None]] = set()
        self._failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.stuck: tuple[str, ...] = ()

    def start(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        self._tasks[asyncio.create_task(work, name=name)] = name

    def dismiss(self, count: int) -> None:
        """Cancel the first `count` tasks started: whoever needed them has gone. That is no failure."""
        for task in list(self._tasks)[:count]:
            if not task.done():
                self._dismissed.add(task)
                task.cancel()

    def fail(self, error: BaseException) -> None:
        """End the crew with an error from outside of its tasks. The first error counts."""
        if not self._failure.done():
            self._failure.set_exception(error)

    async def wait(self) -> None:
        """Until every task has ended.

        Raises:
            The first failure; `StageTimeout` if a task did not end after it was cancelled; or
            `asyncio.CancelledError` if the caller is cancelled. In each case no task of the crew is waited for
            any longer.
        """
        try:
            await self._first_failure()
        except BaseException as error:
            await self._stop()
            if self.stuck:
                error.add_note(self._stuck_sentence())
            raise
        finally:
            self._failure.cancel()

    async def _first_failure(self) -> None:
        pending: set[asyncio.Future[None]] = set(self._tasks)
        while pending:
            done, _ = await asyncio.wait({*pending, self._failure}, return_when=asyncio.FIRST_COMPLETED)
            if self._failure in done:
                self._failure.result()
            for task in [task for task in self._tasks if task in done]:  # upstream first
                if not (task in self._dismissed and task.cancelled()):
                    task.result()
            pending -= done

    async def _stop(self) -> None:
        """Cancel what still runs, a second time if it goes on, and note what never ends."""
        running = {task for task in self._tasks if not task.done()}
        for _ in range(2):
            for task in running:
                task.cancel()
            if running:
                _, running = await _wait_uncancelled(running, self._grace_s / 2)
        self.stuck = tuple(name for task, name in self._tasks.items() if task in running)
        for task in self._tasks:
            task.add_done_callback(_retrieve)

    def _stuck_sentence(self) -> str:
        names = ", ".join(repr(name) for name in self.stuck)
        return f"stage {names} did not end within {self._grace_s:g} s of being cancelled and was left behind"

    def stuck_error(self, request_id: str) -> StageTimeout:
        """For a turn that was cancelled: a stage that was left behind is an error of its own."""
        return StageTimeout(self._stuck_sentence(), stage=self.stuck[0], request_id=request_id)


async def bounded(work: Coroutine[Any, Any, T], limit_s: float) -> T:
    """The result of `work`; past the limit it is cancelled and left behind, even if it swallows that.

    Raises:
        TimeoutError: it took longer.
    """
    task = asyncio.ensure_future(work)
    task.add_done_callback(_retrieve)
    try:
        done, _ = await asyncio.wait([task], timeout=limit_s)
    finally:
        if not task.done():
            task.cancel()
    if not done:
        raise TimeoutError
    return task.result()


async def _wait_uncancelled(
    tasks: set[asyncio.Task[None]], timeout_s: float
) -> tuple[set[asyncio.Task[None]], set[asyncio.Task[None]]]:
    """`asyncio.wait`, finished even if the caller is cancelled again: the deadline bounds it anyway."""
    waiting = asyncio.ensure_future(asyncio.wait(tasks, timeout=timeout_s))
    while not waiting.done():
        try:
            await asyncio.shield(waiting)
        except asyncio.CancelledError:
            continue
    return waiting.result()


def _retrieve(task: asyncio.Task[Any]) -> None:
    if not task.cancelled():
        task.exception()
