"""`TraceFile`: written while the program runs, whole when it is closed, readable when the program is killed."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from linly_profiling import LoadedTrace, Recorder, Sampling, Span, Trace, TraceFile, TraceFileError, load
from linly_profiling.chrome.repair import joined, salvage
from trace_tools import Clock, events, to_ns, until

HOSTILE = 'r "1" \\ \n 你好 😀 \x07 \ud800'


def read_as_a_viewer_does(path: Path) -> dict[int, int | None]:
    """The span around each span, from pid, tid, ts and dur alone; of those that begin together the first is outer."""
    rows: dict[tuple[int, int], list[dict[str, Any]]] = defaultdict(list)
    for event in events(path):
        if event["ph"] == "X":
            rows[event["pid"], event["tid"]].append(event)
    around: dict[int, int | None] = {}
    for slices in rows.values():
        stack: list[tuple[int, int, int]] = []
        for event in sorted(slices, key=lambda each: to_ns(each["ts"])):
            start, end = to_ns(event["ts"]), to_ns(event["ts"]) + to_ns(event["dur"])
            while stack and max(stack[-1][1], stack[-1][2] + 1) <= start:
                stack.pop()
            assert not stack or end <= stack[-1][1], f"{event['name']} sticks out, and Perfetto drops it"
            span_id = event["args"]["linly"]["span_id"]
            around[span_id] = stack[-1][0] if stack else None
            stack.append((span_id, end, start))
    return around


def test_a_file_that_was_closed_holds_what_the_traces_held(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    kept: dict[str, LoadedTrace] = {}
    with Recorder(TraceFile(path)):
        for number, name in enumerate(("a", HOSTILE, "")):
            with Trace(name) as trace:
                with trace.span("llm", row="llm", order=number, exact=True, text='"\n\\') as span:
                    span.mark("token", 3)
                    span.mark("token")
                with trace.span("tts", row="tts") as speech:
                    trace.counter("depth", 2.5, "tts")
                trace.flow(span, speech, "text")
            kept[name] = trace.snapshot()
    found = {trace.request_id: trace for trace in load(path)}
    assert set(found) == set(kept)
    for name, trace in kept.items():
        assert found[name].spans == trace.spans
        assert found[name].flows == trace.flows
        assert [sample for sample in found[name].samples if sample.name == "depth"] == [
            sample for sample in trace.samples if sample.name == "depth"
        ]
        assert (found[name].trace_id, found[name].epoch) == (trace.trace_id, trace.epoch)
        assert found[name].outcome == "ok"


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(st.integers(0, 6), st.integers(0, 3), st.sampled_from(["", "x", "y"])), max_size=40)
)
def test_no_slice_is_drawn_inside_of_one_that_it_does_not_belong_to(
    tmp_path: Path, steps: list[tuple[int, int, str]]
) -> None:
    """Each step starts a span below one of those open, or ends one; time stands still between some of them."""
    path = tmp_path / "run.json"
    clock = Clock()
    with Recorder(TraceFile(path), period_s=0), Trace("r", clock_ns=clock) as trace:
        running: list[Span] = [trace.root]
        for which, wait, row in steps:
            clock.tick(wait)
            span = running[which % len(running)]
            if which % 2 and span is not trace.root:
                running.remove(span)
                span.end()
            else:
                running.append(trace.start("work", parent=span, **({"row": row} if row else {})))
        clock.tick(5)
    parents = {record.span_id: record.parent_id for record in trace.records()}
    for span_id, around in read_as_a_viewer_does(path).items():
        above = parents[span_id]
        while around is not None and above is not None and above != around:
            above = parents[above]
        assert around is None or above == around, f"span {span_id} is drawn inside of span {around}"
    assert [span.span_id for span in load(path)[0].spans] == sorted(parents)


def test_what_runs_beside_another_in_a_row_gets_a_lane_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    with Recorder(TraceFile(path)), Trace("r") as trace:
        first, second = trace.start("one", row="tts"), trace.start("two", row="tts")
        first.end()
        second.end()
    names = {event["args"]["name"] for event in events(path) if event["name"] == "thread_name"}
    assert names == {"request", "tts", "tts (2)"}


def test_a_slow_request_that_was_not_sampled_is_written_when_it_ends(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    with Recorder(TraceFile(path), sampling=Sampling(rate=0)):
        Trace("quick").close()
        with Trace("failed") as trace, trace.span("work"):
            trace.close(error=ValueError("private"))
    (found,) = load(path)
    assert (found.request_id, found.outcome) == ("failed", "error")
    assert found.spans == trace.snapshot().spans
    assert "private" not in path.read_text("utf-8")


def test_no_request_gives_no_file(tmp_path: Path) -> None:
    with Recorder(TraceFile(tmp_path / "run.json")):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_missing_folder_is_said_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no such folder"):
        TraceFile(tmp_path / "nowhere" / "run.json")


def test_a_gz_file_is_compressed_when_it_is_closed(tmp_path: Path) -> None:
    with Recorder(TraceFile(tmp_path / "run.json.gz")):
        Trace("r").close()
    assert [path.name for path in tmp_path.iterdir()] == ["run.json.gz"]
    assert gzip.decompress((tmp_path / "run.json.gz").read_bytes()).startswith(b'{"displayTimeUnit"')
    assert load(tmp_path / "run.json.gz")[0].request_id == "r"


def test_a_file_of_an_earlier_run_is_kept_under_a_number(tmp_path: Path) -> None:
    for name in ("first", "second", "third"):
        with Recorder(TraceFile(tmp_path / "run.json")):
            Trace(name).close()
    names = {path.name: load(path)[0].request_id for path in tmp_path.iterdir()}
    assert names == {"run.1.json": "first", "run.2.json": "second", "run.json": "third"}


def test_a_file_that_is_full_is_followed_by_another_and_the_oldest_go(tmp_path: Path) -> None:
    with Recorder(TraceFile(tmp_path / "run.json", max_bytes=20_000, max_files=3), period_s=0) as recorder:
        for number in range(300):
            with Trace(f"r{number}") as trace, trace.span("work"):
                pass
            until(lambda: recorder.statistics().running == 0)
    sizes = {path.name: path.stat().st_size for path in tmp_path.iterdir()}
    assert len(sizes) == 3
    assert max(sizes.values()) < 40_000
    found = [trace.request_id for path in tmp_path.iterdir() for trace in load(path)]
    assert "r299" in found
    assert "r0" not in found


def test_a_request_across_several_files_is_put_together_again(tmp_path: Path) -> None:
    with Recorder(TraceFile(tmp_path / "run.json", max_bytes=10_000), period_s=0), Trace("long") as trace:
        for number in range(200):
            trace.start("work", number=number).end()
            time.sleep(0)
            if number % 20 == 0:
                time.sleep(0.005)  # a real thread writes meanwhile
    assert len(list(tmp_path.iterdir())) > 2
    (found,) = joined(trace for path in sorted(tmp_path.iterdir()) for trace in salvage(path).traces)
    assert found.spans == trace.snapshot().spans
    assert found.outcome == "ok"


PROGRAM = """
import os, signal, sys, time
from linly_profiling import Recorder, Trace, TraceFile
with Recorder(TraceFile(sys.argv[1])):
    with Trace("doomed") as trace, trace.span("stage", row="llm", model="m"):
        time.sleep(0.25)
        for number in range(1, 100_000):
            with trace.span("work"):
                pass
            if number % 50 == 0:
                time.sleep(0.002)
                print(number, flush=True)
