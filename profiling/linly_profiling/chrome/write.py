"""Writing Chrome traces.

The JSON is the Trace Event Format in its object form. `baseTimeNanoseconds` is the wall time of `ts` 0, as
PyTorch's profiler writes it, so that tools can merge both. `ts` and `dur` are microseconds with exactly three
decimals, made from whole nanoseconds once, so that slices that touch still touch after rounding.
"""

from __future__ import annotations

import errno
import gzip
import os
import secrets
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from linly_profiling.chrome.codec import OWN, mark_args, sample_own, span_args
from linly_profiling.chrome.layout import Layout, Place, lay_out
from linly_profiling.chrome.text import display, dumps, pack
from linly_profiling.record import Flow, LoadedTrace, Mark, Sample

if TYPE_CHECKING:
    from linly_profiling.trace import Trace

VERSION = 1
FIRST_PID = 2**30  # above Linux's pid_max, so that no real process of a merged trace is hidden
_BASE_STEP_NS = 7_889_238 * 10**9  # three months, as PyTorch's profiler counts: both files share one zero
_COLOURS = {"error": "terrible", "cancelled": "grey"}  # names of Chrome's palette; Perfetto ignores them


class _Event(NamedTuple):
    """A line of the file, and what decides its place: at one instant, slices (parents first), then the rest."""

    at_ns: int
    kind: int
    depth: int
    text: str


_SLICE, _MARK, _FLOW, _COUNTER = range(4)


def save_chrome(path: str | os.PathLike[str], traces: Iterable[Trace | LoadedTrace]) -> Path:
    """Write one or several traces into one file, each as a process of its own.

    The file appears whole or not at all. A path that ends in ".gz" is compressed.

    Returns:
        The path written.

    Raises:
        OSError: the folder is missing or cannot be written.
    """
    path = Path(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "cannot save the trace: no such folder", str(path.parent))
    text = "".join(_document([trace.snapshot() for trace in traces]))
    data = text.encode("utf-8")
    _write_whole(path, gzip.compress(data, compresslevel=6, mtime=0) if path.suffix == ".gz" else data)
    return path


def _write_whole(path: Path, data: bytes) -> None:
    beside = path.with_name(f".{path.name[:100]}.{secrets.token_hex(4)}.part")
    try:
        beside.write_bytes(data)
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def _document(traces: Sequence[LoadedTrace]) -> Iterator[str]:
    base_ns = min((_start_wall_ns(trace) for trace in traces), default=0) // _BASE_STEP_NS * _BASE_STEP_NS
    heads = [_head(trace, FIRST_PID + i) for i, trace in enumerate(traces)]
    yield '{"displayTimeUnit":"ms",\n'
    yield f'"baseTimeNanoseconds":{base_ns},\n'
    yield f'"{OWN}":{dumps({"version": VERSION, "traces": heads})},\n'
    yield '"traceEvents":[\n'
    lines = [line for i, trace in enumerate(traces) for line in _lines(trace, FIRST_PID + i, base_ns)]
    yield ",\n".join(lines)
    yield "\n]}\n"


def _start_wall_ns(trace: LoadedTrace) -> int:
    return trace.epoch.wall_of(min((record.start_ns for record in trace.spans), default=trace.epoch.clock_ns))


def _head(trace: LoadedTrace, pid: int) -> dict[str, Any]:
    """What belongs to the trace as a whole."""
    return pack(
        {
            "pid": pid,
            "request_id": trace.request_id,
            "outcome": trace.outcome,
            "dropped": trace.dropped,
            "epoch": list(trace.epoch),
            "flows": [list(flow) for flow in trace.flows],
        }
    )


def _lines(trace: LoadedTrace, pid: int, base_ns: int) -> list[str]:
    """All events of one trace, names first, then in the order of time."""
    layout = lay_out(trace.spans)
    # Adding this to a time on the trace's clock gives a time in the file.
    shift_ns = trace.epoch.wall_ns - trace.epoch.clock_ns - base_ns
    events = [
        *_slices(layout, pid, shift_ns),
        *_marks(layout, pid, shift_ns),
        *_arrows(trace.flows, layout, pid, shift_ns),
        *_counters(trace, pid, shift_ns),
    ]
    events.sort(key=lambda event: event[:3])
    return [*_names(trace, layout, pid), *(event.text for event in events)]


def _names(trace: LoadedTrace, layout: Layout, pid: int) -> Iterator[str]:
    labels = trace.outcome if not trace.dropped else f"{trace.outcome}, {trace.dropped} dropped"
    yield _metadata("process_name", pid, 0, name=f"request {display(trace.request_id)}")
    yield _metadata("process_labels", pid, 0, labels=display(labels))
    yield _metadata("process_sort_index", pid, 0, sort_index=pid - FIRST_PID)
    for row in layout.rows:
        yield _metadata("thread_name", pid, row.tid, name=display(row.name))
        yield _metadata("thread_sort_index", pid, row.tid, sort_index=row.tid)


