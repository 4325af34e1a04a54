"""Rules about what disturbs every request of a process: a blocked event loop, pauses for garbage collection."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from linly_profiling.advice.blocking import kind_of
from linly_profiling.advice.evidence import (
    MS,
    NOTICEABLE_NS,
    Evidence,
    cited,
    longest,
    severity,
    times,
    total_ns,
)
from linly_profiling.advice.finding import Advice
from linly_profiling.analysis.numbers import overlap
from linly_profiling.pauses import GC_PAUSE, LOOP_BLOCKED
from linly_profiling.record import Record
from linly_profiling.tables import duration, shown

# A packet of live audio is 20 ms long (the usual frame of Opus and of WebRTC): a longer pause is a gap in the sound.
LONG_GC_PAUSE_NS = 20 * MS
# Many short pauses: more than this is worth a change, in exchange for memory.
GC_SHARE = 0.02
_FRAMES_SHOWN = 3
_REMEDY_UNSEEN = (
    "Look at what ran meanwhile: a call into C that holds the interpreter stops the event loop from any thread; so does"
    " a machine with more threads at work than cores."
)
_REMEDY = "Move this call off the event loop: `await asyncio.to_thread(…)`, or the stage's worker."


def event_loop_blocked(seen: Evidence) -> Iterator[Advice]:
    """One callback kept the event loop: no stage of any request could go on. One piece of advice for each place."""
    by_place: dict[str, list[Record]] = defaultdict(list)
    for span in seen.trace.spans:
        if span.name == LOOP_BLOCKED:
            by_place[next(iter(_stack(span)), "")].append(span)
    for place, spans in by_place.items():
        if longest(spans) >= NOTICEABLE_NS:
            yield _blocked(seen, place, spans)


def _blocked(seen: Evidence, place: str, spans: Sequence[Record]) -> Advice:
    worst = max(spans, key=lambda span: span.duration_ns)
    kind, cost_ns = kind_of(place), total_ns(spans)
    by = f" by {kind.what}" if kind else ""
    often = f"{times(len(spans), 'time')}, the longest for {duration(worst.duration_ns)}"
    return Advice(
        rule="event-loop-blocked",
        severity=severity(cost_ns, seen.wall_ns),
        title=f"The event loop was blocked for {duration(cost_ns)}{by}",
        evidence=f"{often}, {_where(worst) or f'no stack was recorded{_meanwhile(seen, worst)}'}",
        remedy=kind.remedy if kind else _REMEDY if _where(worst) else _REMEDY_UNSEEN,
        span_ids=cited(spans),
        cost_ns=cost_ns,
    )


def _stack(span: Record) -> list[str]:
    """The frames, innermost first."""
    stack = span.attrs.get("stack")
    frames = stack if isinstance(stack, list) else []
    return [frame for frame in reversed(frames) if isinstance(frame, str) and frame]


def _where(span: Record) -> str:
    """What blocked, as far as it was seen; else nothing."""
    frames = [shown(frame, 60) for frame in _stack(span)[:_FRAMES_SHOWN]]
    if frames:
        return "in " + ", called from ".join(frames)
    callback = span.attrs.get("callback")
    return f"by {shown(callback, 80)}" if isinstance(callback, str) and callback else ""


def _meanwhile(seen: Evidence, blocked: Record) -> str:
    """The spans of work that covered most of the time."""
    while_ns = [(blocked.start_ns, blocked.end_ns)]
    open_ns = Counter[str]()
    for span in seen.named(lambda name: True):
        if span.parent_id is not None:
            open_ns[span.name] += overlap(while_ns, [(span.start_ns, span.end_ns)])
    names = [shown(name, 40) for name, ns in open_ns.most_common(2) if ns > 0]
    return f"; open meanwhile: {', '.join(names)}" if names else ""


def gc_pauses(seen: Evidence) -> Iterator[Advice]:
    """Python's garbage collector stopped every thread for long, or often."""
    pauses = [span for span in seen.trace.spans if span.name == GC_PAUSE]
    cost_ns, longest_ns = total_ns(pauses), longest(pauses)
    if longest_ns < LONG_GC_PAUSE_NS and not (
        cost_ns >= NOTICEABLE_NS and cost_ns >= GC_SHARE * seen.wall_ns
    ):
        return
    yield Advice(
        rule="gc-pauses",
        severity=severity(cost_ns, seen.wall_ns),
        title=f"Garbage collection stopped all threads for {duration(cost_ns)}",
        evidence=f"{times(len(pauses), 'pause')}, the longest {duration(longest_ns)}",
        remedy=(
            "`gc.collect(); gc.freeze()` once the models are loaded, so that later collections skip them; a higher"
            " `gc.set_threshold`; fewer objects that live as long as the request."
        ),
        span_ids=cited(pauses),
        cost_ns=cost_ns,
    )
