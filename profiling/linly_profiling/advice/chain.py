"""Rules about the chain as a whole."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations

from linly_profiling.advice.evidence import MS, Evidence, cited, percent, severity, times, total_ns
from linly_profiling.advice.finding import Advice
from linly_profiling.stages import StageRow
from linly_profiling.tables import duration, shown

# A conversation's answer that comes later feels late; it is also what this project asks of its own pipeline.
LATE_ANSWER_NS = 700 * MS
# Half of the wait: nothing else can gain as much.
DOMINANT_SHARE = 0.5
# What one stage goes on doing before the next can begin, as a share of the wait, and at the least.
HANDOVER_SHARE = 0.25
LATE_HANDOVER_NS = 300 * MS
# Above it, figures of the whole are no longer to be trusted.
MANY_DROPPED = 0.1

_BY_ROW = {
    "asr": (
        "A smaller or quantised recogniser, a shorter window, streaming recognition that works while the user still"
        " speaks, or an earlier decision that the user has finished."
    ),
    "tts": (
        "Speak the first sentence, or its first clause, before the rest is written; a voice that streams; a lighter or"
        " quantised model."
    ),
    "motion": "Work in shorter pieces, so that the first frames need less sound; a lighter model.",
    "face": "Fewer frames in the first piece, a smaller picture, prepare the portrait before the first request.",
}


def stage_dominates(seen: Evidence) -> Iterator[Advice]:
    """The answer comes late, and one stage other than the language model takes most of the wait."""
    whole = seen.milestone
    if whole is None or whole.total_ns < LATE_ANSWER_NS:
        return
    for stage in seen.report.stages:
        label = f"{stage.name}: work"
        work_ns = sum(part.duration_ns for part in whole.contributions if part.label == label)
        if stage.row in _BY_ROW and work_ns >= DOMINANT_SHARE * whole.total_ns:
            name = shown(stage.name, 30)
            yield Advice(
                rule="stage-dominates",
                severity=severity(work_ns, whole.total_ns),
                title=f"{name} takes {duration(work_ns)} of the {duration(whole.total_ns)} to {whole.name}",
                evidence=f"{percent(work_ns, whole.total_ns)} of the time to {whole.name} is its work",
                remedy=_BY_ROW[stage.row],
                span_ids=(stage.span_id,),
                cost_ns=work_ns,
            )


def late_handover(seen: Evidence) -> Iterator[Advice]:
    """A stage has begun to answer, but the next one cannot begin with so little."""
    whole = seen.milestone
    if whole is None:
        return
    least_ns = max(LATE_HANDOVER_NS, HANDOVER_SHARE * whole.total_ns)
    for part in whole.contributions:
        pair = _handover(seen, part.label)
        if pair is not None and part.duration_ns >= least_ns:
            first, second = (shown(stage.name, 30) for stage in pair)
            yield Advice(
                rule="late-handover",
                severity=severity(part.duration_ns, whole.total_ns),
                title=f"{second} waited {duration(part.duration_ns)} until {first} had given it enough to begin",
                evidence=(
                    f"{percent(part.duration_ns, whole.total_ns)} of the {duration(whole.total_ns)} to {whole.name}"
                    f" lie between the first output of {first} and the input that {second} needed"
                ),
                remedy=(
                    "Hand over sooner: a sentence or its first clause instead of the whole answer; ask for a short"
                    f" first sentence; a faster pace of {first}."
                ),
                span_ids=(part.span_id, pair[1].span_id),
                cost_ns=part.duration_ns,
            )


def _handover(seen: Evidence, label: str) -> tuple[StageRow, StageRow] | None:
    """The two stages that a contribution of this kind is about."""
    return next(
        (
            (first, second)
            for first, second in permutations(seen.report.stages, 2)
            if label == f"{first.name}: goes on until {second.name} can begin"
        ),
        None,
    )


def fallbacks(seen: Evidence) -> Iterator[Advice]:
    """An engine failed and another took over, or it was tried again."""
    for stage in seen.report.stages:
        if not stage.fallbacks and not stage.retries:
            continue
        failed = [span for span in seen.work_of(stage) if span.outcome == "error"]
        cost_ns = total_ns(failed) or None
        yield Advice(
            rule="fallbacks",
            severity="low" if cost_ns is None else severity(cost_ns, seen.wall_ns),
            title=f"{shown(stage.name, 30)} did not succeed at once",
            evidence=_what_happened(stage)
            + (f"; the failed calls took {duration(cost_ns)}" if cost_ns else ""),
            remedy=(
                "Look why it failed (the error, `linly doctor`); a shorter deadline gives up sooner; if it fails"
                " often, put the engine that works first."
            ),
            span_ids=(*cited(failed), stage.span_id),
            cost_ns=cost_ns,
        )


def _what_happened(stage: StageRow) -> str:
    parts = []
    for fallback in stage.fallbacks[:3]:
        source, target = fallback.get("from", "?"), fallback.get("to", "?")
        what = f"{source} was tried again" if source == target else f"{source} was replaced by {target}"
        parts.append(shown(what + (f" after {fallback['error']}" if fallback.get("error") else ""), 100))
    if stage.retries:
        parts.append(f"tried again {times(stage.retries, 'time')}")
    return "; ".join(parts)


def dropped(seen: Evidence) -> Iterator[Advice]:
    """The trace was full: what is missing is in no figure."""
    missing = seen.report.dropped
    if missing <= 0:
        return
    many = missing >= MANY_DROPPED * (missing + len(seen.trace.spans) + len(seen.trace.samples))
    yield Advice(
        rule="dropped-records",
        severity="medium" if many else "low",
        title="The trace is incomplete",
        evidence=f"{times(missing, 'record')} {'was' if missing == 1 else 'were'} dropped; the figures above lack them",
        remedy="Raise max_records of the trace, or record fewer spans and samples in inner loops.",
        span_ids=(),
        cost_ns=None,
    )
