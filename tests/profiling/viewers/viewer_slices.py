"""What Perfetto made of a trace file, as tests ask for it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from viewer_node import NodeViewers

_SLICES = """
    SELECT slice.id, slice.parent_id, slice.name, slice.category, slice.ts, slice.dur,
           extract_arg(slice.arg_set_id, 'args.linly.span_id'),
           process.pid, process.name, thread.tid, thread.name
    FROM slice
    LEFT JOIN thread_track ON thread_track.id = slice.track_id
    LEFT JOIN thread USING (utid)
    LEFT JOIN process USING (upid)
    ORDER BY slice.id
"""
_TROUBLE = "SELECT name, severity, value FROM stats WHERE severity IN ('error', 'data_loss') AND value > 0"


@dataclass(frozen=True)
class Slice:
    """A slice as Perfetto shows it; times in nanoseconds since the start of the file's time base."""

    id: int
    parent_id: int | None
    name: str
    category: str
    start_ns: int
    dur_ns: int
    span_id: int | None
    pid: int
    process: str
    tid: int
    row: str


class Loaded:
    """A file in Perfetto. Reading it fails the test if Perfetto reports an error or lost data."""

    def __init__(self, viewers: NodeViewers, path: str | os.PathLike[str]) -> None:
        self._viewers = viewers
        self._path = path
        trouble = viewers.query(path, _TROUBLE)
        assert not trouble, f"Perfetto complains: {trouble}"
        self.everything = [Slice(*row) for row in viewers.query(path, _SLICES)]
        self._by_id = {drawn.id: drawn for drawn in self.everything}
        # Both ends of each flow. Perfetto ties an end to what began last on its row, be it a child or a mark.
        ends = viewers.query(path, "SELECT slice_out, slice_in FROM flow ORDER BY id")
        self.arrows = [(self.path(source), self.path(target)) for source, target in ends]

    def query(self, sql: str) -> list[tuple[object, ...]]:
        return self._viewers.query(self._path, sql)

    @property
    def spans(self) -> list[Slice]:
        return [drawn for drawn in self.everything if drawn.category == "linly"]

    @property
    def marks(self) -> list[Slice]:
        return [drawn for drawn in self.everything if drawn.category == "linly.mark"]

    def parent(self, drawn: Slice) -> Slice | None:
        return None if drawn.parent_id is None else self._by_id[drawn.parent_id]

    def parent_name(self, drawn: Slice) -> str | None:
        parent = self.parent(drawn)
        return None if parent is None else parent.name

    def path(self, slice_id: int) -> list[Slice]:
        """The slice, and all around it from the inside out."""
        drawn: Slice | None = self._by_id[slice_id]
        path = []
        while drawn is not None:
            path.append(drawn)
            drawn = self.parent(drawn)
        return path

    def rows(self, pid: int) -> list[str]:
        """Names of the rows of a process that has slices, from top to bottom: Perfetto sorts them by tid."""
        rows = {drawn.tid: drawn.row for drawn in self.everything if drawn.pid == pid}
        return [rows[tid] for tid in sorted(rows)]
