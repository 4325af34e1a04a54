"""Every figure that the summary, the diff and the gate know: one table for requests, one for their stages.

A figure that a request does not have is None. Queue waits are the exception: runners record one only where there was
one, so a stage without is a stage that waited 0 ms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

from linly_profiling.report import Report
from linly_profiling.stages import StageRow

Better = Literal["lower", "neither"]
Unit = Literal["ms", "MB", "s", "ratio", "count"]

From = TypeVar("From")


@dataclass(frozen=True)
class Metric(Generic[From]):
    """A figure.

    Attributes:
        name: its key in budgets and in JSON; ends in its unit.
        title: in tables.
        unit: "ms", "MB" (10⁶ bytes), "s", "ratio" or "count".
        better: "lower", or "neither" for how much work there was, and for waits that others cause.
        of: takes it from a request, or from a stage.
    """

    name: str
    title: str
    unit: Unit
    better: Better
    of: Callable[[From], float | None]


def _ms(ns: float | None) -> float | None:
    return None if ns is None else ns / 1e6


def _mb(count: float | None) -> float | None:
    return None if count is None else count / 1e6


def _total(values: Iterable[float | None]) -> float | None:
    """Sum of what is known; None if nothing is."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _milestone(name: str) -> Callable[[Report], float | None]:
    def of(report: Report) -> float | None:
        return _ms(next((each.total_ns for each in report.milestones if each.name == name), None))

    return of


def _queue_ms(report: Report) -> float | None:
    return _ms(_total(stage.queue_ns or 0 for stage in report.stages))


def _cuda_ms(report: Report) -> float | None:
    return _ms(_total(stage.cuda_ns for stage in report.stages))


def _av_offset_ms(report: Report) -> float | None:
    """Its size alone: sound that is early by as much as it was late before is no better."""
    return None if report.av_offset_ms is None else abs(report.av_offset_ms)


def _token_ms(report: Report) -> float | None:
    """Mean time from a token to the next one of the same call."""
    gaps = [
        point.interval_ns for call in report.decode for point in call.points if point.interval_ns is not None
    ]
    return sum(gaps) / len(gaps) / 1e6 if gaps else None


def _frame_ms(report: Report) -> float | None:
    """Time of the renderer's work for a frame."""
    fps = report.pacing.effective_fps if report.pacing else None
    return 1000 / fps if fps else None


def _late_frames(report: Report) -> float | None:
    return report.pacing.late_frames if report.pacing else None


def _rss_peak_mb(report: Report) -> float | None:
    return _mb(report.memory.rss.peak_bytes) if report.memory and report.memory.rss else None


def _gpu_peak_mb(report: Report) -> float | None:
    """Of the fullest GPU."""
    return _mb(max((gpu.peak_bytes for gpu in report.memory.gpus), default=None)) if report.memory else None


def _kv_cache_mb(report: Report) -> float | None:
    sizes = (point.kv_bytes for call in report.decode for point in call.points)
    return _mb(max((size for size in sizes if size is not None), default=None))


def _prompt_tokens(report: Report) -> float | None:
    return _total(call.prompt_tokens for call in report.decode)


def _tokens(report: Report) -> float | None:
    return _total(call.tokens for call in report.decode)


def _frames(report: Report) -> float | None:
    return report.pacing.frames if report.pacing else None


_REQUEST: tuple[Metric[Report], ...] = (
    Metric("wall_ms", "wall", "ms", "lower", lambda report: _ms(report.wall_ns)),
    Metric("first_token_ms", "first token", "ms", "lower", _milestone("first token")),
    Metric("first_audio_ms", "first audio", "ms", "lower", _milestone("first audio")),
    Metric("first_frame_ms", "first frame", "ms", "lower", _milestone("first frame")),
    Metric("real_time_factor", "real-time factor", "ratio", "lower", lambda report: report.real_time_factor),
    Metric("av_offset_ms", "A/V offset, either way", "ms", "lower", _av_offset_ms),
    Metric("queue_wait_ms", "queue wait", "ms", "lower", _queue_ms),
    Metric("token_ms", "per token", "ms", "lower", _token_ms),
    Metric("frame_ms", "per frame", "ms", "lower", _frame_ms),
    Metric("late_frames", "late frames", "count", "lower", _late_frames),
    Metric("cuda_ms", "GPU time", "ms", "lower", _cuda_ms),
    Metric("rss_peak_mb", "RSS peak", "MB", "lower", _rss_peak_mb),
    Metric("gpu_peak_mb", "GPU memory peak", "MB", "lower", _gpu_peak_mb),
    Metric("kv_cache_peak_mb", "KV cache peak", "MB", "lower", _kv_cache_mb),
    Metric("prompt_tokens", "prompt tokens", "count", "neither", _prompt_tokens),
    Metric("tokens", "tokens", "count", "neither", _tokens),
    Metric("frames", "frames", "count", "neither", _frames),
    Metric("media_s", "media", "s", "neither", lambda report: report.media_s),
)

_STAGE: tuple[Metric[StageRow], ...] = (
    Metric("wall_ms", "wall", "ms", "lower", lambda stage: _ms(stage.wall_ns)),
    Metric("busy_ms", "busy", "ms", "lower", lambda stage: _ms(stage.busy_ns)),
    Metric("wait_in_ms", "wait in", "ms", "neither", lambda stage: _ms(stage.wait_in_ns)),
    Metric("wait_out_ms", "wait out", "ms", "neither", lambda stage: _ms(stage.wait_out_ns)),
    Metric("queue_ms", "queue", "ms", "lower", lambda stage: _ms(stage.queue_ns or 0)),
    Metric("first_ms", "first output", "ms", "lower", lambda stage: _ms(stage.first_after_ns)),
    Metric("real_time_factor", "real-time factor", "ratio", "lower", lambda s: s.real_time_factor),
    Metric("cuda_ms", "GPU time", "ms", "lower", lambda stage: _ms(stage.cuda_ns)),
    Metric("rss_peak_mb", "RSS peak", "MB", "lower", lambda stage: _mb(stage.rss_peak_bytes)),
)

REQUEST_METRICS = {metric.name: metric for metric in _REQUEST}
STAGE_METRICS = {metric.name: metric for metric in _STAGE}

# Shares of all requests, not figures of one.
OUTCOMES = {
    "errors": "ended neither ok nor cancelled",
    "cancelled": "were cancelled",
    "unfinished": "have no end",
}
