"""The formats that a trace is saved in, and the ones that are read back."""

from __future__ import annotations

import csv
import gzip
import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from linly_profiling import (
    CudaUse,
    Flow,
    LoadedTrace,
    Mark,
    Record,
    Sample,
    Trace,
    TraceFileError,
    load,
    save,
)
from linly_profiling.clock import Epoch
from linly_profiling.flat import COLUMNS
from linly_profiling.formats import SUFFIXES
from linly_profiling.plain import SCHEMA, json_of, traces_of
from linly_profiling.protobuf import time_varint, varint
from trace_strategies import traces
from trace_tools import MS, Clock

some = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@some
@given(st.lists(traces(), max_size=3))
def test_plain_json_comes_back_exactly(given_traces: list[LoadedTrace]) -> None:
    assert traces_of(json_of(given_traces).decode("ascii")) == given_traces


@some
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


def test_the_format_can_be_told_apart_from_the_name(tmp_path: Path) -> None:
    trace = Trace("r")
    trace.close()
    path = save(tmp_path / "download.tmp", [trace], format=".spans.json.gz")
    path = path.rename(tmp_path / "t.spans.json")
    assert load(path) == [trace.snapshot()]
    with pytest.raises(ValueError, match="not 'yaml'"):
        save(tmp_path / "t.json", [trace], format="yaml")


def plain(tmp_path: Path, **changes: Any) -> Path:
    """A file with one trace of one span with one mark, and these keys of the span changed."""
    path = Trace("r").save(tmp_path / "t.spans.json")
    document = json.loads(path.read_text())
    document["traces"][0]["spans"][0].update({"marks": [{"name": "token", "at_ns": 3}], **changes})
    path.write_text(json.dumps(document))
    return path


@pytest.mark.parametrize(
    "content",
    [
        "{}", "[]", "{", "null", '{"schema": "linly-trace/2", "traces": []}', '{"schema": "linly-trace/1"}',
        '{"schema": "linly-trace/1", "traces": [3]}', "[" * 100_000,
    ],
)  # fmt: skip
def test_a_foreign_or_later_plain_json_is_named(tmp_path: Path, content: str) -> None:
    path = tmp_path / "t.spans.json"
    path.write_text(content)
    with pytest.raises(TraceFileError, match=r"t\.spans\.json"):
        load(path)


@pytest.mark.parametrize(
    "changes",
    [
        {"start_ns": "1"}, {"start_ns": 1.5}, {"start_ns": None}, {"end_ns": True}, {"name": 3}, {"attrs": []},
        {"marks": [{"name": "token"}]}, {"marks": None}, {"cuda": {"time_ns": 3}}, {"cuda": 1}, {"parent_id": "1"},
        {"parent_id": 1}, {"parent_id": 7}, {"attrs": {"x": float("nan")}},
    ],
)  # fmt: skip
def test_a_value_that_does_not_belong_there_is_refused(tmp_path: Path, changes: dict[str, Any]) -> None:
    """Also a span above itself: whoever walks up the tree would walk for ever."""
    with pytest.raises(TraceFileError, match=r"t\.spans\.json"):
        load(plain(tmp_path, **changes))


def test_keys_of_a_later_writer_are_ignored_and_null_ones_may_be_missing(tmp_path: Path) -> None:
    (trace,) = load(plain(tmp_path, colour="red", cuda={"device": 0, "watts": 300}))
    assert trace.spans[0].cuda == CudaUse(0)
    assert trace.spans[0].marks == (Mark("token", 3),)


def test_spans_are_read_in_the_order_of_their_ids(tmp_path: Path) -> None:
    with Trace("r") as trace, trace.span("work"):
        pass
    path = trace.save(tmp_path / "t.spans.json")
    document = json.loads(path.read_text())
    document["traces"][0]["spans"].reverse()
    path.write_text(json.dumps(document))
    assert load(path) == [trace.snapshot()]
    document["traces"][0]["spans"].append(document["traces"][0]["spans"][0])
    path.write_text(json.dumps(document))
    with pytest.raises(TraceFileError, match="out of order"):
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


NUMBERS = {
    "span_id", "parent_id", "start_ns", "end_ns", "duration_ns", "rss_start_bytes", "rss_end_bytes", "rss_peak_bytes",
    "cpu_ns",
}  # fmt: skip


def rows(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(path.read_bytes().decode("utf-8"), newline="")))


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
    assert int(found[1]["end_ns"]) - int(found[1]["start_ns"]) == 9


@some
@given(st.lists(traces(), max_size=2))
def test_any_table_is_read_back_by_any_reader_of_csv(tmp_path: Path, given_traces: list[LoadedTrace]) -> None:
    found = rows(save(tmp_path / "t.csv", given_traces))
    spans = [(trace, span) for trace in given_traces for span in trace.spans]
    assert len(found) == len(spans)
    for row, (trace, span) in zip(found, spans, strict=True):
        assert not set(row) ^ set(COLUMNS)
        assert as_cell(row["request_id"]) == as_cell(trace.request_id)
        assert as_cell(row["name"]) == as_cell(span.name)
        assert json.loads(row["attributes"] or "{}") == span.attrs
        assert [Mark(*mark) for mark in json.loads(row["marks"] or "[]")] == list(span.marks)
        numbers = {name: getattr(span, name) for name in COLUMNS if name in NUMBERS}
        assert {name: int(row[name]) if row[name] else None for name in numbers} == numbers
        for name, value in (span.cuda or CudaUse(None))._asdict().items():  # type: ignore[arg-type]
            assert row[f"cuda_{name}"] == ("" if value is None else str(value).lower())


