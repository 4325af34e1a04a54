"""The real profiler of torch, on the CPU. Skipped where torch is not installed; about 20 s where it is."""

from __future__ import annotations

import contextlib
import json
import logging
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from linly_profiling import LoadedTrace, Record, Trace, load
from linly_profiling.clock import Epoch
from linly_profiling.torch_tools import (
    TorchProfile,
    TorchProfiles,
    disable_ranges,
    enable_record_function,
    merge_kineto,
    profiler,
    read_kineto,
    torch_profile,
    warm_up,
    watch,
)
from linly_profiling.torch_tools.kineto import Event

torch: Any = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

US = 1_000


@pytest.fixture(scope="module", autouse=True)
def warm() -> None:
    warm_up()


@pytest.fixture(autouse=True)
def nobody_watches() -> Iterator[None]:
    yield
    for watcher in watch.watchers():
        watch.remove(watcher)


def model(steps: int = 3) -> Any:
    tensor = torch.randn(32, 32)
    for _ in range(steps):
        tensor = torch.relu(tensor @ tensor)
    return tensor


def in_thread(work: Callable[[], object]) -> None:
    failures: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001  the test's thread raises it
            failures.append(error)

    thread = threading.Thread(target=run, name="worker")
    thread.start()
    thread.join()
    if failures:
        raise failures[0]


def named(trace: Trace | LoadedTrace, name: str) -> list[Record]:
    return [record for record in trace.records() if record.name == name]


def from_torch(trace: Trace | LoadedTrace) -> list[Record]:
    return [record for record in trace.records() if record.attrs.get("source") == "torch"]


def parent_name(trace: Trace | LoadedTrace, record: Record) -> str:
    return next(other.name for other in trace.records() if other.span_id == record.parent_id)


def test_operators_are_below_the_span_in_which_they_ran() -> None:
    trace = Trace("r")

    def call() -> None:
        with trace.span("llm.generate", row="llm") as span, torch_profile(span) as profile:
            model(1)
            with trace.span("llm.sample"):
                torch.argmax(torch.zeros(4))
        assert profile.note == "ok"

    in_thread(call)
    (matmul,) = named(trace, "aten::matmul")
    (product,) = named(trace, "aten::mm")
    assert parent_name(trace, matmul) == "llm.generate"
    assert product.parent_id == matmul.span_id
    assert [parent_name(trace, op) for op in named(trace, "aten::argmax")] == ["llm.sample"]
    assert {record.attrs["row"] for record in from_torch(trace)} == {"torch cpu thread 1"}
    assert {record.thread_name for record in from_torch(trace)} == {"worker"}


def test_both_clocks_agree_to_well_under_100_us() -> None:
    trace = Trace("r")
    known = []
    with torch_profile(trace) as profile:
        for i in range(20):
            before_ns = trace._clock_ns()
            with torch.profiler.record_function(f"mark {i}"):
                pass
            known.append((before_ns, trace._clock_ns()))
    assert profile.alignment_ns is not None
    assert 0 < profile.alignment_ns < 100 * US
    for i, (before_ns, after_ns) in enumerate(known):
        (mark,) = named(trace, f"mark {i}")
        assert before_ns - profile.alignment_ns <= mark.start_ns
        assert mark.end_ns <= after_ns + profile.alignment_ns


def test_the_profilers_own_work_is_in_no_span_of_the_model() -> None:
    trace = Trace("r")
    with trace.span("model") as span, torch_profile(span, with_stack=True):
        model()
    names = {record.name for record in from_torch(trace)}
    assert any("model" in name for name in names), "Python functions are there"
    assert not [
        name for name in names if "torch_tools/" in name or name.startswith(("torch/profiler", "linly."))
    ]
    (export,) = named(trace, "torch.profiler.export")
    assert (export.attrs["note"], export.attrs["spans"]) == ("ok", len(from_torch(trace)))
    assert max(record.end_ns for record in from_torch(trace)) <= export.start_ns


def test_shapes_are_kept_when_asked_for() -> None:
    trace = Trace("r")
    with torch_profile(trace, record_shapes=True):
        model(1)
    (matmul,) = named(trace, "aten::matmul")
    assert matmul.attrs["shapes"] == [[32, 32], [32, 32]]


def test_too_many_events_leave_the_longest_and_say_so() -> None:
    trace = Trace("r")
    with torch_profile(trace, limit=10) as profile:
        model(50)
    assert (profile.spans, len(from_torch(trace))) == (10, 10)
    assert profile.left_out > 100
    assert named(trace, "torch.profiler.export")[0].attrs["left_out"] == profile.left_out


def test_what_the_block_raises_comes_out_and_its_profile_is_kept() -> None:
    trace = Trace("r")
    with pytest.raises(ZeroDivisionError), trace.span("model"), torch_profile():
        model(1)
        raise ZeroDivisionError
    assert named(trace, "aten::matmul")
    assert named(trace, "model")[0].outcome == "error"


