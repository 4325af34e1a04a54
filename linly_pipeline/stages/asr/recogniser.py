"""What the speech recognisers share: gather an utterance, recognise it on the model's own thread."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import ClassVar

import numpy as np

from linly_pipeline.packets import Audio, Text
from linly_pipeline.stage import Stage
from linly_pipeline.turn import Turn
from linly_pipeline.workers import Worker

# Whisper's log-mel front end needs some signal; a tenth of a second holds no word.
SHORTEST_S = 0.1
# Quieter than this is a muted microphone or digital silence; the loudest syllable of a whisper is above it.
SILENCE_DBFS = -60.0


class Recogniser(Stage[Audio, Text]):
    """Base of the stages that turn one utterance into text. Subclasses write `load` and `recognise`.

    Attributes:
        rate_hz: the rate that the model wants; audio of any rate is resampled once, here.
    """

    kind: ClassVar[str] = "asr"
    rate_hz: int = 16_000

    def __init__(self) -> None:
        self._worker = Worker(f"linly-{self.name}")

    def recognise(self, audio: Audio, turn: Turn) -> Text:
        """The words in `audio`, which has `rate_hz`; an empty text if there are none. Runs on the worker."""
        raise NotImplementedError

    async def run(self, stream: AsyncIterator[Audio], turn: Turn) -> AsyncIterator[Text]:
        pieces = [piece async for piece in stream]
        heard = await self._worker.call(turn, self._hear, pieces, turn)
        if heard.text.strip():
            yield heard

    def _hear(self, pieces: list[Audio], turn: Turn) -> Text:
        audio = joined(pieces, self.rate_hz)
        if audio.duration_s < SHORTEST_S or peak_dbfs(audio) < SILENCE_DBFS:
            return Text("")
        return self.recognise(audio, turn)


def joined(pieces: list[Audio], rate_hz: int) -> Audio:
    """Pieces of one rate as one, at `rate_hz`."""
    if not pieces:
        return Audio(np.zeros(0, np.float32), rate_hz)
    samples = np.concatenate([piece.at_rate(pieces[0].rate_hz).samples for piece in pieces])
    return pieces[0].replace(samples=samples).at_rate(rate_hz)


def peak_dbfs(audio: Audio) -> float:
    """Level of the loudest sample; minus infinity for digital silence."""
    peak = float(np.max(np.abs(audio.samples), initial=0.0))
    return 20 * float(np.log10(peak)) if peak > 0 else float("-inf")
