"""Cuts a stream of text into fragments that can be spoken one by one, as early as it is safe."""

from __future__ import annotations

import re

from linly_pipeline.text.boundaries import (
    block_end,
    breath_end,
    clause_end,
    confirmed_end,
    immediate_end,
    is_protected,
)
from linly_pipeline.text.limits import best_cut, display_width, newest_newline
from linly_pipeline.text.markdown import fence_open_after, is_code
from linly_pipeline.text.script import WIDE, count_wide, has_speech

# Three seconds of speech: a listener who waits for his first sound should not wait for more to be written.
FIRST_WIDTH = 48

_WORD = re.compile(rf"[^\W_{WIDE}]+(?:['’.,-][^\W_{WIDE}]+)*")


class Splitter:
    """Splits streamed text at sentences; the first fragment may be a clause, so that the voice starts early.

    The fragments join to exactly the text that was fed. Each cut is decided from the text up to the newest
    character alone, one character at a time, so the result does not depend on how the text came in pieces.

    - The first fragment ends at the first comma, colon, semicolon or dash behind `first_units`, or with the
      first sentence, whichever comes first. A first sentence that is long without any of these is cut before
      its last "that", "and", "because" or the like, where a speaker would draw breath. It does not wait for
      the character after the sentence where its end is certain or nearly so: after `!?。！？`, and after a full
      stop behind an everyday word. ("See foo." may prove to be the start of "foo.com": the common names are
      known and waited for, and `fragments` reads the rest of an uncommon one as "dot com".)
    - Later fragments are whole sentences, with their closing quotation marks.
    - Paragraphs, headings, list items and table rows end a fragment. Space between fragments starts the
      second.
    - Numbers, abbreviations, addresses, code, bold text and links stay whole.
    - A fragment without a letter or a figure is not cut off; it goes on into the next.
    - Nothing grows beyond `max_width` columns (a Chinese character is two); the cut is at the best place
      before.

    Args:
        first_units: how much the first clause must hold, in Chinese characters; an English word counts 5/3.
        max_width: columns after which a fragment is cut even within a sentence.
    """

    def __init__(self, *, first_units: int = 5, max_width: int = 200) -> None:
        self._first_units = first_units
        self._max_width = max_width
        self._text = ""
        self._width = 0
        self._first = True
        self._in_code = False  # a fenced block was cut because of its length

    def feed(self, piece: str) -> list[str]:
        """The fragments that `piece` completed."""
        done = []
        for char in piece:
            self._text += char
            self._width += display_width(char)
            if end := self._end():
                done.append(self._cut(end))
        return done

    def flush(self) -> list[str]:
        """What is left, at the end of the stream. The splitter is then as new."""
        rest = [self._text] if self._text else []
        self._text, self._width, self._first, self._in_code = "", 0, True, False
        return rest

    def _cut(self, end: int) -> str:
        fragment, self._text = self._text[:end], self._text[end:]
        self._width = sum(map(display_width, self._text))
        self._first = self._first and is_code(fragment, self._in_code)
        self._in_code = fence_open_after(fragment, self._in_code)
        return fragment

    def _end(self) -> int:
        """Where the text so far must be cut; 0: nowhere yet."""
        text, too_long = self._text, self._width > self._max_width
        if is_code(text, self._in_code):
            return self._code_end() or (newest_newline(text) if too_long else 0)
        end = self._prose_end()
        if end and has_speech(text[:end]):
            return end
        return best_cut(text) if too_long else 0

    def _code_end(self) -> int:
        """The line with the closing fence ends a block of code."""
        if not self._text.endswith("\n") or fence_open_after(self._text, self._in_code):
            return 0
        return len(self._text.rstrip())

    def _prose_end(self) -> int:
        if end := block_end(self._text):
            return end
        end = self._first_end() if self._first else 0
        end = end or confirmed_end(self._text)
        return 0 if is_protected(self._text[:end]) else end

    def _first_end(self) -> int:
        if end := immediate_end(self._text):
            return end
        end = clause_end(self._text)
        if not end and self._width >= FIRST_WIDTH:
            end = breath_end(self._text)
        return end if _units(self._text[:end]) >= self._first_units else 0


def _units(text: str) -> float:
    """How long `text` takes to say, in Chinese characters."""
    return count_wide(text) + len(_WORD.findall(text)) * 5 / 3
