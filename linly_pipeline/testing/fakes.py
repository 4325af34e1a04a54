"""Stages with known output and timing, for tests where time, failure or cost must be controlled.

Each takes `first_ms` before its first item of a turn and `per_item_ms` before each later one.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Iterable
from typing import ClassVar, Literal

import numpy as np

from linly_pipeline.packets import Audio, Motion, Phoneme, Speech, Text, Video
from linly_pipeline.stage import Stage
from linly_pipeline.turn import Message, Turn

RATE_HZ = 24_000


def fake_turn(request_id: str = "test", *, history: Iterable[Message] = (), seed: int = 0) -> Turn:
    """A turn outside of any session, to call a stage's `run` with."""
    return Turn(request_id, history=tuple(history), seed=seed)


def tone(duration_s: float, rate_hz: int = RATE_HZ, *, pitch_hz: float = 220.0, level: float = 0.3) -> Audio:
    """A sine."""
    times_s = np.arange(round(duration_s * rate_hz)) / rate_hz
    return Audio((level * np.sin(2 * np.pi * pitch_hz * times_s)).astype(np.float32), rate_hz)


class _Pace:
    def __init__(self, first_ms: float, per_item_ms: float) -> None:
        self._next_s = first_ms / 1000
        self._per_item_s = per_item_ms / 1000

    async def step(self) -> None:
        await asyncio.sleep(self._next_s)
        self._next_s = self._per_item_s


class FakeRecogniser(Stage[Audio, Text]):
    """Hears `text` in any sound."""

    kind: ClassVar[str] = "asr"
    name = "fake-asr"

    def __init__(self, text: str = "How are you?", *, first_ms: float = 0.0) -> None:
        self.text = text
        self.first_ms = first_ms

    async def run(self, stream: AsyncIterator[Audio], turn: Turn) -> AsyncIterator[Text]:
        heard = [piece async for piece in stream]
        await _Pace(self.first_ms, 0).step()
        if heard and self.text:
            yield Text(self.text)


class FakeChat(Stage[Text, Text]):
    """Answers any question with `reply`, a word at a time; `{question}` in it is filled in."""

    kind: ClassVar[str] = "llm"
    name = "fake-llm"

    def __init__(
        self,
        reply: str = "I am fine, thank you. And you?",
        *,
        first_ms: float = 0.0,
        per_item_ms: float = 0.0,
    ) -> None:
        self.reply = reply
        self.first_ms = first_ms
        self.per_item_ms = per_item_ms

    async def run(self, stream: AsyncIterator[Text], turn: Turn) -> AsyncIterator[Text]:
        question = "".join([piece.text async for piece in stream])
        if not question:
            return
        pace = _Pace(self.first_ms, self.per_item_ms)
        for token in re.findall(r"\s*\S+", self.reply.replace("{question}", question)):
            await pace.step()
            yield Text(token)


class FakeVoice(Stage[Text, Speech]):
    """Speaks each piece of text as a tone, `second_per_character` long, with one phoneme a letter."""

    kind: ClassVar[str] = "tts"
    name = "fake-tts"
    itemwise = True

    def __init__(
        self, *, first_ms: float = 0.0, per_item_ms: float = 0.0, second_per_character: float = 0.05
    ) -> None:
        self.first_ms = first_ms
        self.per_item_ms = per_item_ms
        self.second_per_character = second_per_character

    async def run(self, stream: AsyncIterator[Text], turn: Turn) -> AsyncIterator[Speech]:
        pace = _Pace(self.first_ms, self.per_item_ms)
        start = 0
        async for piece in stream:
            await pace.step()
            audio = tone(len(piece.text) * self.second_per_character).replace(start=start)
            start = audio.end
            yield Speech(audio, piece.text, piece.text, self._phonemes(piece.text))

    def _phonemes(self, text: str) -> tuple[Phoneme, ...]:
        step_s = self.second_per_character
        return tuple(
            Phoneme(letter if letter.isalpha() else "", index * step_s, (index + 1) * step_s)
            for index, letter in enumerate(text.lower())
        )


class FakeMotion(Stage[Speech, Motion]):
    """A still face, at `fps`; whole frames are filled across the borders of fragments."""

    kind: ClassVar[str] = "motion"
    name = "fake-motion"

    def __init__(self, *, fps: int = 25, first_ms: float = 0.0, per_item_ms: float = 0.0) -> None:
        self.fps = fps
        self.first_ms = first_ms
        self.per_item_ms = per_item_ms

    async def run(self, stream: AsyncIterator[Speech], turn: Turn) -> AsyncIterator[Motion]:
        pace = _Pace(self.first_ms, self.per_item_ms)
        first_frame = 0
        async for speech in stream:
            await pace.step()
            last_frame = -(-speech.audio.end * self.fps // speech.audio.rate_hz)
            count = last_frame - first_frame
            yield Motion(
                speech.audio,
                np.zeros((count, 52), np.float32),
                np.zeros((count, 6), np.float32),
                self.fps,
                first_frame,
            )
            first_frame = last_frame


class FakeFace(Stage[Motion, Video]):
    """Grey pictures, with the frame's number as their brightness."""

    kind: ClassVar[str] = "face"
    name = "fake-face"

    def __init__(self, *, size: int = 16, first_ms: float = 0.0, per_item_ms: float = 0.0) -> None:
        self.size = size
        self.first_ms = first_ms
        self.per_item_ms = per_item_ms

    async def run(self, stream: AsyncIterator[Motion], turn: Turn) -> AsyncIterator[Video]:
        pace = _Pace(self.first_ms, self.per_item_ms)
        async for motion in stream:
            await pace.step()
            numbers = (motion.first_frame + np.arange(len(motion.pose))) % 256
            frames = np.empty((len(numbers), self.size, self.size, 3), np.uint8)
            frames[:] = numbers.astype(np.uint8)[:, None, None, None]
            yield Video(motion.audio, frames, motion.fps, motion.first_frame)


Fault = Literal["raises", "raises-at-second", "never-yields", "swallows-cancel", "yields-in-finally"]


# A turn cancels a stage twice before it leaves it behind; the third time is the loop's own, at its end.
SWALLOWED = 3


class FaultyStage(Stage[Text, Text]):
    """Passes text through, but misbehaves in a chosen way."""

    def __init__(self, fault: Fault, *, kind: str = "custom", name: str = "faulty") -> None:
        self.fault = fault
        self.kind = kind  # type: ignore[misc]  # a test decides whose role the culprit plays
        self.name = name

    async def run(self, stream: AsyncIterator[Text], turn: Turn) -> AsyncIterator[Text]:
        count = 0
        try:
            async for piece in stream:
                count += 1
                await self._misbehave(count)
                yield piece
        finally:
            if self.fault == "yields-in-finally":
                yield Text("too late")

    async def _misbehave(self, count: int) -> None:
        if self.fault == "raises" or (self.fault == "raises-at-second" and count == 2):
            raise RuntimeError(f"item {count} is more than I can take")
        if self.fault == "never-yields":
            await asyncio.Event().wait()
        for _ in range(SWALLOWED if self.fault == "swallows-cancel" else 0):
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.Event().wait()
