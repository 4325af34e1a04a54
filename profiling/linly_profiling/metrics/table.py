"""Every metric: name, kind, meaning, unit, labels, buckets.

Names and units follow the Prometheus conventions (base units, `_total`, `_ratio`). No label names a request: that
would be a new series each. The way from a metric to a request is an exemplar with its trace ID.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

Kind = Literal["counter", "gauge", "histogram"]

# The durations of OpenTelemetry's GenAI conventions: 10 ms to 82 s, doubling.
DURATION_S = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
# vLLM's list for the time to the first token, up to 10 s.
FIRST_S = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
TOKEN_S = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5)
# Has the edges of 60, 30, 25, 20 and 15 frames a second.
FRAME_S = (0.005, 0.01, 0.0167, 0.02, 0.025, 0.0333, 0.04, 0.05, 0.0667, 0.1, 0.2, 0.5)
# Viewers begin to notice sound that is 45 ms early or 125 ms late (ITU-R BT.1359-1).
OFFSET_S = (-0.5, -0.2, -0.1, -0.06, -0.045, 0.0, 0.045, 0.06, 0.125, 0.2, 0.5)
# Dense around 1: there a stage stops keeping up.
FACTOR = (0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0, 4.0)


class Metric(NamedTuple):
    """One metric.

    Attributes:
        name: as it is scraped.
        kind: "counter" only rises, "gauge" is the newest value, "histogram" counts values by size.
        meaning: one sentence, the HELP of the exposition.
        unit: the name's unit: "seconds", "bytes", "ratio" or "".
        labels: names of its labels; each has few values.
        buckets: upper edges of a histogram, in its unit.
        merge: how a gauge's values of several processes become one, in prometheus_client's words.
    """

    name: str
    kind: Kind
    meaning: str
    unit: str = ""
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    merge: str = "livemax"


METRICS: tuple[Metric, ...] = (
    Metric(
        "linly_requests_total",
        "counter",
        "Requests that ended, by outcome: ok, error, or cancelled, which is a barge-in and no error.",
        labels=("outcome",),
    ),
    Metric("linly_requests_in_progress", "gauge", "Requests that have begun and not ended.", merge="livesum"),
    Metric(
        "linly_request_duration_seconds",
        "histogram",
        "From the beginning to the end of a request that ended ok.",
        "seconds",
        buckets=DURATION_S,
    ),
    Metric(
        "linly_time_to_first_audio_seconds",
        "histogram",
        "From the beginning of a request to its first sound.",
        "seconds",
        buckets=FIRST_S,
    ),
    Metric(
        "linly_time_to_first_frame_seconds",
        "histogram",
        "From the beginning of a request to its first picture.",
        "seconds",
        buckets=FIRST_S,
    ),
    Metric(
        "linly_contribution_seconds_total",
        "counter",
        "The times to a first token, audio or frame, cut by who owned them: a stage's work or its queue for a worker.",
        "seconds",
        labels=("milestone", "stage", "cause"),
    ),
    Metric(
        "linly_stage_duration_seconds",
        "histogram",
        "Time of a stage in one request, without waiting for input or for room behind it, where that is known.",
        "seconds",
        labels=("stage",),
        buckets=DURATION_S,
    ),
    Metric(
        "linly_stage_queue_wait_seconds",
        "histogram",
        "Time a stage waited in the queue of its worker, in each request in which it had to.",
        "seconds",
        labels=("stage",),
        buckets=DURATION_S,
    ),
    Metric(
        "linly_stage_cuda_seconds",
        "histogram",
        "Time on the GPU's stream of a stage in one request, queueing included.",
        "seconds",
        labels=("stage",),
        buckets=DURATION_S,
    ),
    Metric(
        "linly_stage_real_time_factor_ratio",
        "histogram",
        "Seconds at work for one second of media; above 1 a stage does not keep up.",
        "ratio",
        labels=("stage",),
        buckets=FACTOR,
    ),
    Metric(
        "linly_stage_fallbacks_total",
        "counter",
        "Times another engine took over after a failure.",
        labels=("stage", "from_backend", "to_backend"),
    ),
    Metric(
        "linly_queue_depth",
        "gauge",
        "Most packets that waited before a stage in the newest request.",
        labels=("stage",),
    ),
    Metric(
        "linly_llm_time_to_first_token_seconds",
        "histogram",
        "From the question reaching the language model to its first token, its queue included.",
        "seconds",
        buckets=FIRST_S,
    ),
    Metric(
        "linly_llm_time_per_output_token_seconds",
        "histogram",
        "Time between two tokens.",
        "seconds",
        buckets=TOKEN_S,
    ),
    Metric(
        "linly_llm_tokens_total",
        "counter",
        "Tokens: input that was computed, cached input that was not, and output.",
        labels=("type",),
    ),
    Metric(
        "linly_llm_kv_cache_bytes", "gauge", "Largest size of the KV cache in the newest request.", "bytes"
    ),
    Metric(
        "linly_render_frame_duration_seconds",
        "histogram",
        "Time to render one frame.",
        "seconds",
        buckets=FRAME_S,
    ),
    Metric(
        "linly_render_late_frames_total",
        "counter",
        "Frames for which a player that began with the first would have had to hold the picture.",
    ),
    Metric(
        "linly_av_offset_seconds",
        "histogram",
        "Sound to picture at the end of a request; positive: the picture is late.",
        "seconds",
        buckets=OFFSET_S,
    ),
    Metric(
        "linly_gpu_memory_allocated_bytes",
        "gauge",
        "Most memory of a GPU that torch had allocated in the newest request.",
        "bytes",
        labels=("device",),
    ),
    Metric(
        "linly_gpu_memory_utilization_ratio",
        "gauge",
        "Most memory of the first GPU in use in the newest request, over what it has.",
        "ratio",
    ),
    Metric(
        "linly_process_resident_memory_bytes",
        "gauge",
        "Most resident memory of the process in the newest request.",
        "bytes",
        merge="livesum",
    ),
    Metric("linly_trace_spans_total", "counter", "Spans of requests that ended."),
    Metric(
        "linly_trace_spans_dropped_total",
        "counter",
        "Spans, marks, samples and arrows that are missing from traces because these were full.",
    ),
    Metric(
        "linly_metrics_cost_seconds_total",
        "counter",
        "Time that these metrics took in the recorder's thread.",
        "seconds",
    ),
    Metric(
        "linly_metrics_newest_request_timestamp_seconds",
        "gauge",
        "When the newest request that is counted here ended, in seconds since 1970.",
        "seconds",
        merge="livemostrecent",
    ),
    Metric(
        "linly_build_info",
        "gauge",
        "Always 1; the labels tell what runs.",
        labels=("version", "python"),
        merge="livemostrecent",
    ),
)
