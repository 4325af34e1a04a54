"""The analysis of a request in a few lines for a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from linly_profiling.analysis.critical import CriticalPath
from linly_profiling.analysis.decode import Decode
from linly_profiling.analysis.memory import Memory, MemoryPeak
from linly_profiling.analysis.pacing import Pacing
from linly_profiling.tables import duration, figure, flowed, shown, size

# Owners of less are added up.
_LEAST_SHARE = 0.005
_NAME_COLUMNS = 30


def path_lines(path: CriticalPath, width: int) -> Iterator[str]:
    """Whom the request waited for, in the order of the chain."""
    parts = [
        f"{shown(share.name, _NAME_COLUMNS)} {_figures(share.duration_ns, share.share)}"
        for share in path.shares
        if share.share >= _LEAST_SHARE
    ]
    small = [share for share in path.shares if share.share < _LEAST_SHARE]
    if small and parts:
        rest = _figures(sum(share.duration_ns for share in small), sum(share.share for share in small))
        parts.append(f"the others {rest}")
    how = "" if path.method == "states" else ", judged by which spans were open"
    yield f"critical path: whom the request waited for at each instant{how}"
    yield from _listed("", parts, width, ",", 2)


def _figures(duration_ns: int, share: float) -> str:
    return f"{duration(duration_ns)} ({100 * share:.0f} %)"


def decode_lines(call: Decode, width: int) -> list[str]:
    """One call of a language model."""
    parts = []
    if call.prompt_tokens is not None:
        cached = f" ({call.cached_tokens:,} cached)" if call.cached_tokens else ""
        parts.append(f"prompt of {call.prompt_tokens:,} tokens{cached}")
    if call.first_token_ns is not None:
        parts.append(f"first token after {duration(call.first_token_ns)}")
    if call.interval is not None:
        parts.append(
            f"then {_ms(call.interval.p50_ms)} each (p95 {_ms(call.interval.p95_ms)}, most {_ms(call.interval.max_ms)})"
        )
    if call.tokens is not None:
        pace = f" at {figure(call.tokens_per_s)} a second" if call.tokens_per_s is not None else ""
        parts.append(f"{call.tokens:,} token{'' if call.tokens == 1 else 's'}{pace}")
    if call.kv_last_bytes is not None:
        grown = f", {size(call.kv_bytes_per_token)} a token" if call.kv_bytes_per_token is not None else ""
        parts.append(f"KV cache {size(call.kv_last_bytes)}{grown}")
    if call.slows and call.slope_ms_per_1000_tokens is not None:
        parts.append(f"{figure(call.slope_ms_per_1000_tokens, '+')} ms for each 1,000 tokens")
    return _listed("tokens", parts, width)


def pacing_lines(pace: Pacing, width: int) -> list[str]:
    """The frames against their rate."""
    parts = [f"{pace.frames:,}"]
    if pace.fps is not None and pace.budget_ms is not None:
        parts.append(f"to be shown at {figure(pace.fps)} a second, {_ms(pace.budget_ms)} for each")
    if pace.render is not None:
        parts.append(
            f"{_ms(pace.render.p50_ms)} to render (p95 {_ms(pace.render.p95_ms)}, most {_ms(pace.render.max_ms)})"
        )
    if pace.effective_fps is not None:
        parts.append(f"enough for {figure(pace.effective_fps)} a second")
    if pace.late_frames is not None:
        parts.append(f"{pace.late_frames:,} late" if pace.late_frames else "none late")
    if pace.stalls:
        held_ns = sum(stall.duration_ns for stall in pace.stalls)
        holds = "1 hold" if len(pace.stalls) == 1 else f"{len(pace.stalls):,} holds"
        parts.append(f"{holds}, {duration(held_ns)} in all")
    return _listed("frames", parts, width)


def memory_lines(memory: Memory, width: int) -> list[str]:
    """Peaks of memory against the limits."""
    peaks = [peak for peak in (memory.rss, *memory.gpus) if peak is not None]
    return _listed("memory", [_peak(peak) for peak in peaks], width) if peaks else []


def _peak(peak: MemoryPeak) -> str:
    what = "process" if peak.device == "process" else shown(peak.device, _NAME_COLUMNS)
    if peak.limit_bytes is None or peak.share is None:
        return f"{what} {size(peak.peak_bytes)} at most"
    return f"{what} {size(peak.peak_bytes)} of {size(peak.limit_bytes)} ({100 * peak.share:.0f} %)"


def _ms(value: float) -> str:
    return duration(value * 1e6)


def _listed(name: str, parts: list[str], width: int, separator: str = ";", indent: int = 8) -> list[str]:
    """The parts in a row, none of them torn apart."""
    words = [part + separator for part in parts[:-1]] + parts[-1:]
    return flowed(words, width, name.ljust(indent), " " * indent)
