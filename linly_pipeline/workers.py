"""One named thread per model: blocking calls leave the event loop, one at a time, and every wait is visible.

A model call cannot be interrupted. When its turn is cancelled the caller goes on at once, the call runs to its
end on the worker, and the next turn's wait for it is recorded as `linly.queue.wait` with `busy_with` set to the
cancelled turn.
"""

from __future__ import annotations

import asyncio
import contextvars
import queue
import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

from linly_pipeline.channel import Channel

if TYPE_CHECKING:
    from linly_profiling import Span

    from linly_pipeline.turn import Turn

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(eq=False, slots=True)
class _Job(Generic[T]):
    request_id: str
    run: Callable[[], T]
    loop: asyncio.AbstractEventLoop
    result: asyncio.Future[T]
    context: contextvars.Context
    waiting: Span | None = None
    abandoned: threading.Event = field(default_factory=threading.Event)
    needed: bool = False
    last: bool = False


@dataclass(frozen=True, slots=True)
class WorkerStatistics:
    """Attributes:
    calls: calls that were started.
    waiting: calls that wait for the worker now.
    running: request ID of the call that runs now, or None.
    running_is_abandoned: that call's turn no longer wants it.
    """

    calls: int
    waiting: int
    running: str | None
    running_is_abandoned: bool


class Worker:
    """A thread with a name, made when it is first needed. It is a daemon: a stuck model never blocks the exit."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._jobs: queue.SimpleQueue[_Job[Any]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._running: _Job[Any] | None = None
        self._calls = 0
        self._waiting = 0

    async def call(self, turn: Turn | None, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `function(*args)` on the worker's thread, with the caller's current span, and give its result.

        `turn` is the turn the call belongs to, or None for work such as loading.
        """
        job = self._submit(turn, lambda: function(*args, **kwargs))
        try:
            return await job.result
        except asyncio.CancelledError:
            job.abandoned.set()
            raise

    async def ensure(self, function: Callable[[], T]) -> T:
        """Like `call`, for work that must be done even if nobody waits for it any more, such as cleaning up."""
        job = self._submit(None, function, needed=True)
        return await asyncio.shield(job.result)

    async def stream(
        self, turn: Turn, produce: Callable[[Callable[[T], bool]], None], *, ahead: int = 64
    ) -> AsyncIterator[T]:
        """Run a blocking producer on the worker's thread and yield what it emits.

        `produce(emit)` calls `emit(item)` for each item, and stops early when `emit` returns False: nobody wants
        more. At most `ahead` items wait; `emit` then blocks the worker, not the event loop.
        """
        loop = asyncio.get_running_loop()
        items: Channel[T] = Channel(ahead)
        room = threading.Semaphore(ahead)
        gone = threading.Event()

        def emit(item: T) -> bool:
            if not gone.is_set():
                room.acquire()
            if gone.is_set():
                return False
            _in_loop(loop, items.put_nowait, item)
            return True

        job = self._submit(turn, lambda: produce(emit))
        job.result.add_done_callback(lambda _: items.close())
        try:
            async for item in items:
                room.release()
                yield item
            await job.result
        finally:
            gone.set()
            if not job.result.done():
                job.abandoned.set()
            room.release()  # a producer that waits for room must see that nobody reads

    def statistics(self) -> WorkerStatistics:
        running = self._running
        return WorkerStatistics(
            calls=self._calls,
            waiting=self._waiting,
            running=running.request_id if running else None,
            running_is_abandoned=bool(running and running.abandoned.is_set()),
        )

    async def close(self, deadline_s: float = 2.0) -> bool:
        """Let the thread end after its current call. False if that call still ran at the deadline."""
        loop = asyncio.get_running_loop()
        with self._lock:
            thread, self._thread = self._thread, None
            if thread is None:
                return True
            jobs, self._jobs = self._jobs, queue.SimpleQueue()
        stop = _Job("", _nothing, loop, loop.create_future(), contextvars.copy_context(), last=True)
        jobs.put(stop)
        done, _ = await asyncio.wait([stop.result], timeout=deadline_s)
        return bool(done)

    def _submit(self, turn: Turn | None, run: Callable[[], T], *, needed: bool = False) -> _Job[T]:
        loop = asyncio.get_running_loop()
        context = contextvars.copy_context()
        job = _Job(turn.id if turn else "", run, loop, loop.create_future(), context, needed=needed)
        job.result.add_done_callback(_retrieve)
        with self._lock:
            self._waiting += 1
            if turn is not None and (self._running is not None or self._waiting > 1):
                job.waiting = turn.trace.start(
                    "linly.queue.wait", worker=self.name, busy_with=self._busy_with()
                )
            self._jobs.put(job)
            if self._thread is None:
                thread = threading.Thread(target=self._work, args=(self._jobs,), name=self.name, daemon=True)
                thread.start()
                self._thread = thread
        return job

    def _busy_with(self) -> str:
        running = self._running
        if running is None:
            return "another call"
        what = f"turn {running.request_id}" if running.request_id else "loading"
        return f"cancelled {what}" if running.abandoned.is_set() else what

    def _work(self, jobs: queue.SimpleQueue[_Job[Any]]) -> None:
        while not (job := jobs.get()).last:
            with self._lock:
                self._waiting -= 1
                self._running = job
            if job.waiting is not None:
                job.waiting.end("cancelled" if job.abandoned.is_set() else "ok")
            skipped = job.abandoned.is_set() and not job.needed
            deliver = _nothing if skipped else self._run(job)
            with self._lock:
                self._running = None
            deliver()
            del job, deliver  # an idle worker must not keep a turn's data alive
        self._run(job)()

    def _run(self, job: _Job[Any]) -> Callable[[], None]:
        """Make the call; what is returned hands its result to the caller."""
        self._calls += not job.last
        try:
            value = job.context.run(job.run)
        except StopIteration as error:
            failure: BaseException = RuntimeError("the call raised StopIteration")
            failure.__cause__ = error
        except BaseException as error:  # noqa: BLE001  it belongs to the caller, whatever it is
            failure = error
        else:
            return lambda: _in_loop(job.loop, _set, job.result, value)
        return lambda: _in_loop(job.loop, _fail, job.result, failure)


def _in_loop(loop: asyncio.AbstractEventLoop, function: Callable[..., object], *args: object) -> None:
    try:
        loop.call_soon_threadsafe(function, *args)
    except RuntimeError:
        return  # the loop has closed: nobody waits for the result any more


def _nothing() -> None:
    """What a worker does last."""


def _set(future: asyncio.Future[Any], value: object) -> None:
    if not future.done():
        future.set_result(value)


def _fail(future: asyncio.Future[Any], error: BaseException) -> None:
    if not future.done():
        future.set_exception(error)


def _retrieve(future: asyncio.Future[Any]) -> None:
    """Mark the result as seen: an abandoned call's error is nobody's business."""
    if not future.cancelled():
        future.exception()