def as_cell(text: str) -> str:
    return "".join("\ufffd" if "\ud800" <= char <= "\udfff" else char for char in text).removeprefix("'")


def test_equal_attributes_of_several_types_are_not_taken_for_each_other(tmp_path: Path) -> None:
    trace = Trace("r")
    given = [True, 1, 1.0, False, 0, 0.0, -0.0]
    for value in given:
        trace.start("work", x=value).end()
    trace.close()
    found = [json.loads(row["attributes"])["x"] for row in rows(trace.save(tmp_path / "t.csv"))[1:]]
    assert repr(found) == repr(given)


@pytest.mark.parametrize(
    ("wall_ns", "shown"),
    [
        (1_796_102_361_284_939_999, "2026-12-01T05:19:21.284939+00:00"), (0, "1970-01-01T00:00:00.000000+00:00"),
        (-1, "1969-12-31T23:59:59.999999+00:00"), (10**30, ""), (-(10**30), ""),
    ],
)  # fmt: skip
def test_the_start_in_a_table_is_utc_to_the_microsecond(tmp_path: Path, wall_ns: int, shown: str) -> None:
    trace = Trace("r", clock_ns=Clock(5 * MS))
    trace.close()
    moved = replace(trace.snapshot(), epoch=Epoch(5 * MS, wall_ns))
    assert [row["started_at"] for row in rows(save(tmp_path / "t.csv", [moved]))] == [shown]


@pytest.mark.parametrize("name", ["=1+1", "+x", "-x", "@x", "\tx", "\rx", "\nx", "\uff1d1", "\uff0dx"])
def test_a_name_that_a_spreadsheet_would_run_is_quoted(tmp_path: Path, name: str) -> None:
    trace = Trace(name)
    trace.start(name).end()
    trace.close()
    for row in rows(trace.save(tmp_path / "t.csv")):
        assert row["request_id"] == f"'{name}"
        assert row["name"] in (f"'{name}", "linly.request")


@pytest.mark.parametrize("name", ["a;=1+1", 'a",=1+1', "a\t=1+1", "a\r\n=1+1"])
def test_a_name_cannot_end_its_cell_whatever_separates_them(tmp_path: Path, name: str) -> None:
    trace = Trace("r")
    trace.start(name).end()
    text = trace.save(tmp_path / "t.csv").read_bytes().decode()
    assert '"' + name.replace('"', '""') + '"' in text


def test_plain_json_names_its_schema_and_uses_plain_words(tmp_path: Path) -> None:
    document: dict[str, Any] = json.loads(Trace("r").save(tmp_path / "t.spans.json").read_text("ascii"))
    assert document["schema"] == SCHEMA
    (trace,) = document["traces"]
    assert set(trace) == {
        "request_id", "trace_id", "remote_parent_id", "outcome", "dropped", "epoch", "spans", "samples", "flows",
    }  # fmt: skip
    assert trace["spans"][0]["cuda"] is None
    assert set(trace["spans"][0]) == set(Record._fields) - {"request_id"}


def test_plain_json_knows_every_field_that_a_trace_has(tmp_path: Path) -> None:
    span = Record(
        "work", 1, None, "r", 7, "main", "task", 1, 9, "error", "OSError", {"a": [1]}, (Mark("m", 2, 3),), 4, 5, 6, 7,
        CudaUse(0, 1, 2, 3, 4, shared=False),
    )  # fmt: skip
    trace = LoadedTrace(
        "r",
        "error",
        3,
        Epoch(1, 2),
        (span,),
        (Sample("s", "t", 1, 2.5),),
        (Flow("f", 1, 2, 1, 3),),
        "ab",
        "cd",
    )
    assert load(save(tmp_path / "t.spans.json", [trace])) == [trace]


@given(st.integers(-(2**63), 2**64 - 1))
def test_a_varint_holds_seven_bits_a_byte(number: int) -> None:
    data = varint(number)
    assert sum((byte & 0x7F) << 7 * place for place, byte in enumerate(data)) == number % 2**64
    assert [byte >> 7 for byte in data] == [1] * (len(data) - 1) + [0]


@given(st.integers(0, 2**64 - 1))
def test_a_time_is_the_same_number_in_five_bytes_or_more(number: int) -> None:
    data = time_varint(number)
    assert sum((byte & 0x7F) << 7 * place for place, byte in enumerate(data)) == number
    assert [byte >> 7 for byte in data] == [1] * (len(data) - 1) + [0]
    assert 5 <= len(data) <= 10


DESCRIPTION = Path(__file__).parents[2] / "docs" / "trace-format.md"


def test_the_description_names_every_suffix_key_and_column() -> None:
    text = DESCRIPTION.read_text("utf-8")
    missing = [name for name in (*SUFFIXES, *COLUMNS) if f"`{name}`" not in text]
    assert missing == []


def test_the_example_of_the_description_is_a_trace(tmp_path: Path) -> None:
    example = DESCRIPTION.read_text("utf-8").split("```json\n")[1].split("```")[0]
    path = tmp_path / "t.spans.json"
    path.write_text(example, "utf-8")
    (trace,) = load(path)
    assert json.loads(save(path, [trace]).read_text()) == json.loads(example)
