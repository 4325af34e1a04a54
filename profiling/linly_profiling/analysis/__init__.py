"""What the spans, marks and counters of one request say about it: plain functions from a trace to frozen data.

Nothing here guesses: what a trace does not tell is None, never 0. Importing `linly_profiling` does not import this.
"""

from __future__ import annotations

from linly_profiling.analysis.critical import CriticalPath, PathShare, critical_path
from linly_profiling.analysis.decode import Decode, DecodePoint, decode
from linly_profiling.analysis.memory import Memory, MemoryPeak, memory
from linly_profiling.analysis.numbers import Spread
from linly_profiling.analysis.pacing import Pacing, Stall, pacing
from linly_profiling.analysis.whatif import WhatIf, what_if

__all__ = [
    "CriticalPath",
    "Decode",
    "DecodePoint",
    "Memory",
    "MemoryPeak",
    "Pacing",
    "PathShare",
    "Spread",
    "Stall",
    "WhatIf",
    "critical_path",
    "decode",
    "memory",
    "pacing",
    "what_if",
]
