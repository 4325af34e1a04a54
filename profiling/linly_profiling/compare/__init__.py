"""Comparing: percentiles over many requests, what changed between two sets, and a gate for CI.

    print(Summary.of(load("answers.trace.json")))
    print(Diff.of(load("before.json"), load("after.json")))
    result = check(Budget.load("budget.toml"), load("answers.trace.json"))
    sys.exit(result.exit_code)

Standard library only. Importing `linly_profiling` does not import this.
"""

from __future__ import annotations

from linly_profiling.compare.budget import Baseline, Budget, BudgetError, Limit
from linly_profiling.compare.checks import Check
from linly_profiling.compare.diff import Change, Diff
from linly_profiling.compare.gate import GateResult, check
from linly_profiling.compare.measure import Request, measure
from linly_profiling.compare.metrics import OUTCOMES, REQUEST_METRICS, STAGE_METRICS, Metric
from linly_profiling.compare.statistics import Distribution, percentile, shift
from linly_profiling.compare.summary import Breakdown, OwnerShare, Slow, Summary

__all__ = [
    "OUTCOMES",
    "REQUEST_METRICS",
    "STAGE_METRICS",
    "Baseline",
    "Breakdown",
    "Budget",
    "BudgetError",
    "Change",
    "Check",
    "Diff",
    "Distribution",
    "GateResult",
    "Limit",
    "Metric",
    "OwnerShare",
    "Request",
    "Slow",
    "Summary",
    "check",
    "measure",
    "percentile",
    "shift",
]
