"""Files of torch's profiler as spans of a trace. The files are written here, so that they can have a GPU in them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from linly_profiling import LoadedTrace, Record, Trace, load, save
from linly_profiling.torch_tools import KinetoError, merge_kineto, read_kineto
from linly_profiling.torch_tools.kineto import Event, Profile
from linly_profiling.torch_tools.tree import graft

US = 1_000
MS = 1_000_000
START_NS = 1_000 * MS  # of every trace here
WORKER, STRANGER = 4711, 4712  # threads
WALL_NS = 1_800_000_000_123_456_789


class Clock:
    def __init__(self) -> None:
        self.now_ns = START_NS

    def __call__(self) -> int:
        return self.now_ns


@pytest.fixture
def trace(monkeypatch: pytest.MonkeyPatch) -> LoadedTrace:
    """A request of 100 ms: the language model from 10 to 60, and in it the decoder from 20 to 40."""
    clock = Clock()
    monkeypatch.setattr("time.time_ns", lambda: WALL_NS)
    trace = Trace("r", clock_ns=clock)
    monkeypatch.undo()
    clock.now_ns = START_NS + 10 * MS
    llm = trace.start("llm.generate", row="llm")
    clock.now_ns = START_NS + 20 * MS
    decode = trace.start("llm.decode", llm)
    clock.now_ns = START_NS + 40 * MS
    decode.end()
    clock.now_ns = START_NS + 60 * MS
    llm.end()
    clock.now_ns = START_NS + 100 * MS
    trace.close()
    return trace.snapshot()


def event(cat: str, name: str, at_us: float, dur_us: float, tid: Any = WORKER, **args: Any) -> dict[str, Any]:
    pid = args.pop("pid", 4711)
    return {
        "ph": "X",
        "cat": cat,
        "name": name,
        "pid": pid,
        "tid": tid,
        "ts": at_us,
        "dur": dur_us,
        "args": args,
    }


def gpu(cat: str, name: str, at_us: float, dur_us: float, correlation: int, **args: Any) -> dict[str, Any]:
    device, stream = args.pop("device", 0), args.pop("stream", 7)
    args |= {"device": device, "stream": stream, "correlation": correlation}
    return event(cat, name, at_us, dur_us, tid=stream, pid=device, **args)


def launch(at_us: float, correlation: int, external: int | None = None, tid: int = WORKER) -> dict[str, Any]:
    linked = {} if external is None else {"External id": external}
    return event("cuda_runtime", "cudaLaunchKernel", at_us, 5, tid=tid, correlation=correlation, **linked)


def kineto(path: Path, events: list[dict[str, Any]], base_ns: int | None = WALL_NS) -> Path:
    """Times count from the start of the request."""
    whole = {"schemaVersion": 1} | ({} if base_ns is None else {"baseTimeNanoseconds": base_ns})
    path.write_text(json.dumps({**whole, "traceEvents": events, "traceName": str(path)}), "utf-8")
    return path


def of(trace: LoadedTrace, name: str) -> Record:
    (record,) = [span for span in trace.spans if span.name == name]
    return record


def parent(trace: LoadedTrace, name: str) -> str:
    by_id = {span.span_id: span.name for span in trace.spans}
    return by_id[of(trace, name).parent_id or 0]


MODEL_CALL = [
    event("user_annotation", "forward", 21_000, 8_000, **{"External id": 1}),
    event("cpu_op", "aten::linear", 22_000, 2_000.5, **{"External id": 2}),
    event("cpu_op", "aten::addmm", 22_100.25, 1_900.251, **{"External id": 3}),
    launch(22_200, 501, 3),
    gpu("kernel", "gemm", 24_500, 30_000, 501, **{"External id": 3}, grid=[1, 2, 3], block=[128, 1, 1]),
    launch(26_000, 502, 1),
    gpu("gpu_memcpy", "Memcpy DtoH (Device -> Pinned)", 54_600, 40, 502, stream=13, bytes=4096),
]


def test_operators_and_kernels_are_spans_where_they_happened(trace: LoadedTrace, tmp_path: Path) -> None:
    merged = merge_kineto(trace, kineto(tmp_path / "k.json", MODEL_CALL))
    assert parent(merged, "forward") == "llm.decode"
    assert parent(merged, "aten::linear") == "forward"
    assert parent(merged, "aten::addmm") == "aten::linear"
    linear = of(merged, "aten::linear")
    assert (linear.start_ns, linear.duration_ns) == (START_NS + 22_000 * US, 2_000_500)
    assert linear.attrs == {"row": "torch cpu thread 1", "source": "torch", "category": "cpu_op"}


def test_a_kernel_belongs_to_the_span_that_launched_it_though_it_runs_longer(
    trace: LoadedTrace, tmp_path: Path
) -> None:
    merged = merge_kineto(trace, kineto(tmp_path / "k.json", MODEL_CALL))
    kernel, copy = of(merged, "gemm"), of(merged, "cuda.memcpy.d2h")
    assert [parent(merged, name) for name in ("gemm", "cuda.memcpy.d2h")] == ["llm.decode", "llm.decode"]
    assert kernel.end_ns > of(merged, "llm.decode").end_ns
    assert (kernel.attrs["row"], kernel.attrs["device"]) == ("cuda:0 stream 7", "cuda:0")
    assert (kernel.attrs["grid"], kernel.attrs["block"]) == ([1, 2, 3], [128, 1, 1])
    assert (copy.attrs["row"], copy.attrs["bytes"]) == ("cuda:0 stream 13", 4096)


def test_arrows_lead_from_each_launch_to_its_kernel(trace: LoadedTrace, tmp_path: Path) -> None:
    merged = merge_kineto(trace, kineto(tmp_path / "k.json", MODEL_CALL))
    by_id = {span.span_id: span for span in merged.spans}
    ends = [(by_id[flow.from_id], by_id[flow.to_id], flow) for flow in merged.flows]
    assert [(source.start_ns, target.name) for source, target, _ in ends] == [
        (START_NS + 22_200 * US, "gemm"),
        (START_NS + 26_000 * US, "cuda.memcpy.d2h"),
    ]
    assert all(source.name == "cudaLaunchKernel" for source, _, _ in ends)
    assert all(flow.from_ns <= flow.to_ns == target.start_ns for _, target, flow in ends)


def test_merged_traces_are_written_and_read_like_others(trace: LoadedTrace, tmp_path: Path) -> None:
    merged = merge_kineto(trace, kineto(tmp_path / "k.json", MODEL_CALL))
    (again,) = load(save(tmp_path / "both.json", [merged]))
    assert (again.spans, again.flows) == (merged.spans, merged.flows)


def test_what_other_threads_launched_is_left_out(trace: LoadedTrace, tmp_path: Path) -> None:
    foreign = [launch(30_000, 900, tid=STRANGER), gpu("kernel", "foreign", 31_000, 10, 900)]
    unknown = [gpu("kernel", "unknown", 31_000, 10, 901)]
    graph = [
        launch(32_000, 902),
        gpu("kernel", "of a graph", 33_000, 10, 902),
    ]  # launched outside of any operator
    merged = merge_kineto(trace, kineto(tmp_path / "k.json", [*MODEL_CALL, *foreign, *unknown, *graph]))
    names = {span.name for span in merged.spans}
    assert names >= {"gemm", "of a graph"}
    assert not names & {"foreign", "unknown"}


def test_without_operators_all_kernels_are_taken(trace: LoadedTrace, tmp_path: Path) -> None:
    merged = merge_kineto(
        trace, kineto(tmp_path / "k.json", [launch(30_000, 9), gpu("kernel", "k", 31_000, 10, 9)])
    )
    assert parent(merged, "k") == "llm.decode"


def test_only_spans_of_the_asked_name_take_events_up(trace: LoadedTrace, tmp_path: Path) -> None:
    path = kineto(tmp_path / "k.json", MODEL_CALL)
    assert parent(merge_kineto(trace, path, under="llm.generate"), "forward") == "llm.generate"
    assert parent(merge_kineto(trace, path, under="tts"), "forward") == "linly.request"


def test_the_longest_events_stay_when_there_are_too_many(trace: LoadedTrace, tmp_path: Path) -> None:
    many = [event("cpu_op", f"op{i}", 21_000 + i * 10, 1 + i % 7) for i in range(500)]
    outer = event("cpu_op", "outer", 20_500, 10_000)
    merged = merge_kineto(trace, kineto(tmp_path / "k.json", [*many, outer, *MODEL_CALL[3:5]]), limit=50)
    ours = [span for span in merged.spans if span.attrs.get("category") == "cpu_op"]
    assert (len(ours), min(span.duration_ns for span in ours)) == (50, 7 * US)
    assert parent(merged, ours[1].name) == "outer"
    # The launch was too short to stay: the arrow begins at what it was in.
    (flow,) = merged.flows
    assert flow.from_id == of(merged, "outer").span_id


def test_each_thread_and_each_device_has_rows_of_its_own(trace: LoadedTrace, tmp_path: Path) -> None:
    events = [
        event("cpu_op", "a", 21_000, 100, tid=WORKER),
        event("cpu_op", "b", 21_050, 100, tid=STRANGER),
        launch(21_010, 1),
        gpu("kernel", "c", 21_100, 10, 1, device=1),
    ]
    merged = merge_kineto(trace, kineto(tmp_path / "k.json", events))
    assert [of(merged, name).attrs["row"] for name in "abc"] == [
        "torch cpu thread 1",
        "torch cpu thread 2",
        "cuda:1 stream 7",
    ]
    assert parent(merged, "b") == "llm.decode"


def test_names_are_few_and_short(trace: LoadedTrace, tmp_path: Path) -> None:
    long = "void at::native::" + "x" * 300
    events = [
        event("python_function", "<built-in method get of dict object at 0x7f05b5c29840>", 21_000, 100),
        launch(21_010, 1),
        gpu("kernel", long, 21_100, 10, 1),
    ]
    merged = merge_kineto(trace, kineto(tmp_path / "k.json", events))
    assert of(merged, "<built-in method get of dict>").parent_id is not None
    (kernel,) = [span for span in merged.spans if span.attrs.get("category") == "kernel"]
    assert (len(kernel.name), kernel.attrs["full_name"]) == (128, long)


def test_old_files_count_from_1970(trace: LoadedTrace, tmp_path: Path) -> None:
    at_us = (WALL_NS + 30 * MS) / 1000
    merged = merge_kineto(
        trace, kineto(tmp_path / "k.json", [event("cpu_op", "old", at_us, 1_000)], base_ns=None)
    )
    assert abs(of(merged, "old").start_ns - START_NS - 30 * MS) < US


def test_compressed_files_are_read(trace: LoadedTrace, tmp_path: Path) -> None:
    plain = kineto(tmp_path / "k.json", MODEL_CALL).read_bytes()
    (tmp_path / "k.json.gz").write_bytes(gzip.compress(plain))
    assert read_kineto(tmp_path / "k.json.gz") == read_kineto(tmp_path / "k.json")


def test_a_profile_of_another_time_is_refused(trace: LoadedTrace, tmp_path: Path) -> None:
    path = kineto(tmp_path / "k.json", MODEL_CALL, WALL_NS + 3_600 * 10**9)
    with pytest.raises(KinetoError, match=r"k\.json: nothing in it happened during request 'r'"):
        merge_kineto(trace, path)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "no list 'traceEvents'"),
        (b"hello", "no list 'traceEvents'"),
        (b'{"traceEvents": [', "cut short"),
        (b'{"traceEvents": [{"ph": "X", "na', "cut short"),
        (b'{"traceEvents": [nonsense]}', "damaged"),
        (b"\x1f\x8b\x08\x00broken", "compressed data"),
        (gzip.compress(b'{"traceEvents": []}' * 1000)[:-20], "compressed data"),
    ],
)
def test_broken_files_are_refused_with_a_reason(data: bytes, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "broken.json"
    path.write_bytes(data)
    with pytest.raises(KinetoError, match=reason) as error:
        read_kineto(path)
    assert str(path) in str(error.value)


def test_damaged_lines_are_skipped_and_counted(tmp_path: Path) -> None:
    odd: list[Any] = [
        {"ph": "X", "cat": "cpu_op"},
        {"ph": "X", "cat": "cpu_op", "name": "n", "tid": 1, "ts": "soon"},
        {"ph": "X", "cat": "cpu_op", "name": "n", "tid": 1, "ts": float("inf")},
        {"ph": "X", "cat": "kernel", "name": "k", "tid": 1, "ts": 1, "args": [1]},
        {"ph": "M", "name": "thread_name"},
        {
            "ph": "X",
            "cat": "Trace",
            "name": "PyTorch Profiler (0)",
            "tid": "PyTorch Profiler",
            "ts": 1,
            "dur": 1,
        },
        [],
        7,
    ]
    profile = read_kineto(kineto(tmp_path / "k.json", [*odd, *MODEL_CALL]))
    assert (len(profile.events), profile.skipped) == (len(MODEL_CALL), len(odd))


def test_bytes_that_are_no_text_do_not_hide_the_rest(tmp_path: Path) -> None:
    path = kineto(tmp_path / "k.json", MODEL_CALL)
    path.write_bytes(path.read_bytes().replace(b'"gemm"', b'"ge\xff"'))
    assert len(read_kineto(path).events) == len(MODEL_CALL)


def test_streams_written_as_words_are_streams(tmp_path: Path) -> None:
    words = event("kernel", "k", 1, 1, tid="stream 9", pid=2, correlation=1)
    (only,) = read_kineto(kineto(tmp_path / "k.json", [words])).events
    assert (only.device, only.thread) == (2, 9)


Intervals = st.lists(st.tuples(st.integers(0, 200), st.integers(0, 100), st.integers(1, 3)), max_size=40)


@given(Intervals, st.integers(1, 60))
def test_whatever_the_events_parents_come_first_and_lie_around_their_children(
    intervals: list[tuple[int, int, int]], limit: int
) -> None:
    events = tuple(Event(f"e{i}", "cpu_op", tid, at, dur) for i, (at, dur, tid) in enumerate(intervals))
    grafts = graft(Profile(events), lambda at_ns: at_ns, lambda start, end: 1, limit=limit)
    assert len(grafts.spans) + grafts.left_out == len(events)
    assert len(grafts.spans) == min(limit, len(events))
    for place, span in enumerate(grafts.spans):
        assert span.start_ns <= span.end_ns
        if span.parent is not None:
            outer = grafts.spans[span.parent]
            assert span.parent < place
            assert outer.event.thread == span.event.thread
            assert outer.start_ns <= span.start_ns <= span.end_ns <= outer.end_ns


def test_launches_that_cuda_numbers_in_its_own_way_are_their_operators(
    trace: LoadedTrace, tmp_path: Path
) -> None:
    events = [
        event("cpu_op", "aten::mm", 21_000, 100, **{"External id": 3}),
        launch(21_050, 1, external=3, tid=-1_870_875_200),
        gpu("kernel", "k", 21_200, 10, 1),
    ]
    merged = merge_kineto(trace, kineto(tmp_path / "k.json", events))
    assert parent(merged, "cudaLaunchKernel") == "aten::mm"
    assert [flow.from_id for flow in merged.flows] == [of(merged, "cudaLaunchKernel").span_id]
