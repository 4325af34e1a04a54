"""What to do about what a trace shows: rules that name a bottleneck, cite the spans, and say what usually helps."""

from __future__ import annotations

from linly_profiling.advice.finding import Advice, Severity
from linly_profiling.advice.rules import RULES, advise

__all__ = ["RULES", "Advice", "Severity", "advise"]
