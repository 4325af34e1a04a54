"""The lines of one request in a file that is written while the request runs."""

from __future__ import annotations

import time
import weakref
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import NamedTuple

from linly_profiling.chrome.codec import span_args
from linly_profiling.chrome.ending import EndingLanes
from linly_profiling.chrome.events import (
    Spot,
    arrow_events,
    closing_counters,
    counter_event,
    counter_name,
    mark_event,
    metadata,
    slice_event,
    us,
)
from linly_profiling.chrome.layout import ROOT_ROW
from linly_profiling.chrome.names import FLOW, OPEN_SPAN
from linly_profiling.chrome.text import display, dumps, pack
from linly_profiling.chrome.write import end_line, head_line, process_names, row_names
from linly_profiling.collect import record_of
from linly_profiling.feed import Item, RawSpan
from linly_profiling.frozen import frozen
from linly_profiling.record import OPEN, Flow, LoadedTrace, Sample
from linly_profiling.trace import Trace

_REMEMBERED = 8192  # ended spans whose place is known, for children and arrows that come late
_WAITING_ARROWS = 1_024  # that are not drawn yet; all are in the file as data
_NOTED_AFTER_NS = 100_000_000  # a span open for longer is noted, so that it is known if the process is killed
_PEAK_AFTER_NS = 20_000_000  # a shorter span has no sample of memory inside
# Spans between two moments in which other threads may run. A thread that computes without pause makes the others wait
# for CPython's switch interval, 5 ms, whenever they need the interpreter.
_BREATH = 50
_LANES = 100_000  # thread IDs of one row
_MAX_ROWS = (
    1_000  # rows, and counters, that are told apart; a program that names more has put data into names
)
_MEMORY_STEP_BYTES = 1_000_000


class _Ended(NamedTuple):
    parent_id: int | None
    row: str
    spot: Spot | None


