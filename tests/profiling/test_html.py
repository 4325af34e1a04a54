"""The report as one HTML file: nothing lost, nothing from elsewhere, nothing that runs but our own script."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from importlib import resources
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest
from html_turns import HOSTILE, START_NS, Turn, a_hostile_turn, a_large_turn, a_turn
from hypothesis import given, settings
from hypothesis import strategies as st
from linly_profiling import CudaUse, LoadedTrace, Record, Report, Trace
from linly_profiling.chrome.layout import lay_out
from linly_profiling.html import document, save_html
from linly_profiling.html.aggregate import by_name, flame, own_times
from linly_profiling.html.pack import levels, origin
from linly_profiling.html.page import SCRIPTS, STYLES
from trace_tools import MS, Clock

VOID = {"meta", "link", "img", "input", "br", "hr"}


class Page(HTMLParser):
    """Tags as a parser meets them, and the text of scripts and styles."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.blocks: list[tuple[dict[str, str | None], str]] = []
        self.text: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if tag in ("script", "style"):
            self.blocks.append((dict(attrs), ""))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in ("script", "style"):
            attrs, text = self.blocks.pop()
            self.blocks.append((attrs, text + data))
        else:
            self.text.append(data)

    def data(self, name: str) -> Any:
        (found,) = [text for attrs, text in self.blocks if attrs.get("id") == name]
        return json.loads(found)


def from_steps(steps: list[int | None]) -> list[int | None]:
    sums = accumulate(step or 0 for step in steps)
    return [None if step is None else value for step, value in zip(steps, sums, strict=True)]


def unpacked(data: dict[str, Any], trace: LoadedTrace) -> dict[int, Record]:
    """The spans as the page has them, by ID; what it does not hold, from the trace itself."""
    names, spans, zero_ns = data["names"], data["spans"], origin(trace)
    columns = {name: from_steps(spans[name]) for name in ("id", "start", "rss_start", "rss_end", "rss_peak")}
    found = {}
    for k, span_id in enumerate(columns["id"]):
        own = data["details"].get(str(k), {})
        start_ns = columns["start"][k] + zero_ns
        marks = [
            (names[name], at + start_ns, values[n] if values else None)
            for name, steps, values in data["marks"].get(str(k), [])
            for n, at in enumerate(from_steps(steps))
        ]
        found[span_id] = Record(
            name=names[spans["name"][k]],
            span_id=span_id,
            parent_id=None if spans["parent"][k] < 0 else columns["id"][spans["parent"][k]],
            request_id=data["request_id"],
            thread_id=next(span.thread_id for span in trace.spans if span.span_id == span_id),
            thread_name=names[spans["thread"][k]],
            task=own.get("task"),
            start_ns=start_ns,
            end_ns=start_ns + spans["duration"][k],
            outcome=names[spans["outcome"][k]],
            error_type=own.get("error_type"),
            attrs=own.get("attrs", {}),
            marks=tuple(sorted(marks, key=lambda mark: mark[1])),
            rss_start_bytes=columns["rss_start"][k],
            rss_end_bytes=columns["rss_end"][k],
            rss_peak_bytes=columns["rss_peak"][k],
            cpu_ns=own.get("cpu_ns"),
            cuda=CudaUse(**own["cuda"]) if "cuda" in own else None,
        )
    return found


def expected(trace: LoadedTrace) -> dict[int, Record]:
    """Instants of stages are counted from the start of the request: see `pack`."""
    return {span.span_id: span._replace(attrs=_counted_from_start(span, trace)) for span in trace.spans}


def _counted_from_start(span: Record, trace: LoadedTrace) -> dict[str, Any]:
    if not span.name.startswith("linly.stage"):
        return span.attrs
    instants = ("first_in_ns", "ready_ns", "first_out_ns")
    return {name: value - origin(trace) if name in instants else value for name, value in span.attrs.items()}


@pytest.mark.parametrize("make", [a_turn, a_hostile_turn])
def test_the_page_holds_the_whole_trace(make: Callable[[], LoadedTrace]) -> None:
    trace = make()
    data = Page(document([trace])).data("request-0")
    assert unpacked(data, trace) == expected(trace)
    counters = {(counter["name"], counter["track"]): counter for counter in data["counters"]}
    for (name, track), counter in counters.items():
        samples = [sample for sample in trace.samples if (sample.name, sample.track) == (name, track)]
        assert [at + START_NS for at in from_steps(counter["at"])] == [sample.at_ns for sample in samples]
        assert counter["value"] == [sample.value for sample in samples]
    assert sum(len(counter["at"]) for counter in counters.values()) == len(trace.samples)
    ids = from_steps(data["spans"]["id"])
    flows = [(data["names"][n], ids[a], at, ids[b], to) for n, a, at, b, to in data["flows"]]
    assert flows == [
        (f.name, f.from_id, f.from_ns - START_NS, f.to_id, f.to_ns - START_NS) for f in trace.flows
    ]


