"""Plain-text tables and readable numbers for a terminal."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from linly_profiling.chrome.text import display

NOTHING = "—"  # not measured, or not known


def duration(ns: float | None) -> str:
    """Three digits and a unit: "1.23 s", "45.6 ms", "789 µs"."""
    if ns is None:
        return NOTHING
    if abs(ns) < 999.5:
        return f"{ns:.0f} ns"
    for unit, size in (("µs", 1e3), ("ms", 1e6)):
        if abs(ns) < 999.5 * size:
            return f"{_three_digits(ns / size)} {unit}"
    return f"{_three_digits(ns / 1e9)} s"


def size(count: float | None) -> str:
    """Three digits of bytes and a unit, in steps of 1,000: "512 B", "36.9 kB", "822 MB", "23.5 GB"."""
    if count is None:
        return NOTHING
    if abs(count) < 999.5:
        return f"{count:.0f} B"
    for unit, step in (("kB", 1e3), ("MB", 1e6)):
        if abs(count) < 999.5 * step:
            return f"{_three_digits(count / step)} {unit}"
    return f"{_three_digits(count / 1e9)} GB"


def factor(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.2f}" if value >= 0.095 else f"{value:.3f}"


def seconds(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.2f} s"


def figure(value: float, sign: str = "") -> str:
    """Three digits, never an exponent; `sign` "+" shows that of positive values as well."""
    return f"{value:{sign}.3g}" if abs(value) < 999.5 else f"{value:{sign},.0f}"


def _three_digits(value: float) -> str:
    return f"{value:.{2 if abs(value) < 9.995 else 1 if abs(value) < 99.95 else 0}f}"


def shown(text: str, width: int) -> str:
    """The text, safe for a terminal, and cut to a number of columns."""
    text = display(text)
    while columns(text) > width:
        text = text[:-2] + "…"
    return text


def columns(text: str) -> int:
    """How wide a terminal draws the text: Chinese characters take two columns, accents none."""
    wide = sum(unicodedata.east_asian_width(char) in "WF" for char in text)
    return len(text) + wide - sum(unicodedata.combining(char) != 0 for char in text)


def table(rows: Sequence[Sequence[str]], left: int = 1, indent: str = "  ") -> list[str]:
    """Lines with aligned columns; the first `left` columns to the left, numbers to the right."""
    widths = [max(columns(row[i]) for row in rows) for i in range(len(rows[0]))] if rows else []
    lines = []
    for row in rows:
        cells = [
            cell + " " * (width - columns(cell)) if i < left else " " * (width - columns(cell)) + cell
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append((indent + "  ".join(cells)).rstrip())
    return lines


def wrapped(text: str, width: int, first: str = "", indent: str = "") -> list[str]:
    """A sentence on lines of at most `width` columns; `first` begins the first line, `indent` the others."""
    return flowed(text.split(), width, first, indent)


def flowed(words: Sequence[str], width: int, first: str = "", indent: str = "") -> list[str]:
    """Like `wrapped`, for words that may hold spaces and stay whole. Only what is wider than a line is cut."""
    lines: list[str] = []
    line, space = first, ""
    for word in words:
        if space and columns(line) + 1 + columns(word) > width:
            lines.append(line)
            line, space = indent, ""
        line += space + shown(word, width - columns(line) - len(space))
        space = " "
    return [*lines, line.rstrip()]
