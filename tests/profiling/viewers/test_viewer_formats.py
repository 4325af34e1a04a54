"""Perfetto's own format, and files that grow: closed, killed and repaired, they all load."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from linly_profiling import Recorder, Span, Trace, TraceFile, load, save
from linly_profiling.chrome.repair import salvage
from trace_tools import MS, Clock
from viewer_slices import Loaded
from viewer_traces import ROWS, answers

if TYPE_CHECKING:
    from viewer_node import NodeViewers

HOSTILE = 'r "1" \\ \n 你好 😀 \x07 </script>'

NATIVE = """
    SELECT slice.name, slice.ts, slice.dur, parent.name, row.name, request.name
    FROM slice LEFT JOIN slice AS parent ON parent.id = slice.parent_id
    JOIN track AS row ON row.id = slice.track_id JOIN track AS request ON request.id = row.parent_id
    ORDER BY slice.ts, slice.dur DESC, slice.id
"""
# As Perfetto's UI asks for them: `ui/src/plugins/dev.perfetto.TrackEvent/index.ts`.
IN_ORDER = """
    INCLUDE PERFETTO MODULE viz.summary.track_event;
    SELECT drawn.name, parent.name FROM _track_event_tracks_ordered_groups AS drawn
    LEFT JOIN track AS parent ON parent.id = drawn.parent_id
    ORDER BY drawn.parent_id, drawn.order_id
"""
TROUBLE = "SELECT name, value FROM stats WHERE severity IN ('error', 'data_loss') AND value > 0"


def test_perfettos_own_format_keeps_every_nanosecond_name_and_parent(
    viewers: NodeViewers, tmp_path: Path
) -> None:
    clock = Clock()
    trace = Trace(HOSTILE, clock_ns=clock)
    clock.tick(3)
    with trace.span(HOSTILE, row="llm", order=0):
        clock.tick(5)
        with trace.span("inner"):
            clock.tick(7)
    clock.tick(1)
    trace.close()
    path = trace.save(tmp_path / "t.pftrace")
    assert viewers.query(path, TROUBLE) == []
    wall_ns = trace.epoch.wall_of(trace.root.start_ns)
    assert viewers.query(path, NATIVE) == [
        ("linly.request", wall_ns, 16, None, "request", f"request {HOSTILE}"),
        (HOSTILE, wall_ns + 3, 12, None, "llm", f"request {HOSTILE}"),
        ("inner", wall_ns + 8, 7, HOSTILE, "llm", f"request {HOSTILE}"),
    ]


def test_perfettos_own_format_shows_requests_stages_arrows_and_counters(
    viewers: NodeViewers, tmp_path: Path
) -> None:
    traces = answers(3)
    path = save(tmp_path / "t.pftrace.gz", traces)
    assert viewers.query(path, TROUBLE) == []
    spans = sum(len(trace) for trace in traces)
    marks = sum(len(record.marks) for trace in traces for record in trace.records())
    arrows = sum(len(trace.snapshot().flows) for trace in traces)
    assert viewers.query(path, "SELECT count(*) FROM slice") == [(spans + marks + 2 * arrows,)]
    assert viewers.query(path, "SELECT count(*) FROM flow") == [(arrows,)]
    counted = sum(len(trace.snapshot().samples) for trace in traces)
    (curves,) = viewers.query(path, "SELECT count(*) FROM counter_track")[0]
    # Each curve is brought to rest at the end of its request.
    assert viewers.query(path, "SELECT count(*) FROM counter") == [(counted + curves,)]
    drawn = viewers.query(path, IN_ORDER)
    assert [name for name, parent in drawn if parent is None] == [f"request turn {i + 1}" for i in range(3)]
    for number in range(3):
        below = [name for name, parent in drawn if parent == f"request turn {number + 1}"]
        assert below[: 1 + len(ROWS)] == ["request", *ROWS]
    numbers = viewers.query(path, "SELECT DISTINCT int_value FROM args WHERE key = 'debug.linly.span_id'")
    assert {number for (number,) in numbers} == {
        record.span_id for trace in traces for record in trace.records()
    }


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    deadline=None,
    max_examples=15,
)
@given(
    st.lists(st.tuples(st.integers(0, 6), st.integers(0, 3), st.sampled_from(["", "x", "y"])), max_size=30)
)
def test_any_tree_of_spans_loads_whole_in_both_formats(
    viewers: NodeViewers, tmp_path: Path, steps: list[tuple[int, int, str]]
) -> None:
    clock = Clock()
    with Recorder(TraceFile(tmp_path / "t.json"), period_s=0), Trace("r", clock_ns=clock) as trace:
        running: list[Span] = [trace.root]
        for which, wait, row in steps:
            clock.tick(2_000 * wait)  # what sticks out of its parent by less than 1,000 ns is cut
            span = running[which % len(running)]
            if which % 2 and span is not trace.root:
                running.remove(span)
                span.end()
            else:
                running.append(trace.start("work", parent=span, **({"row": row} if row else {})))
        clock.tick(5_000)
    assert len(Loaded(viewers, tmp_path / "t.json").spans) == len(trace)
    native = trace.save(tmp_path / "t.pftrace")
    assert viewers.query(native, TROUBLE) == []
    lengths = viewers.query(native, "SELECT dur FROM slice")
    assert Counter(dur for (dur,) in lengths) == Counter(span.duration_ns for span in trace.records())


def test_a_file_that_grew_shows_requests_stages_and_arrows(viewers: NodeViewers, tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    with Recorder(TraceFile(path)):
        traces = answers(3)
    loaded = Loaded(viewers, path)
    assert len(loaded.spans) == sum(len(trace) for trace in traces)
    assert len(loaded.arrows) == sum(len(trace.snapshot().flows) for trace in traces)
    # On this clock a stage and what it does begin at the same nanosecond: such spans lie side by side.
    assert [row for row in loaded.rows(2**30) if not row.endswith(")")] == ["request", *ROWS]


PROGRAM = """
import sys, time
from linly_profiling import Recorder, Trace, TraceFile
with Recorder(TraceFile(sys.argv[1])):
    with Trace("doomed") as trace, trace.span("linly.stage llm", row="llm", order=0):
        time.sleep(0.2)
        for number in range(100_000):
            with trace.span("work") as span, trace.span("inner"):
                span.mark("token")
            if number % 20 == 0:
                time.sleep(0.002)
                print(number, flush=True)
