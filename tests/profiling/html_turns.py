"""Requests that the tests of the HTML report show."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from linly_profiling import CudaUse, LoadedTrace, Span, Trace
from trace_tools import MS, Clock

START_NS = 2**60  # of a clock that counts from 1970: more than a number of JavaScript holds exactly
HOSTILE = [
    "</script><img src=x onerror=\"document.title='pwned'\">",
    "<!--<script>",
    "]]>\"'`${1}&lt;&amp;%%data%%",
    "a\nb\x00\x1b[31m\x7f",
    "\ud800",
    "😀 你好 \u202e\u2028",
    "__proto__",
    "constructor",
    "",
    "x" * 999,
]


class Turn:
    """A request as a runner records it; times are milliseconds after its start."""

    def __init__(self, request_id: str = "turn-1", **attrs: Any) -> None:
        self.clock = Clock(START_NS)
        self.trace = Trace(request_id, clock_ns=self.clock, max_records=1_000_000)
        self.trace.root.set(**attrs)
        self.steps: list[tuple[float, int, Callable[[], object]]] = []

    def at(self, ms: float, step: Callable[[], object]) -> None:
        self.steps.append((ms, len(self.steps), step))

    def span(
        self,
        name: str,
        start: float,
        end: float,
        parent: list[Span] | None = None,
        how: str = "ok",
        **attrs: Any,
    ) -> list[Span]:
        """Where the span is to be found when the steps have run."""
        place: list[Span] = []
        self.at(
            start,
            lambda: place.append(self.trace.start(name, parent[0] if parent else self.trace.root, **attrs)),
        )
        self.at(end, lambda: place[0].end(how))
        return place

    def stage(self, row: str, order: int, start: float, end: float, **ms: float) -> list[Span]:
        attrs = {name: START_NS + round(value * MS) for name, value in ms.items()}
        return self.span(f"linly.stage {row}", start, end, stage=f"my {row}", row=row, order=order, **attrs)

    def close(self, ms: float, outcome: str = "ok") -> LoadedTrace:
        for at, _, step in sorted(self.steps, key=lambda step: step[:2]):
            if at <= ms:
                self.clock.now_ns = START_NS + round(at * MS)
                step()
        self.clock.now_ns = START_NS + round(ms * MS)
        self.trace.close(outcome)
        return self.trace.snapshot()


def a_turn(request_id: str = "turn-1", ms: float = 2_000, outcome: str = "ok") -> LoadedTrace:
    """A first token that takes long, a worker that is busy elsewhere, a blocked event loop, memory that fills."""
    turn = Turn(request_id, gpu_memory_total_bytes=24_000_000_000)
    llm = turn.stage("llm", 0, 0, 1_500, first_in_ns=1, ready_ns=1, first_out_ns=900)
    tts = turn.stage("tts", 1, 0, 1_900, first_in_ns=901, ready_ns=950, first_out_ns=1_200)
    call = turn.span("llm.generate", 1, 1_499, llm, prompt_tokens=2_000, cached_tokens=0)
    for k in range(60):
        turn.at(900 + 9 * k, lambda k=k: call[0].mark("token", 10**9 + k * 10**6))
    turn.span("linly.queue.wait", 950, 1_050, tts, worker="voice", busy_with="cancelled turn 7")
    speech = turn.span("tts.synthesise", 1_050, 1_800, tts, "cancelled")
    turn.at(1_050, lambda: turn.trace.flow(call[0], speech[0], "sentence"))
    turn.span("tts.vocoder", 1_060, 1_190, speech, "error")
    for start in (1_300, 1_500):
        blocked = {"callback": "save", "stack": ["app.py:1 save"]}
        turn.span("linly.loop.blocked", start, start + 120, row="event loop", **blocked)
    for k in range(0, 2_000, 50):
        turn.at(k, lambda k=k: turn.trace.counter("memory.gpu.used", 23_000_000_000 + k * 300_000, "cuda:0"))
        turn.at(k, lambda k=k: turn.trace.counter("queue.depth", k % 7, "tts"))
    trace = turn.close(ms, outcome)
    spans = [
        span._replace(cuda=CudaUse(0, 5 * MS, 1, 2, 3), cpu_ns=4 * MS)
        if span.name == "llm.generate"
        else span
        for span in trace.spans
    ]
    return replace(trace, spans=tuple(spans))


def a_hostile_turn() -> LoadedTrace:
    turn = Turn("".join(HOSTILE[:6]))
    stage = turn.stage(HOSTILE[0], 0, 0, 100, first_in_ns=1, ready_ns=1, first_out_ns=50)
    turn.span("linly.queue.wait", 5, 40, stage, worker=HOSTILE[0], busy_with=HOSTILE[5])
    for k, text in enumerate(HOSTILE):
        place = turn.span(text, k, 90 - k, row=text, how=text or "ok", **{text or "none": [text]})
        turn.at(50, lambda place=place, text=text: place[0].mark(text))
        turn.at(50, lambda text=text: turn.trace.counter(text, 3, text))
    return turn.close(100, HOSTILE[0])


def a_large_turn(spans: int) -> LoadedTrace:
    turn = Turn("large")
    stages = [turn.stage(row, k, 0, spans) for k, row in enumerate(["llm", "tts", "face"])]
    for k in range(spans - 4):
        turn.span(
            "face.render", k + 0.3, k + 1.7, stages[k % 3], "error" if k == spans // 2 else "ok", frames=5
        )
    return turn.close(spans)