@pytest.mark.parametrize("step", ["start", "stop", "export_chrome_trace"])
def test_a_profiler_that_fails_breaks_nothing_and_the_next_one_works(
    monkeypatch: pytest.MonkeyPatch, step: str, caplog: pytest.LogCaptureFixture
) -> None:
    real = getattr(torch.profiler.profile, step)

    def broken(self: Any, *args: Any) -> None:
        if step != "start":  # a profiler that is left running would take the process down with the next one
            real(self, *args)
        raise RuntimeError("CUPTI_ERROR_NOT_INITIALIZED")

    trace = Trace("r")
    with monkeypatch.context() as patch:
        patch.setattr(torch.profiler.profile, step, broken)
        with torch_profile(trace) as profile:
            done = model(1)
    assert done is not None
    assert "CUPTI_ERROR_NOT_INITIALIZED" in profile.note
    assert from_torch(trace) == []
    with torch_profile(trace) as again:
        model(1)
    assert again.note == "ok"


def test_a_profile_inside_of_another_says_so_and_both_blocks_run() -> None:
    trace = Trace("r")
    with torch_profile(trace) as outer:
        with trace.span("inner") as span, torch_profile(span) as inner:
            model(1)
        model(1)
    assert (outer.note, inner.note) == ("ok", "another torch profile is running")
    assert len(named(trace, "aten::matmul")) == 2
    (skipped,) = named(trace, "torch.profiler.skipped")
    assert (skipped.attrs["note"], parent_name(trace, skipped)) == (inner.note, "inner")


def test_of_profiles_in_two_threads_one_runs_and_the_other_says_so() -> None:
    first, second = Trace("first"), Trace("second")
    notes: list[TorchProfile] = []

    def late() -> None:
        with torch_profile(second) as profile:
            model(1)
        notes.append(profile)

    with torch_profile(first) as profile:
        in_thread(late)
        model(1)
    in_thread(late)
    assert [profile.note, *(note.note for note in notes)] == ["ok", "another torch profile is running", "ok"]
    assert len(named(first, "aten::matmul")) == 1, "the other thread's operators are not this request's"
    assert len(named(second, "aten::matmul")) == 1


