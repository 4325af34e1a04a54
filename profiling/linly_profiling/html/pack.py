"""A trace as the page reads it: columns of numbers, differences where a column rises, names by their number.

All times are nanoseconds after the start of the request: JavaScript's numbers are exact up to 2⁵³ only, which clocks
that count from 1970 exceed. Integers beyond that become text. `assets/data.js` is the other half of this module.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

from linly_profiling.analysis.tree import root_of
from linly_profiling.chrome.layout import Layout, lay_out
from linly_profiling.html.aggregate import by_name, flame, own_times
from linly_profiling.record import LoadedTrace, Mark, Record, Sample
from linly_profiling.report import Report
from linly_profiling.stages import is_stage

VERSION = 1

_LARGEST = 2**53 - 1
# Fields that hold an instant on the trace's clock, in the report and in the attributes of stages.
_INSTANTS = frozenset({"start_ns", "end_ns", "at_ns", "first_in_ns", "ready_ns", "first_out_ns"})
_STAGE_INSTANTS = frozenset({"first_in_ns", "ready_ns", "first_out_ns"})


def pack(trace: LoadedTrace, report: Report) -> dict[str, Any]:
    """Everything the page shows of one request, as plain data that `json.dumps` takes."""
    layout = lay_out(trace.spans)
    records = [place.record for place in layout.places.values()]
    origin_ns = origin(trace)
    names = _Numbers()
    return {
        "version": VERSION,
        "request_id": trace.request_id,
        "trace_id": trace.trace_id,
        "outcome": trace.outcome,
        "dropped": trace.dropped,
        "started_unix_ms": trace.epoch.wall_of(origin_ns) / 1e6,
        "report": _report(report, origin_ns),
        "rows": _rows(layout),
        "spans": _spans(layout, records, origin_ns, names),
        "details": _details(records, origin_ns),
        "marks": _marks(records, names),
        "counters": _counters(trace.samples, origin_ns),
        "flows": _flows(trace, records, origin_ns, names),
        "by_name": [list(row) for row in by_name(records, own_times(records))],
        "flame": _flame(records, names),
        "names": list(names),  # last: the columns above fill it
    }


def origin(trace: LoadedTrace) -> int:
    """The start of the request; of the first span where the root is missing, the epoch where all are."""
    root = root_of(trace.spans)
    if root is not None:
        return root.start_ns
    return min((record.start_ns for record in trace.spans), default=trace.epoch.clock_ns)


def _report(report: Report, origin_ns: int) -> dict[str, Any]:
    """The report, with those of its lists that grow with the request as columns."""
    shown: dict[str, Any] = plain(report.to_dict(), origin_ns)
    for part in (*(shown.get("decode") or ()), shown.get("critical_path") or {}):
        for name in ("points", "intervals"):
            if rows := part.get(name):
                part[name] = {key: [row[key] for row in rows] for key in rows[0]}
    return shown


def plain(value: Any, origin_ns: int, instants: frozenset[str] = _INSTANTS) -> Any:
    """Data as JSON and JavaScript can hold it, with the instants in it counted from the origin."""
    if isinstance(value, dict):
        return {str(key): _field(key, item, origin_ns, instants) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item, origin_ns, instants) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, int) and not isinstance(value, bool):
        return value if abs(value) <= _LARGEST else str(value)
    return value if value is None or isinstance(value, bool | str) else str(value)


def _field(key: object, value: Any, origin_ns: int, instants: frozenset[str]) -> Any:
    if key in instants and isinstance(value, int | float) and not isinstance(value, bool):
        value -= origin_ns
    return plain(value, origin_ns, instants)


class _Numbers:
    """Texts by number, in the order they are first asked for."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def __getitem__(self, text: str) -> int:
        return self._numbers.setdefault(text, len(self._numbers))

    def __iter__(self) -> Iterator[str]:
        return iter(self._numbers)


def _rows(layout: Layout) -> list[tuple[str, int]]:
    """Name and number of lanes of each row, from top to bottom."""
    rows: list[tuple[str, int]] = []
    for lane in layout.rows:
        name, lanes = rows[-1] if rows else ("", 0)
        if lanes and lane.name == f"{name} ({lanes + 1})":  # as the layout calls the lanes below the first
            rows[-1] = (name, lanes + 1)
        else:
            rows.append((lane.name, 1))
    return rows


