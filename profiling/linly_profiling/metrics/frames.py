"""How long each frame took to render."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from linly_profiling.analysis.numbers import count
from linly_profiling.analysis.pacing import FRAME, RENDER
from linly_profiling.more import MAX_MARKS
from linly_profiling.record import Record


def frame_times_ns(spans: Iterable[Record]) -> Iterator[tuple[float, int]]:
    """Pairs of a time and the number of frames that took it.

    Each mark "frame" ends one frame. A span that ended well and has no marks shares its time evenly among its
    `frames`. More frames than a span may have marks are taken for a mistake: each of them is a value to observe.
    """
    for span in spans:
        marks = sorted(mark.at_ns for mark in span.marks if mark.name == FRAME)
        if marks:
            yield from ((end - start, 1) for start, end in zip([span.start_ns, *marks], marks, strict=False))
        elif span.name == RENDER and span.outcome == "ok":
            frames = count(span.attrs, "frames")
            if frames and frames <= MAX_MARKS:
                yield span.duration_ns / frames, frames
