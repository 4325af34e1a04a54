"""What our spans and attributes are called in OpenTelemetry. This is the only place that knows.

Sources: the general conventions at https://opentelemetry.io/docs/specs/semconv/ (`error.type`, `thread.*`,
`process.*`) and those for generative AI at https://github.com/open-telemetry/semantic-conventions-genai
(`gen_ai.*`). What they have no name for is under `linly.`; durations are seconds there, sizes bytes, as is usual
in OpenTelemetry. An attribute that stands in no table keeps its name, behind `linly.` if it has no dot.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TypeAlias

from linly_profiling.attribution import milestones
from linly_profiling.record import Flow, LoadedTrace, Mark, Record
from linly_profiling.stages import STAGE_PREFIX, StageRow
from linly_profiling.values import Value, cut

OtelValue: TypeAlias = "bool | int | float | str | list[bool] | list[int] | list[float] | list[str]"
Attributes: TypeAlias = "dict[str, OtelValue]"

INTERNAL, SERVER, CLIENT = 1, 2, 3  # `Span.SpanKind` of the protocol

SCOPE = "linly_profiling"  # who measured
STAGE, BACKEND = "linly.stage", "linly.backend"
MAX_OFFSETS = 1_000  # marks of one name whose times are sent
MAX_MARK_NAMES = 8
MAX_JSON = 4_096  # characters of a value that is not plain
PII = "linly.pii."  # a collector can strip content by this prefix
_LLM_CALL = "llm.generate"

# Named like what was said or shown: treated as content whatever it holds.
_CONTENT = frozenset(
    (
        "answer", "completion", "content", "messages", "prompt", "question", "reply", "text", "transcript",
        "gen_ai.completion", "gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.prompt",
        "gen_ai.system_instructions",
    )
)  # fmt: skip

# Our names, and theirs; "" is dealt with elsewhere.
_ANY = {
    "chunk": "linly.chunk.index",
    "cuda_launch_blocking": "linly.cuda.launch_blocking",
    "fallbacks": "",
    "gpu_memory_total_bytes": "linly.gpu.memory.total",
    "gpu_name": "linly.gpu.name",
    "memory_limit_bytes": "linly.memory.limit",
    "server_address": "server.address",
    "server_port": "server.port",
    "session": "linly.session.id",
    "session_id": "linly.session.id",
    "turn_index": "linly.turn.index",
}
_STAGE = _ANY | {"row": STAGE, "stage": BACKEND}
_LLM = _ANY | {
    "cached_tokens": "gen_ai.usage.cache_read.input_tokens",
    "finish_reason": "",
    "finish_reasons": "",
    "max_tokens": "gen_ai.request.max_tokens",
    "model": "",
    "prompt_tokens": "gen_ai.usage.input_tokens",
    "provider": "gen_ai.provider.name",
    "seed": "gen_ai.request.seed",
    "temperature": "gen_ai.request.temperature",
    "tokens": "gen_ai.usage.output_tokens",
    "top_k": "gen_ai.request.top_k",
    "top_p": "gen_ai.request.top_p",
}
_TIMES = {  # and how many of them are a second
    "audio_s": ("linly.audio.duration", 1),
    "av_offset_ms": ("linly.av.offset", 1e3),
    "busy_ns": ("linly.busy", 1e9),
    "lookahead_ms": ("linly.lookahead", 1e3),
    "media_s": ("linly.media.duration", 1),
    "wait_in_ns": ("linly.wait_in", 1e9),
    "wait_out_ns": ("linly.wait_out", 1e9),
}
_INSTANTS = {  # of the trace's clock, to seconds after the start of the request
    "first_in_ns": "linly.first_in",
    "first_out_ns": "linly.first_out",
    "ready_ns": "linly.ready",
}


def span_name(record: Record) -> str:
    """The name, with few distinct values; a call of a language model is "chat" and the model."""
    if record.name != _LLM_CALL:
        return record.name
    model = _model(record.attrs)
    return f"chat {model}" if model else "chat"


def span_kind(record: Record) -> int:
    """SERVER for the request, CLIENT for a call of a language model elsewhere, else INTERNAL."""
    if record.parent_id is None:
        return SERVER
    return CLIENT if record.name == _LLM_CALL and "server_address" in record.attrs else INTERNAL


def attributes(
    record: Record, request_start_ns: int, above: Attributes | None = None, *, content: bool = False
) -> Attributes:
    """All that is known about a span, under OpenTelemetry's names.

    Args:
        record: the span.
        request_start_ns: when the request began, on the trace's clock.
        above: `for_below` of its parent.
        content: also what was said, under `linly.pii.`.
    """
    found: Attributes = {"linly.outcome": record.outcome, **(above or {})}
    if record.outcome == "error":
        found["error.type"] = record.error_type or "_OTHER"  # the conventions' word for "not known"
    if record.attrs:
        _own(record, request_start_ns, content, found)
    if record.name == _LLM_CALL:
        _llm_call(record, found)
    if record.marks:
        _marks(record, found)
    _place(record, found)
    _resources(record, found)
    return found


def for_below(found: Attributes) -> Attributes:
    """What the spans below carry too, so that a query for a stage needs no tree."""
    return {name: found[name] for name in (STAGE, BACKEND) if name in found}


def _own(record: Record, request_start_ns: int, content: bool, found: Attributes) -> None:
    """The attributes that the program has set."""
    names = _LLM if record.name == _LLM_CALL else _STAGE if record.name.startswith(STAGE_PREFIX) else _ANY
    for key, value in record.attrs.items():
        if key in _CONTENT or key.startswith(("pii.", PII)):
            if content:
                _put(found, PII + key.removeprefix(PII).removeprefix("pii."), value)
        elif key in _TIMES:
            name, a_second = _TIMES[key]
            _put(found, name, value / a_second if isinstance(value, int | float) else value)
        elif key in _INSTANTS:
            _put(found, _INSTANTS[key], _after_s(value, request_start_ns) if isinstance(value, int) else None)
        elif name := names.get(key, key if "." in key else f"linly.{key}"):
            _put(found, name, value)
        elif key == "fallbacks":
            _fallbacks(value, found)


def _llm_call(record: Record, found: Attributes) -> None:
    found["gen_ai.operation.name"] = "chat"
    if BACKEND in found:
        found.setdefault("gen_ai.provider.name", found[BACKEND])
    model = _model(record.attrs)
    if model:
        found["gen_ai.request.model"] = model
    reasons = record.attrs.get("finish_reasons") or record.attrs.get("finish_reason")
    if reasons:
        found["gen_ai.response.finish_reasons"] = [str(each) for each in _as_list(reasons)]
    tokens = [mark for mark in record.marks if mark.name == "token"]
    if tokens:
        found["gen_ai.response.time_to_first_chunk"] = _after_s(tokens[0].at_ns, record.start_ns)
        found.setdefault("gen_ai.usage.output_tokens", len(tokens))
        if tokens[-1].value is not None:
            found["linly.kv_cache.bytes"] = tokens[-1].value


def _model(attrs: Mapping[str, Value]) -> str:
    """The model's name; of a path only the last part, for the others tell about this machine."""
    name = str(attrs.get("model") or "")
    if name.startswith(("/", "~", ".")) or "\\" in name:
        return name.replace("\\", "/").rstrip("/").rpartition("/")[2]
    return name


