"""Subtitles from spoken fragments: short cues, in SubRip (.srt) or WebVTT (.vtt)."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from os import PathLike

from linly_pipeline.errors import SinkError
from linly_pipeline.text.markdown import plain
from linly_pipeline.text.script import WIDE, is_wide

# Two lines of 42 letters, or 20 Chinese characters, are what a viewer reads in passing.
# Source: Netflix, Timed Text Style Guides (general requirements; English; Simplified Chinese has 16 to 20).
_LINES = 2
_COLUMNS = 42.0
_WIDE_COLUMNS = _COLUMNS / 20
_CLAUSE_ENDS = ",;:.!?…，、；：。！？"
# A word with the marks and the space behind it; a Chinese character is a word of its own. Opening marks stay
# with what follows them.
_OPENERS = "“「『《（【"
_WORD = re.compile(
    rf"[{_OPENERS}]*(?:[{WIDE}]|[^\s{WIDE}{_OPENERS}，、；：。！？”」』》）】…]+|\S)[，、；：。！？”」』》）】…]*\s*"
)


@dataclass(frozen=True, slots=True)
class Cue:
    """One subtitle.

    Attributes:
        start_s: seconds from the start of the turn.
        end_s: not before `start_s`.
        text: one or two lines.
    """

    start_s: float
    end_s: float
    text: str


def cues(fragments: Iterable[tuple[str, float, float]]) -> list[Cue]:
    """Cues for (text, start_s, end_s) of each spoken fragment, in order; they never overlap.

    Markdown is left out. A long fragment becomes several cues, cut between words and rather behind a comma,
    that share its time by their length.
    """
    result: list[Cue] = []
    for text, start_s, end_s in fragments:
        start_s = max(start_s, 0.0, result[-1].end_s if result else 0.0)
        result += _share(_screens(" ".join(plain(text).split())), start_s, max(end_s, start_s))
    return result


def write_subtitles(path: str | PathLike[str], cues: Iterable[Cue]) -> None:
    """Write `cues` in the format of the suffix, UTF-8. The file appears whole or not at all.

    Raises:
        SinkError: the suffix is neither .srt nor .vtt, or the file could not be written.
    """
    from linly_pipeline.media.output import check_writable

    formats = {".srt": _srt, ".vtt": _vtt}
    full = check_writable(path, tuple(formats), min_free_bytes=0)
    text = formats[full.suffix.lower()](_monotone(cues))
    # The name is short: one made from the target's could exceed what the file system allows.
    beside = full.with_name(f".linly-{secrets.token_hex(6)}.part")
    try:
        beside.write_text(text, encoding="utf-8", newline="\n")
        beside.replace(full)
    except OSError as error:
        raise SinkError(f"cannot write '{path}': {error.strerror or error}") from error
    finally:
        with suppress(OSError):  # the disk may be gone, and that was reported
            beside.unlink(missing_ok=True)


def _share(screens: list[str], start_s: float, end_s: float) -> Iterator[Cue]:
    total = sum(map(len, screens))
    done = 0
    for screen in screens:
        begin_s = start_s + (end_s - start_s) * done / total
        done += len(screen)
        yield Cue(begin_s, start_s + (end_s - start_s) * done / total, screen)


def _screens(text: str) -> list[str]:
    """`text` as blocks of at most two lines."""
    rest = _words(text)
    screens = []
    while rest:
        lines, count = _fill(rest)
        if count < len(rest):
            count = _back_to_clause(rest, count)
        lines, _ = _fill(rest[:count])
        screens.append("\n".join(_balanced(rest[:count], lines)))
        rest = rest[count:]
    return screens


def _words(text: str) -> list[str]:
    return [piece for word in _WORD.findall(text) for piece in _broken(word)]


def _broken(word: str) -> list[str]:
    """A word that is wider than a line, such as an address, in pieces."""
    if _width(word) <= _COLUMNS:
        return [word]
    size = int(_COLUMNS // max(map(_char_width, word)))
    return [word[start : start + size] for start in range(0, len(word), size)]


def _fill(words: list[str], columns: float = _COLUMNS) -> tuple[list[str], int]:
    """The first lines that `words` fill, and how many words went into them."""
    lines = [""]
    for count, word in enumerate(words):
        if _width(lines[-1] + word) > columns:
            if len(lines) == _LINES:
                return [line.strip() for line in lines], count
            lines.append("")
        lines[-1] += word
    return [line.strip() for line in lines], len(words)


def _back_to_clause(words: list[str], count: int) -> int:
    """The last end of a clause in the second half of the words that fit, or all of them."""
    for end in range(count, count // 2, -1):
        if words[end - 1].rstrip()[-1:] in _CLAUSE_ENDS and words[end - 1].strip():
            return end
    return count


def _balanced(words: list[str], lines: list[str]) -> list[str]:
    """Two lines of about the same width read more easily than a long and a short one."""
    if len(lines) < 2:
        return lines
    half = _width("".join(words)) / 2
    for columns in range(int(half), int(_COLUMNS)):
        narrower, count = _fill(words, columns)
        if count == len(words):
            return narrower
    return lines


def _width(text: str) -> float:
    return sum(map(_char_width, text.rstrip()))


def _char_width(char: str) -> float:
    return _WIDE_COLUMNS if is_wide(char) or char in "，、；：。！？“”「」『』《》（）【】" else 1.0


def _monotone(cues: Iterable[Cue]) -> Iterator[tuple[int, int, str]]:
    """(start, end, text) in whole milliseconds; none starts before the one before it has ended."""
    last_ms = 0
    for cue in cues:
        start_ms = max(round(cue.start_s * 1000), last_ms)
        last_ms = max(round(cue.end_s * 1000), start_ms + 1)
        # Both formats would take an empty line, or an arrow, for the start of the next cue.
        lines = [line.replace("-->", "→").strip() for line in cue.text.splitlines()]
        yield start_ms, last_ms, "\n".join(line for line in lines if line)


def _srt(cues: Iterable[tuple[int, int, str]]) -> str:
    blocks = [
        f"{number}\n{_timestamp(start, ',')} --> {_timestamp(end, ',')}\n{text}\n"
        for number, (start, end, text) in enumerate(cues, 1)
    ]
    return "\n".join(blocks)


def _vtt(cues: Iterable[tuple[int, int, str]]) -> str:
    blocks = [
        f"{_timestamp(start, '.')} --> {_timestamp(end, '.')}\n{_escape(text)}\n" for start, end, text in cues
    ]
    return "\n".join(["WEBVTT\n", *blocks])


def _escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _timestamp(time_ms: int, point: str) -> str:
    seconds, ms = divmod(time_ms, 1000)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:02}:{minutes:02}:{seconds:02}{point}{ms:03}"
