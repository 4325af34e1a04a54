"""Perfetto's own format: integer nanoseconds, exact names, and tracks with parents.

The same picture as a Chrome trace: a group per request, in it a track per lane of a row, a slice per span. Field
numbers are those of https://github.com/google/perfetto, `protos/perfetto/trace/`; each module names its messages.
"""

from __future__ import annotations

from linly_profiling.perfetto.write import document

__all__ = ["document"]
