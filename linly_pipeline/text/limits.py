"""Where to cut text that grows too long without an end of its own."""

from __future__ import annotations

import re
import unicodedata

from linly_pipeline.text.boundaries import CLOSERS, is_protected
from linly_pipeline.text.script import WIDE

# From the best place to the worst. The first four are never within numbers ("8,848.86", "22,1 °C", "10 x 10",
# "10斤苹果5.5元") or names ("Dr. Smith").
_PLACES = tuple(
    re.compile(pattern)
    for pattern in (
        rf"[。！？；][{re.escape(CLOSERS)}]*|[!?;](?=\s)",
        r"[，：—](?!\d)|[,:](?=\s)",
        r"(?<=[^\W\d_]{2})(?=\s[^\W\d_]{2})",
        rf"(?<=[{WIDE}]{{3}})(?=[{WIDE}]{{3}})",
        r"(?<=\S)(?=\s)",
        r"、",
        rf"(?<=[{WIDE}])(?=[{WIDE}])",
    )
)
_JOINED = frozenset(("Mn", "Me", "Sk"))
_JOINER = "\u200d"


def display_width(char: str) -> int:
    """Columns in a terminal: Chinese characters, full-width punctuation and emoji take two."""
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def best_cut(text: str) -> int:
    """The best place to cut, in the last two thirds of `text` if it has any there."""
    for keep_marks_whole, first in ((True, len(text) // 3), (False, 1)):
        for pattern in _PLACES:
            for match in reversed(list(pattern.finditer(text, first, len(text) - 1))):
                if not (keep_marks_whole and is_protected(text[: match.end()])):
                    return match.end()
    return _between_characters(text)


def newest_newline(text: str) -> int:
    """The last line break of `text`, or its end where there is none."""
    return max(text.rfind("\n"), 0) or len(text)


def _between_characters(text: str) -> int:
    """Before the last character; an accent or the parts of one emoji stay together."""
    end = len(text) - 1
    while end > 1 and (_is_joined(text[end]) or text[end - 1] == _JOINER):
        end -= 1
    return end if end > 1 else len(text) - 1


def _is_joined(char: str) -> bool:
    return char == _JOINER or "\ufe00" <= char <= "\ufe0f" or unicodedata.category(char) in _JOINED
