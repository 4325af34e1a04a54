"""Figures with their units, and the lines that several of the texts share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from linly_profiling.compare.metrics import Unit
from linly_profiling.tables import NOTHING, columns, duration, flowed, seconds, shown, size, table

WIDTH = 100


def value_text(value: float | None, unit: Unit) -> str:
    """Three digits and a unit that suits the value: 1234 "ms" is "1.23 s"."""
    if value is None:
        return NOTHING
    if unit == "ms":
        return duration(value * 1e6) if value else "0 ms"
    if unit == "MB":
        return size(value * 1e6)
    if unit == "s":
        return seconds(value)
    return f"{value:.3f}" if unit == "ratio" else f"{value:,.6g}"


def change_text(change: float, unit: Unit) -> str:
    """Like `value_text`, with a sign."""
    return ("+" if change > 0 else "-" if change < 0 else "±") + value_text(abs(change), unit)


def percent_text(ratio: float | None) -> str:
    """A change as a share, with a sign; no decimals from 10 % on."""
    if ratio is None:
        return NOTHING
    percent = 100 * ratio
    if not percent:
        return "±0 %"
    return f"{percent:+.1f} %" if abs(percent) < 9.95 else f"{percent:+,.0f} %"


def plain(value: float, beside: float | None = None) -> str:
    """A number as it stands in a budget, with as many digits as it takes to tell it from the other one."""
    for digits in range(4, 17):
        text = f"{value:.{digits}g}" if abs(value) < 10**digits else f"{value:.0f}"
        if beside is None or value == beside or float(text) != beside:
            return text
    return repr(value)


def count_text(count: int, what: str) -> str:
    """ "1 request", "2 requests"."""
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def outcomes_text(outcomes: Mapping[str, int]) -> str:
    """ "8 requests (7 ok, 1 error)"."""
    total = count_text(sum(outcomes.values()), "request")
    kinds = [f"{count:,} {shown(outcome, 20)}" for outcome, count in outcomes.items()]
    if len(kinds) > 4:
        kinds[3:] = [f"{len(kinds) - 3:,} other outcomes"]
    return shown(f"{total} ({', '.join(kinds)})" if kinds else total, WIDTH - 8)


def left_out_text(outcomes: Mapping[str, int]) -> str | None:
    """What the figures are not of, if anything."""
    ok, total = outcomes.get("ok", 0), sum(outcomes.values())
    if ok == total:
        return None
    if not ok:
        return "none ended ok: there are no figures"
    return f"figures are of the {ok:,} that ended ok; the other {total - ok:,} are left out"


def fitting(rows: Sequence[Sequence[str]], left: int = 1, indent: str = "  ") -> list[str]:
    """A table that is at most `WIDTH` columns wide, because its first column gives way."""
    lines = table(rows, left, indent)
    over = max(map(columns, lines), default=0) - WIDTH
    if over <= 0:
        return lines
    room = max(8, max(columns(row[0]) for row in rows) - over)
    return table([(shown(row[0], room), *row[1:]) for row in rows], left, indent)


def listed(lead: str, parts: Sequence[str]) -> list[str]:
    """The parts after the lead, separated by commas, on as many lines as they need."""
    words = [*(f"{part}," for part in parts[:-1]), *parts[-1:]]
    return flowed(words, WIDTH, lead, " " * columns(lead))