def _spans(layout: Layout, records: Sequence[Record], origin_ns: int, names: _Numbers) -> dict[str, Any]:
    index_of = {record.span_id: index for index, record in enumerate(records)}
    return {
        "id": _steps(record.span_id for record in records),
        "parent": [-1 if r.parent_id is None else index_of.get(r.parent_id, -1) for r in records],
        "name": [names[record.name] for record in records],
        "start": _steps(record.start_ns - origin_ns for record in records),
        "duration": [max(0, record.duration_ns) for record in records],
        "outcome": [names[record.outcome] for record in records],
        "thread": [names[record.thread_name] for record in records],
        "lane": [place.tid - 1 for place in layout.places.values()],
        "level": levels(layout),
        "rss_start": _steps(record.rss_start_bytes for record in records),
        "rss_end": _steps(record.rss_end_bytes for record in records),
        "rss_peak": _steps(record.rss_peak_bytes for record in records),
    }


def levels(layout: Layout) -> list[int]:
    """How many spans each one is drawn upon, in its lane. Two of one lane and level never overlap."""
    stacks: dict[int, list[int]] = {}
    found = []
    for record, tid, end_ns, _ in layout.places.values():
        stack = stacks.setdefault(tid, [])
        while stack and stack[-1] <= record.start_ns:
            stack.pop()
        found.append(len(stack))
        stack.append(max(end_ns, record.start_ns + 1))
    return found


def _steps(values: Iterable[int | None]) -> list[int | None]:
    """Each value less the one before it, which keeps them short; null stays null and does not count."""
    steps: list[int | None] = []
    before = 0
    for value in values:
        if value is None:
            steps.append(None)
        else:
            steps.append(value - before)
            before = value
    return steps


def _details(records: Sequence[Record], origin_ns: int) -> dict[int, dict[str, Any]]:
    """What only some spans have, by the span's place in the columns."""
    found = {}
    for index, record in enumerate(records):
        instants = _STAGE_INSTANTS if is_stage(record) else frozenset[str]()
        details = {
            "attrs": plain(record.attrs, origin_ns, instants),
            "error_type": record.error_type,
            "task": record.task,
            "cpu_ns": record.cpu_ns,
            "cuda": None if record.cuda is None else plain(record.cuda._asdict(), origin_ns),
        }
        if kept := {key: value for key, value in details.items() if value not in (None, {})}:
            found[index] = kept
    return found


def _marks(records: Sequence[Record], names: _Numbers) -> dict[int, list[list[Any]]]:
    """By the span's place: name, times after the span's start as steps, and values (null: none has one)."""
    return {
        index: [_group(name, group, record, names) for name, group in _by_name(record.marks)]
        for index, record in enumerate(records)
        if record.marks
    }


def _by_name(marks: Sequence[Mark]) -> Iterator[tuple[str, list[Mark]]]:
    for name, group in groupby(sorted(marks, key=lambda mark: mark.name), key=lambda mark: mark.name):
        yield name, list(group)


def _group(name: str, marks: Sequence[Mark], record: Record, names: _Numbers) -> list[Any]:
    values = None if all(mark.value is None for mark in marks) else [plain(mark.value, 0) for mark in marks]
    return [names[name], _steps(mark.at_ns - record.start_ns for mark in marks), values]


def _counters(samples: Sequence[Sample], origin_ns: int) -> list[dict[str, Any]]:
    groups: dict[tuple[str, str], list[Sample]] = {}
    for sample in samples:
        groups.setdefault((sample.name, sample.track), []).append(sample)
    return [
        {
            "name": name,
            "track": track,
            "at": _steps(sample.at_ns - origin_ns for sample in group),
            "value": [plain(sample.value, 0) for sample in group],
        }
        for (name, track), group in groups.items()
    ]


def _flows(
    trace: LoadedTrace, records: Sequence[Record], origin_ns: int, names: _Numbers
) -> list[tuple[int, int, int, int, int]]:
    """Name, source and its time, target and its time; those whose spans are gone are left out."""
    index_of = {record.span_id: index for index, record in enumerate(records)}
    return [
        (
            names[flow.name],
            index_of[flow.from_id],
            flow.from_ns - origin_ns,
            index_of[flow.to_id],
            flow.to_ns - origin_ns,
        )
        for flow in trace.flows
        if flow.from_id in index_of and flow.to_id in index_of
    ]


def _flame(records: Sequence[Record], names: _Numbers) -> dict[str, list[int]]:
    by_id = sorted(range(len(records)), key=lambda index: records[index].span_id)
    tree = flame([records[index] for index in by_id], own_times(records))
    return {
        "name": [names[name] for name in tree.name],
        "parent": tree.parent,
        "count": tree.count,
        "total": tree.total_ns,
        "self": tree.self_ns,
        "wait": tree.wait_ns,
        "first": [by_id[first] for first in tree.first],
    }
