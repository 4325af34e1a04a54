"""A stage of your own, as a class and as a function, in the middle of the chain.

    python examples/custom_stage.py

The pirate replaces words before they are spoken; the level meter draws the loudness of what was said.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import numpy as np

from linly_pipeline import Hibari, LinlyError, Pipeline, Speech, Stage, Text, Turn, stage

WORDS = {"hello": "ahoy", "friend": "matey", "yes": "aye", "my": "me", "treasure": "booty"}


class Pirate(Stage[Text, Text]):
    """Whole words only: a token may end in the middle of one, so the last word is held back."""

    name = "pirate"

    async def run(self, stream: AsyncIterator[Text], turn: Turn) -> AsyncIterator[Text]:
        held = ""
        async for piece in stream:
            *words, held = (held + piece.text).split(" ")
            for word in words:
                yield piece.replace(text=self.translate(word) + " ")
        yield Text(self.translate(held))

    @staticmethod
    def translate(word: str) -> str:
        bare = word.strip(".,!?")
        return word.replace(bare, WORDS.get(bare.lower(), bare)) if bare else word


@stage
def level_meter(speech: Speech) -> Speech:
    """Print a bar for every fifth of a second that passes by."""
    step = speech.audio.rate_hz // 5
    for start in range(0, len(speech.audio.samples), step):
        level = float(np.sqrt(np.mean(speech.audio.samples[start : start + step] ** 2)))
        print(f"{(speech.audio.start + start) / speech.audio.rate_hz:5.1f} s  {'#' * int(level * 250)}")
    return speech


def main() -> None:
    pipeline = Pipeline(Pirate(), Hibari(), level_meter)
    turn = pipeline.say("Hello, my friend. Yes, this is my treasure!", out="pirate.wav")
    print(f"\nsaid: {''.join(each.text for each in turn.utterances)}\nwrote pirate.wav")
    print(turn.report())


if __name__ == "__main__":
    try:
        main()
    except LinlyError as error:
        raise SystemExit(f"custom_stage: {error}") from error
