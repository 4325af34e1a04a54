"""How much memory the process and its GPUs held at most, how near that is to the limit, and who was at work then."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from linly_profiling.analysis.numbers import count, counter
from linly_profiling.analysis.tree import is_work, root_of
from linly_profiling.record import LoadedTrace, Record, Sample

RSS = "memory.rss"
# From the widest to the narrowest: a GPU's own count includes other processes and CUDA itself.
GPU_COUNTERS = ("memory.gpu.used", "memory.gpu.reserved", "memory.gpu.allocated")


@dataclass(frozen=True)
class MemoryPeak:
    """Memory of one kind; None where it is not known.

    Attributes:
        device: "process", or the GPU as "cuda:0".
        source: the counter or measurement that showed the peak: its value may be less than what was really held,
            where it counts torch's memory alone.
        peak_bytes: the most that was seen.
        at_ns: when, on the trace's clock.
        start_bytes: what this counter showed first in the request.
        growth_bytes: from there to what it showed last.
        limit_bytes: what there is.
        share: peak over limit.
        shared: other requests used the device meanwhile.
        span_ids: the innermost spans that were open at the peak.
        active: their names, each once.
    """

    device: str
    source: str
    peak_bytes: int
    at_ns: int | None
    start_bytes: int | None
    growth_bytes: int | None
    limit_bytes: int | None
    share: float | None
    shared: bool | None
    span_ids: tuple[int, ...]
    active: tuple[str, ...]


@dataclass(frozen=True)
class Memory:
    """Attributes:
    rss: resident memory of the process, all of its requests together; None where it was not measured.
    gpus: in the order of their names.
    """

    rss: MemoryPeak | None
    gpus: tuple[MemoryPeak, ...]


def memory(trace: LoadedTrace) -> Memory:
    """From the counters "memory.…" and what exact spans measured. Limits are attributes of the root span."""
    root = root_of(trace.spans)
    limit = count(root.attrs, "memory_limit_bytes") if root else None
    gpu_limit = count(root.attrs, "gpu_memory_total_bytes") if root else None
    devices = _devices(trace)
    # The root names one size; with several GPUs it is that of the first.
    limits = dict.fromkeys(devices[:1], gpu_limit)
    gpus = [_gpu(trace, device, limits.get(device)) for device in devices]
    return Memory(_rss(trace, root, limit), tuple(gpu for gpu in gpus if gpu is not None))


def _devices(trace: LoadedTrace) -> list[str]:
    counted = {sample.track for sample in trace.samples if sample.name in GPU_COUNTERS}
    return sorted(counted | {f"cuda:{span.cuda.device}" for span in trace.spans if span.cuda is not None})


def _rss(trace: LoadedTrace, root: Record | None, limit: int | None) -> MemoryPeak | None:
    samples = _in_request(root, counter(trace, RSS))
    spans = [(span.rss_peak_bytes, span) for span in trace.spans if span.rss_peak_bytes is not None]
    return _peak(trace, "process", {RSS: samples}, spans, "span", limit, None)


def _gpu(trace: LoadedTrace, device: str, limit: int | None) -> MemoryPeak | None:
    uses = [(span.cuda, span) for span in trace.spans if span.cuda and f"cuda:{span.cuda.device}" == device]
    # A damaged file may hold anything here.
    peaks = [(use.peak_bytes, span) for use, span in uses if isinstance(use.peak_bytes, int)]
    shared = [flag for use, _ in uses if isinstance(flag := getattr(use, "shared", None), bool)]
    root = root_of(trace.spans)
    series = {name: _in_request(root, counter(trace, name, device)) for name in GPU_COUNTERS}
    return _peak(trace, device, series, peaks, "torch", limit, any(shared) if shared else None)


def _in_request(root: Record | None, samples: Sequence[Sample]) -> list[Sample]:
    return [sample for sample in samples if root is None or root.start_ns <= sample.at_ns <= root.end_ns]


def _peak(
    trace: LoadedTrace,
    device: str,
    counters: dict[str, list[Sample]],
    spans: Sequence[tuple[int, Record]],
    spans_source: str,
    limit: int | None,
    shared: bool | None,
) -> MemoryPeak | None:
    """The highest of all counters and spans; where they agree, the first named counter, because it tells the time."""
    tops = [(max(series, key=lambda sample: sample.value), series) for series in counters.values() if series]
    top, series = max(tops, key=lambda pair: pair[0].value, default=(None, []))
    highest, span = max(spans, key=lambda pair: pair[0], default=(None, None))
    if span is not None and highest is not None and (top is None or highest > top.value):
        source, peak, at_ns, active = spans_source, highest, None, [span] if is_work(span) else []
    elif top is not None:
        source, peak, at_ns = top.name, round(top.value), top.at_ns
        active = _active(trace.spans, top.at_ns)
    else:
        return None
    return MemoryPeak(
        device=device,
        source=source,
        peak_bytes=peak,
        at_ns=at_ns,
        start_bytes=round(series[0].value) if series else None,
        growth_bytes=round(series[-1].value - series[0].value) if series else None,
        limit_bytes=limit or None,
        share=peak / limit if limit else None,
        shared=shared,
        span_ids=tuple(sorted(span.span_id for span in active)),
        active=tuple(dict.fromkeys(span.name for span in active)),
    )


def _active(spans: Sequence[Record], at_ns: int) -> list[Record]:
    """The innermost spans of work at an instant. A stage that only waits has none."""
    there = [span for span in spans if span.start_ns <= at_ns < span.end_ns and is_work(span)]
    parents = {span.parent_id for span in there}
    return [span for span in there if span.span_id not in parents and span.parent_id is not None]
