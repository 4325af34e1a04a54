"""The formats that a trace is saved in, and the ones that are read back."""

from __future__ import annotations

import csv
import gzip
import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from linly_profiling import CudaUse, LoadedTrace, Trace, TraceFileError, load, save
from linly_profiling.flat import COLUMNS, SCHEMA, json_of, traces_of
from linly_profiling.protobuf import varint
from trace_tools import Clock

texts = st.text(st.characters(codec=None), max_size=20)  # any character, halves of surrogate pairs included
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)


@st.composite
def traces(draw: st.DrawFn) -> LoadedTrace:
    clock = Clock()
    trace = Trace(draw(texts), clock_ns=clock)
    open_spans = [trace.root]
    for name in draw(st.lists(texts, max_size=8)):
        clock.tick(draw(st.integers(0, 3)))
        row = draw(st.sampled_from([None, "llm", "tts"]))
        span = trace.start(name, parent=draw(st.sampled_from(open_spans)), **({"row": row} if row else {}))
        span.set(value=draw(values))
        span.mark(draw(texts), draw(st.none() | st.integers(-5, 5)))
        trace.counter(draw(texts), draw(st.integers(-9, 9) | st.floats(-9, 9)), draw(texts))
        trace.flow(draw(st.sampled_from(open_spans)), span, draw(texts))
        if draw(st.booleans()):
            span.end()
        else:
            open_spans.append(span)
    clock.tick(draw(st.integers(0, 3)))
    trace.close(draw(st.sampled_from([None, "cancelled"])))
    snapshot = trace.snapshot()
    cuda = draw(st.none() | st.just(CudaUse(0, 5, -6, None, 7)))
    return LoadedTrace(
        **{**snapshot.__dict__, "spans": tuple(span._replace(cuda=cuda) for span in snapshot.spans)}
    )


@given(st.lists(traces(), max_size=3))
def test_plain_json_comes_back_exactly(given_traces: list[LoadedTrace]) -> None:
    assert traces_of(json.loads(json_of(given_traces))) == given_traces


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=50)
@given(trace=traces())
def test_every_format_can_be_written_for_any_trace(tmp_path: Path, trace: LoadedTrace) -> None:
    for name in ("t.json", "t.pftrace", "t.csv", "t.spans.json"):
        assert save(tmp_path / name, [trace]).stat().st_size > 0


@pytest.mark.parametrize("name", ["t.json", "t.JSON", "t.spans.json", "t.json.gz", "t.spans.json.gz"])
def test_what_is_read_back_is_what_was_saved(tmp_path: Path, name: str) -> None:
    with Trace("r\n1") as trace, trace.span("work", answer=42) as span:
        span.mark("token", 3)
    (found,) = load(trace.save(tmp_path / name))
    assert found == trace.snapshot()


@pytest.mark.parametrize("name", ["t.pftrace.gz", "t.csv.gz", "t.perfetto-trace.gz"])
def test_gz_behind_any_suffix_compresses(tmp_path: Path, name: str) -> None:
    trace = Trace("r")
    plain = trace.save(tmp_path / name.removesuffix(".gz")).read_bytes()
    trace.close()
    plain = trace.save(tmp_path / name.removesuffix(".gz")).read_bytes()
    assert gzip.decompress(trace.save(tmp_path / name).read_bytes()) == plain


@pytest.mark.parametrize("name", ["t.txt", "t", "t.gz", "json"])
def test_an_unknown_suffix_is_refused_with_the_known_ones(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match=r"\.spans\.json, \.json, \.pftrace"):
        save(tmp_path / name, [])
    assert list(tmp_path.iterdir()) == []


def test_formats_that_are_only_written_say_so_when_read(tmp_path: Path) -> None:
    path = Trace("r").save(tmp_path / "t.csv")
    with pytest.raises(TraceFileError, match="only written"):
        load(path)


@pytest.mark.parametrize(
    "content", ["{}", "[]", "{", '{"schema": "linly-trace/2", "traces": []}', '{"schema": "linly-trace/1"}']
)
def test_a_foreign_or_later_plain_json_is_named(tmp_path: Path, content: str) -> None:
    path = tmp_path / "t.spans.json"
    path.write_text(content)
    with pytest.raises(TraceFileError, match=r"t\.spans\.json"):
        load(path)


def test_a_file_keeps_its_former_content_if_writing_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = Trace("old").save(tmp_path / "t.json")
    before = path.read_bytes()

    def full(self: Path, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match="No space"):
        Trace("new").save(path)
    assert path.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["t.json"]


def rows(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(path.read_text("utf-8"), newline="")))


def test_a_table_has_a_row_a_span_and_its_columns_are_stable(tmp_path: Path) -> None:
    clock = Clock()
    with Trace('r "1", 你好\n', clock_ns=clock) as trace, trace.span("work", row="llm", tokens=3) as span:
        clock.tick(5)
        span.mark("token", 7)
        with trace.span("inner"):
            clock.tick(4)
    found = rows(trace.save(tmp_path / "t.csv"))
    assert list(found[0]) == list(COLUMNS)
    assert [row["name"] for row in found] == ["linly.request", "work", "inner"]
    assert found[1]["request_id"] == 'r "1", 你好\n'
    assert [row["row"] for row in found] == ["request", "llm", "llm"]
    assert (found[1]["duration_ns"], found[2]["duration_ns"]) == ("9", "4")
    assert json.loads(found[1]["attributes"]) == {"row": "llm", "tokens": 3}
    assert json.loads(found[1]["marks"]) == [["token", trace.records()[1].start_ns + 5, 7]]
    assert found[1]["cuda_time_ns"] == ""
    assert found[1]["started_at"].endswith("+00:00")


@pytest.mark.parametrize("name", ["=1+1", "+x", "-x", "@x", "\tx"])
def test_a_name_that_a_spreadsheet_would_run_is_quoted(tmp_path: Path, name: str) -> None:
    trace = Trace(name)
    trace.start(name).end()
    trace.close()
    for row in rows(trace.save(tmp_path / "t.csv")):
        assert not row["name"].startswith(("=", "+", "-", "@", "\t"))
        assert row["request_id"] == f"'{name}"


def test_plain_json_names_its_schema_and_uses_plain_words(tmp_path: Path) -> None:
    document: dict[str, Any] = json.loads(Trace("r").save(tmp_path / "t.spans.json").read_text("ascii"))
    assert document["schema"] == SCHEMA
    (trace,) = document["traces"]
    assert set(trace) == {
        "request_id", "trace_id", "remote_parent_id", "outcome", "dropped", "epoch", "spans", "samples", "flows",
    }  # fmt: skip
    assert trace["spans"][0]["cuda"] is None


@given(st.integers(-(2**63), 2**64 - 1))
def test_a_varint_holds_seven_bits_a_byte(number: int) -> None:
    data = varint(number)
    assert sum((byte & 0x7F) << 7 * place for place, byte in enumerate(data)) == number % 2**64
    assert [byte >> 7 for byte in data] == [1] * (len(data) - 1) + [0]
