"""Rules about time in which a stage could have worked but waited: for a worker, a model, a lock, a copy, room."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence

from linly_profiling.advice.evidence import (
    MS,
    NOTICEABLE_NS,
    Evidence,
    cited,
    longest,
    percent,
    severity,
    times,
    total_ns,
)
from linly_profiling.advice.finding import Advice
from linly_profiling.record import Record
from linly_profiling.stages import QUEUE_WAIT, StageRow
from linly_profiling.tables import duration, shown

# Who waits longer than it works gains more from a second worker than from a model twice as fast.
WAIT_OVER_WORK = 1.0
# Loading less than this is opening a file that the system holds in memory already.
COLD_START_NS = 100 * MS
# Held up for a quarter of its time, a stage is far ahead of the one behind it.
HELD_UP_SHARE = 0.25
# A sink that plays takes a second for each second of media by intent; only one that takes longer is in the way.
PLAYING_RTF = 1.1
# Slower than this and a stage has no reserve to keep up with what is being played, on a machine that is also busy.
LITTLE_RESERVE_RTF = 0.8

_LOCK_ENDINGS = (".lock", "lock.wait")
_COPY_ENDINGS = (".copy", ".h2d", ".d2h", ".to_device", ".to_host")
_LOAD_ENDINGS = (".load", ".warmup", ".warm_up", ".compile")
_CANCELLED = "cancelled"
_LOADING = "loading"


def queue_wait(seen: Evidence) -> Iterator[Advice]:
    """A stage spends more time in the queue of its worker than at work."""
    for stage in seen.report.stages:
        waits = [wait for wait in stage.waits if not _busy_with(wait).startswith((_CANCELLED, _LOADING))]
        wait_ns, work_ns = total_ns(waits), _work_ns(seen, stage)
        if work_ns is None or wait_ns < NOTICEABLE_NS or wait_ns < WAIT_OVER_WORK * work_ns:
            continue
        yield Advice(
            rule="queue-wait",
            severity=severity(wait_ns, seen.wall_ns),
            title=f"{_name(stage)} waited {duration(wait_ns)} for its worker, for {duration(work_ns)} of work",
            evidence=f"{times(len(waits), 'wait')}, the longest {duration(longest(waits))}{_behind(waits)}",
            remedy=(
                "A second worker for this stage if memory allows, or fewer requests at a time; calls in shorter pieces,"
                " so that others can come in between; batching, if the model gains from it."
            ),
            span_ids=cited(waits),
            cost_ns=wait_ns,
        )


def cancelled_call(seen: Evidence) -> Iterator[Advice]:
    """A call that nobody wants any more runs to its end, and the next request waits for it."""
    waits = [wait for wait in _waits(seen) if _busy_with(wait).startswith(_CANCELLED)]
    wait_ns = total_ns(waits)
    if wait_ns < NOTICEABLE_NS:
        return
    yield Advice(
        rule="cancelled-call",
        severity=severity(wait_ns, seen.wall_ns),
        title=f"{duration(wait_ns)} of waiting for calls that had been cancelled",
        evidence=f"{times(len(waits), 'wait')}{_behind(waits)}",
        remedy=(
            "Let the call look between two steps whether it is still wanted (after each token, sentence or frame);"
            " shorter pieces of work; a second worker that takes over meanwhile."
        ),
        span_ids=cited(waits),
        cost_ns=wait_ns,
    )


def cold_start(seen: Evidence) -> Iterator[Advice]:
    """A model was loaded, warmed up or compiled while the request waited."""
    waits = [wait for wait in _waits(seen) if _busy_with(wait) == _LOADING]
    loads = seen.named(lambda name: name.lower().endswith(_LOAD_ENDINGS))
    cost_ns = total_ns(waits) + seen.stalled_ns(loads)
    if cost_ns < COLD_START_NS:
        return
    names = ", ".join(dict.fromkeys([*(span.name for span in loads), *(_worker(wait) for wait in waits)]))
    yield Advice(
        rule="cold-start",
        severity=severity(cost_ns, seen.wall_ns),
        title=f"{duration(cost_ns)} of loading on the way of a request",
        evidence=f"The request waited for {shown(names, 120)}",
        remedy="Load before the first request, and warm up: one short call of each model, so that nothing is lazy.",
        span_ids=cited([*loads, *waits]),
        cost_ns=cost_ns,
    )


def lock_wait(seen: Evidence) -> Iterator[Advice]:
    """Threads wait for each other."""
    yield from _stalls(
        seen,
        "lock-wait",
        lambda name: name.endswith(_LOCK_ENDINGS),
        "waiting for the lock {name}",
        "Hold the lock for less: prepare outside of it, copy what is needed and let go; a lock for each model or"
        " session instead of one for all.",
    )


def copy_stall(seen: Evidence) -> Iterator[Advice]:
    """The request waits while data moves between memories."""
    yield from _stalls(
        seen,
        "copy-stall",
        lambda name: name.endswith(_COPY_ENDINGS),
        "copying in {name}",
        "Keep the data where the next step needs it; pinned memory and non_blocking=True, so that the copy runs beside"
        " the work; one large copy instead of many small ones; a smaller type, such as uint8 frames.",
    )


def _stalls(
    seen: Evidence, rule: str, chosen: Callable[[str], bool], doing: str, remedy: str
) -> Iterator[Advice]:
    """One piece of advice for each name of which the request waited noticeably."""
    by_name: dict[str, list[Record]] = defaultdict(list)
    for span in seen.named(chosen):
        by_name[span.name].append(span)
    for name, spans in by_name.items():
        cost_ns = seen.stalled_ns(spans)
        if cost_ns >= NOTICEABLE_NS:
            yield Advice(
                rule=rule,
                severity=severity(cost_ns, seen.wall_ns),
                title=f"{duration(cost_ns)} {doing.format(name=shown(name, 40))}",
                evidence=f"{times(len(spans), 'span')}, the longest {duration(longest(spans))},"
                f" {percent(cost_ns, seen.wall_ns)} of the request"
                if seen.wall_ns
                else "",
                remedy=remedy,
                span_ids=cited(spans),
                cost_ns=cost_ns,
            )


def backpressure(seen: Evidence) -> Iterator[Advice]:
    """A stage is held up because the one behind it can hardly keep up with real time.

    Where that one has reserves, being held up is only the sign that a stage is quicker than needed.
    """
    stages = seen.report.stages
    for stage, behind in zip(stages, stages[1:], strict=False):
        held_ns, factor = stage.wait_out_ns, behind.real_time_factor
        if held_ns is None or factor is None or _is_held_up(behind):
            continue
        limit = PLAYING_RTF if behind.row == "sink" else LITTLE_RESERVE_RTF
        if factor >= limit and held_ns >= NOTICEABLE_NS and _is_held_up(stage):
            yield Advice(
                rule="backpressure",
                severity=severity(held_ns, seen.wall_ns),
                title=f"{_name(stage)} is held up by {_name(behind)}",
                evidence=(
                    f"{_name(stage)} waited {duration(held_ns)} of its {duration(stage.wall_ns)} for room;"
                    f" {_name(behind)} needs {factor:.2f} s for each second of media"
                ),
                remedy=(
                    f"Make {_name(behind)} faster: everything before it is fast enough. A smaller or compiled model,"
                    " a smaller picture, fewer frames a second, a GPU, or a second worker."
                ),
                span_ids=(behind.span_id, stage.span_id),
                cost_ns=held_ns,
            )


def _is_held_up(stage: StageRow) -> bool:
    return stage.wait_out_ns is not None and stage.wait_out_ns >= HELD_UP_SHARE * stage.wall_ns > 0


def _work_ns(seen: Evidence, stage: StageRow) -> int | None:
    """Time in spans of work; without any, the time that the stage was busy and not in the queue."""
    work = seen.work_of(stage)
    if work:
        return total_ns(work)
    return None if stage.busy_ns is None else max(0, stage.busy_ns - total_ns(stage.waits))


def _waits(seen: Evidence) -> list[Record]:
    return [span for span in seen.trace.spans if span.name == QUEUE_WAIT]


def _busy_with(wait: Record) -> str:
    return str(wait.attrs.get("busy_with") or "")


def _worker(wait: Record) -> str:
    return f"worker {wait.attrs.get('worker') or 'without a name'}"


def _behind(waits: Sequence[Record]) -> str:
    """What the workers were busy with, the longest wait first."""
    ordered = sorted(waits, key=lambda wait: -wait.duration_ns)
    busy = list(dict.fromkeys(shown(_busy_with(wait), 40) for wait in ordered if _busy_with(wait)))
    return f"; the worker was busy with {', '.join(busy[:3])}" if busy else ""


def _name(stage: StageRow) -> str:
    return shown(stage.name, 30)
