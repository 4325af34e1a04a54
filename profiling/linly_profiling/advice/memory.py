"""Rules about memory."""

from __future__ import annotations

from collections.abc import Iterator

from linly_profiling.advice.evidence import Evidence
from linly_profiling.advice.finding import Advice
from linly_profiling.analysis.memory import MemoryPeak
from linly_profiling.tables import size

# What is left is less than one long prompt or one picture may ask for: the next request can fail.
FULL_SHARE = 0.95

_GPU_REMEDY = (
    "Quantise the model or its KV cache; paged attention, which wastes no memory on reserved context; a smaller batch"
    " or a shorter context; move a model to another GPU."
)
_RSS_REMEDY = (
    "Quantise the models, load fewer of them, keep shorter histories, or raise the limit: at 100 % the system kills"
    " the process without a word."
)


def memory_pressure(seen: Evidence) -> Iterator[Advice]:
    """The process or a GPU held nearly all the memory that there is."""
    memory = seen.report.memory
    for peak in (memory.rss, *memory.gpus) if memory is not None else ():
        if peak is not None and is_full(peak):
            yield _pressure(peak)


def is_full(peak: MemoryPeak) -> bool:
    return peak.share is not None and peak.share >= FULL_SHARE


def gpu_is_full(seen: Evidence) -> bool:
    memory = seen.report.memory
    return memory is not None and any(is_full(gpu) for gpu in memory.gpus)


def _pressure(peak: MemoryPeak) -> Advice:
    gpu = peak.device != "process"
    share = 100 * (peak.share or 0.0)
    what = f"GPU memory of {peak.device}" if gpu else "Memory"
    parts = [f"{size(peak.peak_bytes)} of {size(peak.limit_bytes)} at the peak ({peak.source})"]
    if peak.active:
        parts.append(f"while {', '.join(peak.active[:3])} ran")
    if peak.growth_bytes is not None and peak.growth_bytes > 0:
        parts.append(f"grown by {size(peak.growth_bytes)} over the request")
    if peak.shared:
        parts.append("other requests used it at the same time")
    return Advice(
        rule="memory-pressure",
        severity="high",
        title=f"{what} is nearly full: {share:.0f} %",
        evidence=", ".join(parts),
        remedy=_GPU_REMEDY if gpu else _RSS_REMEDY,
        span_ids=peak.span_ids,
        cost_ns=None,
    )
