"""Runs one turn: one task a stage, a bounded channel between neighbours, one span for each."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

from linly_profiling import Span, attach

from linly_pipeline.accounting import StageClock
from linly_pipeline.channel import Channel, ReaderGone
from linly_pipeline.crew import Crew, bounded
from linly_pipeline.errors import ConfigError, LinlyError, SinkError, StageError, StageTimeout
from linly_pipeline.packets import Audio, Motion, Packet, Speech, Text, Video
from linly_pipeline.sinks import Played, Sink
from linly_pipeline.stage import Stage
from linly_pipeline.turn import Outcome, Turn

AnyStage = Stage[Any, Any]

# How many items may wait before their writer does: tokens are tiny and a language model should never wait for
# the voice; pictures are megabytes, and running far ahead of the sink only delays a cancellation.
CAPACITY: dict[type[Packet], int] = {Text: 512, Audio: 64, Speech: 4, Motion: 8, Video: 4}

PIECE_CHARACTERS = 2_000


@dataclass(frozen=True, slots=True)
class Limits:
    """Deadlines of the runner, in seconds.

    Attributes:
        stall_s: a stage that is busy this long without reading, writing or ending fails; None: never.
        grace_s: cancelled stages end within this time or are left behind.
        clear_s: a sink acknowledges `clear()` within this time.
    """

    stall_s: float | None = 60.0
    grace_s: float = 1.0
    clear_s: float = 1.0

    def __post_init__(self) -> None:
        for name in ("stall_s", "grace_s", "clear_s"):
            value = getattr(self, name)
            if not (isinstance(value, int | float) and value > 0) and not (
                value is None and name == "stall_s"
            ):
                raise ConfigError(f"limit {name} is a number of seconds above 0, not {value!r}")


class Runner:
    """The tasks, channels and clocks of one turn."""

    def __init__(
        self,
        turn: Turn,
        stages: Sequence[AnyStage],
        sink: Sink,
        limits: Limits,
    ) -> None:
        self._turn = turn
        self._stages = stages
        self._sink = sink
        self._limits = limits
        self._crew = Crew(limits.grace_s)
        self._spans: list[Span] = []
        self._recognised = any(stage.kind == "asr" for stage in stages)

    async def run(self, source: Packet | AsyncIterator[Packet]) -> None:
        """Run the turn to its end and set its outcome. Raises nothing but programming errors."""
        try:
            await self._run_crew(source)
        except asyncio.CancelledError:
            await self._end_unfinished("cancelled", None)
        except Exception as error:  # noqa: BLE001  whatever it is, the sink must fall silent and the turn must end
            await self._end_unfinished("error", error)
        else:
            self._turn.end("ok")

    async def _run_crew(self, source: Packet | AsyncIterator[Packet]) -> None:
        first: Channel[Packet] = self._channel(self._stages[0].accepts)
        self._crew.start("source", self._feed(source, first))
        inbox = first
        for order, stage in enumerate(self._stages):
            outbox = self._channel(stage.gives)
            self._crew.start(stage.name, self._run_stage(order, stage, inbox, outbox))
            inbox = outbox
        self._crew.start("sink", self._run_sink(inbox))
        await self._crew.wait()

    async def _end_unfinished(self, outcome: Outcome, error: Exception | None) -> None:
        """Silence the sink, then let go. The first error stays the turn's."""
        try:
            self._turn.played = await bounded(self._sink.clear(), self._limits.clear_s)
        except TimeoutError:
            limit_s = self._limits.clear_s
            error = error or SinkError(f"{self._sink!r} did not acknowledge clear() within {limit_s:g} s")
        except Exception as clear_error:  # noqa: BLE001  a sink is somebody else's code; it must not hide the cause
            error = error or self._as_sink_error(clear_error)
        if error is None and self._crew.stuck:
            error = self._crew.stuck_error(self._turn.id)
        self._turn.end("error" if error else outcome, error)

    def _channel(self, packet: type[Packet]) -> Channel[Any]:
        capacity = next((CAPACITY[base] for base in packet.__mro__ if base in CAPACITY), 8)
        return Channel(capacity, clock_ns=self._turn.clock_ns)

    async def _feed(self, source: Packet | AsyncIterator[Packet], channel: Channel[Packet]) -> None:
        try:
            async for item in _pieces(source):
                await channel.put(item)
        except ReaderGone:
            pass  # the first stage has heard enough
        except BaseException as error:
            failure = self._as_stage_error("source", error)
            if failure is error:
                raise
            raise failure from error
        # Not on failure: who reads must not take a broken stream for a whole one.
        channel.close()

    async def _run_stage(
        self, order: int, stage: AnyStage, inbox: Channel[Packet], outbox: Channel[Packet]
    ) -> None:
        turn = self._turn
        clock = self._clock(stage.name, stage.row)
        span = turn.trace.start(
            f"linly.stage {stage.row}",
            exact=True,
            stage=stage.name,
            row=stage.row,
            order=order,
            lookahead_ms=stage.lookahead_ms,
        )
        self._spans.append(span)
        clock.start()
        media_s: float | None = None
        fps: float | None = None
        try:
            with attach(span):
                async with AsyncExitStack() as stack:
                    stream = stage.run(self._observed(stage, clock, inbox), turn)
                    if hasattr(stream, "aclose"):
                        stack.push_async_callback(stream.aclose)
                    async for item in stream:
                        self._check_type(stage, item)
                        turn.observe_output(stage, item)
                        media_s = _media_end_s(item, media_s)
                        fps = item.fps if isinstance(item, Video) else fps
                        self._draw_arrow(order, span, clock)
                        await clock.write(outbox, item)
        except BaseException as error:  # noqa: BLE001  a stage is somebody else's code: named, and raised below
            self._close_span(span, stage, clock, error, media_s=media_s, fps=fps)
            inbox.leave()
            if not isinstance(error, ReaderGone):
                # The outbox stays open: who reads must not take a broken stream for a whole one.
                failure = self._as_stage_error(stage.name, error)
                raise failure from (error if failure is not error else error.__cause__)
        else:
            self._close_span(span, stage, clock, None, media_s=media_s, fps=fps)
            inbox.leave()
            if stage.kind == "llm":
                turn.observe_reply_end()
        outbox.close()
        self._crew.dismiss(order + 1)  # the source and the stages before have nobody left to work for

    async def _observed(
        self, stage: AnyStage, clock: StageClock, inbox: Channel[Packet]
    ) -> AsyncIterator[Packet]:
        async for item in clock.read(inbox):
            clock.tell_depth(inbox.depth)
            self._turn.observe_input(stage, item, self._recognised)
            yield item

    def _clock(self, name: str, row: str) -> StageClock:
        trace = self._turn.trace

        def tell(counter: str, value: int, at_ns: int) -> None:
            trace.counter(counter, value, row, at_ns=at_ns)

        return StageClock(self._turn.clock_ns, self._limits.stall_s, lambda: self._stalled(name), tell)

    def _draw_arrow(self, order: int, span: Span, clock: StageClock) -> None:
        """From the stage before to what this one makes of it: one for each output that took new input."""
        arrival, clock.arrival = clock.arrival, None
        if arrival is not None and 0 < order <= len(self._spans):
            self._turn.trace.flow(
                self._spans[order - 1], span, arrival.kind, from_ns=arrival.put_ns, to_ns=arrival.got_ns
            )

    def _as_stage_error(self, name: str, error: BaseException) -> BaseException:
        """What a stage's exception means for the turn."""
        if _is_cancelled(error):
            return error
        if isinstance(error, StageError):
            error.request_id = error.request_id or self._turn.id
            error.elapsed_s = error.elapsed_s or self._turn.elapsed_s
            return error
        if isinstance(error, Exception | asyncio.CancelledError):
            reason = str(error) or type(error).__name__
            return StageError(
                f"stage {name!r} failed: {reason}",
                stage=name,
                request_id=self._turn.id,
                elapsed_s=self._turn.elapsed_s,
            )
        return error

    def _close_span(
        self,
        span: Span,
        stage: AnyStage,
        clock: StageClock,
        error: BaseException | None,
        **made: float | None,
    ) -> None:
        clock.stop()
        takeovers = [
            {"from": each.engine, "to": each.successor, "error": each.error_type}
            for each in self._turn.takeovers
            if each.stage == stage.name
        ]
        if takeovers:
            span.set(fallbacks=takeovers)
        span.set(**made, **clock.attributes())
        if isinstance(error, ReaderGone):
            error = None
        span.end(error=error)

    def _check_type(self, stage: AnyStage, item: object) -> None:
        if not isinstance(item, stage.gives):
            raise StageError(
                f"stage {stage.name!r} gave {type(item).__name__}, but it declares {stage.gives.__name__}",
                stage=stage.name,
            )

    def _stalled(self, name: str) -> None:
        self._crew.fail(
            StageTimeout(
                f"stage {name!r} made no progress for {self._limits.stall_s:g} s",
                stage=name,
                request_id=self._turn.id,
                elapsed_s=self._turn.elapsed_s,
            )
        )

    async def _run_sink(self, inbox: Channel[Packet]) -> None:
        turn, sink = self._turn, self._sink
        order = len(self._stages)
        clock = self._clock(sink.name, "sink")
        span = turn.trace.start("linly.stage sink", exact=True, stage=sink.name, row="sink", order=order)
        clock.start()
        error: BaseException | None = None
        try:
            with attach(span):
                await sink.begin(turn)
                async for item in clock.read(inbox):
                    clock.tell_depth(inbox.depth)
                    self._draw_arrow(order, span, clock)
                    await sink.write(item)
                    clock.delivered()
                    if isinstance(item, Video):
                        span.set(av_offset_ms=_av_offset_ms(item))
                    turn.observe_played(_media_end_s(item, 0.0) or 0.0)
                turn.played = await sink.finish()
        except BaseException as cause:
            error = cause
            if isinstance(cause, LinlyError) or _is_cancelled(cause):
                raise
            raise self._as_sink_error(cause) from cause
        finally:
            clock.stop()
            inbox.leave()
            span.set(media_s=_played_s(turn.played), **clock.attributes())
            span.end(error=error)

    def _as_sink_error(self, cause: BaseException) -> SinkError:
        error = SinkError(f"{self._sink!r} failed: {str(cause) or type(cause).__name__}")
        error.__cause__ = cause
        return error


