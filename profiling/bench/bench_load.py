"""What tracing costs a whole program: python profiling/bench/bench_load.py

Memory of a live span, a minute at 50,000 spans a second into a file, and the default pipeline with tracing on and
off, in turn.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
import tracemalloc
from pathlib import Path

from linly_profiling import Recorder, Trace, TraceFile, attach, enable
from linly_profiling.rss import rss_bytes

SPANS_A_SECOND = 50_000
SPANS_A_REQUEST = 500


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=60, help="how long to record at full rate")
    parser.add_argument("--turns", type=int, default=9, help="pairs of pipeline runs; 0 leaves them out")
    parser.add_argument("--json", type=Path, help="write the figures to this file as well")
    options = parser.parse_args()
    figures = memory() | sustained(options.seconds)
    if options.turns:
        figures |= asyncio.run(pipeline(options.turns))
    for name, value in figures.items():
        print(f"{name:<52}{value:>12.2f}")
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    return 0


def memory() -> dict[str, float]:
    """What a recorded span holds, and that the number of them is bounded."""
    count = 20_000
    tracemalloc.start()
    trace = Trace("memory")
    before, _ = tracemalloc.get_traced_memory()
    for _ in range(count):
        with trace.span("llm.decode"):
            pass
    after, _ = tracemalloc.get_traced_memory()
    for _ in range(100_000):
        trace.start("llm.decode").end()
    top, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return {
        "memory of a recorded span, bytes (at most 300)": (after - before) / count,
        "memory of a full trace, MB": (top - before) / 1e6,
        "spans that a full trace keeps": len(trace),
        "spans that it counted as dropped": trace.dropped,
    }


def sustained(seconds: float) -> dict[str, float]:
    """Requests of 500 spans at a steady rate, written to disk as they come."""
    pause_s = SPANS_A_REQUEST / SPANS_A_SECOND
    early_bytes = 0
    with tempfile.TemporaryDirectory() as folder:
        recorder = Recorder(TraceFile(Path(folder) / "load.json", max_bytes=64_000_000, max_files=2))
        with recorder:
            start_s, cpu_s, requests, late = time.perf_counter(), time.process_time(), 0, 0
            while (now_s := time.perf_counter()) < start_s + seconds:
                request(requests)
                requests += 1
                wait_s = start_s + requests * pause_s - time.perf_counter()
                late += wait_s < 0
                time.sleep(max(0.0, wait_s))
                if not early_bytes and now_s > start_s + seconds / 3:
                    early_bytes = rss_bytes() or 0
            took_s = time.perf_counter() - start_s
            growth = (rss_bytes() or 0) - early_bytes
            cpu_share = (time.process_time() - cpu_s) / took_s
        counts = recorder.statistics()
    return {
        "sustained, spans a second (at least 50,000)": counts.spans / took_s,
        "sustained, spans dropped (at most 0)": counts.dropped,
        "sustained, memory growth after a third, MB (at most 5)": growth / 1e6,
        "sustained, share of one core": cpu_share,
        "sustained, share of requests that began late": late / requests,
    }


def request(number: int) -> None:
    with Trace(f"request {number}") as trace:
        for _ in range(SPANS_A_REQUEST - 1):
            with trace.span("llm.decode"):
                pass


async def pipeline(pairs: int) -> dict[str, float]:
    """Off, on, off, on, …: the same written question to the warm default pipeline, as a whole video.

    The noise is that of "off" runs against each other; a difference below it says nothing.
    """
    from linly_pipeline import Mp4Sink
    from linly_pipeline.config import embedded

    times: dict[bool, list[float]] = {False: [], True: []}
    spans = 0
    with tempfile.TemporaryDirectory() as folder, attach(None):
        async with embedded() as warm:
            for number in range(2 * pairs + 2):
                on = bool(number % 2)
                enable(on)
                try:
                    async with warm.session(Mp4Sink(Path(folder) / f"{number}.mp4")) as session:
                        start_s = time.process_time()
                        turn = await session.ask("What is a rainbow made of?")
                        took_s = time.process_time() - start_s
                finally:
                    enable()
                if number >= 2:  # the first pair warms everything
                    times[on].append(took_s)
                    spans = max(spans, len(turn.trace))
    off, on_ = statistics.median(times[False]), statistics.median(times[True])
    halves = [statistics.median(times[False][start::2]) for start in (0, 1)]
    return {
        "pipeline, CPU seconds of an answer with tracing off": off,
        "pipeline, CPU seconds with tracing on": on_,
        "pipeline, spans of an answer": spans,
        "pipeline, cost of tracing, % (at most 1)": 100 * (on_ / off - 1),
        "pipeline, noise between runs with tracing off, %": 100 * abs(halves[0] / halves[1] - 1),
    }


if __name__ == "__main__":
    sys.exit(main())
