"""Chrome trace files, for Perfetto and chrome://tracing, that `load` reads back without loss.

`formats.save` writes them; `stream.TraceFile` does while the program runs.

One process per request and one thread per stage, both virtual: a viewer draws slices of one thread right only
if they lie inside each other, and the stages of one request run at the same time on one real thread. Every span
is a slice ("X") on the row of its stage; what runs beside another in the same row moves to a second lane. The
exact times, IDs and measurements of a span stand in its `args` under "linly".
"""

from __future__ import annotations

from linly_profiling.chrome.read import TraceFileError, load

__all__ = ["TraceFileError", "load"]