def _is_cancelled(error: BaseException) -> bool:
    """The current task is being cancelled, as opposed to code that raises CancelledError by itself."""
    task = asyncio.current_task()
    return isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling() > 0


async def _pieces(source: Packet | AsyncIterator[Packet]) -> AsyncIterator[Packet]:
    """A stream as it is; a long text in pieces, so that no stage works on a whole book at once."""
    if isinstance(source, Text) and not source.whole:
        start = 0
        while start < max(1, len(source.text)):
            end = start + PIECE_CHARACTERS
            if end < len(source.text):  # between two words, if there are any
                end = source.text.rfind(" ", start + 1, end) + 1 or end
            yield source.replace(text=source.text[start:end])
            start = end
    elif isinstance(source, Packet):
        yield source
    else:
        async for item in source:
            yield item


def _media_end_s(item: Packet, default: float | None) -> float | None:
    if isinstance(item, Audio):
        return item.end_s
    if isinstance(item, Speech | Motion | Video):
        return item.audio.end_s
    return default


def _av_offset_ms(video: Video) -> float:
    """How much later its first frame is due than its first sample; less than a frame by construction."""
    return 1000 * (video.first_frame / video.fps - video.audio.start_s)


def _played_s(played: Played | None) -> float | None:
    return played.media_s if played else None
