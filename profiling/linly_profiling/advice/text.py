"""Advice for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from linly_profiling.advice.finding import Advice
from linly_profiling.tables import wrapped

_INDENT = " " * 4
_SPANS_SHOWN = 4


def advice_lines(advice: Sequence[Advice], width: int) -> Iterator[str]:
    """A numbered list: what was found, what shows it, and what to do."""
    for number, each in enumerate(advice, 1):
        yield from wrapped(f"{each.title} ({each.severity})", width, f"{number:>2}. ", _INDENT)
        yield from wrapped(
            each.evidence + _spans(each.span_ids), width, f"{_INDENT}seen: ", f"{_INDENT}      "
        )
        yield from wrapped(each.remedy, width, f"{_INDENT}try:  ", f"{_INDENT}      ")


def _spans(span_ids: Sequence[int]) -> str:
    if not span_ids:
        return ""
    more = ", …" if len(span_ids) > _SPANS_SHOWN else ""
    listed = ", ".join(f"#{span_id}" for span_id in span_ids[:_SPANS_SHOWN])
    return f" [span{'s' if len(span_ids) > 1 else ''} {listed}{more}]"
