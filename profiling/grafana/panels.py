"""What the dashboard shows: rows of panels, each a few PromQL queries."""

from __future__ import annotations

from typing import NamedTuple

JOBS = 'job=~"$job"'
RATE = "[$__rate_interval]"
PERCENTILES = (50, 95, 99)
FULL, HALF, THIRD, QUARTER = 24, 12, 8, 6


class Query(NamedTuple):
    """One query of a panel.

    Attributes:
        expr: PromQL, with the dashboard's variables.
        legend: name of its lines, with `{{label}}`.
        exemplars: draw single requests as points; a click on one leads to its trace.
        limit: it is a constant to compare with, drawn as a dashed line.
    """

    expr: str
    legend: str
    exemplars: bool = False
    limit: bool = False


class Graph(NamedTuple):
    """One panel with lines over time.

    Attributes:
        title: a few words.
        tells: what one sees, and what it means.
        unit: of the axis, as Grafana calls it.
        queries: its lines.
        width: of 24.
        stacked: the lines add up.
    """

    title: str
    tells: str
    unit: str
    queries: tuple[Query, ...]
    width: int = THIRD
    stacked: bool = False


def selected(metric: str, *matchers: str) -> str:
    return f"{metric}{{{', '.join((JOBS, *matchers))}}}"


def rate(metric: str, by: str, *matchers: str) -> str:
    return f"sum by ({by}) (rate({selected(metric, *matchers)}{RATE}))"


def quantile(percent: int, metric: str, by: str = "") -> str:
    labels = f"{by}, le" if by else "le"
    return f"histogram_quantile({percent / 100}, {rate(f'{metric}_bucket', labels)})"


def percentiles(metric: str) -> tuple[Query, ...]:
    """The exemplars of all three are the same: one query fetches them."""
    return tuple(Query(quantile(p, metric), f"p{p}", exemplars=p == PERCENTILES[-1]) for p in PERCENTILES)


def by_stage(metric: str) -> tuple[Query, ...]:
    return (Query(quantile(95, metric, "stage"), "{{stage}}", exemplars=True),)


def limit(value: str, legend: str) -> Query:
    return Query(f"vector({value})", legend, limit=True)


def contributions(milestone: str, whole: str) -> tuple[Query, ...]:
    """Mean seconds a request, by owner: what all owners had, over how many requests there were."""
    parts = rate("linly_contribution_seconds_total", "stage, cause", f'milestone="{milestone}"')
    count = f"sum(rate({selected(f'{whole}_count')}{RATE}))"
    return (Query(f"{parts} / on () group_left () {count}", "{{stage}}: {{cause}}"),)


