"""What OpenTelemetry gets to see of a trace: names, IDs, times, attributes; read with its own classes."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from linly_profiling import CudaUse, Epoch, Flow, LoadedTrace, Mark, Record, Trace
from linly_profiling.context import otel_span_id, parse_traceparent, span_salt
from linly_profiling.otel.encode import answer_of, request_bytes, span_bytes, status_message
from linly_profiling.otel.names import as_otel
from linly_profiling.otel.spans import otel_spans
from linly_profiling.protobuf import varint
from opentelemetry import trace as sdk
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span as Proto
from opentelemetry.proto.trace.v1.trace_pb2 import SpanFlags, Status
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes
from opentelemetry.semconv.attributes import error_attributes
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from otlp_receiver import plain
from trace_tools import Clock

HEADER = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def sent(trace: Trace | LoadedTrace, **options: bool) -> list[Proto]:
    """The spans as a receiver reads them."""
    data = [span_bytes(span) for span in otel_spans(trace.snapshot(), **options)]
    message = ExportTraceServiceRequest.FromString(request_bytes(data, {"service.name": "test"}, "1.2"))
    return list(message.resource_spans[0].scope_spans[0].spans)


def one(trace: Trace | LoadedTrace, name: str, **options: bool) -> Proto:
    (found,) = [span for span in sent(trace, **options) if span.name == name]
    return found


def attrs(trace: Trace | LoadedTrace, name: str, **options: bool) -> dict[str, Any]:
    return plain(one(trace, name, **options).attributes)


def record(**changes: Any) -> Record:
    empty = Record(
        "work", 2, 1, "r", 7, "main", None, 10, 20, "ok", None, {}, (), None, None, None, None, None
    )
    return empty._replace(**changes)


def loaded(*records: Record, **changes: Any) -> LoadedTrace:
    root = record(name="linly.request", span_id=1, parent_id=None, end_ns=1_000)
    trace = LoadedTrace("r", "ok", 0, Epoch(0, 10**18), (root, *records), trace_id="ab" * 16)
    return dataclasses.replace(trace, **changes)


# The tree


def test_ids_parents_and_times_are_those_of_the_trace() -> None:
    clock = Clock()
    trace = Trace("r1", clock_ns=clock)
    stage = trace.start("linly.stage llm", row="llm")
    clock.tick(3)
    call = trace.start("llm.generate", parent=stage)
    clock.tick(1_234_567)
    for span in (call, stage):
        span.end()
    trace.close()
    got = {span.name: span for span in sent(trace)}
    for span, name in ((trace.root, "linly.request"), (stage, "linly.stage llm"), (call, "chat")):
        proto = got[name]
        assert proto.trace_id.hex() == trace.trace_id
        assert int.from_bytes(proto.span_id, "big") == otel_span_id(trace.trace_id, span.span_id)
        assert proto.start_time_unix_nano == trace.epoch.wall_of(span.start_ns)
        assert proto.end_time_unix_nano == trace.epoch.wall_of(span.end_ns or 0)
    assert got["linly.request"].parent_span_id == b""
    assert got["linly.stage llm"].parent_span_id == got["linly.request"].span_id
    assert got["chat"].parent_span_id == got["linly.stage llm"].span_id


def test_a_caller_elsewhere_is_the_parent_of_the_request_and_of_nothing_else() -> None:
    trace = Trace("r1", traceparent=HEADER)
    trace.start("work").end()
    trace.close()
    root, work = sent(trace)
    assert (root.trace_id.hex(), root.parent_span_id.hex()) == (HEADER[3:35], HEADER[36:52])
    remote = SpanFlags.SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK
    known = SpanFlags.SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK
    assert [span.flags & remote for span in (root, work)] == [remote, 0]
    assert all(span.flags & known and span.flags & 1 for span in (root, work))
    assert work.parent_span_id == root.span_id


def test_the_header_that_goes_out_names_the_span_that_is_exported_later() -> None:
    for traceparent in (None, HEADER):
        trace = Trace("r1", traceparent=traceparent)
        with trace.span("call elsewhere") as span:
            onward = parse_traceparent(trace.traceparent(span))
        trace.close()
        assert onward is not None
        proto = one(trace, "call elsewhere")
        assert (proto.trace_id.hex(), proto.span_id.hex()) == (onward.trace_id, onward.parent_id)


def test_opentelemetrys_own_propagator_and_ours_understand_each_other() -> None:
    propagator = TraceContextTextMapPropagator()
    trace = Trace("r1")
    read = sdk.get_current_span(
        propagator.extract({"traceparent": trace.traceparent(), "tracestate": "a=1"})
    ).get_span_context()
    assert sdk.format_trace_id(read.trace_id) == trace.trace_id
    assert sdk.format_span_id(read.span_id) == one(trace, "linly.request").span_id.hex()
    assert read.trace_flags.sampled
    written: dict[str, str] = {}
    propagator.inject(written, sdk.set_span_in_context(sdk.NonRecordingSpan(read)))
    assert Trace("r2", traceparent=written["traceparent"]).trace_id == trace.trace_id


def test_a_span_whose_parent_was_dropped_belongs_to_the_request() -> None:
    root, orphan = sent(loaded(record(span_id=9, parent_id=5)))
    assert orphan.parent_span_id == root.span_id


def test_arrows_are_links_from_the_target_to_the_source() -> None:
    trace = loaded(
        record(name="text", span_id=2),
        record(name="sound", span_id=3),
        flows=(Flow("sentence", 2, 15, 3, 5_000_015), Flow("lost", 77, 0, 3, 1), Flow("lost", 2, 0, 78, 1)),
    )
    (link,) = one(trace, "sound").links
    assert (link.trace_id, link.span_id) == (one(trace, "text").trace_id, one(trace, "text").span_id)
    assert plain(link.attributes) == {"linly.flow.name": "sentence", "linly.flow.duration": 0.005}
    assert not one(trace, "text").links


def test_links_beyond_what_backends_take_are_counted() -> None:
    flows = tuple(Flow("frame", 1, 0, 2, 1) for _ in range(200))
    span = one(loaded(record(), flows=flows), "work")
    assert (len(span.links), span.dropped_links_count) == (128, 72)


# Names


def test_the_request_is_a_server_span_and_all_below_is_internal() -> None:
    trace = loaded(record(name="linly.stage tts", attrs={"row": "tts", "stage": "Hibari"}))
    assert one(trace, "linly.request").kind == Proto.SPAN_KIND_SERVER
    assert one(trace, "linly.stage tts").kind == Proto.SPAN_KIND_INTERNAL


def test_a_call_of_a_language_model_follows_the_conventions_for_generative_ai() -> None:
    call = record(
        name="llm.generate",
        end_ns=2_000_000_010,
        attrs={
            "model": "qwen3", "provider": "llama.cpp", "prompt_tokens": 20, "cached_tokens": 8, "tokens": 4,
            "temperature": 0.7, "max_tokens": 96, "seed": 1, "finish_reason": "stop",
        },
        marks=tuple(Mark("token", 450_000_010 + 1_000_000 * n, 4_096 * n) for n in range(3)),
    )  # fmt: skip
    found = attrs(loaded(call), "chat qwen3")
    expected = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "llama.cpp",
        "gen_ai.request.model": "qwen3",
        "gen_ai.request.temperature": 0.7,
        "gen_ai.request.max_tokens": 96,
        "gen_ai.request.seed": 1,
        "gen_ai.usage.input_tokens": 20,
        "gen_ai.usage.cache_read.input_tokens": 8,
        "gen_ai.usage.output_tokens": 4,  # as the engine says; the last one has no text
        "gen_ai.response.finish_reasons": ["stop"],
        "gen_ai.response.time_to_first_chunk": 0.45,
    }
    assert {name: value for name, value in found.items() if name.startswith("gen_ai.")} == expected
    assert found["linly.kv_cache.bytes"] == 8_192
    registry = {value for name, value in vars(gen_ai_attributes).items() if name.startswith("GEN_AI_")}
    assert set(expected) <= registry


def test_what_a_language_model_call_does_not_say_comes_from_its_stage_and_its_marks() -> None:
    stage = record(name="linly.stage llm", attrs={"row": "llm", "stage": "llama.cpp"})
    call = record(name="llm.generate", span_id=3, parent_id=2, marks=(Mark("token", 15), Mark("token", 16)))
    found = attrs(loaded(stage, call), "chat")
    assert found["gen_ai.provider.name"] == "llama.cpp"
    assert found["gen_ai.usage.output_tokens"] == 2
    assert "gen_ai.request.model" not in found


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("/home/alice/models/qwen3.gguf", "chat qwen3.gguf"),
        ("~/qwen3.gguf", "chat qwen3.gguf"),
        ("C:\\models\\qwen3.gguf", "chat qwen3.gguf"),
        ("./qwen3/", "chat qwen3"),
        ("Qwen/Qwen3-4B", "chat Qwen/Qwen3-4B"),
    ],
)
def test_a_model_is_named_without_the_folders_of_this_machine(model: str, name: str) -> None:
    found = attrs(loaded(record(name="llm.generate", attrs={"model": model})), name)
    assert found["gen_ai.request.model"] == name.removeprefix("chat ")


def test_a_model_on_another_machine_is_a_client_call() -> None:
    call = record(name="llm.generate", attrs={"server_address": "10.0.0.1", "server_port": 8000})
    assert one(loaded(call), "chat").kind == Proto.SPAN_KIND_CLIENT
    assert attrs(loaded(call), "chat")["server.address"] == "10.0.0.1"


def test_stages_tell_their_times_in_seconds_and_name_what_is_below_them() -> None:
    stage = record(
        name="linly.stage tts",
        attrs={
            "stage": "Hibari", "row": "tts", "order": 2, "busy_ns": 500_000_000, "wait_in_ns": 250_000_000,
            "first_in_ns": 110, "first_out_ns": 1_000_000_010, "ready_ns": None, "media_s": 2.0,
            "av_offset_ms": -40,
        },
    )  # fmt: skip
    below = record(name="tts.vocoder", span_id=3, parent_id=2, attrs={"row": "voices"})
    trace = loaded(stage, below)
    found = attrs(trace, "linly.stage tts")
    assert (found["linly.stage"], found["linly.backend"]) == ("tts", "Hibari")
    assert found["linly.busy"] == pytest.approx(0.5)
    assert found["linly.wait_in"] == pytest.approx(0.25)
    assert found["linly.first_in"] == 100 / 1e9
    assert found["linly.first_out"] == 1.0
    assert found["linly.media.duration"] == 2.0
    assert found["linly.real_time_factor"] == pytest.approx(0.25)
    assert found["linly.av.offset"] == pytest.approx(-0.04)
    assert found["linly.order"] == 2
    assert "linly.ready" not in found
    inner = attrs(trace, "tts.vocoder")
    assert (inner["linly.stage"], inner["linly.backend"], inner["linly.row"]) == ("tts", "Hibari", "voices")


def test_the_request_tells_how_long_the_first_sound_took() -> None:
    stage = record(name="linly.stage tts", attrs={"row": "tts", "first_out_ns": 900_000_010, "media_s": 4.0})
    found = attrs(loaded(stage), "linly.request")
    assert found["linly.request.id"] == "r"
    assert found["linly.time_to_first_audio"] == 0.9
    assert found["linly.media.duration"] == 4.0
    assert "linly.time_to_first_frame" not in found


@pytest.mark.parametrize(
    ("outcome", "error_type", "code", "expected"),
    [
        ("ok", None, Status.STATUS_CODE_UNSET, None),
        ("cancelled", None, Status.STATUS_CODE_UNSET, None),  # barge-in is no error
        ("timeout", None, Status.STATUS_CODE_UNSET, None),
        ("open", None, Status.STATUS_CODE_UNSET, None),
        ("error", "StageError", Status.STATUS_CODE_ERROR, "StageError"),
        ("error", None, Status.STATUS_CODE_ERROR, error_attributes.ErrorTypeValues.OTHER.value),
    ],
)
def test_only_errors_are_errors(
    outcome: str, error_type: str | None, code: int, expected: str | None
) -> None:
    span = one(loaded(record(outcome=outcome, error_type=error_type)), "work")
    found = plain(span.attributes)
    assert span.status.code == code
    assert span.status.message == ""
    assert found.get(error_attributes.ERROR_TYPE) == expected
    assert found["linly.outcome"] == outcome


def test_memory_cpu_and_gpu_are_sent_where_they_were_measured() -> None:
    use = CudaUse(0, time_ns=2_000_000, allocated_bytes=-5, reserved_bytes=None, peak_bytes=7, shared=True)
    measured = record(
        rss_start_bytes=1, rss_end_bytes=2, rss_peak_bytes=3, cpu_ns=4_000, cuda=use, task="t-1"
    )
    found = attrs(loaded(measured), "work")
    assert {
        name: found[name] for name in found if name.startswith(("linly.memory", "linly.gpu", "linly.c"))
    } == {
        "linly.memory.rss.start": 1,
        "linly.memory.rss.end": 2,
        "linly.memory.rss.peak": 3,
        "linly.cpu.duration": 4e-6,
        "linly.cuda.device": 0,
        "linly.cuda.duration": 0.002,
        "linly.cuda.shared": True,
        "linly.gpu.memory.allocated": -5,
        "linly.gpu.memory.peak": 7,
    }
    assert (found["thread.id"], found["thread.name"], found["linly.task"]) == (7, "main", "t-1")
    nothing = attrs(loaded(record()), "work")
    assert not [name for name in nothing if name.startswith(("linly.memory", "linly.gpu", "linly.c"))]


# Marks


def test_marks_are_lists_and_only_the_first_of_a_kind_is_an_event() -> None:
    tokens = [Mark("token", at_ns, at_ns // 1_000) for at_ns in (1_010, 3_010, 9_010)]
    marks = (*tokens, Mark("chunk", 5_010))
    trace = loaded(record(marks=marks))
    span = one(trace, "work")
    found = plain(span.attributes)
    assert {name: value for name, value in found.items() if name.startswith("linly.mark.")} == {
        "linly.mark.token.count": 3,
        "linly.mark.token.first": 1e-6,
        "linly.mark.token.mean_gap": pytest.approx(4e-6),
        "linly.mark.token.max_gap": 6e-6,
        "linly.mark.token.offsets_us": [1, 3, 9],
        "linly.mark.token.values": [1, 3, 9],
        "linly.mark.chunk.count": 1,
        "linly.mark.chunk.first": 5e-6,
        "linly.mark.chunk.offsets_us": [5],
    }
    assert [(event.name, event.time_unix_nano) for event in span.events] == [
        ("token", 10**18 + 1_010),
        ("chunk", 10**18 + 5_010),
    ]


def test_thousands_of_marks_are_counted_and_cut() -> None:
    found = attrs(loaded(record(marks=tuple(Mark("token", 10 + n) for n in range(2_500)))), "work")
    assert found["linly.mark.token.count"] == 2_500
    assert found["linly.mark.token.left_out"] == 1_500
    assert len(found["linly.mark.token.offsets_us"]) == 1_000


def test_many_kinds_of_marks_cannot_flood_a_span() -> None:
    span = one(loaded(record(marks=tuple(Mark(f"kind {n}", 10) for n in range(500)))), "work")
    assert len(span.events) <= 128
    assert len(span.attributes) <= 128


# Content

SAID = {
    "text": "my secret", "prompt": "my secret", "pii.name": "my secret", "linly.pii.note": "my secret",
    "gen_ai.input.messages": "my secret", "messages": ["my secret"],
    "fallbacks": [{"from": "a", "to": "b", "error": "my secret"}],
}  # fmt: skip


def test_what_was_said_is_not_sent() -> None:
    for name in ("work", "llm.generate", "linly.stage llm"):
        spans = sent(loaded(record(name=name, attrs=SAID)))
        assert not any(b"my secret" in span.SerializeToString() for span in spans)


def test_what_was_said_is_sent_under_a_prefix_of_its_own_if_asked_for() -> None:
    found = attrs(loaded(record(attrs=SAID)), "work", content=True)
    said = {name for name, value in found.items() if "my secret" in str(value)}
    assert said == {
        "linly.pii.text", "linly.pii.prompt", "linly.pii.name", "linly.pii.note", "linly.pii.messages",
        "linly.pii.gen_ai.input.messages",
    }  # fmt: skip
    assert (found["linly.fallback.from"], found["linly.fallback.to"]) == (["a"], ["b"])


# Values and bytes


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (True, True),
        (-1, -1),
        (0.5, 0.5),
        ("a", "a"),
        ([], []),
        (["a", "b"], ["a", "b"]),
        ([True, False], [True, False]),
        ([1, 2], [1, 2]),
        ([1, 2.5], [1.0, 2.5]),
        ([1, True], "[1, true]"),
        ([1, None], "[1, null]"),
        ([["a"]], '[["a"]]'),
        ({"你": 1}, '{"你": 1}'),
    ],
)
def test_values_that_backends_do_not_take_are_json(value: Any, expected: Any) -> None:
    assert as_otel(value) == expected
    assert type(as_otel(value)) is type(expected)


def test_one_true_and_one_point_oh_stay_apart() -> None:
    for value in (1, True, 1.0, 0, False, 0.0):
        found = attrs(loaded(record(attrs={"x": value})), "work")["linly.x"]
        assert (found, type(found)) == (value, type(value))


@settings(deadline=None)
@given(st.integers(0, 2**64 - 1))
def test_whole_numbers_take_as_few_bytes_as_the_format_allows(number: int) -> None:
    data = varint(number)
    assert len(data) == max(1, math.ceil(number.bit_length() / 7))
    assert AnyValue.FromString(b"\x18" + data).int_value & 2**64 - 1 == number


def test_a_text_with_half_a_character_arrives_with_a_replacement() -> None:
    trace = loaded(record(attrs={"x": "a\ud800b\x00你😀"}), request_id="\udfff")
    assert attrs(trace, "work")["linly.x"] == "a\ufffdb\x00你😀"
    assert attrs(trace, "linly.request")["linly.request.id"] == "\ufffd"


texts = st.text(st.characters(codec=None, exclude_categories=()), max_size=20)
whole = st.integers(-(2**63), 2**63 - 1)
values = st.recursive(
    st.none() | st.booleans() | whole | st.floats(allow_nan=False) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
known_names = st.sampled_from(
    ["linly.request", "linly.stage llm", "linly.stage", "llm.generate", "linly.queue.wait", "tts.vocoder"]
)
known_keys = st.sampled_from(
    ["stage", "row", "busy_ns", "first_out_ns", "media_s", "model", "tokens", "fallbacks", "finish_reason", "retries",
     "text", "order", "av_offset_ms", "worker", "provider"]
)  # fmt: skip
counts = st.none() | st.integers(0, 2**62)
records = st.builds(
    Record,
    name=known_names | texts,
    span_id=st.integers(2, 40),
    parent_id=st.none() | st.integers(1, 40),
    request_id=st.just("r"),
    thread_id=st.integers(0, 2**63 - 1),
    thread_name=texts,
    task=st.none() | texts,
    start_ns=st.integers(-(2**62), 2**62),
    end_ns=st.integers(-(2**62), 2**62),
    outcome=st.sampled_from(["ok", "error", "cancelled", "open"]) | texts,
    error_type=st.none() | texts,
    attrs=st.dictionaries(known_keys | texts, values, max_size=6),
    marks=st.lists(
        st.builds(Mark, st.just("token") | texts, st.integers(0, 2**62), st.none() | whole), max_size=5
    ).map(tuple),
    rss_start_bytes=counts,
    rss_end_bytes=counts,
    rss_peak_bytes=counts,
    cpu_ns=counts,
    cuda=st.none()
    | st.builds(CudaUse, st.integers(0, 7), counts, st.none() | whole, st.none() | whole, counts),
)
flows = st.builds(
    Flow, texts, st.integers(1, 40), st.integers(0, 2**62), st.integers(1, 40), st.integers(0, 2**62)
)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(records, max_size=6, unique_by=lambda each: each.span_id),
    st.lists(flows, max_size=4),
    texts,
    st.sampled_from(["", "ab" * 16]),
    st.sampled_from([None, "00f067aa0ba902b7"]),
    st.booleans(),
)
def test_any_trace_becomes_spans_that_opentelemetry_can_read(
    spans: list[Record],
    arrows: list[Flow],
    request_id: str,
    trace_id: str,
    remote_parent_id: str | None,
    content: bool,
) -> None:
    trace = loaded(
        *spans,
        flows=tuple(arrows),
        request_id=request_id,
        trace_id=trace_id,
        remote_parent_id=remote_parent_id,
    )
    got = sent(trace, content=content)
    assert len(got) == len(spans) + 1
    assert len({span.span_id for span in got}) == len(got)
    assert {len(span.trace_id) for span in got} == {16}
    salt = span_salt(trace)
    for span, source in zip(got, trace.spans, strict=True):
        plain(span.attributes)
        assert span.start_time_unix_nano <= span.end_time_unix_nano
        if trace_id:
            assert int.from_bytes(span.span_id, "big") == otel_span_id(trace_id, source.span_id, salt)


# Answers


@settings(deadline=None)
@given(st.integers(0, 2**63 - 1), st.text(max_size=300))
def test_answers_of_a_receiver_are_understood(rejected: int, message: str) -> None:
    response = ExportTraceServiceResponse()
    response.partial_success.rejected_spans = rejected
    response.partial_success.error_message = message
    assert answer_of(response.SerializeToString()) == (rejected, message)


@settings(deadline=None)
@given(st.binary(max_size=60))
def test_what_is_no_answer_is_refused_and_not_worse(body: bytes) -> None:
    try:
        answer_of(body)
    except ValueError:
        assert body
    assert isinstance(status_message(body), str)


def test_nothing_is_as_good_as_success() -> None:
    assert answer_of(b"") == (0, "")


def test_the_scope_names_this_package() -> None:
    message = ExportTraceServiceRequest.FromString(request_bytes([], {"process.pid": 12}, "1.2"))
    scope = message.resource_spans[0].scope_spans[0].scope
    assert (scope.name, scope.version) == ("linly_profiling", "1.2")
    assert plain(message.resource_spans[0].resource.attributes) == {"process.pid": 12}
