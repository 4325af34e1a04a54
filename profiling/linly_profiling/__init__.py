"""Where the time and memory of one request went: spans, marks and counters, a Chrome trace, and a report.

    trace = Trace(request_id="a1")
    with trace.span("llm.decode", row="llm") as span:
        span.mark("token")
    trace.close()
    trace.save("a1.trace.json")
    print(Report.of(trace))

Recording is cheap, bounded and never waits or raises. It works across threads, tasks and generators.
Standard library only; torch is used if the program has loaded it, and never imported.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

from linly_profiling.clock import Epoch
from linly_profiling.decorator import traced
from linly_profiling.record import CudaUse, Flow, LoadedTrace, Mark, Record, Sample
from linly_profiling.span import Span, attach, current_span
from linly_profiling.trace import Trace, enable

if TYPE_CHECKING:
    from linly_profiling.chrome import TraceFileError
    from linly_profiling.chrome.stream import TraceFile
    from linly_profiling.formats import load, save
    from linly_profiling.recorder import Exporter, Recorder
    from linly_profiling.report import Report
    from linly_profiling.sampling import Sampling

# Recording needs none of these: they are imported when they are first named.
_LATER = {
    "Exporter": "linly_profiling.recorder",
    "Recorder": "linly_profiling.recorder",
    "Report": "linly_profiling.report",
    "Sampling": "linly_profiling.sampling",
    "TraceFile": "linly_profiling.chrome.stream",
    "TraceFileError": "linly_profiling.chrome",
    "load": "linly_profiling.formats",
    "save": "linly_profiling.formats",
}

__all__ = [
    "CudaUse",
    "Epoch",
    "Exporter",
    "Flow",
    "LoadedTrace",
    "Mark",
    "Record",
    "Recorder",
    "Report",
    "Sample",
    "Sampling",
    "Span",
    "Trace",
    "TraceFile",
    "TraceFileError",
    "attach",
    "current_span",
    "enable",
    "load",
    "save",
    "traced",
]


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(import_module(_LATER[name]), name)
    raise AttributeError(f"module 'linly_profiling' has no attribute {name!r}")


if os.environ.get("LINLY_NVTX"):
    from linly_profiling.torch_tools.ranges import ranges_from_environment

    ranges_from_environment()
