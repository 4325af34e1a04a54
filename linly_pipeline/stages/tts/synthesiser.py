"""What the voices share: text cut into fragments, one model call for each, media time counted in samples."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from typing import ClassVar

from linly_pipeline.packets import Audio, FloatArray, Phoneme, Speech, Text
from linly_pipeline.stage import Stage
from linly_pipeline.text import Fragment, fragments
from linly_pipeline.turn import Turn
from linly_pipeline.workers import Worker

log = logging.getLogger(__name__)


class Synthesiser(Stage[Text, Speech]):
    """Base of the stages that speak. Subclasses write `load`, `rate_hz` and `synthesise`.

    The first clause is spoken as soon as it is written, whole sentences follow.

    Attributes:
        rate_hz: the rate of the voice.
    """

    kind: ClassVar[str] = "tts"
    itemwise = True
    rate_hz: int = 24_000

    def __init__(self) -> None:
        self._worker = Worker(f"linly-{self.name}")

    def synthesise(self, spoken: str, turn: Turn) -> tuple[FloatArray, tuple[Phoneme, ...]]:
        """One fragment: samples `[n]` at `rate_hz`, and phonemes if the engine knows them. Runs on the worker."""
        raise NotImplementedError

    def cannot_say(self, spoken: str) -> str:
        """The characters of a text that the voice would leave out."""
        return ""

    async def units(self, stream: AsyncIterator[Text]) -> AsyncIterator[Text]:
        async for fragment in fragments(stream):
            yield Text(fragment.text, fragment.language, whole=True)

    async def run(self, stream: AsyncIterator[Text], turn: Turn) -> AsyncIterator[Speech]:
        start = 0
        left_out: set[str] = set()
        async for fragment in fragments(stream):
            if unknown := set(self.cannot_say(fragment.spoken)) - left_out:
                left_out |= unknown
                log.warning("voice %r cannot say %s: left out", self.name, " ".join(sorted(unknown)))
            samples, phonemes = await self._worker.call(turn, self._speak, fragment, turn)
            if len(samples):
                audio = Audio(samples, self.rate_hz, start)
                start = audio.end
                yield Speech(audio, fragment.text, fragment.spoken, phonemes)

    def _speak(self, fragment: Fragment, turn: Turn) -> tuple[FloatArray, tuple[Phoneme, ...]]:
        with turn.span("tts.synthesise", characters=len(fragment.spoken)) as span:
            samples, phonemes = self.synthesise(fragment.spoken, turn)
            span.set(audio_s=round(len(samples) / self.rate_hz, 3))
        return samples, phonemes
