"""Whatever a program records, Perfetto's tree of slices is the tree of spans."""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from linly_profiling import Span, Trace, load, save
from trace_tools import Clock
from viewer_slices import Loaded, Slice

if TYPE_CHECKING:
    from viewer_node import NodeViewers

JITTER_NS = 1_000  # an end that is this much late is drawn with the parent's; see `layout`
MAX_OPEN = 8

_text = st.text(st.characters(exclude_categories=[]), max_size=4)


@dataclass(frozen=True)
class Step:
    """Time passes, then one thing happens to one of the open spans."""

    wait_ns: int
    what: str
    which: int
    text: str
    row: str


_steps = st.builds(
    Step,
    wait_ns=st.sampled_from([0, 0, 1, 1, 2, 999, 1_000, 12_345]),
    what=st.sampled_from(["start"] * 5 + ["end"] * 4 + ["mark", "count", "flow"]),
    which=st.integers(0, MAX_OPEN),
    text=_text | st.just("n"),
    row=st.sampled_from(["", "", "", "llm", "tts"]) | _text,
)


def record(steps: list[Step], clock: Clock, request_id: str) -> Trace:
    trace = Trace(request_id, clock_ns=clock)
    open_spans = [trace.root]
    for step in steps:
        clock.tick(step.wait_ns)
        span = open_spans[step.which % len(open_spans)]
        if step.what == "start":
            attrs = {"row": step.row} if step.row else {}
            open_spans.append(trace.start(step.text, span, note=step.text, **attrs))
        elif step.what == "mark":
            span.mark(step.text)
        elif step.what == "count":
            trace.counter(step.text, step.which, track=step.row)
        elif step.what == "flow":
            trace.flow(span, open_spans[-1], step.text)
        if step.what == "end" or len(open_spans) > MAX_OPEN:
            _end(open_spans, step)
    clock.tick(steps[0].wait_ns if steps else 0)
    trace.close()
    return trace


def _end(open_spans: list[Span], step: Step) -> None:
    if len(open_spans) > 1:
        open_spans.pop(1 + step.which % (len(open_spans) - 1)).end(step.text or None)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.tuples(_text, st.lists(_steps, max_size=60)), min_size=1, max_size=3))
def test_the_slices_of_a_file_are_its_spans(
    viewers: NodeViewers, scripts: list[tuple[str, list[Step]]]
) -> None:
    clock = Clock()
    traces = [record(steps, clock, request_id) for request_id, steps in scripts]
    with tempfile.TemporaryDirectory() as folder:
        path = save(Path(folder) / "t.json", traces)
        assert load(path) == [trace.snapshot() for trace in traces]
        base_ns = json.loads(path.read_text("utf-8"))["baseTimeNanoseconds"]
        loaded = Loaded(viewers, path)
    assert {drawn.pid for drawn in loaded.everything} == {2**30 + i for i in range(len(traces))}
    for number, trace in enumerate(traces):
        drawn = {s.span_id or 0: s for s in loaded.spans if s.pid == 2**30 + number}
        _compare(trace, drawn, loaded, base_ns)
    assert len(loaded.spans) == sum(len(trace) for trace in traces)
    assert len(loaded.marks) == sum(len(r.marks) for trace in traces for r in trace.records())
    _compare_arrows(traces, loaded)


def _compare(trace: Trace, drawn: dict[int, Slice], loaded: Loaded, base_ns: int) -> None:
    tree = Tree(trace)
    assert drawn.keys() == tree.records.keys()
    for span_id, record in tree.records.items():
        here = drawn[span_id]
        assert base_ns + here.start_ns == trace.epoch.wall_of(record.start_ns)
        assert record.duration_ns - JITTER_NS <= here.dur_ns <= record.duration_ns
        parent = loaded.parent(here)
        assert parent is None or parent.span_id in tree.above(span_id)
        below = drawn.get(tree.nearest_in_row(span_id) or 0)
        if below is not None and _lies_in(here, below) and not tree.crowded(span_id):
            assert parent == below


def _lies_in(inner: Slice, outer: Slice) -> bool:
    inner_end, outer_end = inner.start_ns + inner.dur_ns, outer.start_ns + outer.dur_ns
    return outer.start_ns <= inner.start_ns < outer_end and inner_end <= outer_end


class Tree:
    """The spans of a trace, as the program made them."""

    def __init__(self, trace: Trace) -> None:
        self.records = {record.span_id: record for record in trace.records()}

    def above(self, span_id: int) -> list[int]:
        """The spans around it, from the inside out."""
        found = []
        while (parent := self.records[span_id].parent_id) is not None:
            found.append(span_id := parent)
        return found

    def row(self, span_id: int) -> object:
        rows = (self.records[i].attrs.get("row") for i in (span_id, *self.above(span_id)))
        return next((row for row in rows if row), "request")

    def nearest_in_row(self, span_id: int) -> int | None:
        return next((i for i in self.above(span_id) if self.row(i) == self.row(span_id)), None)

    def crowded(self, span_id: int) -> bool:
        """Whether a span of another branch is drawn in its row at the same time: then it may move to a second lane."""
        mine = self.records[span_id]
        return any(
            other.start_ns <= mine.end_ns + 1 and mine.start_ns <= other.end_ns + 1
            for i, other in self.records.items()
            if i not in self.above(span_id)
            and span_id not in (i, *self.above(i))
            and self.row(i) == self.row(span_id)
        )


def _compare_arrows(traces: list[Trace], loaded: Loaded) -> None:
    flows = [(2**30 + i, flow) for i, trace in enumerate(traces) for flow in trace.snapshot().flows]
    assert len(loaded.arrows) == len(flows)
    for pid, flow in flows:
        assert any(
            source[0].pid == target[0].pid == pid
            and flow.from_id in [s.span_id for s in source]
            and flow.to_id in [s.span_id for s in target]
            for source, target in loaded.arrows
        )
