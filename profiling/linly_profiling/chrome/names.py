"""What writers and readers of our Chrome traces agree on."""

from __future__ import annotations

VERSION = 1
FIRST_PID = 2**30  # above Linux's pid_max, so that no real process of a merged trace is hidden

# Metadata events that viewers ignore; what they hold makes a growing file complete for `load` and `repair`.
HEAD, END, OPEN_SPAN, FLOW = "linly.trace", "linly.end", "linly.open", "linly.flow"
CLOSED = "linly.closed"  # the last event of a file that was closed
