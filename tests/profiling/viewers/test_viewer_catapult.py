"""The importer of chrome://tracing reads our files without a warning, and sees in them what happened."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from linly_profiling import Trace, save
from trace_tools import Clock
from viewer_traces import ROWS, answers

if TYPE_CHECKING:
    from viewer_node import NodeViewers


@pytest.fixture
def model(viewers: NodeViewers, tmp_path: Path) -> dict[str, Any]:
    """Three requests at once, in one file."""
    return viewers.catapult(save(tmp_path / "t.json", answers(3)))


def slices(model: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for process in model["processes"]:
        for thread in process["threads"]:
            yield from thread["slices"]


def test_the_file_is_read_without_a_warning(model: dict[str, Any]) -> None:
    assert model["warnings"] == []


def test_every_request_is_a_process_with_a_row_for_each_stage_in_order(model: dict[str, Any]) -> None:
    processes = sorted(model["processes"], key=lambda process: process["sort_index"])
    assert [process["name"] for process in processes] == [f"request turn {i}" for i in (1, 2, 3)]
    assert {label for process in processes for label in process["labels"]} == {"ok"}
    for process in processes:
        threads = sorted(process["threads"], key=lambda thread: thread["sort_index"])
        assert [thread["name"] for thread in threads if thread["slices"]] == ["request", *ROWS]


def test_every_slice_lies_in_its_parent(model: dict[str, Any]) -> None:
    parents = Counter((s["name"], s["parent"]) for s in slices(model))
    assert {pair: count for pair, count in parents.items() if pair[1]} == {
        ("linly.queue.wait", "linly.stage asr"): 2,
        ("whisper.transcribe", "linly.stage asr"): 3,
        ("llm.generate", "linly.stage llm"): 3,
        ("token", "llm.generate"): 90,
        ("tts.synthesise", "linly.stage tts"): 9,
        ("tts.mel", "tts.synthesise"): 9,
        ("tts.vocoder", "tts.synthesise"): 9,
        ("face.render", "linly.stage face"): 9,
        ("frame", "face.render"): 180,
        ("mp4.write", "linly.stage sink"): 9,
    }


def test_arrows_and_counters_are_there(model: dict[str, Any]) -> None:
    assert Counter((flow["name"], flow["from"], flow["to"]) for flow in model["flows"]) == {
        ("sentence", "llm.generate", "tts.synthesise"): 9,
        ("sound", "tts.synthesise", "face.render"): 9,
        ("frames", "face.render", "mp4.write"): 9,
    }
    for process in model["processes"]:
        curves = {counter["name"]: counter["values"] for counter in process["counters"]}
        assert curves["tts queue.depth"] == [1, 0, 1, 0, 1, 0, 0]
        assert curves["llm kv_cache.bytes"] == [(412 + token) * 2**17 for token in range(1, 31)] + [0]


def test_durations_are_exact_to_the_nanosecond(viewers: NodeViewers, tmp_path: Path) -> None:
    clock = Clock()
    trace = Trace("r", clock_ns=clock)
    for length_ns in range(1, 40):
        with trace.span("s", row="x"):
            clock.tick(length_ns)
        clock.tick(1)
    trace.close()
    model = viewers.catapult(trace.save(tmp_path / "t.json"))
    assert [round(s["duration_us"] * 1000, 6) for s in slices(model) if s["name"] == "s"] == list(
        range(1, 40)
    )
    assert model["warnings"] == []


def test_overlapping_siblings_and_hostile_text_lose_nothing(viewers: NodeViewers, tmp_path: Path) -> None:
    clock = Clock()
    trace = Trace('a"\n\\\ud800😀\x00', clock_ns=clock)
    spans = []
    for _ in range(4):
        spans.append(trace.start('s"\n\\\ud800😀\x00', row="tts", note=float("nan")))
        clock.tick()
    for span in spans:
        trace.start("inner", span).end()
        span.end()
        clock.tick()
    trace.close("cancelled")
    model = viewers.catapult(trace.save(tmp_path / "t.json"))
    assert model["warnings"] == []
    assert len(list(slices(model))) == 9
    assert model["processes"][0]["labels"] == ["cancelled"]
    assert model["processes"][0]["name"] == 'request a"␊⧵�😀␀'
    inner = [s["parent_id"] for s in slices(model) if s["name"] == "inner"]
    assert sorted(inner) == [span.span_id for span in spans]


def test_an_array_that_was_not_closed_is_read(viewers: NodeViewers, tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text('[\n{"ph":"X","pid":1,"tid":1,"ts":1,"dur":3,"name":"a"},\n', "utf-8")
    assert [s["name"] for s in slices(viewers.catapult(tmp_path / "t.json"))] == ["a"]
