"""Numbers that viewers cannot take, or not all of them, lose nothing beside themselves."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from linly_profiling import Trace
from trace_tools import Clock
from viewer_slices import Loaded

if TYPE_CHECKING:
    from viewer_node import NodeViewers

NAN, INFINITY = float("nan"), float("inf")


@pytest.mark.parametrize("value", [NAN, INFINITY, -INFINITY, 2**70, -(2**63) - 1, 1e308, 5e-324], ids=str)
def test_an_attribute_of_any_size_leaves_the_others_alone(
    viewers: NodeViewers, tmp_path: Path, value: float
) -> None:
    trace = Trace("r")
    with trace.span("s", before=1, value=value, inside=[value, {"deep": value}], after=2) as span:
        span.mark("m", 2**62)
    trace.close()
    path = trace.save(tmp_path / "t.json")
    found = Loaded(viewers, path).query(
        "SELECT extract_arg(arg_set_id, 'args.before'), extract_arg(arg_set_id, 'args.after'), "
        "extract_arg(arg_set_id, 'args.linly.span_id') FROM slice WHERE name = 's'"
    )
    assert found == [(1, 2, 2)]
    slices = [
        drawn for thread in viewers.catapult(path)["processes"][0]["threads"] for drawn in thread["slices"]
    ]
    assert [(s["args"]["before"], s["args"]["after"]) for s in slices if s["name"] == "s"] == [(1, 2)]


@pytest.mark.parametrize("value", [NAN, INFINITY, -INFINITY], ids=str)
def test_a_counter_that_is_no_number_is_left_out(viewers: NodeViewers, tmp_path: Path, value: float) -> None:
    clock = Clock()
    trace = Trace("r", clock_ns=clock)
    for number in (1, value, 3):
        trace.counter("queue.depth", number, track="llm")
        clock.tick()
    trace.close()
    loaded = Loaded(viewers, trace.save(tmp_path / "t.json"))
    assert _values(loaded, "queue.depth") == [1, 3, 0]


@pytest.mark.parametrize("value", [0, -5, 0.1, 2**53 + 1, 10**18, 1e300, -1e-300], ids=str)
def test_a_counter_keeps_its_value(viewers: NodeViewers, tmp_path: Path, value: float) -> None:
    trace = Trace("r", clock_ns=Clock())
    trace.counter("warmth", value)
    trace.close()
    loaded = Loaded(viewers, trace.save(tmp_path / "t.json"))
    assert _values(loaded, "warmth") == [float(value), 0]


def _values(loaded: Loaded, name: str) -> list[Any]:
    found = loaded.query(
        "SELECT value FROM counter JOIN process_counter_track track ON track.id = track_id "
        f"WHERE track.name GLOB '*{name}*' ORDER BY ts"
    )
    return [value for (value,) in found]
