"""The synchronous form: one event loop on a daemon thread serves every pipeline of the process.

A thread, since a notebook already runs a loop of its own, and since models stay bound to the loop they were
loaded in.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError
from os import PathLike
from typing import TYPE_CHECKING, Any, TypeVar

from linly_pipeline.errors import LinlyError
from linly_pipeline.sinks import Sink, sink_for
from linly_pipeline.source import Source

if TYPE_CHECKING:
    from linly_pipeline.pipeline import Pipeline
    from linly_pipeline.turn import Progress, Turn

T = TypeVar("T")

_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None
_kept: set[Pipeline] = set()


def run_turn(
    pipeline: Pipeline,
    source: Source,
    out: str | PathLike[str] | Sink | None,
    *,
    say: bool,
    seed: int,
    on_progress: Callable[[Progress], None] | None,
) -> Turn:
    """Run one turn in a session of its own and wait for it. Ctrl-C cancels it cleanly.

    Raises:
        LinlyError: the first failure.
    """
    sink = sink_for(out) if isinstance(out, str | PathLike) else out

    async def once() -> Turn:
        if pipeline not in _kept:
            _kept.add(pipeline)
            try:
                await pipeline.acquire()
            except BaseException:
                _kept.discard(pipeline)
                raise
        async with pipeline.session(sink) as session:
            turn = await session.start(source, say=say, seed=seed, on_progress=on_progress)
            try:
                return await turn.wait()
            except asyncio.CancelledError:
                await turn.cancel()
                raise

    return _wait(once())


def close(pipeline: Pipeline) -> None:
    """Unload the models that `run_turn` keeps warm."""
    if pipeline in _kept:
        _kept.discard(pipeline)
        _wait(pipeline.release())


def _wait(work: Coroutine[Any, Any, T]) -> T:
    """Run on the shared loop; hand Ctrl-C on and wait until the work has cleaned up."""
    future = asyncio.run_coroutine_threadsafe(work, _shared_loop())
    try:
        return future.result()
    except KeyboardInterrupt:
        future.cancel()
        _await_cancelled(work)
        raise


def _await_cancelled(work: Coroutine[Any, Any, Any], deadline_s: float = 5.0) -> None:
    """`future.cancel()` returns before the coroutine's cleanup has run; wait for that too."""

    async def settled() -> None:
        tasks = [task for task in asyncio.all_tasks() if task.get_coro() is work]
        if tasks:
            await asyncio.wait(tasks, timeout=deadline_s)

    try:
        asyncio.run_coroutine_threadsafe(settled(), _shared_loop()).result(deadline_s + 1)
    except (LinlyError, CancelledError, TimeoutError):
        return


def _shared_loop() -> asyncio.AbstractEventLoop:
    global _loop
    with _lock:
        if _loop is None or _loop.is_closed():
            _loop = asyncio.new_event_loop()
            threading.Thread(target=_loop.run_forever, name="linly-loop", daemon=True).start()
        return _loop