def test_many_threads_at_once_never_crash_and_lose_no_work() -> None:
    done: list[str] = []

    def call(number: int) -> None:
        trace = Trace(f"r{number}")
        for _ in range(3):
            with torch_profile(trace) as profile:
                model(1)
            done.append(profile.note)

    threads = [threading.Thread(target=call, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(done) == 12
    assert set(done) <= {"ok", "another torch profile is running"}
    assert "ok" in done


def test_the_programs_own_profiler_is_left_alone() -> None:
    trace = Trace("r")
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as own:
        with torch_profile(trace) as profile:
            model(1)
        in_thread(lambda: _assert_skipped(Trace("other")))
    assert profile.note == "the program uses torch's profiler itself"
    assert any(event.name == "aten::matmul" for event in own.events())


def _assert_skipped(trace: Trace) -> None:
    with torch_profile(trace) as profile:
        pass
    assert profile.note == "the program uses torch's profiler itself"


def test_a_request_that_is_over_takes_nothing_up_and_the_profiler_stops() -> None:
    trace = Trace("r")
    with torch_profile(trace) as profile:
        model(1)
        trace.close()
    assert profile.note == "the request was over before its profile"
    with torch_profile(Trace("next")) as after:
        model(1)
    assert after.note == "ok"


def test_without_a_span_or_with_tracing_off_the_block_just_runs() -> None:
    with torch_profile() as nowhere:
        model(1)
    off = Trace("off", enabled=False)
    with torch_profile(off) as unwanted:
        model(1)
    assert nowhere.note == unwanted.note == "no span is recorded here"


def test_a_block_that_ends_in_another_thread_ends_all_profiling_instead_of_the_process() -> None:
    """In a process of its own, because the profiler cannot be reached any more."""
    code = """
import threading, torch
from linly_profiling import Trace
from linly_profiling.torch_tools import torch_profile
def stream(trace):
    with torch_profile(trace) as profile:
        torch.zeros(1)
        yield profile
items = stream(Trace("r"))
first = next(items)
thread = threading.Thread(target=items.close)
thread.start(); thread.join()
print(first.note)
with torch_profile(Trace("r")) as later:
    torch.zeros(1)
print(later.note)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.splitlines() == [
        "its block ended in another thread than it began in; no more torch profiles in this process",
        "another torch profile is running",
    ]


def test_spans_that_other_code_opens_are_profiled_when_asked_for() -> None:
    profiles = TorchProfiles("llm").install()
    (told,) = watch.watchers()
    trace = Trace("r")

    def call() -> None:
        span = trace.start("llm.generate")
        told.entered(span)
        model(1)
        span.end()
        told.left(span)

    in_thread(call)
    assert [result.note for result in profiles.results] == ["ok"]
    (matmul,) = named(trace, "aten::matmul")
    assert parent_name(trace, matmul) == "llm.generate"
    (start,), (span,) = named(trace, "torch.profiler.start"), named(trace, "llm.generate")
    assert start.end_ns <= span.start_ns
    assert parent_name(trace, start) == "linly.request"


def test_our_names_are_ranges_of_the_programs_own_profiler(tmp_path: Path) -> None:
    enable_record_function()
    (told,) = watch.watchers()
    trace = Trace("r")
    outside = trace.start("outside")
    told.entered(outside)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as own:
        span = trace.start("llm.generate")
        told.entered(span)
        model(1)
        told.left(span)
    told.left(outside)
    disable_ranges()
    own.export_chrome_trace(str(tmp_path / "own.json"))
    events = {event.name: event for event in read_kineto(tmp_path / "own.json").events}
    assert "outside" not in events
    ours, matmul = events["llm.generate"], events["aten::matmul"]
    assert ours.start_ns <= matmul.start_ns <= matmul.end_ns <= ours.end_ns


@pytest.mark.parametrize("suffix", ["json", "json.gz"])
def test_a_file_of_the_programs_own_profiler_merges_into_our_trace(tmp_path: Path, suffix: str) -> None:
    with Trace("r") as trace:
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as own:
            with trace.span("tts.mel"):
                model(1)
            with trace.span("tts.vocoder"):
                torch.sigmoid(torch.zeros(4))
        own.export_chrome_trace(str(tmp_path / f"own.{suffix}"))
    merged = merge_kineto(trace, tmp_path / f"own.{suffix}")
    assert [parent_name(merged, op) for op in named(merged, "aten::matmul")] == ["tts.mel"]
    assert [parent_name(merged, op) for op in named(merged, "aten::sigmoid")] == ["tts.vocoder"]


def test_a_merged_trace_is_one_file_for_viewers(tmp_path: Path) -> None:
    with Trace("r") as trace, trace.span("model"), torch_profile():
        model(2)
    (again,) = load(trace.save(tmp_path / "t.json"))
    assert len(from_torch(again)) == len(from_torch(trace)) > 5
    document = json.loads((tmp_path / "t.json").read_text("utf-8"))
    rows = [event["args"]["name"] for event in document["traceEvents"] if event["name"] == "thread_name"]
    assert "torch cpu thread 1" in rows


def test_memory_is_given_back_after_a_profile() -> None:
    trace = Trace("r")
    with torch_profile(trace, limit=1):
        model(2)
    found = [thing for thing in _live() if isinstance(thing, torch.profiler.profile)]
    assert found == []


def _live() -> list[Any]:
    import gc

    gc.collect()
    return gc.get_objects()


def test_a_warm_profiler_starts_in_less_than_a_tenth_of_a_second() -> None:
    trace = Trace("r")
    best_s = 1e9
    for _ in range(5):
        begun_s = time.perf_counter()
        with torch_profile(trace):
            best_s = min(best_s, time.perf_counter() - begun_s)
    assert best_s < 0.1
    assert not any(record.attrs["first_use"] for record in named(trace, "torch.profiler.start"))


# The sums behind the alignment


def marks_at(*seen: tuple[int, int]) -> list[Event]:
    return [Event("linly.clock", "user_annotation", 1, start_ns, dur_ns) for start_ns, dur_ns in seen]


def test_alignment_is_as_good_as_the_tightest_marks() -> None:
    epoch = Epoch(0, 1000)  # the trace's clock is 1000 behind
    marks = [(0, 100), (200, 230), (300, 400)]
    seen = marks_at((1040, 10), (1210, 10), (1350, 10))
    assert profiler.align(marks, seen, epoch) == (0, 10)


def test_alignment_corrects_no_more_than_it_must() -> None:
    epoch = Epoch(0, 0)
    marks = [(0, 10), (100, 110)]
    assert profiler.align(marks, marks_at((54, 2), (155, 2)), epoch) == (-47, 7)


def test_clocks_that_run_apart_are_met_in_the_middle() -> None:
    assert profiler.align([(0, 10), (100, 110)], marks_at((0, 10), (150, 10)), Epoch(0, 0)) == (-25, 25)


def test_without_all_marks_the_error_is_unknown() -> None:
    assert profiler.align([(0, 1)], [], Epoch(0, 0)) == (0, None)
    assert profiler.align([(0, 1), (2, 3)], marks_at((0, 1)), Epoch(0, 0)) == (0, None)


def test_only_one_line_is_logged_for_a_profile_that_is_skipped(caplog: pytest.LogCaptureFixture) -> None:
    with (
        caplog.at_level(logging.WARNING, "linly_profiling"),
        torch_profile(Trace("a")),
        contextlib.ExitStack() as stack,
    ):
        stack.enter_context(torch_profile(Trace("b")))
    assert [record.message for record in caplog.records] == [
        "no torch profile of linly.request: another torch profile is running"
    ]
