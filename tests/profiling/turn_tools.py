"""A request as a runner records it, by hand: shared by the tests of the report, the analysis and the advice."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from linly_profiling import LoadedTrace, Sample, Span, Trace
from trace_tools import MS, Clock

START_NS = 1_000 * MS


def ns(ms: float) -> int:
    """A time of the request, given in milliseconds after its start, on the trace's clock."""
    return START_NS + round(ms * MS)


class Turn:
    """A request as a runner records it; times are milliseconds after its start."""

    def __init__(self, request_id: str = "turn-1", **attrs: Any) -> None:
        self.clock = Clock(START_NS)
        self.trace = Trace(request_id, clock_ns=self.clock)
        self.attrs = attrs
        self.count = 0

    def at(self, ms: float) -> None:
        self.clock.now_ns = ns(ms)

    def stage(self, row: str, first_in: float | None, first_out: float | None, **attrs: Any) -> Span:
        """Begins with the request; ends with it, unless the test ends it."""
        self.at(0)
        given: dict[str, Any] = {"stage": f"my {row}", "row": row, "order": self.count, **attrs}
        self.count += 1
        for name, ms in (("first_in_ns", first_in), ("first_out_ns", first_out)):
            if ms is not None:
                given[name] = ns(ms)
        return self.trace.start(f"linly.stage {row}", None, True, **given)

    def span(
        self,
        name: str,
        start: float,
        end: float,
        parent: Span | None = None,
        marks: dict[str, list[float]] | None = None,
        outcome: str = "ok",
        **attrs: Any,
    ) -> Span:
        self.at(start)
        span = self.trace.start(name, parent, **attrs)
        for mark, times in (marks or {}).items():
            for ms in times:
                self.at(ms)
                span.mark(mark)
        self.at(end)
        span.end(outcome)
        return span

    def queue_wait(self, stage: Span, start: float, end: float, **attrs: Any) -> Span:
        return self.span("linly.queue.wait", start, end, stage, **attrs)

    def counter(self, name: str, track: str, values: dict[float, float]) -> None:
        for ms, value in values.items():
            self.at(ms)
            self.trace.counter(name, value, track)

    def close(self, ms: float, outcome: str = "ok") -> Trace:
        self.at(ms)
        self.trace.close(outcome)
        return self.trace

    def closed(self, ms: float, outcome: str = "ok") -> LoadedTrace:
        """The whole, with the given attributes of the root, and without the memory of this machine."""
        snapshot = self.close(ms, outcome).snapshot()
        samples = tuple(sample for sample in snapshot.samples if sample.name != "memory.rss")
        spans = tuple(
            span._replace(rss_start_bytes=None, rss_end_bytes=None, rss_peak_bytes=None)
            for span in snapshot.spans
        )
        root = spans[0]._replace(attrs=self.attrs)
        return replace(snapshot, spans=(root, *spans[1:]), samples=samples)


def with_samples(trace: LoadedTrace, *samples: Sample) -> LoadedTrace:
    return replace(trace, samples=(*trace.samples, *samples))