def _metadata(name: str, pid: int, tid: int, /, **args: Any) -> str:
    return dumps({"ph": "M", "name": name, "pid": pid, "tid": tid, "args": args})


def _event(
    ph: str, at_ns: int, pid: int, tid: int, name: str, dur_ns: int | None = None, **fields: Any
) -> str:
    """One line. The times are put in as text, because a float would not keep three decimals."""
    dur = "" if dur_ns is None else f'"dur":{_us(dur_ns)},'
    rest = dumps({"name": display(name) or "?", **fields})
    return f'{{"ph":"{ph}","pid":{pid},"tid":{tid},"ts":{_us(at_ns)},{dur}{rest[1:]}'


def _us(ns: int) -> str:
    return f"{ns // 1000}.{ns % 1000:03d}" if ns >= 0 else f"-{_us(-ns)}"


def _slices(layout: Layout, pid: int, shift_ns: int) -> Iterator[_Event]:
    for record, tid, end_ns, depth in layout.places.values():
        fields: dict[str, Any] = {"cat": "linly", "args": span_args(record)}
        if record.outcome in _COLOURS:
            fields["cname"] = _COLOURS[record.outcome]
        start_ns, dur_ns = record.start_ns + shift_ns, end_ns - record.start_ns
        text = _event("X", start_ns, pid, tid, record.name, dur_ns, **fields)
        yield _Event(record.start_ns, _SLICE, depth, text)


def _marks(layout: Layout, pid: int, shift_ns: int) -> Iterator[_Event]:
    for place in layout.places.values():
        for mark in place.record.marks:
            yield _mark(mark, place, pid, shift_ns)


def _mark(mark: Mark, place: Place, pid: int, shift_ns: int) -> _Event:
    record = place.record
    at_ns = min(max(mark.at_ns, record.start_ns), place.end_ns)
    args = mark_args(mark, record.span_id)
    text = _event("i", at_ns + shift_ns, pid, place.tid, mark.name, cat="linly.mark", s="t", args=args)
    return _Event(at_ns, _MARK, place.depth, text)


def _arrows(flows: Iterable[Flow], layout: Layout, pid: int, shift_ns: int) -> Iterator[_Event]:
    """A start and a finish for each arrow; none for an arrow whose spans are gone."""
    for number, flow in enumerate(flows, start=1):
        source, target = layout.places.get(flow.from_id), layout.places.get(flow.to_id)
        if source is None or target is None:
            continue
        # Both ends must lie in their slices, and the arrow must not point back in time.
        to_ns = _inside(target, flow.to_ns)
        from_ns = min(_inside(source, flow.from_ns), max(to_ns, source.record.start_ns))
        to_ns = _inside(target, max(to_ns, from_ns))
        shared: dict[str, Any] = {"cat": "linly.flow", "id": pid * 2**20 + number}
        start = _event("s", from_ns + shift_ns, pid, source.tid, flow.name, **shared)
        # "bp": bind to the slice around the end, not to the next one.
        finish = _event("f", to_ns + shift_ns, pid, target.tid, flow.name, **shared, bp="e")
        yield _Event(from_ns, _FLOW, 0, start)
        yield _Event(to_ns, _FLOW, 1, finish)


def _inside(place: Place, at_ns: int) -> int:
    """The nearest instant that viewers count as inside the slice: before its end, where another may begin."""
    start_ns = place.record.start_ns
    return max(start_ns, min(at_ns, place.end_ns - 1))


def _counters(trace: LoadedTrace, pid: int, shift_ns: int) -> Iterator[_Event]:
    last: dict[str, Sample] = {}
    for sample in trace.samples:
        last[_counter_name(sample)] = sample
        yield _counter(sample, sample.at_ns, pid, shift_ns, **{OWN: sample_own(sample)})
    # Viewers draw the last value to the end of the file: bring it to 0 when the request is over.
    end_ns = max((record.end_ns for record in trace.spans), default=0)
    for sample in last.values():
        yield _counter(sample._replace(value=0), max(end_ns, sample.at_ns + 1), pid, shift_ns)


def _counter(sample: Sample, at_ns: int, pid: int, shift_ns: int, **own: Any) -> _Event:
    name = _counter_name(sample)
    text = _event("C", at_ns + shift_ns, pid, 0, name, args={"value": sample.value}, **own)
    return _Event(at_ns, _COUNTER, 0, text)


def _counter_name(sample: Sample) -> str:
    return f"{sample.track} {sample.name}" if sample.track else sample.name