"""


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of a process that was killed."""
    path = tmp_path_factory.mktemp("killed") / "run.json"
    process = subprocess.Popen([sys.executable, "-c", PROGRAM, str(path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    for line in process.stdout:
        if int(line) >= 1_000:
            break
    process.kill()
    process.stdout.close()
    process.wait()
    return path


def test_the_file_of_a_killed_process_loads_as_it_is(viewers: NodeViewers, killed: Path) -> None:
    loaded = Loaded(viewers, killed)
    inner = [drawn for drawn in loaded.spans if drawn.name == "inner"]
    assert len(inner) > 500
    assert {loaded.parent_name(drawn) for drawn in inner} == {"work"}
    assert {drawn.process for drawn in inner} == {"request doomed"}


def test_a_file_cut_in_the_middle_of_a_line_loads_what_is_whole(
    viewers: NodeViewers, killed: Path, tmp_path: Path
) -> None:
    data = killed.read_bytes()
    cut = tmp_path / "cut.json"
    for end in (len(data) // 2, len(data) // 2 + 7, len(data) - 3):
        cut.write_bytes(data[:end])
        assert len(Loaded(viewers, cut).spans) > 300


def test_repairing_brings_back_the_spans_that_were_open(
    viewers: NodeViewers, killed: Path, tmp_path: Path
) -> None:
    path = save(tmp_path / "repaired.json", salvage(killed).traces)
    loaded = Loaded(viewers, path)
    work = next(drawn for drawn in loaded.spans if drawn.name == "work")
    assert loaded.parent_name(work) == "linly.stage llm"
    assert any(drawn.name == "linly.request" for drawn in loaded.spans)
    (trace,) = load(path)
    assert trace.outcome == "open"
    assert max(span.duration_ns for span in trace.spans) > 200 * MS
