"""The gate of a CI run: does what was measured keep to the budget?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from linly_profiling.compare.budget import Budget, BudgetError
from linly_profiling.compare.checks import Check, check_baseline, check_limit
from linly_profiling.compare.diff import Diff, Side
from linly_profiling.compare.summary import Summary
from linly_profiling.compare.text import WIDTH, count_text, outcomes_text
from linly_profiling.tables import shown

_NAME_COLUMNS = 36


@dataclass(frozen=True)
class GateResult:
    """The outcome of all checks. `str(result)` reads like a test run, at most 100 columns wide.

    Attributes:
        checks: one a bound, in the order of the budget; then one a figure of the baseline.
        notes: what to know beside them.
        outcomes: how many of the requests ended how.
    """

    checks: tuple[Check, ...]
    notes: tuple[str, ...]
    outcomes: dict[str, int]

    @property
    def passed(self) -> bool:
        """Every check is "ok", and there is at least one."""
        return self.exit_code == 0

    @property
    def exit_code(self) -> int:
        """0 passed; 1 something failed; 2 nothing failed, but something could not be checked."""
        found = {check.status for check in self.checks}
        return 1 if "FAILED" in found else 0 if found == {"ok"} else 2

    @property
    def lines(self) -> tuple[str, ...]:
        """The text, line by line."""
        return tuple(_lines(self))

    def to_dict(self) -> dict[str, Any]:
        """Plain data for `json.dumps`: `passed`, `exit_code`, and the fields of this class."""
        return {
            "passed": self.passed,
            "exit_code": self.exit_code,
            "outcomes": self.outcomes,
            "notes": list(self.notes),
            "checks": [asdict(check) for check in self.checks],
        }

    def __str__(self) -> str:
        return "\n".join(self.lines)


def check(budget: Budget, traces: Side, baseline: Side | None = None) -> GateResult:
    """Check requests against a budget.

    A figure that no request has fails: it was never reached. A percentile that so few requests cannot support is an
    error, never a pass.

    Args:
        budget: what to keep to.
        traces: of this run.
        baseline: traces to compare with; by default those of the budget's `baseline.file`.

    Raises:
        BudgetError: the budget compares with a baseline that neither it nor the caller names, or that cannot be read.
    """
    summary = traces if isinstance(traces, Summary) else Summary.of(traces)
    before = _baseline(budget, baseline)
    if not summary.requests:
        return GateResult((Check("ERROR", "requests", "there are no requests to check"),), (), {})
    checks = [check_limit(limit, summary) for limit in budget.limits]
    notes: list[str] = []
    if budget.baseline is not None and before is not None:
        diff = Diff.of(before, summary)
        checks += check_baseline(budget.baseline, diff)
        notes += [f"not the same as in the baseline: {line}" for line in (*diff.work, *diff.conditions)]
    if summary.dropped:
        notes.append(f"incomplete: {count_text(summary.dropped, 'trace')} lost records")
    return GateResult(tuple(checks), tuple(notes), summary.outcomes)


def _baseline(budget: Budget, given: Side | None) -> Summary | None:
    if budget.baseline is None:
        return None
    if given is not None:
        return given if isinstance(given, Summary) else Summary.of(given)
    if budget.baseline.file is None:
        raise BudgetError(
            "the budget compares with a baseline, but names no file; add baseline.file, or give traces"
        )
    from linly_profiling.formats import load

    path = Path(budget.folder, budget.baseline.file)
    try:
        return Summary.of(load(path))
    except OSError as error:
        raise BudgetError(f"baseline.file: cannot read '{path}': {error.strerror or error}") from error
    except ValueError as error:
        raise BudgetError(f"baseline.file: {error}") from error


def _lines(result: GateResult) -> Iterator[str]:
    width = min(_NAME_COLUMNS, max((len(check.name) for check in result.checks), default=0))
    for each in result.checks:
        room = WIDTH - width - 10
        name = shown(each.name, width)
        yield f"{each.status:6}  {name:{width}}  {shown(each.text, room)}"
        if each.owner:
            yield shown(f"{'':8}largest part: {each.owner}", WIDTH)
    yield from (shown(note, WIDTH) for note in result.notes)
    yield _last_line(result)


def _last_line(result: GateResult) -> str:
    failed = sum(check.status == "FAILED" for check in result.checks)
    errors = sum(check.status == "ERROR" for check in result.checks)
    passed = len(result.checks) - failed - errors
    counts = [f"{failed} failed"] * bool(failed) + [f"{errors} could not be checked"] * bool(errors)
    word = {0: "passed", 1: "FAILED", 2: "ERROR"}[result.exit_code]
    return shown(f"{word}: {', '.join([*counts, f'{passed} ok'])}; {outcomes_text(result.outcomes)}", WIDTH)
