"""Names and attributes of any kind: the files load, nothing is lost, and what can be shown is shown as it is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from linly_profiling import Trace
from trace_tools import Clock, events
from viewer_slices import Loaded

if TYPE_CHECKING:
    from viewer_node import NodeViewers

PLAIN = [
    'q"1',
    "it's",
    "`'\"",
    "a/b?c=d&e#f",
    "<script>alert(1)</script>",
    '{"ph":"X"}',
    "你好😀",
    "e\u0301",  # combining
    "\u2028\u2029\ufeff",  # separators, and a byte order mark
    "\u202eright to left",
    " ",
    "%s %n %00",
    "null",
    "x" * 99,
]
CHANGED = [
    "",
    "a\nb\r\n",
    "\x00\x1b[31m\x7f",
    "back\\slash\\",
    "\\u0041",
    "\ud800",
    "\udfff\ud800",
    "\ud83d\ude00",
]


@pytest.fixture(params=[*PLAIN, *CHANGED], ids=ascii)
def text(request: pytest.FixtureRequest) -> str:
    given: str = request.param
    return given


def trace_of(text: str) -> Trace:
    """The text wherever text can stand."""
    clock = Clock()
    trace = Trace(text, clock_ns=clock)
    with trace.span(text, row=text or "row") as first:
        first.set(**{text: text, "list": [text, {text: text}]})
        clock.tick()
        first.mark(text)
        trace.counter(text, 1, track=text)
        clock.tick()
    with trace.span("second") as second:
        trace.flow(first, second, text)
        clock.tick()
    trace.close(text or None)
    return trace


def test_perfetto_loses_nothing_over_hostile_text(viewers: NodeViewers, tmp_path: Path, text: str) -> None:
    path = trace_of(text).save(tmp_path / "t.json")
    loaded = Loaded(viewers, path)
    shown = [event["name"] for event in events(path) if event["ph"] == "X"][1]
    assert [(drawn.name, drawn.span_id) for drawn in loaded.spans] == [
        ("linly.request", 1),
        (shown, 2),
        ("second", 3),
    ]
    assert [loaded.parent_name(mark) for mark in loaded.marks] == [shown]
    assert len(loaded.arrows) == 1
    assert loaded.query("SELECT count() FROM counter WHERE value = 1") == [(1,)]
    assert shown == text or text in CHANGED


def test_perfetto_shows_plain_text_as_it_is(viewers: NodeViewers, tmp_path: Path) -> None:
    for text in PLAIN:
        loaded = Loaded(viewers, trace_of(text).save(tmp_path / "t.json"))
        first = loaded.spans[1]
        assert (first.name, first.row, first.process) == (text, text, f"request {text}")
        assert (text,) in loaded.query("SELECT string_value FROM args WHERE key = 'args.list[0]'")
        assert {(f"{text} {text}",)} == _counters(loaded)


def _counters(loaded: Loaded) -> set[tuple[str]]:
    names = [str(name) for (name,) in loaded.query("SELECT name FROM process_counter_track")]
    return {(name.removesuffix("value").removesuffix(" "),) for name in names if "memory.rss" not in name}
