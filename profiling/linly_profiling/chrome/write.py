"""Writing Chrome traces: the Trace Event Format in its object form.

`baseTimeNanoseconds` is the wall time of `ts` 0, as PyTorch's profiler writes it, so that tools can merge both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from linly_profiling.chrome.arrows import drawn_between
from linly_profiling.chrome.codec import OWN
from linly_profiling.chrome.events import (
    Event,
    Spot,
    arrow_events,
    closing_counters,
    counter_event,
    counter_name,
    mark_event,
    metadata,
    slice_event,
)
from linly_profiling.chrome.layout import Layout, Place, lay_out
from linly_profiling.chrome.names import END, FIRST_PID, HEAD, VERSION
from linly_profiling.chrome.text import display, dumps, pack
from linly_profiling.record import Flow, LoadedTrace, Sample

_BASE_STEP_NS = 7_889_238 * 10**9  # three months, as PyTorch's profiler counts: both files share one zero


def document(traces: Sequence[LoadedTrace]) -> str:
    """The text of a file with one or several traces, each as a process of its own."""
    return "".join(_document(traces))


def _document(traces: Sequence[LoadedTrace]) -> Iterator[str]:
    base_ns = base_of(_start_wall_ns(trace) for trace in traces)
    heads = [head_of(trace, FIRST_PID + i) for i, trace in enumerate(traces)]
    yield '{"displayTimeUnit":"ms",\n'
    yield f'"baseTimeNanoseconds":{base_ns},\n'
    yield f'"{OWN}":{dumps({"version": VERSION, "traces": heads})},\n'
    yield '"traceEvents":[\n'
    lines = [line for i, trace in enumerate(traces) for line in lines_of(trace, FIRST_PID + i, base_ns)]
    yield ",\n".join(lines)
    yield "\n]}\n"


def base_of(start_wall_ns: Iterable[int]) -> int:
    """The wall time that a file's times are counted from, for traces that start at these wall times."""
    return min(start_wall_ns, default=0) // _BASE_STEP_NS * _BASE_STEP_NS


def _start_wall_ns(trace: LoadedTrace) -> int:
    return trace.epoch.wall_of(min((record.start_ns for record in trace.spans), default=trace.epoch.clock_ns))


def head_of(trace: LoadedTrace, pid: int) -> dict[str, Any]:
    """What belongs to the trace as a whole."""
    return pack(
        {
            "pid": pid,
            "request_id": trace.request_id,
            "outcome": trace.outcome,
            "dropped": trace.dropped,
            "epoch": list(trace.epoch),
            "trace_id": trace.trace_id,
            "remote_parent_id": trace.remote_parent_id,
            "flows": [list(flow) for flow in trace.flows],
        }
    )


def head_line(trace: LoadedTrace, pid: int) -> str:
    """The head as an event, for a file that grows."""
    return metadata(HEAD, pid, 0, **head_of(trace, pid))


def end_line(outcome: str, dropped: int, pid: int) -> str:
    """What is known when a request has ended, as an event."""
    return metadata(END, pid, 0, **pack({"outcome": outcome, "dropped": dropped}))


def lines_of(trace: LoadedTrace, pid: int, base_ns: int) -> list[str]:
    """All events of one trace, names first, then in the order of time."""
    layout = lay_out(trace.spans)
    # Adding this to a time on the trace's clock gives a time in the file.
    shift_ns = trace.epoch.wall_ns - trace.epoch.clock_ns - base_ns
    events = [
        *_slices(layout, pid, shift_ns),
        *_arrows(trace.flows, layout, pid, shift_ns),
        *_counters(trace, pid, shift_ns),
    ]
    events.sort(key=lambda event: event[:3])
    return [*_names(trace, layout, pid), *(event.text for event in events)]


def _names(trace: LoadedTrace, layout: Layout, pid: int) -> Iterator[str]:
    labels = trace.outcome if not trace.dropped else f"{trace.outcome}, {trace.dropped} dropped"
    yield from process_names(trace.request_id, pid)
    yield metadata("process_labels", pid, 0, labels=display(labels))
    for row in layout.rows:
        yield from row_names(row.name, pid, row.tid)


def process_names(request_id: str, pid: int) -> Iterator[str]:
    yield metadata("process_name", pid, 0, name=f"request {display(request_id)}")
    yield metadata("process_sort_index", pid, 0, sort_index=pid - FIRST_PID)


def row_names(name: str, pid: int, tid: int) -> Iterator[str]:
    yield metadata("thread_name", pid, tid, name=display(name))
    yield metadata("thread_sort_index", pid, tid, sort_index=tid)


def _spot(place: Place) -> Spot:
    return Spot(place.tid, place.record.start_ns, place.end_ns)


def _slices(layout: Layout, pid: int, shift_ns: int) -> Iterator[Event]:
    for place in layout.places.values():
        record, spot = place.record, _spot(place)
        yield slice_event(record, spot, place.depth, pid, shift_ns)
        for mark in record.marks:
            yield mark_event(mark, record.span_id, spot, place.depth, pid, shift_ns)


def _arrows(flows: Iterable[Flow], layout: Layout, pid: int, shift_ns: int) -> Iterator[Event]:
    """None for an arrow whose spans are gone."""
    for number, (flow, source, target) in enumerate(drawn_between(flows, layout.places), start=1):
        yield from arrow_events(flow, _spot(source), _spot(target), number, pid, shift_ns)


def _counters(trace: LoadedTrace, pid: int, shift_ns: int) -> Iterator[Event]:
    last: dict[str, Sample] = {}
    for sample in trace.samples:
        last[counter_name(sample)] = sample
        yield counter_event(sample, pid, shift_ns)
    end_ns = max((record.end_ns for record in trace.spans), default=0)
    yield from closing_counters(last, end_ns, pid, shift_ns)
