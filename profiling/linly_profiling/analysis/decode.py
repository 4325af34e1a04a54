"""How a language model wrote: the wait for its first token, then the pace, and whether a longer context slows it.

A mark "token" is one piece of text that left the model, which for most engines is one token.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from linly_profiling.analysis.numbers import Spread, count, counter, percentile, spread
from linly_profiling.record import LoadedTrace, Mark, Record, Sample

CALL = "llm.generate"
TOKEN = "token"
KV_COUNTER = "kv_cache.bytes"
# A trend needs three thirds with a median each; with fewer intervals a single pause makes one.
LEAST_FOR_TREND = 48


class DecodePoint(NamedTuple):
    """One token.

    Attributes:
        at_ns: when it came, on the trace's clock.
        interval_ns: since the token before it; None for the first.
        kv_bytes: size of the KV cache after it.
    """

    at_ns: int
    interval_ns: int | None
    kv_bytes: int | None


@dataclass(frozen=True)
class Decode:
    """One call of a language model; None where it is not known.

    Attributes:
        span_id: the call's span.
        name: its name.
        prompt_tokens: length of the prompt.
        cached_tokens: the part of the prompt that was in the KV cache already.
        tokens: tokens written, as the engine counted them; else the number of marks.
        first_token_ns: from the start of the call to the first token.
        interval: time between two tokens.
        tokens_per_s: pace after the first token.
        kv_first_bytes: size of the KV cache at the first token for which it is known.
        kv_last_bytes: the same at the last one.
        kv_bytes_per_token: its growth a token.
        early_ms: median time between two tokens in the first third of the answer; needs 48 intervals.
        late_ms: the same in the last third.
        slope_ms_per_1000_tokens: how much longer a token takes for each 1,000 tokens of context that came before:
            the difference of these medians over the distance between the middles of the thirds.
        slows: the slowest quarter of the first third is still faster than the fastest quarter of the last third.
        points: every token.
    """

    span_id: int
    name: str
    prompt_tokens: int | None
    cached_tokens: int | None
    tokens: int | None
    first_token_ns: int | None
    interval: Spread | None
    tokens_per_s: float | None
    kv_first_bytes: int | None
    kv_last_bytes: int | None
    kv_bytes_per_token: float | None
    early_ms: float | None
    late_ms: float | None
    slope_ms_per_1000_tokens: float | None
    slows: bool | None
    points: tuple[DecodePoint, ...]


def decode(trace: LoadedTrace) -> tuple[Decode, ...]:
    """Every call of a language model: spans `llm.generate`, and all others with marks "token"."""
    kv = counter(trace, KV_COUNTER)
    return tuple(_decode(span, kv) for span in trace.spans if span.name == CALL or _tokens(span))


def _tokens(span: Record) -> list[Mark]:
    marks = [mark for mark in span.marks if mark.name == TOKEN and mark.at_ns >= span.start_ns]
    return sorted(marks, key=lambda mark: mark.at_ns)


def _decode(span: Record, kv: Sequence[Sample]) -> Decode:
    points = _points(_tokens(span), [sample for sample in kv if span.start_ns <= sample.at_ns <= span.end_ns])
    intervals = [point.interval_ns / 1e6 for point in points if point.interval_ns is not None]
    passed_s = sum(intervals) / 1e3
    known = [(index, point.kv_bytes) for index, point in enumerate(points) if point.kv_bytes is not None]
    (first, first_bytes), (last, last_bytes) = (known[0], known[-1]) if known else ((0, None), (0, None))
    early_ms, late_ms, slope, slows = _trend(intervals)
    counted = count(span.attrs, "tokens")
    return Decode(
        span_id=span.span_id,
        name=span.name,
        prompt_tokens=count(span.attrs, "prompt_tokens"),
        cached_tokens=count(span.attrs, "cached_tokens"),
        tokens=counted if counted is not None else len(points) or None,
        first_token_ns=points[0].at_ns - span.start_ns if points else None,
        interval=spread(intervals),
        tokens_per_s=len(intervals) / passed_s if passed_s > 0 else None,
        kv_first_bytes=first_bytes,
        kv_last_bytes=last_bytes,
        kv_bytes_per_token=_growth(first, first_bytes, last, last_bytes),
        early_ms=early_ms,
        late_ms=late_ms,
        slope_ms_per_1000_tokens=slope,
        slows=slows,
        points=tuple(points),
    )


def _points(marks: Sequence[Mark], kv: Sequence[Sample]) -> list[DecodePoint]:
    """The tokens; the KV cache from the marks themselves, else as the counter stood when they came."""
    times = [sample.at_ns for sample in kv]
    points: list[DecodePoint] = []
    for mark in marks:
        kv_bytes = mark.value
        if kv_bytes is None and (index := bisect_right(times, mark.at_ns)):
            kv_bytes = round(kv[index - 1].value)
        points.append(DecodePoint(mark.at_ns, mark.at_ns - points[-1].at_ns if points else None, kv_bytes))
    return points


def _growth(first: int, first_bytes: int | None, last: int, last_bytes: int | None) -> float | None:
    if first_bytes is None or last_bytes is None or first == last:
        return None
    return (last_bytes - first_bytes) / (last - first)


def _trend(intervals: Sequence[float]) -> tuple[float | None, float | None, float | None, bool | None]:
    """Median of the first and the last third, slope, and whether the thirds are clearly apart.

    Medians, because one pause of the process must not pass for a trend.
    """
    if len(intervals) < LEAST_FOR_TREND:
        return None, None, None, None
    third = len(intervals) // 3
    first, last = intervals[:third], intervals[-third:]
    early, late = percentile(first, 0.5) or 0.0, percentile(last, 0.5) or 0.0
    slope = 1000 * (late - early) / (len(intervals) - third)
    return early, late, slope, (percentile(first, 0.75) or 0.0) < (percentile(last, 0.25) or 0.0)
