"""All rules, and how they are asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from linly_profiling.advice import chain, gpu, llm, media, memory, runtime, waiting
from linly_profiling.advice.evidence import Evidence, Rule
from linly_profiling.advice.finding import Advice
from linly_profiling.record import LoadedTrace

if TYPE_CHECKING:
    from linly_profiling.report import Report

# By the name under which docs/advice.md describes them.
RULES: dict[str, Rule] = {
    "first-token": llm.first_token,
    "decode-slows": llm.decode_slows,
    "memory-pressure": memory.memory_pressure,
    "stage-dominates": chain.stage_dominates,
    "late-handover": chain.late_handover,
    "vocoder-over-mel": media.vocoder_over_mel,
    "renderer-below-fps": media.renderer_below_fps,
    "playback-starved": media.playback_starved,
    "av-offset": media.av_offset,
    "queue-wait": waiting.queue_wait,
    "cancelled-call": waiting.cancelled_call,
    "cold-start": waiting.cold_start,
    "lock-wait": waiting.lock_wait,
    "copy-stall": waiting.copy_stall,
    "backpressure": waiting.backpressure,
    "event-loop-blocked": runtime.event_loop_blocked,
    "gc-pauses": runtime.gc_pauses,
    "repeated-copies": gpu.repeated_copies,
    "implicit-sync": gpu.implicit_sync,
    "cuda-launch-blocking": gpu.launch_blocking,
    "fallbacks": chain.fallbacks,
    "dropped-records": chain.dropped,
}

_RANK = {"high": 0, "medium": 1, "low": 2}


def advise(report: Report, trace: LoadedTrace) -> tuple[Advice, ...]:
    """What the rules find in a request, the most severe and costly first.

    Severity follows from cost where there is one, so this is the order of cost; what costs no time, such as memory
    that is nearly full, comes first among its equals.

    Args:
        report: of the trace; its own advice is not looked at.
        trace: that the report was made of.
    """
    seen = Evidence(report, trace)
    found = [advice for rule in RULES.values() for advice in rule(seen)]
    return tuple(sorted(found, key=_order))


def _order(advice: Advice) -> tuple[int, bool, int]:
    return _RANK[advice.severity], advice.cost_ns is not None, -(advice.cost_ns or 0)
