"""Traces as a pipeline leaves them, on a clock that is told what to do."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator

from linly_profiling import Span, Trace
from trace_tools import MS, Clock

# Does something, then yields for how many nanoseconds it waits, or a script to start beside itself.
Script = Iterator["int | Script"]

ROWS = ("asr", "llm", "tts", "motion", "face", "sink")
GB = 2**30
US = 1_000  # what a real program needs between two things that it does


def play(clock: Clock, *scripts: Script) -> None:
    """Run scripts side by side until each has ended."""
    order = itertools.count()
    due = [(clock.now_ns, next(order), script) for script in scripts]
    heapq.heapify(due)
    while due:
        clock.now_ns, _, script = heapq.heappop(due)
        step = next(script, None)
        if isinstance(step, int):
            heapq.heappush(due, (clock.now_ns + step, next(order), script))
        elif step is not None:
            heapq.heappush(due, (clock.now_ns, next(order), script))
            heapq.heappush(due, (clock.now_ns, next(order), step))


def answers(count: int) -> list[Trace]:
    """Several requests at once, each 150 ms after the one before."""
    clock = Clock()
    traces: list[Trace] = []
    play(clock, *(answer(f"turn {i + 1}", clock, traces, 150 * i * MS) for i in range(count)))
    return traces


def answer(request_id: str, clock: Clock, traces: list[Trace], delay_ns: int = 0) -> Script:
    """One request, with 6 stages, 30 tokens, three sentences and 60 frames; it waits for the one before."""
    yield delay_ns
    trace = Trace(request_id, clock_ns=clock)
    traces.append(trace)
    trace.root.set(memory_limit_bytes=8 * GB, gpu_memory_total_bytes=24 * GB, gpu_name="stand-in")
    stages = {row: trace.start(f"linly.stage {row}", row=row, order=i) for i, row in enumerate(ROWS)}
    yield from _recognise(trace, stages["asr"], busy=bool(delay_ns))
    yield from _generate(trace, stages)
    yield 100 * MS  # the last sentence becomes frames
    for stage in stages.values():
        stage.end()
        yield MS
    trace.close()


def _recognise(trace: Trace, stage: Span, busy: bool) -> Script:
    if busy:
        wait = trace.start("linly.queue.wait", stage, worker="whisper", busy_with="turn 1")
        yield 40 * MS
        wait.end()
    transcribe = trace.start("whisper.transcribe", stage)
    yield 120 * MS
    transcribe.end()
    stage.end()


def _generate(trace: Trace, stages: dict[str, Span]) -> Script:
    generate = trace.start("llm.generate", stages["llm"], prompt_tokens=412, cached_tokens=0, tokens=30)
    yield 95 * MS
    for token in range(1, 31):
        yield 14 * MS + token % 3 * MS
        kv_bytes = (412 + token) * 2**17
        generate.mark("token", kv_bytes)
        trace.counter("kv_cache.bytes", kv_bytes, track="llm")
        trace.counter("memory.gpu.allocated", 9 * GB + kv_bytes, track="cuda:0")
        if token % 10 == 0:
            yield _speak(trace, generate, stages)
    yield US
    generate.end()


def _speak(trace: Trace, generate: Span, stages: dict[str, Span]) -> Script:
    """One sentence, to the end of its frames."""
    trace.counter("queue.depth", 1, track="tts")
    yield US
    sound = trace.start("tts.synthesise", stages["tts"])
    trace.flow(generate, sound, "sentence")
    yield US
    for part, ms in (("tts.mel", 8), ("tts.vocoder", 19)):
        span = trace.start(part, sound)
        yield ms * MS
        span.end()
        yield US
    sound.end()
    trace.counter("queue.depth", 0, track="tts")
    yield US
    render = trace.start("face.render", stages["face"], frames=20)
    trace.flow(sound, render, "sound")
    for _ in range(20):
        yield 2 * MS
        render.mark("frame")
    yield US
    render.end()
    yield US
    write = trace.start("mp4.write", stages["sink"])
    trace.flow(render, write, "frames")
    yield 2 * MS
    write.end()