class GrowingTrace:
    """One request. Its lines are for one process of the file, `pid`.

    The trace is not held: one that everybody has forgotten must be able to go.
    """

    def __init__(self, trace: Trace, pid: int, base_ns: int) -> None:
        self._trace = weakref.ref(trace)
        self._head = LoadedTrace(
            trace.request_id,
            OPEN,
            0,
            trace.epoch,
            (),
            trace_id=trace.trace_id,
            remote_parent_id=trace.remote_parent_id,
        )
        self._pid = pid
        self._shift_ns = trace.epoch.wall_ns - trace.epoch.clock_ns - base_ns
        self._lanes: dict[str, EndingLanes] = {ROOT_ROW: EndingLanes(self._belongs)}
        self._first_tid: dict[str, int] = {ROOT_ROW: 1}
        self._named: set[tuple[str, int]] = set()
        self._ended: OrderedDict[int, _Ended] = OrderedDict()
        self._open_rows: dict[int, str] = {}
        self._noted: set[int] = set()
        self._memory_bytes = 0
        self._counters: dict[str, Sample] = {}
        self._arrows: list[Flow] = []
        self._arrow_number = 0

    def head(self) -> list[str]:
        """What every file says that holds a part of this request."""
        self._noted.clear()
        self._named.clear()
        for span_id, ended in self._ended.items():  # their places were in the file before
            self._ended[span_id] = ended._replace(spot=None)
        return [head_line(self._head, self._pid), *process_names(self._head.request_id, self._pid)]

    def advance(self, trace: Trace, batch: Sequence[Item]) -> list[str]:
        """What is new."""
        raws = [item for item in batch if type(item) is tuple]
        for raw in sorted(raws, key=itemgetter(0)):  # parents first: their rows are their children's
            self._remember(raw[0], _Ended(raw[1], self._row(trace, raw[1], raw[10]), None))
        raws.sort(key=lambda raw: (raw[5], -raw[4]))  # inner spans first
        lines: list[str] = []
        for number, raw in enumerate(raws):
            if number % _BREATH == 0:
                time.sleep(0)
            self._span(trace, raw, lines)
        for item in batch:
            if isinstance(item, Sample):
                lines.append(self._sample(item))
            elif isinstance(item, Flow):
                self._arrows.append(item)
                lines.append(metadata(FLOW, self._pid, 0, **pack({"flow": list(item)})))
        lines += self._memory(trace)
        lines += self._notes(trace, _NOTED_AFTER_NS)
        if raws:
            lines += self._drawn_arrows()
        return lines

    def finish(self, trace: Trace, dropped: int) -> list[str]:
        """What closes the request; one that still runs is written as it is by now."""
        lines = [] if trace.outcome is not None else [*self._notes(trace, 0)]
        return [*lines, *self._zeros(trace.root.end_ns or 0), self._end(trace.outcome or OPEN, dropped)]

    def lose(self) -> list[str]:
        """What closes a request that nobody closed, and nobody holds any more."""
        return [*self._zeros(0), self._end("abandoned", 0)]

    def _zeros(self, end_ns: int) -> Iterator[str]:
        for event in closing_counters(self._counters, end_ns, self._pid, self._shift_ns):
            yield event.text

    def _end(self, outcome: str, dropped: int) -> str:
        return end_line(outcome, dropped, self._pid)

    # Spans

    def _span(self, trace: Trace, raw: RawSpan, lines: list[str]) -> None:
        span_id, start_ns, end_ns = raw[0], int(raw[4]), max(int(raw[4]), int(raw[5]))
        row = self._ended[span_id].row if span_id in self._ended else ROOT_ROW
        lane = self._lanes[row].place(span_id, start_ns, end_ns)
        tid = self._first_tid[row] + lane
        if (row, lane) not in self._named:  # it is new to this file
            self._named.add((row, lane))
            lines += row_names(row if lane == 0 else f"{row} ({lane + 1})", self._pid, tid)
        spot = Spot(tid, start_ns, end_ns)
        self._ended[span_id] = _Ended(raw[1], row, spot)
        self._noted.discard(span_id)
        self._open_rows.pop(span_id, None)
        name, thread, outcome = _quoted(raw[2]), _quoted(raw[3][1]), _quoted(raw[6])
        if raw[10] is None and raw[7] is None and raw[8] is not None and name and thread and outcome:
            lines.append(self._plain_span(trace, raw, spot, name, thread, outcome))
        else:
            lines += self._rich_span(trace, raw, spot)

    def _plain_span(
        self, trace: Trace, raw: RawSpan, spot: Spot, name: str, thread: str, outcome: str
    ) -> str:
        """What `slice_event` gives, at a quarter of the time: most spans have neither attributes nor marks."""
        span_id, parent_id, _, (thread_id, _), _, _, _, _, rss_start, rss_end, _ = raw
        tid, start_ns, end_ns = spot
        peak = max(rss_start, rss_end)
        if end_ns - start_ns > _PEAK_AFTER_NS:
            peak = max(peak, trace._memory.peak(start_ns, end_ns) or 0)
        parent = f'"parent_id":{parent_id},' if parent_id is not None else ""
        return (
            f'{{"ph":"X","pid":{self._pid},"tid":{tid},"ts":{us(start_ns + self._shift_ns)},'
            f'"dur":{us(end_ns - start_ns)},"name":{name},"cat":"linly","args":{{"linly":{{"name":{name},'
            f'"span_id":{span_id},{parent}"start_ns":{start_ns},"end_ns":{end_ns},"outcome":{outcome},'
            f'"thread_id":{thread_id},"thread_name":{thread},"rss_start_bytes":{rss_start},'
            f'"rss_end_bytes":{rss_end},"rss_peak_bytes":{peak}}}}}}}'
        )

    def _rich_span(self, trace: Trace, raw: RawSpan, spot: Spot) -> Iterator[str]:
        record = record_of(raw, trace.request_id, trace._memory)
        yield slice_event(record, spot, 0, self._pid, self._shift_ns).text
        for mark in record.marks:
            yield mark_event(mark, record.span_id, spot, 0, self._pid, self._shift_ns).text

    def _row(self, trace: Trace, parent_id: int | None, more: object) -> str:
        row = more.attrs.get("row") if more is not None else None  # type: ignore[attr-defined]
        if not (isinstance(row, str) and row):
            row = self._row_of(trace, parent_id) if parent_id is not None else ROOT_ROW
        if row not in self._first_tid:
            if len(self._first_tid) >= _MAX_ROWS:
                return ROOT_ROW
            self._first_tid[row] = self._place_of(trace, row) * _LANES
            self._lanes[row] = EndingLanes(self._belongs)
        return row

    def _row_of(self, trace: Trace, span_id: int) -> str:
        """The row of a span that has ended, or is open."""
        if (ended := self._ended.get(span_id)) is not None:
            return ended.row
        if (known := self._open_rows.get(span_id)) is not None:
            return known
        span = trace._open.get(span_id)
        row = ROOT_ROW
        if span is not None:
            row = self._row(trace, span.parent.span_id if span.parent is not None else None, span._more)
            self._open_rows[span_id] = row
        return row

    def _place_of(self, trace: Trace, row: str) -> int:
        """From top to bottom: stages by their order, and then what has none, as it comes."""
        for span in frozen(trace._open.values()):
            attrs = span._more.attrs if span._more is not None else {}
            order = attrs.get("order")
            if attrs.get("row") == row and isinstance(order, int) and 0 <= order < 100:
                return 1 + order
        return 200 + len(self._first_tid)

    def _belongs(self, inner_id: int, outer_id: int) -> bool:
        """Whether a span lies below another; where the way up is forgotten, it is taken to."""
        trace = self._trace()
        open_spans = trace._open if trace is not None else {}
        parent: int | None = inner_id
        while parent is not None and parent > outer_id:  # parents have lower IDs
            if (ended := self._ended.get(parent)) is not None:
                parent = ended.parent_id
            elif (span := open_spans.get(parent)) is not None:
                parent = span.parent.span_id if span.parent is not None else None
            else:
                return True
        return parent == outer_id

    def _remember(self, span_id: int, ended: _Ended) -> None:
        self._ended[span_id] = ended
        if len(self._ended) > 2 * _REMEMBERED:
            for _ in range(_REMEMBERED):
                self._ended.popitem(last=False)

    def _notes(self, trace: Trace, after_ns: int) -> Iterator[str]:
        """Spans that have been open for a while, once each."""
        now_ns = trace._clock_ns()
        for span in frozen(trace._open.values()):
            if span.span_id not in self._noted and now_ns - span.start_ns >= after_ns:
                self._noted.add(span.span_id)
                raw = span._raw(now_ns, OPEN, None, span._more)
                record = record_of(raw, trace.request_id, trace._memory)
                yield metadata(OPEN_SPAN, self._pid, 0, **span_args(record))

    # The rest

    def _sample(self, sample: Sample) -> str:
        name = counter_name(sample)
        if name in self._counters or len(self._counters) < _MAX_ROWS:
            self._counters[name] = sample
        return counter_event(sample, self._pid, self._shift_ns).text

    def _memory(self, trace: Trace) -> Iterator[str]:
        """The process's memory, where it moved."""
        newest = trace._memory.newest()
        if newest is not None and abs(newest[1] - self._memory_bytes) >= _MEMORY_STEP_BYTES:
            self._memory_bytes = newest[1]
            yield self._sample(Sample("memory.rss", "process", *newest))

    def _drawn_arrows(self) -> Iterator[str]:
        """Those whose spans have both ended."""
        waiting, self._arrows = self._arrows, []
        for flow in waiting:
            source, target = self._ended.get(flow.from_id), self._ended.get(flow.to_id)
            if source is None or target is None or source.spot is None or target.spot is None:
                self._arrows.append(flow)
                continue
            self._arrow_number += 1
            arrow = arrow_events(
                flow, source.spot, target.spot, self._arrow_number, self._pid, self._shift_ns
            )
            yield from (event.text for event in arrow)
        del self._arrows[:-_WAITING_ARROWS]


_QUOTED: dict[str, str] = {}


def _quoted(name: object) -> str:
    """A name as JSON, if it can stand in a file as it is; else ""."""
    known = _QUOTED.get(name) if type(name) is str else ""
    if known is not None:
        return known
    quoted = dumps(name) if isinstance(name, str) and 0 < len(name) <= 128 and display(name) == name else ""
    if len(_QUOTED) < 4096:
        _QUOTED[name] = quoted  # type: ignore[index]
    return quoted
