"""Spans added up: by name for a table, and by the path of names above them for a flame view."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from linly_profiling.analysis.tree import by_parent
from linly_profiling.record import Record
from linly_profiling.stages import QUEUE_WAIT, is_stage, number

_NO_PARENT = -1
_WAITING_NAMES = (QUEUE_WAIT, ".lock", "lock.wait")


class Own(NamedTuple):
    """What of a span is its own, and not that of the spans below it.

    Attributes:
        self_ns: time in which no child was open; children beside each other count once.
        wait_ns: the part of it that the span is known to have waited: for input, for room, for a worker, for a lock.
    """

    self_ns: int
    wait_ns: int


class NameRow(NamedTuple):
    """All spans of one name. Times in nanoseconds; percentiles are durations that occurred (nearest rank).

    Attributes:
        name: of the spans.
        spans: how many there are.
        total_ns: sum of their durations.
        self_ns: sum of `Own.self_ns`.
        wait_ns: sum of `Own.wait_ns`.
        p50_ns: the median duration.
        p95_ns: 95 of 100 took at most this long.
        max_ns: the longest.
        failed: how many ended otherwise than "ok" or "open".
    """

    name: str
    spans: int
    total_ns: int
    self_ns: int
    wait_ns: int
    p50_ns: int
    p95_ns: int
    max_ns: int
    failed: int


@dataclass
class Flame:
    """A tree of name paths, as columns; a node comes after its parent.

    Attributes:
        name: of the node.
        parent: number of the parent node, or -1.
        count: how many spans have this path.
        total_ns: sum of their durations.
        self_ns: sum of `Own.self_ns`.
        wait_ns: sum of `Own.wait_ns`.
        first: place among the records of the first span that has this path.
    """

    name: list[str] = field(default_factory=list)
    parent: list[int] = field(default_factory=list)
    count: list[int] = field(default_factory=list)
    total_ns: list[int] = field(default_factory=list)
    self_ns: list[int] = field(default_factory=list)
    wait_ns: list[int] = field(default_factory=list)
    first: list[int] = field(default_factory=list)


def own_times(records: Sequence[Record]) -> dict[int, Own]:
    """By span ID."""
    children = by_parent(records)
    return {record.span_id: _own(record, children.get(record.span_id, ())) for record in records}


def _own(record: Record, children: Sequence[Record]) -> Own:
    self_ns = max(0, record.duration_ns) - _covered_ns(record, children)
    return Own(self_ns, min(self_ns, _known_wait_ns(record, self_ns)))


def _covered_ns(record: Record, children: Sequence[Record]) -> int:
    """How much of a span lies under at least one child."""
    covered_ns, cursor_ns = 0, record.start_ns
    for child in sorted(children, key=lambda child: child.start_ns):
        begin_ns, end_ns = max(child.start_ns, cursor_ns), min(child.end_ns, record.end_ns)
        if begin_ns < end_ns:
            covered_ns += end_ns - begin_ns
            cursor_ns = end_ns
    return covered_ns


def _known_wait_ns(record: Record, self_ns: int) -> int:
    if record.name.endswith(_WAITING_NAMES):
        return self_ns
    if not is_stage(record):
        return 0
    waits = (number(record.attrs, name) for name in ("wait_in_ns", "wait_out_ns"))
    return max(0, round(sum(wait or 0 for wait in waits)))


def by_name(records: Iterable[Record], own: Mapping[int, Own]) -> list[NameRow]:
    """The longest in total first."""
    groups: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        groups[record.name].append(record)
    rows = [_name_row(name, group, own) for name, group in groups.items()]
    return sorted(rows, key=lambda row: -row.total_ns)


def _name_row(name: str, records: Sequence[Record], own: Mapping[int, Own]) -> NameRow:
    durations = sorted(max(0, record.duration_ns) for record in records)
    return NameRow(
        name=name,
        spans=len(durations),
        total_ns=sum(durations),
        self_ns=sum(own[record.span_id].self_ns for record in records),
        wait_ns=sum(own[record.span_id].wait_ns for record in records),
        p50_ns=_percentile(durations, 50),
        p95_ns=_percentile(durations, 95),
        max_ns=durations[-1],
        failed=sum(record.outcome not in ("ok", "open") for record in records),
    )


def _percentile(ordered: Sequence[int], percent: int) -> int:
    return ordered[-(-percent * len(ordered) // 100) - 1]


def flame(records: Sequence[Record], own: Mapping[int, Own]) -> Flame:
    """The tree of all paths; a span whose parent is missing begins a path of its own."""
    tree = Flame()
    nodes: dict[tuple[int, str], int] = {}
    node_of: dict[int, int] = {}
    for index, record in enumerate(records):
        parent = _NO_PARENT if record.parent_id is None else node_of.get(record.parent_id, _NO_PARENT)
        node = nodes.setdefault((parent, record.name), len(tree.name))
        if node == len(tree.name):
            _grow(tree, record.name, parent, index)
        node_of[record.span_id] = node
        tree.count[node] += 1
        tree.total_ns[node] += max(0, record.duration_ns)
        tree.self_ns[node] += own[record.span_id].self_ns
        tree.wait_ns[node] += own[record.span_id].wait_ns
    return tree


def _grow(tree: Flame, name: str, parent: int, first: int) -> None:
    tree.name.append(name)
    tree.parent.append(parent)
    tree.first.append(first)
    for column in (tree.count, tree.total_ns, tree.self_ns, tree.wait_ns):
        column.append(0)
