"""A report as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from linly_profiling.advice.text import advice_lines
from linly_profiling.analysis.text import decode_lines, memory_lines, pacing_lines, path_lines
from linly_profiling.attribution import Milestone, queue_label
from linly_profiling.stages import StageRow
from linly_profiling.tables import NOTHING, columns, duration, factor, seconds, shown, size, table

if TYPE_CHECKING:
    from linly_profiling.report import Report

_HEADINGS = (
    "stage", "wall", "busy", "wait in", "wait out", "queue", "in>out", "first", "media", "RTF", "RSS", "CUDA",
)  # fmt: skip
# Left out, in this order, where the table gets too wide.
_EXPENDABLE = ("media", "in>out", "wait out", "queue")
_WIDTH = 100
# Contributions below this share of a milestone are added up in one line; `Report.milestones` has each.
_LEAST_SHARE = 0.005
_NAME_COLUMNS = 12
_TEXT_COLUMNS = 60


def render(report: Report) -> str:
    """The report, at most 100 columns wide."""
    return "\n".join(line if columns(line) <= _WIDTH else shown(line, _WIDTH) for line in _lines(report))


def _lines(report: Report) -> Iterator[str]:
    yield f"request {shown(report.request_id, _TEXT_COLUMNS)}: {shown(report.outcome, 20)}"
    yield from _summary(report)
    for milestone in report.milestones:
        yield ""
        yield from _milestone(milestone)
    if report.stages:
        yield ""
        yield from _stages(report.stages)
    for lines in (_analysis(report), _notes(report), _advice(report), _tracing(report)):
        block = [*lines]
        if block:
            yield ""
            yield from block


def _tracing(report: Report) -> Iterator[str]:
    """What looking at it has cost."""
    if report.overhead_ns is not None and report.wall_ns:
        share = 100 * report.overhead_ns / report.wall_ns
        yield f"tracing itself took about {duration(report.overhead_ns)} of this ({share:.2g} %)"


def _summary(report: Report) -> Iterator[str]:
    parts = [f"wall {duration(report.wall_ns)}"]
    if report.media_s is not None:
        parts.append(f"media {seconds(report.media_s)}")
        parts.append(f"real-time factor {factor(report.real_time_factor)}")
    if report.av_offset_ms is not None:
        parts.append(f"A/V offset {report.av_offset_ms:+.0f} ms")
    yield "  " + ", ".join(parts)


def _milestone(milestone: Milestone) -> Iterator[str]:
    yield f"{milestone.name} after {duration(milestone.total_ns)}"
    least_ns = _LEAST_SHARE * milestone.total_ns
    parts = [
        (part.label, part.duration_ns) for part in milestone.contributions if part.duration_ns >= least_ns
    ]
    if rest_ns := milestone.total_ns - sum(duration_ns for _, duration_ns in parts):
        parts.append(("all smaller parts", rest_ns))
    yield from table(
        [
            (shown(label, _TEXT_COLUMNS), duration(duration_ns), _share(duration_ns, milestone.total_ns))
            for label, duration_ns in parts
        ]
    )


def _share(part_ns: int, total_ns: int) -> str:
    return f"{100 * part_ns / total_ns:.0f} %" if total_ns else NOTHING


def _stages(stages: Sequence[StageRow]) -> list[str]:
    rows = [dict(zip(_HEADINGS, cells, strict=True)) for cells in (_HEADINGS, *map(_stage, stages))]
    lines = table([list(row.values()) for row in rows], indent="")
    for heading in _EXPENDABLE:
        if max(map(columns, lines)) > _WIDTH:
            for row in rows:
                del row[heading]
            lines = table([list(row.values()) for row in rows], indent="")
    return lines


def _stage(stage: StageRow) -> tuple[str, ...]:
    return (
        shown(stage.name, _NAME_COLUMNS),
        duration(stage.wall_ns),
        duration(stage.busy_ns),
        duration(stage.wait_in_ns),
        duration(stage.wait_out_ns),
        duration(stage.queue_ns),
        f"{_count(stage.items_in)}>{_count(stage.items_out)}",
        duration(stage.first_after_ns),
        seconds(stage.media_s),
        factor(stage.real_time_factor),
        size(stage.rss_peak_bytes),
        duration(stage.cuda_ns),
    )


def _count(count: int | None) -> str:
    return NOTHING if count is None else str(count)


def _analysis(report: Report) -> Iterator[str]:
    if report.critical_path is not None and report.critical_path.shares and report.stages:
        yield from path_lines(report.critical_path, _WIDTH)
    for call in report.decode:
        yield from decode_lines(call, _WIDTH)
    if report.pacing is not None:
        yield from pacing_lines(report.pacing, _WIDTH)
    if report.memory is not None:
        yield from memory_lines(report.memory, _WIDTH)


def _advice(report: Report) -> Iterator[str]:
    if report.advice:
        yield "advice:"
        yield from advice_lines(report.advice, _WIDTH)


def _notes(report: Report) -> Iterator[str]:
    """What happened to a stage, where its row in the table does not tell."""
    for stage in report.stages:
        name = shown(stage.name, _NAME_COLUMNS)
        if stage.outcome not in ("ok", "open"):
            yield f"{name}: {shown(stage.outcome, 20)}"
        for label, waited_ns in _waits(stage).items():
            yield f"{name}: {shown(label, _TEXT_COLUMNS)}: {duration(waited_ns)}"
        for fallback in stage.fallbacks:
            yield f"{name}: {shown(_fallback(fallback), 80)}"
        if stage.retries:
            yield f"{name}: tried again {stage.retries} times"


def _waits(stage: StageRow) -> dict[str, int]:
    """Time in the queue, by what kept the worker busy."""
    sums: dict[str, int] = {}
    for wait in stage.waits:
        if wait.attrs.get("busy_with"):
            label = queue_label(wait)
            sums[label] = sums.get(label, 0) + wait.duration_ns
    return sums


def _fallback(fallback: dict[str, str]) -> str:
    source, target = fallback.get("from", "?"), fallback.get("to", "?")
    what = f"tried {source} again" if source == target else f"fell back from {source} to {target}"
    return what + (f" after {fallback['error']}" if fallback.get("error") else "")
