"""One bound of a budget, or one figure of a baseline, against what was measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Literal

from linly_profiling.compare.budget import Baseline, Limit
from linly_profiling.compare.diff import Change, Diff, largest_part
from linly_profiling.compare.measure import WHOLE, Request
from linly_profiling.compare.metrics import OUTCOMES, REQUEST_METRICS, STAGE_METRICS, Unit
from linly_profiling.compare.statistics import percentile, rank
from linly_profiling.compare.summary import Summary, busiest, value_of
from linly_profiling.compare.text import change_text, count_text, percent_text, plain, value_text
from linly_profiling.tables import shown

Status = Literal["ok", "FAILED", "ERROR"]
_UNITS: dict[Unit, str] = {"ms": " ms", "MB": " MB", "s": " s", "ratio": "", "count": ""}


@dataclass(frozen=True)
class Check:
    """One bound, checked.

    Attributes:
        status: "ok", "FAILED", or "ERROR" where the traces cannot tell.
        name: of the figure, with its stage and statistic: "tts.busy_ms p95".
        text: what was measured, against what.
        value: what was measured; None where it was not.
        bound: the limit, in the same unit.
        owner: of a time that failed: who had the largest part of it, in the request that shows it, or of the change.
    """

    status: Status
    name: str
    text: str
    value: float | None = None
    bound: float | None = None
    owner: str | None = None


def check_limit(limit: Limit, summary: Summary) -> Check:
    """Whether the requests keep to one bound."""
    if limit.statistic == "max_ratio":
        return _share(limit, summary)
    name = f"{limit.stage}.{limit.metric}" if limit.stage else limit.metric
    name = f"{name} {limit.statistic}"
    if limit.stage is not None and summary.ok and limit.stage not in summary.stages:
        return Check("FAILED", name, _no_stage(limit.stage, list(summary.stages)), None, limit.bound)
    having = [request for request in summary.ok if value_of(request, limit.metric, limit.stage) is not None]
    if limit.statistic == "reached" and summary.ok:
        return _reached(name, limit.bound, len(having), len(summary.ok))
    if not having:
        nobody = "none has it" if summary.ok else "none ended ok"
        text = f"never reached: of {count_text(len(summary.requests), 'request')}, {nobody}"
        return Check("FAILED", name, text, None, limit.bound)
    return _bounded(name, limit, having, len(summary.ok))


def _no_stage(stage: str, there: list[str]) -> str:
    close = get_close_matches(stage, there, 1)
    hint = f"did you mean {close[0]!r}?" if close else f"there are: {', '.join(there) or 'none'}"
    return f"no request has a stage {stage!r}; {hint}"


def _share(limit: Limit, summary: Summary) -> Check:
    count = sum(request.kind == limit.metric for request in summary.requests)
    value = count / len(summary.requests)
    text = f"{plain(value, limit.bound)} {_sign(value, limit.bound)} {plain(limit.bound)}"
    text += f", {count:,} of {count_text(len(summary.requests), 'request')} {OUTCOMES[limit.metric]}"
    status: Status = "ok" if value <= limit.bound else "FAILED"
    return Check(status, f"{limit.metric} max_ratio", text, value, limit.bound)


def _reached(name: str, bound: float, having: int, ok: int) -> Check:
    value = having / ok
    sign = "≥" if value >= bound else "<"
    text = f"{plain(value, bound)} {sign} {plain(bound)}, {having:,} of {ok:,} have it"
    return Check("ok" if value >= bound else "FAILED", name, text, value, bound)


def _bounded(name: str, limit: Limit, having: Sequence[Request], ok: int) -> Check:
    unit = (REQUEST_METRICS if limit.stage is None else STAGE_METRICS)[limit.metric].unit
    ordered = sorted(having, key=lambda request: _value(request, limit))
    at = _place(limit.statistic, len(ordered))
    of = f"n = {len(ordered):,}" + (f" of {ok:,}" if len(ordered) < ok else "")
    if at is None:
        needed = 100 // (100 - int(limit.statistic[1:]))
        return Check("ERROR", name, f"too few requests: {of}, it needs {needed}", None, limit.bound)
    value = _value(ordered[at], limit)
    passed = value >= limit.bound if limit.statistic == "min" else value <= limit.bound
    sign = ("≥" if passed else "<") if limit.statistic == "min" else _sign(value, limit.bound)
    text = f"{plain(value, limit.bound)}{_UNITS[unit]} {sign} {plain(limit.bound)}{_UNITS[unit]}, {of}"
    if passed:
        return Check("ok", name, text, value, limit.bound)
    owner = _owner(limit.metric, ordered[at]) if limit.stage is None and unit in ("ms", "ratio") else None
    return Check("FAILED", name, text, value, limit.bound, owner)


def _value(request: Request, limit: Limit) -> float:
    value = value_of(request, limit.metric, limit.stage)
    return 0.0 if value is None else value


def _place(statistic: str, count: int) -> int | None:
    if statistic in ("max", "min"):
        return count - 1 if statistic == "max" else 0
    percent = int(statistic[1:])
    return None if percentile(range(count), percent) is None else rank(count, percent)


def _sign(value: float, bound: float) -> str:
    return "≤" if value <= bound else ">"


def _owner(metric: str, request: Request) -> str:
    """Who had the largest part of a time, in one request."""
    who = f"request {shown(request.request_id, 24)}"
    parts = request.parts.get(REQUEST_METRICS[metric].title) or request.parts.get(WHOLE)
    if parts:
        owner = max(parts, key=lambda name: parts[name])
        share = f", {100 * parts[owner] / sum(parts.values()):.0f} %" if parts[owner] else ""
        return f"{shown(owner, 50)} {value_text(parts[owner] / 1e6, 'ms')}{share} ({who})"
    stage, busy_ms = busiest(request)
    return who if stage is None else f"{shown(stage, 30)} was busy for {value_text(busy_ms, 'ms')} ({who})"


def check_baseline(rules: Baseline, diff: Diff) -> Iterator[Check]:
    """Each figure that either side has; one error where one of them has too few requests."""
    for side, summary in (("the baseline", diff.before), ("this run", diff.after)):
        if len(summary.ok) < rules.min_requests:
            ended = count_text(len(summary.ok), "request")
            text = f"{side} has {ended} that ended ok, it needs {rules.min_requests:,}"
            yield Check("ERROR", "against the baseline", text)
            return
    changes = {change.name: change for change in diff.changes if change.group == "request"}
    for metric in rules.metrics:
        if metric in changes:
            yield _against(rules, diff, changes[metric])
        elif rules.named:
            yield Check("FAILED", f"{metric} vs baseline", "never reached, by neither")


def _against(rules: Baseline, diff: Diff, change: Change) -> Check:
    name = f"{change.name} vs baseline"
    if change.before is None or change.after is None or change.change is None:
        if change.after is None:
            return Check("FAILED", name, "never reached; the baseline has it")
        return Check("ERROR", name, "the baseline does not have it")
    unit = _UNITS[change.unit]
    text = f"{plain(change.before, change.after)}{unit} → {plain(change.after, change.before)}{unit}"
    text += f" ({percent_text(change.ratio)}), {change.verdict}"
    if change.verdict == "too few to say":
        return Check("ERROR", name, text)
    allowed = rules.slower * change.before
    if not change.worse or abs(change.change) <= allowed:
        return Check("ok", name, text, change.after, change.before + allowed)
    part = largest_part(diff, change)
    owner = None if part is None else f"{shown(part.title, 50)} {change_text(part.change or 0, part.unit)}"
    return Check("FAILED", name, text, change.after, change.before + allowed, owner)
