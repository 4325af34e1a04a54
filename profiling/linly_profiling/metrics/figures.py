"""What one finished request adds to the metrics: pure data, without any metrics library.

What was not measured, or not completed, is left out: a cancelled request has no duration, but the first sound that it
reached counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from linly_profiling.analysis import Decode, decode, pacing
from linly_profiling.analysis.tree import root_of
from linly_profiling.attribution import Milestone, milestones
from linly_profiling.metrics.frames import frame_times_ns
from linly_profiling.metrics.peaks import Peaks
from linly_profiling.record import LoadedTrace, Record
from linly_profiling.stages import StageRow, number, stage_rows

FIRST = {
    "first audio": "linly_time_to_first_audio_seconds",
    "first frame": "linly_time_to_first_frame_seconds",
}
NOBODY = ("none", "work")  # owner of a part that no stage shows


class Figure(NamedTuple):
    """One value for one metric.

    Attributes:
        metric: its name in `table.METRICS`.
        value: what a counter grows by, a gauge becomes, or a histogram sees; in the metric's unit.
        labels: values of the metric's labels, in their order.
        times: how often a histogram sees it.
    """

    metric: str
    value: float
    labels: tuple[str, ...] = ()
    times: int = 1


def figures(trace: LoadedTrace) -> Iterator[Figure]:
    """Everything that a request adds, in no particular order."""
    yield Figure("linly_requests_total", 1, (trace.outcome,))
    yield Figure("linly_trace_spans_total", len(trace.spans))
    yield Figure("linly_trace_spans_dropped_total", trace.dropped)
    root = root_of(trace.spans)
    if root is not None and trace.outcome == "ok":
        yield Figure("linly_request_duration_seconds", root.duration_ns / 1e9)
    # Not all of a `Report`: its critical path would cost more than everything here.
    start_ns = 0 if root is None else root.start_ns
    stages = stage_rows(trace.spans, start_ns)
    yield from _milestones(stages, milestones(start_ns, stages))
    for stage in stages:
        yield from _stage(stage)
    yield from _language_model(stages, decode(trace))
    yield from _frames(trace)
    yield from _av_offset(trace.spans)
    yield from _peaks(Peaks.of(trace))


def stage_label(stage: StageRow) -> str:
    """The stage's kind, or its name where it has none."""
    return stage.row or stage.name


def _milestones(stages: Sequence[StageRow], reached: Sequence[Milestone]) -> Iterator[Figure]:
    owners = {stage.span_id: (stage_label(stage), "work") for stage in stages}
    owners |= {wait.span_id: (stage_label(stage), "queue") for stage in stages for wait in stage.waits}
    for milestone in reached:
        if milestone.name in FIRST:
            yield Figure(FIRST[milestone.name], milestone.total_ns / 1e9)
        sums: dict[tuple[str, str], int] = {}
        for part in milestone.contributions:
            owner = owners.get(part.span_id, NOBODY)
            sums[owner] = sums.get(owner, 0) + part.duration_ns
        for owner, sum_ns in sums.items():
            labels = (milestone.name.replace(" ", "_"), *owner)
            yield Figure("linly_contribution_seconds_total", sum_ns / 1e9, labels)


def _stage(stage: StageRow) -> Iterator[Figure]:
    labels = (stage_label(stage),)
    if stage.outcome == "ok":
        busy_ns = stage.wall_ns if stage.busy_ns is None else stage.busy_ns
        yield Figure("linly_stage_duration_seconds", busy_ns / 1e9, labels)
        if stage.real_time_factor is not None:
            yield Figure("linly_stage_real_time_factor_ratio", stage.real_time_factor, labels)
        if stage.cuda_ns is not None:
            yield Figure("linly_stage_cuda_seconds", stage.cuda_ns / 1e9, labels)
    if stage.queue_ns is not None:  # also of a wait that was given up: that is how overload shows
        yield Figure("linly_stage_queue_wait_seconds", stage.queue_ns / 1e9, labels)
    for fallback in stage.fallbacks:
        engines = (fallback.get("from", ""), fallback.get("to", ""))
        if engines[0] != engines[1]:  # the same engine again is a retry
            yield Figure("linly_stage_fallbacks_total", 1, (*labels, *engines))


def _language_model(stages: Sequence[StageRow], calls: Sequence[Decode]) -> Iterator[Figure]:
    for wait_ns in _first_token_ns(stages, calls):
        yield Figure("linly_llm_time_to_first_token_seconds", wait_ns / 1e9)
    for call in calls:
        for point in call.points:
            if point.interval_ns is not None:
                yield Figure("linly_llm_time_per_output_token_seconds", point.interval_ns / 1e9)
        cached = call.cached_tokens or 0
        if call.prompt_tokens is not None:
            yield Figure("linly_llm_tokens_total", max(0, call.prompt_tokens - cached), ("input",))
        if call.cached_tokens is not None:
            yield Figure("linly_llm_tokens_total", cached, ("cached",))
        if call.tokens is not None:
            yield Figure("linly_llm_tokens_total", call.tokens, ("output",))


def _first_token_ns(stages: Sequence[StageRow], calls: Sequence[Decode]) -> list[int]:
    """Of the stage, because a user waits for its worker too; of the calls where there is no stage around them."""
    models = [stage for stage in stages if stage.row == "llm"]
    if models:
        return [
            stage.first_out_ns - stage.ready_ns
            for stage in models
            if stage.first_out_ns is not None and stage.ready_ns is not None
        ]
    return [call.first_token_ns for call in calls if call.first_token_ns is not None]


def _frames(trace: LoadedTrace) -> Iterator[Figure]:
    rendered = 0
    for frame_ns, frames in frame_times_ns(trace.spans):
        yield Figure("linly_render_frame_duration_seconds", frame_ns / 1e9, (), frames)
        rendered += frames
    paced = pacing(trace)
    if paced is not None and paced.late_frames is not None and rendered:
        yield Figure("linly_render_late_frames_total", min(paced.late_frames, rendered))


def _av_offset(spans: Sequence[Record]) -> Iterator[Figure]:
    """Of the last span that knows it, as in the report: the sink, where there is one."""
    for span in reversed(spans):
        offset_ms = number(span.attrs, "av_offset_ms")
        if offset_ms is not None:
            yield Figure("linly_av_offset_seconds", offset_ms / 1e3)
            return


def _peaks(peaks: Peaks) -> Iterator[Figure]:
    for stage, depth in peaks.queue_depth.items():
        yield Figure("linly_queue_depth", depth, (stage,))
    for device, allocated in peaks.gpu_allocated_bytes.items():
        yield Figure("linly_gpu_memory_allocated_bytes", allocated, (device,))
    if peaks.gpu_share is not None:
        yield Figure("linly_gpu_memory_utilization_ratio", peaks.gpu_share)
    if peaks.kv_cache_bytes is not None:
        yield Figure("linly_llm_kv_cache_bytes", peaks.kv_cache_bytes)
    if peaks.rss_bytes is not None:
        yield Figure("linly_process_resident_memory_bytes", peaks.rss_bytes)
