"""Rules about the language model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from linly_profiling.advice.evidence import MS, Evidence, percent, severity
from linly_profiling.advice.finding import Advice
from linly_profiling.advice.memory import gpu_is_full
from linly_profiling.analysis.decode import Decode
from linly_profiling.attribution import Milestone
from linly_profiling.tables import duration, figure, size

# What people leave between two turns of a conversation, on average in ten languages (Stivers et al., "Universals and
# cultural variation in turn-taking in conversation", PNAS 106, 2009).
TURN_GAP_NS = 200 * MS
# By itself clearly longer than that gap: with it no answer can feel prompt.
SLOW_FIRST_TOKEN_NS = 300 * MS
# A shorter one still decides if it is a large part of the wait, unless all of that is short.
DOMINANT_SHARE = 0.4
LEAST_DOMINANT_NS = 100 * MS
# With fewer tokens to read, what each call costs in any case is the larger part of the first token.
LONG_PROMPT_TOKENS = 256
# A quarter slower: less may come from a processor that got warm.
SLOWER_DECODE = 1.25

_READ_LESS = (
    "Keep what does not change of the prompt in the KV cache (prefix caching: instructions and history first, what"
    " changes last), and shorten it; after that a smaller or quantised model."
)
_SMALLER = (
    "A smaller or quantised model, or more cores or GPU layers for it: caching has little left to save."
)
_UNKNOWN_PROMPT = (
    "For a long prompt: prefix caching, and fewer tokens; for a short one: a smaller or quantised model."
    " Record prompt_tokens and cached_tokens on the call to know which it is."
)
_FREE_MEMORY = (
    " Free GPU memory first: where it is full, layers stay on the CPU and cached prefixes are evicted."
)


class _FirstToken(NamedTuple):
    wait_ns: int
    span_id: int
    whole_ns: int | None  # all of the answer
    call: Decode | None


def first_token(seen: Evidence) -> Iterator[Advice]:
    """The wait for the first token is long, or a large part of the wait for the first sound."""
    first, whole = _first_token(seen), seen.milestone
    if first is None or whole is None or not 0 < first.wait_ns <= whole.total_ns:
        return
    large = first.wait_ns >= DOMINANT_SHARE * whole.total_ns and first.wait_ns >= LEAST_DOMINANT_NS
    # Of the time to the first token it is always a large part.
    if first.wait_ns < SLOW_FIRST_TOKEN_NS and not (large and whole.name != "first token"):
        return
    yield Advice(
        rule="first-token",
        severity=severity(first.wait_ns, whole.total_ns),
        title=f"The language model's first token took {duration(first.wait_ns)}",
        evidence=_first_token_seen(first, whole),
        remedy=_remedy(first.call) + (_FREE_MEMORY if gpu_is_full(seen) else ""),
        span_ids=(first.span_id,),
        cost_ns=first.wait_ns,
    )


def _first_token(seen: Evidence) -> _FirstToken | None:
    """Of the first call whose tokens are marked; else as the stage's own output tells."""
    marked = [call for call in seen.report.decode if call.points]
    if marked:
        call = min(marked, key=lambda call: call.points[0].at_ns)
        span = seen.by_id[call.span_id]
        return _FirstToken(call.points[0].at_ns - span.start_ns, span.span_id, span.duration_ns, call)
    milestone = next((each for each in seen.report.milestones if each.name == "first token"), None)
    stage = next(
        (each for each in seen.report.stages if each.row == "llm" and each.first_out_ns is not None), None
    )
    if milestone is None or stage is None:
        return None
    work = [part.duration_ns for part in milestone.contributions if part.label == f"{stage.name}: work"]
    return _FirstToken(sum(work), stage.span_id, stage.busy_ns, next(iter(seen.report.decode), None))


def _first_token_seen(first: _FirstToken, whole: Milestone) -> str:
    call, sooner_ns = first.call, whole.total_ns - first.wait_ns + TURN_GAP_NS
    parts = [f"{percent(first.wait_ns, whole.total_ns)} of the {duration(whole.total_ns)} to {whole.name}"]
    if first.wait_ns > TURN_GAP_NS and whole.name != "first token":
        parts[0] += f", which would be {duration(sooner_ns)} with a first token after {duration(TURN_GAP_NS)}"
    if call is not None and call.prompt_tokens is not None:
        parts.append(f"the prompt has {call.prompt_tokens:,} tokens{_cached(call)}")
    if first.whole_ns is not None:
        parts.append(f"the whole answer took {duration(first.whole_ns)}")
    return "; ".join(parts)


def _cached(call: Decode) -> str:
    if call.cached_tokens is None:
        return ""
    return f", {call.cached_tokens:,} of them cached" if call.cached_tokens else ", none of them cached"


def _remedy(call: Decode | None) -> str:
    if call is None or call.prompt_tokens is None:
        return _UNKNOWN_PROMPT
    return _READ_LESS if call.prompt_tokens - (call.cached_tokens or 0) >= LONG_PROMPT_TOKENS else _SMALLER


def decode_slows(seen: Evidence) -> Iterator[Advice]:
    """Each token takes longer than those before it, because there is more context to look back at."""
    for call in seen.report.decode:
        early, late = call.early_ms, call.late_ms
        if not early or late is None or not call.slows or late < SLOWER_DECODE * early:
            continue
        cost_ns = sum(max(0, (point.interval_ns or 0) - round(early * MS)) for point in call.points)
        grown = (
            f"; each token adds {size(call.kv_bytes_per_token)} to the KV cache"
            if call.kv_bytes_per_token
            else ""
        )
        yield Advice(
            rule="decode-slows",
            severity=severity(cost_ns, seen.wall_ns),
            title=f"Tokens take {percent(late - early, early)} longer at the end of the answer than at its start",
            evidence=(
                f"{figure(early)} ms a token in the first third, {figure(late)} ms in the last:"
                f" {figure(call.slope_ms_per_1000_tokens or 0.0, '+')} ms for each 1,000 tokens of context{grown}"
            ),
            remedy=(
                "Attention that costs less with a long context: flash attention, a quantised KV cache, a model with"
                " grouped-query or sliding-window attention; a shorter history; a limit to the length of answers."
            ),
            span_ids=(call.span_id,),
            cost_ns=cost_ns,
        )