def _as_list(value: Value) -> list[Value]:
    return value if isinstance(value, list) else [value]


def _fallbacks(value: Value, found: Attributes) -> None:
    """Which engine took over for which. What went wrong is a message, and may hold what was said."""
    steps = [step for step in _as_list(value) if isinstance(step, dict)]
    found["linly.fallback.from"] = [str(step.get("from", "")) for step in steps]
    found["linly.fallback.to"] = [str(step.get("to", "")) for step in steps]


def _marks(record: Record, found: Attributes) -> None:
    """Of each kind of mark how many, how even, and when: a list, because an event for each would be refused."""
    kinds: dict[str, list[Mark]] = {}
    for mark in record.marks:
        kinds.setdefault(mark.name, []).append(mark)
    for name, marks in list(kinds.items())[:MAX_MARK_NAMES]:
        prefix = f"linly.mark.{name}."
        sent = marks[:MAX_OFFSETS]
        found[prefix + "count"] = len(marks)
        found[prefix + "first"] = _after_s(marks[0].at_ns, record.start_ns)
        found[prefix + "offsets_us"] = [(mark.at_ns - record.start_ns) // 1000 for mark in sent]
        if len(marks) > 1:
            gaps = [after.at_ns - before.at_ns for before, after in pairwise(marks)]
            found[prefix + "mean_gap"] = sum(gaps) / len(gaps) / 1e9
            found[prefix + "max_gap"] = max(gaps) / 1e9
        if all(mark.value is not None for mark in sent):
            found[prefix + "values"] = [mark.value or 0 for mark in sent]
        if len(marks) > len(sent):
            found[prefix + "left_out"] = len(marks) - len(sent)


def _after_s(at_ns: int, start_ns: int) -> float:
    return (at_ns - start_ns) / 1e9


def _place(record: Record, found: Attributes) -> None:
    found["thread.id"] = record.thread_id
    found["thread.name"] = record.thread_name
    if record.task is not None:
        found["linly.task"] = record.task


def _resources(record: Record, found: Attributes) -> None:
    """Time and memory; what was not measured is left out."""
    measured: dict[str, int | float | None] = {
        "linly.memory.rss.start": record.rss_start_bytes,
        "linly.memory.rss.end": record.rss_end_bytes,
        "linly.memory.rss.peak": record.rss_peak_bytes,
        "linly.cpu.duration": None if record.cpu_ns is None else record.cpu_ns / 1e9,
    }
    cuda = record.cuda
    if cuda is not None:
        measured["linly.cuda.device"] = cuda.device
        measured["linly.cuda.duration"] = None if cuda.time_ns is None else cuda.time_ns / 1e9
        measured["linly.cuda.shared"] = cuda.shared
        measured["linly.gpu.memory.allocated"] = cuda.allocated_bytes
        measured["linly.gpu.memory.reserved"] = cuda.reserved_bytes
        measured["linly.gpu.memory.peak"] = cuda.peak_bytes
    found.update({name: value for name, value in measured.items() if value is not None})


def request_attributes(trace: LoadedTrace, root: Record, stages: Sequence[StageRow]) -> Attributes:
    """Of the span of the request: what follows from the whole trace."""
    found: Attributes = {"linly.request.id": trace.request_id, "linly.dropped": trace.dropped}
    for milestone in milestones(root.start_ns, stages):
        found[f"linly.time_to_{milestone.name.replace(' ', '_')}"] = milestone.total_ns / 1e9
    media_s = next((stage.media_s for stage in reversed(stages) if stage.media_s is not None), None)
    if media_s is not None:
        found["linly.media.duration"] = media_s
    if media_s:
        found["linly.real_time_factor"] = root.duration_ns / 1e9 / media_s
    return found


def stage_attributes(stage: StageRow) -> Attributes:
    """Of the span of a stage: what follows from the spans below it."""
    found: Attributes = {}
    _put(found, "linly.real_time_factor", stage.real_time_factor)
    _put(found, "linly.queue.wait", None if stage.queue_ns is None else stage.queue_ns / 1e9)
    return found


def flow_attributes(flow: Flow) -> Attributes:
    """Of an arrow: what flowed, and how long it was on its way."""
    return {"linly.flow.name": flow.name, "linly.flow.duration": _after_s(flow.to_ns, flow.from_ns)}


def resource_attributes(service_name: str, version: str, pid: int, extra: Mapping[str, str]) -> Attributes:
    """What all spans of a process have in common; `extra` has the last word."""
    return {
        "service.name": service_name,
        "telemetry.sdk.name": SCOPE,
        "telemetry.sdk.language": "python",
        "telemetry.sdk.version": version,
        "process.pid": pid,
        **extra,
    }


def _put(found: Attributes, name: str, value: Value) -> None:
    plain = as_otel(value)
    if plain is not None:
        found[name] = plain


def as_otel(value: Value) -> OtelValue | None:
    """A value that every backend takes: a scalar, or a list of scalars of one type; anything else as JSON text."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list):
        for kind in (bool, str):
            if all(isinstance(item, kind) for item in value):
                return value  # type: ignore[return-value]  # just checked
        if all(isinstance(item, int | float) and not isinstance(item, bool) for item in value):
            whole = all(isinstance(item, int) for item in value)
            return value if whole else [float(item) for item in value]  # type: ignore
    return cut(json.dumps(value, ensure_ascii=False), MAX_JSON)