ROWS: dict[str, tuple[Graph, ...]] = {
    "Requests": (
        Graph(
            "Requests by outcome",
            "Requests that end in a second. Cancelled ones are barge-ins, no failures.",
            "reqps",
            (Query(rate("linly_requests_total", "outcome"), "{{outcome}}", exemplars=True),),
            stacked=True,
        ),
        Graph(
            "Requests in progress",
            "Begun and not ended. If this stays up while none ends, something hangs.",
            "short",
            (Query(f"sum by (instance) ({selected('linly_requests_in_progress')})", "{{instance}}"),),
        ),
        Graph(
            "Duration of requests that ended ok",
            "From the question to the last frame.",
            "s",
            percentiles("linly_request_duration_seconds"),
        ),
    ),
    "What users wait for": (
        Graph(
            "Time to first audio",
            "From the beginning of the request to its first sound. Above 1.5 s an alert fires.",
            "s",
            (*percentiles("linly_time_to_first_audio_seconds"), limit("1.5", "alert")),
        ),
        Graph(
            "Time to first frame",
            "From the beginning of the request to its first picture.",
            "s",
            percentiles("linly_time_to_first_frame_seconds"),
        ),
        Graph(
            "Time to first token",
            "From the question reaching the language model to its first token, the queue included.",
            "s",
            percentiles("linly_llm_time_to_first_token_seconds"),
        ),
    ),
    "Where the time goes": (
        Graph(
            "Where the time to first audio goes",
            "Mean of all requests. Each part has one owner, and together they are the whole time.",
            "s",
            contributions("first_audio", "linly_time_to_first_audio_seconds"),
            HALF,
            stacked=True,
        ),
        Graph(
            "Where the time to first frame goes",
            "Mean of all requests. Each part has one owner, and together they are the whole time.",
            "s",
            contributions("first_frame", "linly_time_to_first_frame_seconds"),
            HALF,
            stacked=True,
        ),
        Graph(
            "Time at work by stage, p95",
            "Of one request, without waiting for input or for room behind the stage. Stages work at the same time.",
            "s",
            by_stage("linly_stage_duration_seconds"),
            HALF,
        ),
        Graph(
            "Real-time factor by stage, p95",
            "Seconds at work for one second of media. Above 1 a stage does not keep up.",
            "short",
            (*by_stage("linly_stage_real_time_factor_ratio"), limit("1", "real time")),
            HALF,
        ),
    ),
    "Queues and GPU time": (
        Graph(
            "Queue wait by stage, p95",
            "Of the requests that had to wait for a worker at all.",
            "s",
            by_stage("linly_stage_queue_wait_seconds"),
        ),
        Graph(
            "Queue depth by stage",
            "Most packets that waited before the stage in the newest request.",
            "short",
            (Query(f"max by (stage) ({selected('linly_queue_depth')})", "{{stage}}"),),
        ),
        Graph(
            "GPU time by stage, p95",
            "Of one request, on the stage's stream. Empty where there is no GPU.",
            "s",
            by_stage("linly_stage_cuda_seconds"),
        ),
    ),
    "Language model": (
        Graph(
            "Time per output token",
            "Between two tokens.",
            "s",
            percentiles("linly_llm_time_per_output_token_seconds"),
        ),
        Graph(
            "Tokens a second",
            "Input is what had to be computed; cached input was in the KV cache already.",
            "short",
            (Query(rate("linly_llm_tokens_total", "type"), "{{type}}"),),
        ),
        Graph(
            "KV cache",
            "Largest size in the newest request.",
            "bytes",
            (Query(f"max by (instance) ({selected('linly_llm_kv_cache_bytes')})", "{{instance}}"),),
        ),
    ),
    "Picture": (
        Graph(
            "Time to render a frame",
            "A renderer whose p95 is above the line of its rate does not keep up.",
            "s",
            (
                *percentiles("linly_render_frame_duration_seconds"),
                limit("1/25", "25 fps"),
                limit("1/30", "30 fps"),
                limit("1/60", "60 fps"),
            ),
        ),
        Graph(
            "Late frames",
            "Share of the frames for which a player would have had to hold the picture.",
            "percentunit",
            (
                Query(
                    f"sum(rate({selected('linly_render_late_frames_total')}{RATE}))"
                    f" / sum(rate({selected('linly_render_frame_duration_seconds_count')}{RATE}))",
                    "late",
                ),
                limit("0.05", "alert"),
            ),
        ),
        Graph(
            "A/V offset",
            "Sound to picture at the end of a request; positive: the picture is late.",
            "s",
            (
                *(
                    Query(quantile(p, "linly_av_offset_seconds"), f"p{p}", exemplars=p == 95)
                    for p in (5, 50, 95)
                ),
                limit("0.08", "alert, late"),
                limit("-0.08", "alert, early"),
            ),
        ),
    ),
    "Memory": (
        Graph(
            "Resident memory",
            "Most of the process in the newest request.",
            "bytes",
            (
                Query(
                    f"max by (instance) ({selected('linly_process_resident_memory_bytes')})", "{{instance}}"
                ),
            ),
        ),
        Graph(
            "GPU memory that torch allocated",
            "Most in the newest request, by GPU. Empty where there is none.",
            "bytes",
            (
                Query(
                    f"max by (instance, device) ({selected('linly_gpu_memory_allocated_bytes')})",
                    "{{instance}} {{device}}",
                ),
            ),
        ),
        Graph(
            "GPU memory in use",
            "Most in the newest request, of all there is. At 98 % the next longer prompt may fail.",
            "percentunit",
            (
                Query(
                    f"max by (instance) ({selected('linly_gpu_memory_utilization_ratio')})", "{{instance}}"
                ),
                limit("0.92", "alert"),
            ),
        ),
    ),
    "Trust": (
        Graph(
            "Dropped records",
            "More than none means that traces were full and figures may be too low.",
            "short",
            (
                Query(
                    f"sum by (instance) (increase({selected('linly_trace_spans_dropped_total')}{RATE}))",
                    "{{instance}}",
                ),
            ),
            QUARTER,
        ),
        Graph(
            "Spans a second",
            "Of requests that ended.",
            "short",
            (Query(rate("linly_trace_spans_total", "instance"), "{{instance}}"),),
            QUARTER,
        ),
        Graph(
            "What these metrics cost",
            "Share of one core, in a background thread.",
            "percentunit",
            (Query(rate("linly_metrics_cost_seconds_total", "instance"), "{{instance}}"),),
            QUARTER,
        ),
        Graph(
            "Fallbacks",
            "Other engines that took over after a failure.",
            "short",
            (
                Query(
                    "sum by (stage, from_backend, to_backend)"
                    f" (increase({selected('linly_stage_fallbacks_total')}{RATE}))",
                    "{{stage}}: {{from_backend}} → {{to_backend}}",
                ),
            ),
            QUARTER,
        ),
        Graph(
            "Versions",
            "How many processes run which version.",
            "short",
            (
                Query(
                    f"count by (version, python) ({selected('linly_build_info')})",
                    "{{version}}, Python {{python}}",
                ),
            ),
            HALF,
        ),
        Graph(
            "Since the newest request",
            "Time since a request last ended.",
            "s",
            (
                Query(
                    f"time() - max by (instance) ({selected('linly_metrics_newest_request_timestamp_seconds')})",
                    "{{instance}}",
                ),
            ),
            HALF,
        ),
    ),
}
