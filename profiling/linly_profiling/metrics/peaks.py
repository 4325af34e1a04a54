"""The highest values of a request's counters. At its end most of them have fallen again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from linly_profiling.analysis.decode import KV_COUNTER, TOKEN
from linly_profiling.analysis.memory import GPU_COUNTERS, RSS
from linly_profiling.analysis.numbers import count
from linly_profiling.analysis.tree import root_of
from linly_profiling.record import LoadedTrace

QUEUE_DEPTH = "queue.depth"
ALLOCATED = "memory.gpu.allocated"


@dataclass(frozen=True)
class Peaks:
    """Attributes:
    queue_depth: packets that waited, by the row of the stage that reads them.
    gpu_allocated_bytes: memory that torch had allocated, by device.
    gpu_share: memory in use of the first device over what it has, 0..1; None where one of the two is not known.
    kv_cache_bytes: KV cache of the language model; None where it was not measured.
    rss_bytes: resident memory of the process; None where it was not measured.
    """

    queue_depth: Mapping[str, float]
    gpu_allocated_bytes: Mapping[str, float]
    gpu_share: float | None
    kv_cache_bytes: float | None
    rss_bytes: float | None

    @classmethod
    def of(cls, trace: LoadedTrace) -> Self:
        tops: dict[str, dict[str, float]] = defaultdict(dict)  # by counter, then by track
        for sample in trace.samples:
            tracks = tops[sample.name]
            if sample.value > tracks.get(sample.track, float("-inf")):
                tracks[sample.track] = sample.value
        _add_spans(tops, trace)
        return cls(
            queue_depth=tops[QUEUE_DEPTH],
            gpu_allocated_bytes=tops[ALLOCATED],
            gpu_share=_gpu_share(tops, trace),
            kv_cache_bytes=max(tops[KV_COUNTER].values(), default=None),
            rss_bytes=max(tops[RSS].values(), default=None),
        )


def _add_spans(tops: Mapping[str, dict[str, float]], trace: LoadedTrace) -> None:
    """What spans measured by themselves; a sampler may have missed it."""
    for span in trace.spans:
        sizes = [mark.value for mark in span.marks if mark.name == TOKEN and mark.value is not None]
        if sizes:
            tops[KV_COUNTER][""] = max(*sizes, tops[KV_COUNTER].get("", 0))
        if span.rss_peak_bytes is not None:
            tops[RSS][""] = max(span.rss_peak_bytes, tops[RSS].get("", 0))
        if span.cuda is not None and span.cuda.peak_bytes is not None:
            device = f"cuda:{span.cuda.device}"
            tops[ALLOCATED][device] = max(span.cuda.peak_bytes, tops[ALLOCATED].get(device, 0))


def _gpu_share(tops: Mapping[str, Mapping[str, float]], trace: LoadedTrace) -> float | None:
    root = root_of(trace.spans)
    total = count(root.attrs, "gpu_memory_total_bytes") if root is not None else None
    devices = sorted({device for counter in GPU_COUNTERS for device in tops[counter]})
    if not total or not devices:
        return None
    # The root names one size; with several GPUs it is that of the first.
    return max(tops[counter].get(devices[0], 0) for counter in GPU_COUNTERS) / total
