"""A conversation: warm models, a history, and at most one turn at a time."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import secrets
import time
from collections.abc import AsyncIterator, Callable
from types import TracebackType
from typing import TYPE_CHECKING, Self

from linly_pipeline.crew import bounded
from linly_pipeline.errors import ConfigError
from linly_pipeline.packets import Packet, Text
from linly_pipeline.runner import Runner
from linly_pipeline.sinks import NullSink, Sink
from linly_pipeline.source import Source, as_packets, packet_type
from linly_pipeline.turn import Message, Progress, Turn

if TYPE_CHECKING:
    from linly_pipeline.pipeline import Pipeline

# Past this the older half of the history goes at once. Dropping a message a turn would change the beginning of
# every prompt, and a language model that keeps the KV cache of a common beginning would start over each time.
MAX_MESSAGES = 64


class Session:
    """Made by `Pipeline.session()`; use it with `async with`.

    Leaving the block drains: a turn that still runs is finished first. Leaving it by an exception cancels it.
    """

    def __init__(self, pipeline: Pipeline, sink: Sink | None = None) -> None:
        self.history: list[Message] = []
        self._pipeline = pipeline
        self._sink = sink or NullSink()
        self._limits = pipeline.limits
        self._id = secrets.token_hex(4)
        self._numbers = itertools.count(1)
        self._turn: Turn | None = None
        self._lock = asyncio.Lock()
        self._open = False

    async def __aenter__(self) -> Self:
        self._pipeline.check_sink(self._sink)
        await self._sink.prepare()
        try:
            await self._pipeline.acquire()
        except BaseException:
            await self._close_sink()
            raise
        self._open = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose(drain=kind is None)

    async def ask(
        self,
        question: Source,
        *,
        request_id: str | None = None,
        seed: int = 0,
        on_progress: Callable[[Progress], None] | None = None,
        traceparent: str | None = None,
    ) -> Turn:
        """Ask and wait for the whole answer.

        Args:
            question: an `Audio` or `Text`, a text, the path of a sound file, or a stream of packets. It enters
                at the first stage that takes its type.
            request_id: that every record of the turn's trace carries; by default one is made.
            seed: for stages that use randomness.
            on_progress: called as the turn gets on.
            traceparent: W3C header of the request that this turn is part of.

        Raises:
            TurnCancelled: a newer turn superseded this one.
            LinlyError: the first failure; the session can go on.
        """
        return await self._finish(
            await self.start(
                question, request_id=request_id, seed=seed, on_progress=on_progress, traceparent=traceparent
            )
        )

    async def say(
        self,
        text: str | Text,
        *,
        request_id: str | None = None,
        seed: int = 0,
        on_progress: Callable[[Progress], None] | None = None,
        traceparent: str | None = None,
    ) -> Turn:
        """Read a text aloud: it enters behind the language model. Otherwise like `ask`."""
        return await self._finish(
            await self.start(
                text,
                say=True,
                request_id=request_id,
                seed=seed,
                on_progress=on_progress,
                traceparent=traceparent,
            )
        )

    async def start(
        self,
        question: Source,
        *,
        say: bool = False,
        request_id: str | None = None,
        seed: int = 0,
        on_progress: Callable[[Progress], None] | None = None,
        traceparent: str | None = None,
    ) -> Turn:
        """Begin a turn and return at once. A turn that still runs is superseded: cancelled, its sink cleared."""
        self._require_open()
        if seed < 0:
            raise ConfigError(f"a seed is a number from 0, not {seed}")
        source = await as_packets(question, speak=say)
        stages = self._pipeline.stages_for(packet_type(source, speak=say), say=say)
        async with self._lock:
            self._require_open()  # it may have been closed meanwhile
            if self._turn is not None:
                await self._turn.cancel()
            turn = self._new_turn(request_id, seed, on_progress, traceparent)
            if say and isinstance(source, Text):
                turn.reply = source.text
                turn.observe_reply_end()
            self._turn = turn
            runner = Runner(turn, stages, self._sink, self._limits)
            turn.run_as(asyncio.create_task(self._run(runner, turn, source), name=f"turn {turn.id}"))
        return turn

    async def aclose(self, *, drain: bool = True) -> None:
        """End the conversation. With `drain` the current turn is finished first, else it is cancelled."""
        if not self._open:
            return
        self._open = False
        try:
            async with self._lock:
                if self._turn is not None:
                    await (self._turn.ended() if drain else self._turn.cancel())
        finally:
            if self._turn is not None:
                await self._turn.cancel()
            try:
                await self._close_sink()
            finally:
                await self._pipeline.release()

    def _require_open(self) -> None:
        if not self._open:
            raise ConfigError("the session is not open: use 'async with pipeline.session(...) as session'")

    async def _close_sink(self) -> None:
        with contextlib.suppress(TimeoutError):  # it was asked; a sink that hangs must not hang the program
            await bounded(self._sink.close(), self._limits.clear_s)

    async def _run(self, runner: Runner, turn: Turn, source: Packet | AsyncIterator[Packet]) -> None:
        await runner.run(source)
        self._remember(turn)

    async def _finish(self, turn: Turn) -> Turn:
        try:
            return await turn.wait()
        except asyncio.CancelledError:
            await turn.cancel()
            raise

    def _new_turn(
        self,
        request_id: str | None,
        seed: int,
        on_progress: Callable[[Progress], None] | None,
        traceparent: str | None,
    ) -> Turn:
        name = request_id or f"{self._id}-{next(self._numbers)}"
        # A loop with virtual time brings its own clock.
        clock_ns = getattr(asyncio.get_running_loop(), "clock_ns", time.perf_counter_ns)
        return Turn(
            name,
            history=self.history,
            seed=seed,
            clock_ns=clock_ns,
            on_progress=on_progress,
            traceparent=traceparent,
        )

    def _remember(self, turn: Turn) -> None:
        """Keep what was asked and what was really heard of the answer."""
        if turn.question:
            self.history.append(Message("user", turn.question.strip()))
        if heard := turn.heard().strip():
            self.history.append(Message("assistant", heard))
        if len(self.history) > MAX_MESSAGES:
            del self.history[: -MAX_MESSAGES // 2]
