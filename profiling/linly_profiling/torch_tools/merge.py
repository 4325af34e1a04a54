"""A profile of torch and a trace of ours as one trace, on one time base."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from linly_profiling.record import Flow, LoadedTrace, Record
from linly_profiling.span import Span
from linly_profiling.torch_tools.kineto import KinetoError, Profile, read_kineto
from linly_profiling.torch_tools.tree import LIMIT, Grafts, Home, NewSpan, graft
from linly_profiling.values import clean, clean_name

if TYPE_CHECKING:
    from linly_profiling.trace import Trace

ARROW = "launch"


def merge_kineto(
    trace: Trace | LoadedTrace,
    path: str | os.PathLike[str],
    *,
    under: str | None = None,
    limit: int = LIMIT,
) -> LoadedTrace:
    """A trace with the operators and kernels of a file that `torch.profiler` exported in the same process or host.

    Both clocks are compared by wall time, which both keep to the microsecond unless the system's clock was set in
    between.

    Args:
        trace: of the request.
        path: what `prof.export_chrome_trace(path)` wrote, plain or ".gz".
        under: spans of this name take up the events that ran in them; by default any span can.
        limit: most events taken over, of the CPU and of the GPU each; the longest are.

    Raises:
        OSError: the file cannot be read.
        KinetoError: it is no such file, or nothing in it happened during the trace.
    """
    loaded = trace.snapshot()
    profile = read_kineto(path)
    merged = merge(loaded, profile, under=under, limit=limit)
    if len(merged.spans) == len(loaded.spans):
        raise KinetoError(f"{path}: nothing in it happened during request {loaded.request_id!r}")
    return merged


def merge(
    trace: LoadedTrace, profile: Profile, *, under: str | None = None, limit: int = LIMIT
) -> LoadedTrace:
    """Like `merge_kineto`, for a profile that has been read. What happened outside of the trace is left out."""
    shift_ns = trace.epoch.clock_ns - trace.epoch.wall_ns
    start_ns = min((span.start_ns for span in trace.spans), default=0)
    end_ns = max((span.end_ns for span in trace.spans), default=0)
    during = tuple(
        e for e in profile.events if start_ns <= e.start_ns + shift_ns and e.end_ns + shift_ns <= end_ns
    )
    roots = [span.span_id for span in trace.spans if span.parent_id is None]
    hosts = [span for span in trace.spans if under is None or span.name == under]
    if not during or not roots:
        return trace
    home = homes(hosts, roots[0])
    grafts = graft(Profile(during), lambda at_ns: at_ns + shift_ns, home, limit=limit)
    first_id = max(span.span_id for span in trace.spans) + 1
    spans = [_record(new, i, first_id, trace) for i, new in enumerate(grafts.spans)]
    flows = [
        Flow(ARROW, first_id + source, from_ns, first_id + target, to_ns)
        for source, from_ns, target, to_ns in arrows(grafts)
    ]
    return replace(trace, spans=(*trace.spans, *spans), flows=(*trace.flows, *flows))


def homes(hosts: Sequence[Record], otherwise: int) -> Home:
    """Finds the shortest of the given spans around an interval; `otherwise` where none is."""
    by_length = sorted(hosts, key=lambda span: (span.duration_ns, -span.span_id))

    def home(start_ns: int, end_ns: int) -> int:
        around = (span.span_id for span in by_length if span.start_ns <= start_ns and end_ns <= span.end_ns)
        return next(around, otherwise)

    return home


def arrows(grafts: Grafts) -> list[tuple[int, int, int, int]]:
    """From each launch to its kernel: place, time, place, time."""
    found = []
    for place, span in enumerate(grafts.spans):
        if span.launched_by is not None:
            source = grafts.spans[span.launched_by]
            found.append((span.launched_by, min(source.end_ns, span.start_ns), place, span.start_ns))
    return found


def _record(new: NewSpan, place: int, first_id: int, trace: LoadedTrace) -> Record:
    return Record(
        name=clean_name(new.event.name),
        span_id=first_id + place,
        parent_id=new.home if new.parent is None else first_id + new.parent,
        request_id=trace.request_id,
        thread_id=new.event.thread,
        thread_name=str(new.attrs["row"]),
        task=None,
        start_ns=new.start_ns,
        end_ns=new.end_ns,
        outcome="ok",
        error_type=None,
        attrs={name: clean(value) for name, value in new.attrs.items()},
        marks=(),
        rss_start_bytes=None,
        rss_end_bytes=None,
        rss_peak_bytes=None,
        cpu_ns=None,
        cuda=None,
    )


def insert(trace: Trace, grafts: Grafts) -> None:
    """Add the spans and arrows to a trace that still runs."""
    made: list[Span] = []
    for new in grafts.spans:
        parent = new.home if new.parent is None else made[new.parent]
        made.append(trace.add_span(new.event.name, new.start_ns, new.end_ns, parent, **new.attrs))
    for source, from_ns, target, to_ns in arrows(grafts):
        trace.flow(made[source], made[target], ARROW, from_ns=from_ns, to_ns=to_ns)
