"""Any trace, for Hypothesis: hostile texts, odd values, spans that begin and end at the same instants."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st
from linly_profiling import CudaUse, LoadedTrace, Span, Trace
from trace_tools import Clock

texts = st.text(st.characters(codec=None), max_size=20)  # any character, halves of surrogate pairs included
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
ticks_ns = st.sampled_from((0, 0, 1, 3, 2_000))  # less than 1,000 is cut where a span outlives its parent
cuda_uses = st.none() | st.sampled_from(
    (CudaUse(0, 5, -6, None, 7), CudaUse(1), CudaUse(0, 1, 2, 3, 4, shared=True))
)


@st.composite
def traces(draw: st.DrawFn) -> LoadedTrace:
    """A trace that has been closed."""
    clock = Clock()
    trace = Trace(draw(texts), clock_ns=clock)
    running, everything = [trace.root], [trace.root]
    for name in draw(st.lists(texts, max_size=10)):
        clock.tick(draw(ticks_ns))
        span = _start(draw, trace, name, draw(st.sampled_from(running)))
        trace.flow(draw(st.sampled_from(everything)), span, draw(texts))
        everything.append(span)
        running.append(span)
        clock.tick(draw(ticks_ns))
        for ended in draw(st.sets(st.sampled_from(running[1:]), max_size=2)):
            ended.end()
            running.remove(ended)
    clock.tick(draw(ticks_ns))
    trace.close(draw(st.sampled_from((None, "cancelled"))))
    snapshot = trace.snapshot()
    return replace(snapshot, spans=tuple(span._replace(cuda=draw(cuda_uses)) for span in snapshot.spans))


def _start(draw: st.DrawFn, trace: Trace, name: str, parent: Span) -> Span:
    row = draw(st.sampled_from((None, None, "llm", "tts")))
    span = trace.start(name, parent=parent, **({"row": row} if row else {}))
    span.set(value=draw(values))
    parent.mark(draw(texts), draw(st.none() | st.integers(-5, 5)))
    trace.counter(draw(texts), draw(st.integers(-9, 9) | st.floats(-9, 9)), draw(texts))
    return span
