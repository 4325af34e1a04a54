"""One piece of advice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Severity = Literal["high", "medium", "low"]


@dataclass(frozen=True)
class Advice:
    """What was seen, and what usually helps against it.

    Attributes:
        rule: the rule that found it, as in docs/advice.md.
        severity: "high", "medium" or "low".
        title: the finding in a few words.
        evidence: what was seen, with figures.
        remedy: what usually helps, the likeliest first.
        span_ids: the spans that show it, the worst first; empty where it is an attribute or counter of the request.
        cost_ns: the time that it took, which is the most that removing it can save; None where it costs no time, or
            nobody knows how much.
    """

    rule: str
    severity: Severity
    title: str
    evidence: str
    remedy: str
    span_ids: tuple[int, ...]
    cost_ns: int | None