"""


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int]:
    """The file of a process that was killed, and how many spans it had ended for sure."""
    path = tmp_path_factory.mktemp("killed") / "run.json"
    process = subprocess.Popen([sys.executable, "-c", PROGRAM, str(path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    done = 0
    for line in process.stdout:
        done = int(line)
        if done >= 10_000:
            break
    process.send_signal(signal.SIGKILL if hasattr(signal, "SIGKILL") else signal.SIGTERM)
    process.stdout.close()
    process.wait()
    return path, done


def test_a_killed_process_leaves_nearly_all_of_its_spans(killed: tuple[Path, int]) -> None:
    path, done = killed
    with pytest.raises(TraceFileError, match=r"run\.json.*linly trace repair"):
        load(path)
    (trace,) = salvage(path).traces
    work = [span for span in trace.spans if span.name == "work"]
    assert len(work) >= done * 0.9  # what was done in the last 20 ms is lost, on a busy machine more
    stage = next(span for span in trace.spans if span.name == "stage")
    assert (stage.outcome, stage.attrs) == ("open", {"row": "llm", "model": "m"})
    assert stage.end_ns >= work[-1].end_ns
    assert {span.parent_id for span in work} == {stage.span_id}
    assert trace.outcome == "open"


def test_a_file_that_was_cut_anywhere_gives_what_is_whole(killed: tuple[Path, int], tmp_path: Path) -> None:
    data = killed[0].read_bytes()
    cut = tmp_path / "cut.json"
    whole = len(salvage(killed[0]).traces[0].spans)
    for share in (0.2, 0.5, 0.9):
        cut.write_bytes(data[: round(len(data) * share)])
        found = salvage(cut)
        assert 0.5 * share * whole < len(found.traces[0].spans) <= whole
        assert found.lost_lines <= 1
    cut.write_bytes(data[:300])
    with pytest.raises(TraceFileError):
        salvage(cut)


def test_lines_damaged_in_the_middle_are_counted_and_left_out(
    killed: tuple[Path, int], tmp_path: Path
) -> None:
    lines = killed[0].read_bytes().split(b"\n")
    lines[100] = b'{"ph":"X",\xff'
    damaged = tmp_path / "damaged.json"
    damaged.write_bytes(b"\n".join(lines))
    found = salvage(damaged)
    assert 1 <= found.lost_lines <= 2
    assert len(found.traces[0].spans) >= len(salvage(killed[0]).traces[0].spans) - 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_process_writes_beside_its_parent(tmp_path: Path) -> None:
    exporter = TraceFile(tmp_path / "run.json")
    with Recorder(exporter, period_s=0) as recorder, Trace("parent") as trace:
        until(lambda: (tmp_path / "run.json").exists())
        child = os.fork()
        if child == 0:
            try:
                Trace("child").close()
                recorder.close()
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        trace.start("later").end()
    found = {path.name: [trace.request_id for trace in load(path)] for path in tmp_path.iterdir()}
    assert found == {"run.json": ["parent"], f"run.pid{child}.json": ["child"]}
    assert json.loads((tmp_path / "run.json").read_text("utf-8"))["linly"]["grown"]


def test_numbers_that_are_not_its_own_are_left_alone(tmp_path: Path) -> None:
    for name in ("run.2024.json", "run.pid77.json", "run.1.json"):
        (tmp_path / name).write_text("mine")
    with Recorder(TraceFile(tmp_path / "run.json", max_bytes=1_000, max_files=1), period_s=0) as recorder:
        for number in range(10):
            Trace(f"r{number}").close()
            until(lambda: recorder.statistics().running == 0)
    assert {path.read_text() for path in tmp_path.iterdir() if path.name != "run.json"} == {"mine"}


@pytest.mark.skipif(sys.platform == "win32", reason="Windows itself refuses to touch an open file")
@pytest.mark.parametrize("name", ["run.json", "run.json.gz"])
def test_two_writers_of_one_path_do_not_harm_each_other(tmp_path: Path, name: str) -> None:
    with Recorder(TraceFile(tmp_path / name, max_files=1)), Trace("one") as one:
        until(lambda: (tmp_path / "run.json").exists())
        one.start("work").end()
        with Recorder(TraceFile(tmp_path / name, max_files=1)):
            Trace("other").close()
    assert {trace.request_id for path in tmp_path.iterdir() for trace in load(path)} == {"one", "other"}


def test_spans_that_are_told_of_late_do_not_overlap_others(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    clock = Clock()
    with Recorder(TraceFile(path), period_s=0) as recorder, Trace("r", clock_ns=clock) as trace:
        start_ns = clock.now_ns
        for begin, end in ((0, 30), (80, 110), (20, 50), (40, 60), (85, 90)):
            trace.add_span("work", start_ns + begin, start_ns + end)
            until(lambda: trace._feed is not None and len(trace._feed) == 0)
        clock.tick(200)
        assert recorder.statistics().running == 1
    read_as_a_viewer_does(path)
    assert len(load(path)[0].spans) == 6


def test_a_request_that_still_runs_at_the_end_is_whole_with_its_open_spans(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    with Recorder(TraceFile(path)):
        trace = Trace("r")
        stage = trace.start("stage", row="llm")
        trace.start("work", stage).end()
    (found,) = load(path)
    assert [(span.name, span.outcome) for span in found.spans] == [
        ("linly.request", "open"),
        ("stage", "open"),
        ("work", "ok"),
    ]
    trace.close()


def test_an_idle_request_writes_next_to_nothing(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    with Recorder(TraceFile(path), period_s=0.001), Trace("idle") as trace:
        until(lambda: path.exists() and b'"linly.open"' in path.read_bytes())
        size = path.stat().st_size
        until(lambda: len(trace.snapshot().samples) > 12)
        assert path.stat().st_size - size < 2_000


def test_values_of_the_wrong_type_do_not_spoil_the_file(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    with Recorder(TraceFile(path)):
        with Trace("r") as trace:
            trace.counter("q", 1, at_ns=time.perf_counter() * 1e9)  # type: ignore[arg-type]
            trace.start("a").end(outcome=["bad"])  # type: ignore[arg-type]
            trace.start("b").end(outcome=5)  # type: ignore[arg-type]
            trace.start("c").end(at_ns="never")  # type: ignore[arg-type]
            trace.add_span("d", 1.5, 2.5, outcome=None)  # type: ignore[arg-type]
            trace.flow(trace.root, trace.root, from_ns=1.5)  # type: ignore[arg-type]
        Trace("next").close()
    assert [(each.request_id, len(each)) for each in load(path)] == [("r", 5), ("next", 1)]
    assert load(trace.save(tmp_path / "t.json"))[0].spans == trace.snapshot().spans


def test_every_damaged_byte_costs_one_line_at_most(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    with Recorder(TraceFile(path)), Trace("r") as trace:
        for number in range(20):
            with trace.span("work", number=number) as span:
                span.mark("token", number)
    data = path.read_bytes()
    body = data.index(b"\n") + 1
    damaged = tmp_path / "damaged.json"
    for place in range(body + 700, len(data), 97):
        damaged.write_bytes(b"[" + data[body:place] + b"\x07" + data[place + 1 :])
        found = salvage(damaged)
        assert found.lost_lines <= 1
        assert len(found.traces[0].spans) >= 20


@pytest.mark.parametrize("wrong", [0, -1])
def test_no_files_at_all_cannot_be_kept(tmp_path: Path, wrong: int) -> None:
    with pytest.raises(ValueError, match="max_files"):
        TraceFile(tmp_path / "run.json", max_files=wrong)
