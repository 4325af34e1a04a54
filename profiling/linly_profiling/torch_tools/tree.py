"""From the events of a profile to spans of a trace: who belongs to whom, in which row, and what is left out."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from linly_profiling.torch_tools.kineto import GPU, LAUNCHES, OPERATORS, PYTHON, Event, Profile
from linly_profiling.values import MAX_NAME

LIMIT = 4000  # most spans of the CPU, and of the GPU, that one profile adds to a trace
_ROUNDING_NS = 10  # start and length are rounded to nanoseconds one by one, and pass through a float
CLOCK = "linly.clock"  # name of the marks that tell the profiler's clock from ours

Home = Callable[
    [int, int], int
]  # start and end of an event, on the trace's clock, to the ID of the span around it


class NewSpan(NamedTuple):
    """A span to add.

    Attributes:
        event: what it shows.
        start_ns: on the trace's clock.
        end_ns: on the trace's clock.
        parent: its parent's place in the list of new spans, always before its own; None: `home` is the parent.
        home: ID of the span of the trace that it is in.
        attrs: its attributes.
        launched_by: place of the span that launched it, for an arrow.
    """

    event: Event
    start_ns: int
    end_ns: int
    parent: int | None
    home: int
    attrs: dict[str, Any]
    launched_by: int | None = None


@dataclass(frozen=True)
class Grafts:
    """Attributes:
    spans: parents before their children.
    left_out: short events that were beyond the limit.
    foreign: events that other threads caused, for other requests.
    """

    spans: tuple[NewSpan, ...]
    left_out: int
    foreign: int


def graft(
    profile: Profile,
    to_clock: Callable[[int], int],
    home: Home,
    *,
    limit: int = LIMIT,
    window: tuple[int, int] | None = None,
) -> Grafts:
    """Choose and arrange what a trace takes over of a profile.

    Of the CPU and of the GPU the longest `limit` events each are kept: an operator is never shorter than what it
    calls, so every kept event keeps all that is around it. The profiler records operators only in its own threads,
    but Python functions, launches and kernels of the whole process; those that belong neither to an operator nor to
    one of these threads are other requests' and are counted only.

    Args:
        profile: what was read.
        to_clock: from nanoseconds since 1970 to the trace's clock.
        home: the span of the trace around an interval.
        limit: most events kept, of the CPU and of the GPU each.
        window: on the trace's clock; what began outside of it on the CPU is the profiler's own work.
    """
    own, foreign = _own(profile.events)
    own = [event for event in own if event.name != CLOCK and _within(event, window, to_clock)]
    on_cpu = [event for event in own if event.category not in GPU]
    on_gpu = [event for event in own if event.category in GPU]
    kept_cpu, kept_gpu = _longest(on_cpu, limit), _longest(on_gpu, limit)
    spans = _cpu_spans(kept_cpu, to_clock, home)
    spans += _gpu_spans(kept_gpu, spans, on_cpu, to_clock, home)
    return Grafts(tuple(spans), len(own) - len(kept_cpu) - len(kept_gpu), foreign)


def _own(events: Sequence[Event]) -> tuple[list[Event], int]:
    """Without what other threads have launched; and how much that was."""
    operators = [event for event in events if event.category in OPERATORS]
    if not operators:
        return list(events), 0  # they were not asked for
    threads = {event.thread for event in operators}
    thread_of = {event.external: event.thread for event in operators if event.external}
    launches = set()
    own = []
    for event in events:
        if event.category in GPU:
            continue
        # CUDA numbers threads in its own way where torch has not told it how the system does.
        thread = event.thread if event.thread in threads else thread_of.get(event.external or 0)
        if thread is not None:
            own.append(event._replace(thread=thread))
            launches.add(event.correlation)
    launches.discard(None)
    for event in events:
        if event.category in GPU and (event.correlation in launches or event.external in thread_of):
            own.append(event)
    return own, len(events) - len(own)


def _within(event: Event, window: tuple[int, int] | None, to_clock: Callable[[int], int]) -> bool:
    if window is None or event.category in GPU:
        return True
    # A Python function that goes on is the one that stops the profiler.
    last_ns = event.end_ns if event.category == PYTHON else event.start_ns
    return window[0] <= to_clock(event.start_ns) and to_clock(last_ns) <= window[1]


def _longest(events: list[Event], limit: int) -> list[Event]:
    """In the order of time, the outer before the inner."""
    if len(events) > limit:
        events = heapq.nlargest(limit, events, key=lambda event: (event.dur_ns, -event.start_ns))
    return sorted(events, key=lambda event: (event.start_ns, -event.dur_ns))


def _cpu_spans(events: Sequence[Event], to_clock: Callable[[int], int], home: Home) -> list[NewSpan]:
    rows: dict[int, str] = {}
    open_in: dict[int, list[int]] = {}  # by thread: places of the spans that are open, the innermost last
    spans: list[NewSpan] = []
    for event in events:
        row = rows.setdefault(event.thread, f"torch cpu thread {len(rows) + 1}")
        stack = open_in.setdefault(event.thread, [])
        start_ns = to_clock(event.start_ns)
        end_ns = start_ns + event.dur_ns
        while stack and (
            spans[stack[-1]].end_ns <= start_ns or spans[stack[-1]].end_ns + _ROUNDING_NS < end_ns
        ):
            stack.pop()
        parent = stack[-1] if stack else None
        if parent is not None:
            end_ns = min(end_ns, spans[parent].end_ns)
        own_home = home(start_ns, end_ns) if parent is None else spans[parent].home
        stack.append(len(spans))
        spans.append(NewSpan(event, start_ns, max(start_ns, end_ns), parent, own_home, _attrs(event, row)))
    return spans


def _gpu_spans(
    events: Sequence[Event],
    cpu: Sequence[NewSpan],
    all_cpu: Iterable[Event],
    to_clock: Callable[[int], int],
    home: Home,
) -> list[NewSpan]:
    """A kernel belongs to the span in which it was launched, though it may outlast it."""
    launches = {
        event.correlation: event for event in all_cpu if event.category in LAUNCHES and event.correlation
    }
    around = _Around(cpu)
    spans = []
    for event in events:
        launch = launches.get(event.correlation or 0)
        launcher = around.find(launch) if launch is not None else None
        start_ns = to_clock(event.start_ns)
        if launcher is not None:
            own_home = cpu[launcher].home
        else:
            cause = launch or event
            own_home = home(to_clock(cause.start_ns), to_clock(cause.end_ns))
        row = f"cuda:{event.device or 0} stream {event.thread}"
        attrs = _attrs(event, row)
        spans.append(NewSpan(event, start_ns, start_ns + event.dur_ns, None, own_home, attrs, launcher))
    return spans


class _Around:
    """Finds the innermost kept span of a thread around an event that may have been left out."""

    def __init__(self, spans: Sequence[NewSpan]) -> None:
        self._spans = spans
        self._by_thread: dict[int, list[int]] = {}
        for place, span in enumerate(spans):
            self._by_thread.setdefault(span.event.thread, []).append(place)

    def find(self, event: Event) -> int | None:
        places = self._by_thread.get(event.thread, [])
        low, high = 0, len(places)
        while low < high:  # the last that begins no later
            middle = (low + high) // 2
            if self._spans[places[middle]].event.start_ns <= event.start_ns:
                low = middle + 1
            else:
                high = middle
        place = places[low - 1] if low else None
        while place is not None and self._spans[place].event.end_ns < event.end_ns:
            place = self._spans[place].parent
        return place


def _attrs(event: Event, row: str) -> dict[str, Any]:
    attrs: dict[str, Any] = {
        "row": row,
        "source": "torch",
        "category": event.category,
        **(event.details or {}),
    }
    if event.category in GPU:
        attrs["device"] = f"cuda:{event.device or 0}"
    if len(event.name) > MAX_NAME:
        attrs["full_name"] = event.name
    return attrs