texts = st.one_of(st.sampled_from(HOSTILE), st.text(st.characters(codec=None), max_size=20))


@settings(max_examples=40, deadline=None)
@given(
    request_id=texts, name=texts, key=texts, value=st.one_of(texts, st.integers(), st.floats()), outcome=texts
)
def test_no_text_of_a_trace_becomes_markup(
    request_id: str, name: str, key: str, value: Any, outcome: str
) -> None:
    trace = Trace(request_id, clock_ns=Clock(START_NS), name=name)
    trace.start(name, row=name).end(outcome or None)
    trace.root.set(**{key: value})
    trace.close(outcome or None)
    text = document([trace.snapshot()])
    text.encode("utf-8")
    page, plain = Page(text), Page(document([replace(a_turn(), request_id="plain")]))
    assert [tag for tag, _ in page.tags] == [tag for tag, _ in plain.tags]
    assert all(not name.startswith("on") for _, attrs in page.tags for name in attrs)
    assert page.data("request-0")["request_id"] == trace.request_id


def test_arrows_to_spans_that_were_dropped_are_left_out() -> None:
    trace = a_turn()
    without = replace(trace, spans=tuple(span for span in trace.spans if span.name != "tts.synthesise"))
    assert len(Page(document([trace])).data("request-0")["flows"]) == 1
    assert Page(document([without])).data("request-0")["flows"] == []


def test_numbers_beyond_those_of_javascript_are_text_and_infinity_is_null() -> None:
    trace = Trace("r", clock_ns=Clock(START_NS))
    trace.root.set(large=2**60, small=2**53 - 1, true=True)
    trace.close()
    (root,) = trace.snapshot().spans
    attrs = {**root.attrs, "infinite": float("inf"), "nan": [float("nan")]}
    data = Page(document([replace(trace.snapshot(), spans=(root._replace(attrs=attrs),))])).data("request-0")
    shown = data["details"]["0"]["attrs"]
    assert [shown[name] for name in ("large", "small", "true")] == [str(2**60), 2**53 - 1, True]
    assert [shown[name] for name in ("infinite", "nan")] == [None, [None]]


def test_nothing_comes_from_elsewhere() -> None:
    page = Page(document([a_turn()]))
    for _, attrs in page.tags:
        assert "src" not in attrs
        assert attrs.get("href") in (None, "data:,")
    for _, text in page.blocks:
        assert not re.search(r"\w+://|url\(|@import|\bimport\b", text)
        assert not re.search(r"\b(fetch|XMLHttpRequest|WebSocket|sendBeacon|eval|Function|innerHTML)\b", text)


def test_the_policy_allows_our_own_script_and_style_and_nothing_else() -> None:
    page = Page(document([a_turn()]))
    (policy,) = [a["content"] for tag, a in page.tags if a.get("http-equiv") == "Content-Security-Policy"]
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    ours = [text for attrs, text in page.blocks if not attrs.get("type")]
    hashes = [
        "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'" for text in ours
    ]
    assert [rules["style-src"], rules["script-src"]] == hashes
    assert rules["default-src"] == "'none'"
    assert "unsafe" not in policy


def test_every_asset_is_part_of_the_package_and_of_the_page() -> None:
    assets = {file.name for file in resources.files("linly_profiling.html").joinpath("assets").iterdir()}
    assert assets == {*SCRIPTS, *STYLES, "page.html"}


def test_a_page_without_scripts_shows_the_report_as_text() -> None:
    trace = a_turn("a <b> & c")
    assert str(Report.of(trace)).splitlines()[0] in "".join(Page(document([trace])).text)


def test_a_span_costs_about_a_hundred_bytes() -> None:
    few, many = (len(document([a_large_turn(number)])) for number in (500, 2_500))
    assert (many - few) / 2_000 < 110


@pytest.mark.parametrize("several", [False, True])
def test_one_trace_or_many_running_or_closed(tmp_path: Path, several: bool) -> None:
    running = Trace("running")
    path = save_html(tmp_path / "r.html", iter([running, a_turn()]) if several else running)
    page = Page(path.read_text("utf-8"))
    requests = ["running", "turn-1"] if several else ["running"]
    assert [row["request_id"] for row in page.data("requests")] == requests
    assert page.data("request-0")["outcome"] == "open"
    running.close()


