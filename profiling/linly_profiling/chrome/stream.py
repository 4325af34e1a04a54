"""`TraceFile`: a Chrome trace that is written while the program runs, and opens even if the program is killed."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from linly_profiling.chrome.codec import OWN
from linly_profiling.chrome.growing import GrowingTrace
from linly_profiling.chrome.journal import Journal
from linly_profiling.chrome.names import FIRST_PID, VERSION
from linly_profiling.chrome.write import base_of, end_line, head_line, lines_of
from linly_profiling.clock import Epoch
from linly_profiling.feed import Item
from linly_profiling.record import LoadedTrace
from linly_profiling.recorder import Exporter
from linly_profiling.trace import Trace

MAX_BYTES = 256_000_000  # viewers open this; from about 900 MB they fail


class TraceFile(Exporter):
    """An exporter for `Recorder`: every kept request in one file that Perfetto and `load` read.

    A request that is kept from its start is written while it runs, about 50 times a second. One that is kept for
    what became of it, because it was slow or failed, is written when it has ended.

    Args:
        path: ".json", or ".json.gz" to have it compressed when it is closed; its folder must exist. A file that is
            already there is kept, under a number.
        max_bytes: where to begin a new file; the full one becomes "name.1.json" and so on.
        max_files: how many files are kept of those that this program has written; the oldest are deleted. None
            keeps all.

    If another program writes to the same path, this one takes "name.pid123.json".
    """

    live = True

    def __init__(
        self, path: str | os.PathLike[str], *, max_bytes: int = MAX_BYTES, max_files: int | None = None
    ) -> None:
        self._journal = Journal(path, max_bytes, max_files)
        self._base_ns: int | None = None
        self._growing: dict[tuple[str, Epoch], GrowingTrace] = {}
        self._lines: list[str] = []
        self._pid = FIRST_PID

    def begin(self, trace: Trace) -> None:
        if self._base_ns is None:
            self._base_ns = base_of([trace.epoch.wall_ns])
            self._journal.head = _head(self._base_ns)

    def spans(self, trace: Trace, batch: Sequence[Item]) -> None:
        key = (trace.request_id, trace.epoch)
        growing = self._growing.get(key)
        if growing is None:
            growing = self._growing[key] = GrowingTrace(trace, self._next_pid(), self._base_ns or 0)
            self._lines += growing.head()
        self._lines += growing.advance(trace, batch)

    def finish(self, trace: Trace, dropped: int) -> None:
        growing = self._growing.pop((trace.request_id, trace.epoch), None)
        if growing is not None:
            self._lines += growing.finish(trace, dropped)

    def lose(self, request_id: str, epoch: Epoch) -> None:
        growing = self._growing.pop((request_id, epoch), None)
        if growing is not None:
            self._lines += growing.lose()

    def end(self, trace: LoadedTrace, kept: bool) -> None:
        if kept:
            pid = self._next_pid()
            lines = lines_of(trace, pid, self._base_ns or 0)
            self._lines += [
                head_line(trace, pid),
                *lines,
                end_line(trace.outcome, trace.dropped, pid),
            ]

    def flush(self) -> None:
        if self._lines:
            self._journal.write(self._lines)
            self._lines = []
        if self._journal.full:
            self._journal.close()
            self._lines = [line for growing in self._growing.values() for line in growing.head()]

    def close(self) -> None:
        self.flush()
        self._growing.clear()
        self._journal.close()

    @property
    def paths(self) -> tuple[Path, ...]:
        """The files written so far, the current one last."""
        return self._journal.paths

    def forked(self) -> None:
        self._growing, self._lines = {}, []
        self._journal.forget()

    def _next_pid(self) -> int:
        self._pid += 1
        return self._pid - 1


def _head(base_ns: int) -> dict[str, object]:
    return {
        "displayTimeUnit": "ms",
        "baseTimeNanoseconds": base_ns,
        OWN: {"version": VERSION, "grown": True},
    }
