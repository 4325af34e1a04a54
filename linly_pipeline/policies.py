"""What to do when a stage is late or fails. A policy is a stage around stages, so policies compose:

    Fallback(Retry(Cloud(model="large"), attempts=2), LlamaCpp(), first_item_s=1.5)

They can repeat work only while nothing of it has left the stage: a listener must not hear a sentence twice.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import Any

from linly_pipeline.errors import ConfigError, StageError, StageTimeout, StageUnavailable
from linly_pipeline.packets import Audio, Motion, Packet, Speech, Video
from linly_pipeline.stage import Stage
from linly_pipeline.turn import Takeover, Turn

AnyStage = Stage[Any, Any]


class Policy(Stage[Packet, Packet]):
    """Base: takes name, kind and types from the stage it wraps."""

    kind = "policy"

    def __init__(self, stage: AnyStage) -> None:
        self.stage = stage
        self.name = stage.name
        self.kind = stage.kind  # type: ignore[misc]  # a wrapped stage plays the role of its engine
        self.accepts, self.gives = stage.accepts, stage.gives
        self.lookahead_ms = stage.lookahead_ms
        self.itemwise = stage.itemwise

    async def load(self) -> None:
        await self.stage.load()

    async def close(self) -> None:
        await self.stage.close()

    def units(self, stream: AsyncIterator[Packet]) -> AsyncIterator[Packet]:
        return self.stage.units(stream)


class Deadline(Policy):
    """Fail with `StageTimeout` when the stage is late.

    Only the stage's own time counts: not while it waits for input or for room behind it.

    Args:
        stage: the stage to watch.
        first_item_s: to the first output, from the last input before it.
        progress_s: between later outputs.
    """

    def __init__(
        self, stage: AnyStage, *, first_item_s: float | None = None, progress_s: float | None = None
    ) -> None:
        super().__init__(stage)
        self.first_item_s = first_item_s
        self.progress_s = progress_s

    async def run(self, stream: AsyncIterator[Packet], turn: Turn) -> AsyncIterator[Packet]:
        limit_s = self.first_item_s
        watch = _Watch()
        async with contextlib.aclosing(_generator(self.stage.run(watch.reading(stream), turn))) as items:
            while True:
                try:
                    async with watch.limited(limit_s):
                        item = await anext(items)
                except StopAsyncIteration:
                    return
                except TimeoutError as error:
                    if not watch.expired:
                        raise  # the stage's own, not ours
                    what = "no first item" if limit_s == self.first_item_s else "no progress"
                    raise StageTimeout(
                        f"stage {self.name!r} gave {what} within {limit_s:g} s", stage=self.name
                    ) from error
                yield item
                limit_s = self.progress_s

    def __repr__(self) -> str:
        return f"Deadline({self.stage!r}, first_item_s={self.first_item_s}, progress_s={self.progress_s})"


class Retry(Policy):
    """Try again, with the same input, when the stage fails before its first item.

    Args:
        stage: the stage to try.
        attempts: how often in all.
        backoff_s: pause before the second attempt; doubled each time.
    """

    def __init__(self, stage: AnyStage, *, attempts: int = 2, backoff_s: float = 0.1) -> None:
        super().__init__(stage)
        if attempts < 1:
            raise ConfigError(f"Retry needs at least one attempt, not {attempts}")
        self.attempts = attempts
        self.backoff_s = backoff_s

    async def run(self, stream: AsyncIterator[Packet], turn: Turn) -> AsyncIterator[Packet]:
        source = Replay(stream)
        for attempt in range(1, self.attempts + 1):
            started = False
            try:
                async with contextlib.aclosing(_generator(self.stage.run(source.read(), turn))) as items:
                    async for item in items:
                        started = True
                        source.forget()
                        yield item
                return
            except Exception as error:
                if started or attempt == self.attempts:
                    raise
                turn.takeovers.append(
                    Takeover(
                        self.name, self.stage.name, self.stage.name, _sentence(error), type(error).__name__
                    )
                )
                await asyncio.sleep(self.backoff_s * 2 ** (attempt - 1))

    def __repr__(self) -> str:
        return f"Retry({self.stage!r}, attempts={self.attempts}, backoff_s={self.backoff_s})"


class Fallback(Policy):
    """Engines in order of preference: if one raises, or gives no first item in time, the next takes over.

    It happens within the turn, with the same input. After the first item only `itemwise` stages (such as
    speech synthesis) can be replaced: the successor goes on with the input that has given nothing yet.

    Args:
        stages: two or more stages of the same types.
        first_item_s: how long each but the last may take to its first item.

    Raises:
        ConfigError: fewer than two stages, or their types differ.
    """

    def __init__(self, *stages: AnyStage, first_item_s: float | None = None) -> None:
        if len(stages) < 2:
            raise ConfigError("Fallback needs at least two stages")
        super().__init__(stages[0])
        for each in stages[1:]:
            if (each.accepts, each.gives) != (self.accepts, self.gives):
                raise ConfigError(
                    f"Fallback: {each.name!r} is {each.accepts.__name__} → {each.gives.__name__}, but"
                    f" {self.name!r} is {self.accepts.__name__} → {self.gives.__name__}"
                )
        self.stages = stages
        self.first_item_s = first_item_s
        self.lookahead_ms = max(each.lookahead_ms for each in stages)
        self._failed: dict[AnyStage, Exception] = {}

    async def load(self) -> None:
        """Load every engine; one that cannot load is skipped in every turn.

        Raises:
            StageUnavailable: none could load.
        """
        self._failed = {}
        for each in self.stages:
            try:
                await each.load()
            except Exception as error:  # noqa: BLE001  whatever keeps an engine from loading, the next may do
                self._failed[each] = error
        if len(self._failed) == len(self.stages):
            raise self._unavailable([(each.name, error) for each, error in self._failed.items()])

    async def close(self) -> None:
        for each in self.stages:
            await each.close()

    async def run(self, stream: AsyncIterator[Packet], turn: Turn) -> AsyncIterator[Packet]:
        source = Replay(self.units(stream))
        timeline = _Timeline()
        attempts: list[tuple[str, BaseException]] = []
        for number, engine in enumerate(self.stages):
            if engine in self._failed:
                self._note(turn, number, attempts, self._failed[engine])
                continue
            try:
                last = number == len(self.stages) - 1
                guarded = engine if last else Deadline(engine, first_item_s=self.first_item_s)
                async with contextlib.aclosing(_generator(guarded.run(source.read(), turn))) as items:
                    async for item in items:
                        source.forget()
                        yield timeline.next(item)
                return
            except Exception as error:
                timeline.hand_over()
                if source.forgotten and not engine.itemwise:
                    raise
                self._note(turn, number, attempts, error)
        raise self._unavailable(attempts)

    def _note(
        self, turn: Turn, number: int, attempts: list[tuple[str, BaseException]], error: Exception
    ) -> None:
        attempts.append((self.stages[number].name, error))
        if number + 1 < len(self.stages):
            successor = self.stages[number + 1].name
            turn.takeovers.append(
                Takeover(
                    self.name, self.stages[number].name, successor, _sentence(error), type(error).__name__
                )
            )

    def _unavailable(self, attempts: list[tuple[str, Any]]) -> StageUnavailable:
        reasons = "; ".join(f"{name}: {_sentence(error)}" for name, error in attempts)
        return StageUnavailable(
            f"every engine of {self.name!r} failed: {reasons}", stage=self.name, attempts=attempts
        )

    def __repr__(self) -> str:
        return f"Fallback({', '.join(map(repr, self.stages))}, first_item_s={self.first_item_s})"


class Replay:
    """A stream that can be read again from the last `forget()`."""

    def __init__(self, stream: AsyncIterator[Packet]) -> None:
        self._stream = stream
        self._kept: list[Packet] = []
        self.forgotten = False

    async def read(self) -> AsyncIterator[Packet]:
        """What is kept, then what comes."""
        for item in list(self._kept):
            yield item
        async for item in self._stream:
            self._kept.append(item)
            yield item

    def forget(self) -> None:
        """Output has left the stage: the input read so far has been dealt with."""
        self._kept.clear()
        self.forgotten = True


class _Timeline:
    """Media time over several engines: each starts at 0, and the listener hears one stream of one rate."""

    def __init__(self) -> None:
        self._rate_hz: int | None = None
        self._end = self._frames = 0
        self._first_frame = 0

    def hand_over(self) -> None:
        """Another engine goes on from here."""
        self._first_frame = self._frames

    def next(self, item: Packet) -> Packet:
        """The item at its place in the whole."""
        if isinstance(item, Motion | Video):
            item = item.replace(first_frame=item.first_frame + self._first_frame)
            self._frames = item.first_frame + len(item.pose if isinstance(item, Motion) else item.frames)
        if isinstance(item, Speech | Motion | Video):
            item = item.replace(audio=self._placed(item.audio))
        return item

    def _placed(self, audio: Audio) -> Audio:
        self._rate_hz = self._rate_hz or audio.rate_hz
        audio = audio.at_rate(self._rate_hz)
        audio = audio.replace(start=self._end)  # resampling rounds, and a stage leaves no gap
        self._end = audio.end
        return audio


class _Watch:
    """A deadline that stands still while the stage waits for its input."""

    def __init__(self) -> None:
        self._timer: asyncio.Timeout | None = None
        self._limit_s: float | None = None
        self._waiting = True  # the clock starts with the first input

    @property
    def expired(self) -> bool:
        return self._timer is not None and self._timer.expired()

    def limited(self, limit_s: float | None) -> asyncio.Timeout:
        self._limit_s = limit_s
        self._timer = asyncio.timeout(None if self._waiting else limit_s)
        return self._timer

    async def reading(self, stream: AsyncIterator[Packet]) -> AsyncIterator[Packet]:
        while True:
            self._set(waiting=True)
            try:
                item = await anext(stream)
            except StopAsyncIteration:
                return
            finally:
                self._set(waiting=False)
            yield item

    def _set(self, *, waiting: bool) -> None:
        self._waiting = waiting
        if self._timer is None or self._timer.expired():
            return
        running = not waiting and self._limit_s is not None
        now_s = asyncio.get_running_loop().time()
        with contextlib.suppress(RuntimeError):  # between two items there is no timer to move
            self._timer.reschedule(now_s + self._limit_s if running and self._limit_s is not None else None)


async def _generator(stream: AsyncIterator[Packet]) -> AsyncGenerator[Packet, None]:
    """Give any async iterator an `aclose`."""
    try:
        async for item in stream:
            yield item
    finally:
        close: Callable[[], Any] | None = getattr(stream, "aclose", None)
        if close is not None:
            await close()


def _type_name(error: BaseException) -> str:
    """Of what really happened: a failed stage's error is only the envelope."""
    return type(error.__cause__ or error).__name__


def _sentence(error: BaseException) -> str:
    text = str(error) or type(error).__name__
    return text if isinstance(error, StageError) else f"{type(error).__name__}: {text}"
