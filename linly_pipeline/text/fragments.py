"""From a language model's stream to fragments that a voice can read, each with its original text."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass

from linly_pipeline.packets import Text
from linly_pipeline.text.links import ENDINGS
from linly_pipeline.text.markdown import fence_open_after, is_code
from linly_pipeline.text.script import detect_language
from linly_pipeline.text.speakable import speakable
from linly_pipeline.text.splitter import Splitter
from linly_pipeline.text.think import ThinkFilter

_REST_OF_NAME = re.compile(rf"(?:{ENDINGS})(?!\w)")


@dataclass(frozen=True, slots=True)
class Fragment:
    """A piece of an answer that is spoken in one go.

    Attributes:
        text: as the model wrote it; what stands before it and cannot be spoken (space, emoji, code) included.
        spoken: what is read aloud; never empty.
        language: ISO 639-1, or "" where neither the stream nor the script tells.
    """

    text: str
    spoken: str
    language: str = ""


async def fragments(
    stream: AsyncIterator[Text], *, splitter: Splitter | None = None, thoughts: ThinkFilter | None = None
) -> AsyncIterator[Fragment]:
    """Take thoughts out, split, and find the spoken form, as the stream comes.

    The texts of the fragments join to the answer without its thoughts, less what follows the last spoken word
    and cannot be spoken. An answer with nothing to say gives no fragment.

    Args:
        stream: pieces of text of any size; the last language they name holds. A piece that is `whole` is not
            split.
        splitter: with other limits than the default's.
        thoughts: `ThinkFilter(inside=True)` for a model whose prompt ends in `<think>`.
    """
    splitter, thoughts = splitter or Splitter(), thoughts or ThinkFilter()
    speaker = _Speaker()
    async for piece in stream:
        speaker.language = piece.language or speaker.language
        shown = thoughts.feed(piece.text)
        texts = [*splitter.flush(), shown + thoughts.flush()] if piece.whole else splitter.feed(shown)
        for text in texts:
            if fragment := speaker.read(text, whole=piece.whole):
                yield fragment
    for text in splitter.feed(thoughts.flush()) + splitter.flush():
        if fragment := speaker.read(text):
            yield fragment


class _Speaker:
    """Remembers what one fragment must know of those before it."""

    def __init__(self) -> None:
        self.language = ""
        self._unspoken = ""
        self._in_code = False
        self._before = ""

    def read(self, text: str, *, whole: bool = False) -> Fragment | None:
        # A whole piece may begin with code and go on with words: `speakable` tells them apart.
        spoken = "" if self._is_code(text) and not whole else self._speak(text)
        self._before = text
        if not spoken:
            self._unspoken += text
            return None
        original, self._unspoken = self._unspoken + text, ""
        return Fragment(original, spoken, detect_language(text, self.language))

    def _is_code(self, text: str) -> bool:
        code = is_code(text, self._in_code)
        self._in_code = fence_open_after(text, self._in_code)
        return code

    def _speak(self, text: str) -> str:
        if self._before.endswith(".") and _REST_OF_NAME.match(text):
            # The first fragment ended too early, after "Visit example."; see Splitter.
            return speakable(f"{'点' if self.language == 'zh' else 'dot '}{text}", self.language)
        return speakable(text, self.language)
