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
    """Bytes in MB (10⁶) or GB."""
    if count is None:
        return NOTHING
    return f"{_three_digits(count / 1e6)} MB" if abs(count) < 999.5e6 else f"{_three_digits(count / 1e9)} GB"


def factor(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.2f}" if value >= 0.095 else f"{value:.3f}"


def seconds(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.2f} s"


def _three_digits(value: float) -> str:
    whole = len(f"{abs(value):.0f}")
    return f"{value:.{max(0, 3 - whole)}f}"


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