def test_a_file_of_nothing_is_still_a_page(tmp_path: Path) -> None:
    assert Page(save_html(tmp_path / "r.html", []).read_text("utf-8")).data("requests") == []
    empty = replace(a_turn(), spans=(), samples=(), flows=())
    assert Page(document([empty])).data("request-0")["spans"]["id"] == []


def test_the_file_appears_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FileNotFoundError, match="no such folder"):
        save_html(tmp_path / "missing" / "r.html", a_turn())
    path = save_html(tmp_path / "r.html", a_turn())
    before = path.read_bytes()

    def full(self: Path, data: bytes) -> int:
        with self.open("wb") as file:
            file.write(data[:100])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match="No space left"):
        save_html(path, a_turn("other"))
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["r.html"]


spans_of_a_row = st.lists(
    st.tuples(st.integers(0, 30), st.integers(0, 12), st.integers(0, 5), st.sampled_from("ab")), max_size=25
)


def a_tree(shape: list[tuple[int, int, int, str]]) -> LoadedTrace:
    clock = Clock(0)
    trace = Trace("t", clock_ns=clock)
    opened = [trace.root]
    for start, length, parent, row in shape:
        clock.now_ns = start
        opened.append(trace.start(f"span {parent}", opened[parent % len(opened)], row=row))
        opened[-1].end(at_ns=start + length)
    clock.now_ns = 50
    trace.close()
    return trace.snapshot()


@settings(deadline=None)
@given(spans_of_a_row)
def test_bars_of_one_track_never_overlap(shape: list[tuple[int, int, int, str]]) -> None:
    layout = lay_out(a_tree(shape).spans)
    tracks: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for place, level in zip(layout.places.values(), levels(layout), strict=True):
        tracks.setdefault((place.tid, level), []).append((place.record.start_ns, place.end_ns))
    for bars in tracks.values():
        assert all(end <= start for (_, end), (start, _) in zip(bars, bars[1:], strict=False))


def test_bars_that_touch_stand_side_by_side() -> None:
    spans = a_tree([(0, 10, 0, "a"), (10, 5, 0, "a"), (15, 5, 0, "a")]).spans
    assert levels(lay_out(spans)) == [0, 0, 0, 0]


@settings(deadline=None)
@given(spans_of_a_row)
def test_own_time_is_where_no_child_is_open(shape: list[tuple[int, int, int, str]]) -> None:
    spans = a_tree(shape).spans
    own = own_times(spans)
    for span in spans:
        children = [child for child in spans if child.parent_id == span.span_id]
        alone = [
            now
            for now in range(span.start_ns, span.end_ns)
            if not any(child.start_ns <= now < child.end_ns for child in children)
        ]
        assert own[span.span_id].self_ns == len(alone)
    rows, tree = by_name(spans, own), flame(spans, own)
    assert sum(row.spans for row in rows) == sum(tree.count) == len(spans)
    assert sum(row.self_ns for row in rows) == sum(tree.self_ns)
    assert all(parent < node for node, parent in enumerate(tree.parent))


def test_what_a_stage_waited_for_is_not_its_work() -> None:
    turn = Turn()
    stage = turn.stage("tts", 0, 0, 100)
    turn.at(1, lambda: stage[0].set(wait_in_ns=50 * MS, wait_out_ns=10 * MS))
    turn.span("linly.queue.wait", 10, 15, stage)
    turn.span("tts.speak", 60, 90, stage)
    spans = turn.close(100).spans
    rows = {row.name: row for row in by_name(spans, own_times(spans))}
    assert (rows["linly.stage tts"].self_ns, rows["linly.stage tts"].wait_ns) == (65 * MS, 60 * MS)
    assert rows["linly.queue.wait"].wait_ns == rows["linly.queue.wait"].self_ns == 5 * MS
    assert rows["tts.speak"].wait_ns == 0


def test_percentiles_are_durations_that_occurred() -> None:
    turn = Turn()
    for k in range(1, 21):
        turn.span("s", 100 * k, 100 * k + k, how="error" if k == 3 else "ok")
    spans = turn.close(3_000).spans
    row = next(row for row in by_name(spans, own_times(spans)) if row.name == "s")
    assert (row.p50_ns, row.p95_ns, row.max_ns, row.failed) == (10 * MS, 19 * MS, 20 * MS, 1)
