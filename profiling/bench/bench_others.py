"""What a span costs with other tools, each used as its documentation says: python profiling/bench/bench_others.py

Each tool runs in a process of its own, because some slow down every call of Python as soon as they exist. The bare
pair of clock readings is timed in the same process before the tool is set up. Tools that are not installed are left
out: `pip install "linly-pipeline[bench]"`, and torch for `record_function`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

ROUNDS, COUNT = 21, 1_000
MISSING = 3  # exit code of a process whose tool is not installed

Loop = Callable[[int], None]


class Cost(NamedTuple):
    """Medians, in ns for one span, less the empty loop."""

    ns: float
    bare_ns: float

    @property
    def ratio(self) -> float:
        return self.ns / self.bare_ns


def ours() -> Loop:
    """A trace for each thousand spans, as for a request each."""
    from linly_profiling import Trace

    def loop(count: int) -> None:
        with Trace("bench") as trace:
            for _ in range(count):
                with trace.span("llm.decode"):
                    pass

    return loop


def ours_with_exact_memory() -> Loop:
    from linly_profiling import Trace

    def loop(count: int) -> None:
        with Trace("bench") as trace:
            for _ in range(count):
                with trace.span("llm.decode", exact=True):
                    pass

    return loop


def opentelemetry_sdk() -> Loop:
    """A batch processor that exports into memory."""
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(InMemorySpanExporter()))
    tracer = provider.get_tracer("bench")

    def loop(count: int) -> None:
        for _ in range(count):
            with tracer.start_as_current_span("llm.decode"):
                pass

    return loop


def opentelemetry_sdk_unsampled() -> Loop:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

    tracer = TracerProvider(sampler=ALWAYS_OFF).get_tracer("bench")

    def loop(count: int) -> None:
        for _ in range(count):
            with tracer.start_as_current_span("llm.decode"):
                pass

    return loop


def viztracer_log_event() -> Loop:
    from viztracer import VizTracer

    tracer = VizTracer(verbose=0, log_sparse=True)
    tracer.start()

    def loop(count: int) -> None:
        for _ in range(count):
            with tracer.log_event("llm.decode"):
                pass

    return loop


def torch_record_function() -> Loop:
    """The profiler itself is off."""
    from torch.profiler import record_function

    def loop(count: int) -> None:
        for _ in range(count):
            with record_function("llm.decode"):
                pass

    return loop


def psutil_context_manager() -> Loop:
    """The usual recipe: a generator, wall time, and the memory before and after."""
    import psutil

    process = psutil.Process()
    found: list[tuple[str, float, int]] = []

    @contextlib.contextmanager
    def span(name: str) -> Iterator[None]:
        start_s, start_bytes = time.perf_counter(), process.memory_info().rss
        try:
            yield
        finally:
            found.append((name, time.perf_counter() - start_s, process.memory_info().rss - start_bytes))

    def loop(count: int) -> None:
        for _ in range(count):
            with span("llm.decode"):
                pass

    return loop


TOOLS: tuple[Callable[[], Loop], ...] = (
    ours,
    ours_with_exact_memory,
    viztracer_log_event,
    torch_record_function,
    opentelemetry_sdk_unsampled,
    opentelemetry_sdk,
    psutil_context_manager,
)


def bare_pair(count: int) -> None:
    clock = time.perf_counter_ns
    for _ in range(count):
        start = clock()
        start = clock() - start


def empty(count: int) -> None:
    for _ in range(count):
        pass


def timed(loop: Loop) -> float:
    start_ns = time.perf_counter_ns()
    loop(COUNT)
    return (time.perf_counter_ns() - start_ns) / COUNT


def measure(make: Callable[[], Loop]) -> Cost:
    empty_ns = statistics.median(timed(empty) for _ in range(ROUNDS))
    bare_ns = statistics.median(timed(bare_pair) for _ in range(ROUNDS)) - empty_ns
    loop = make()
    timed(loop)
    return Cost(statistics.median(timed(loop) for _ in range(ROUNDS)) - empty_ns, bare_ns)


def in_process(make: Callable[[], Loop], python: str) -> Cost | None:
    result = subprocess.run(
        [python, __file__, "--tool", make.__name__], capture_output=True, text=True, check=False
    )
    if result.returncode == MISSING:
        return None
    if result.returncode:
        raise SystemExit(result.stderr)
    return Cost(*json.loads(result.stdout.splitlines()[-1]))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tool", choices=[make.__name__ for make in TOOLS], help="only this one, as JSON")
    parser.add_argument("--json", action="store_true")
    parser.add_argument(
        "--torch-python", default=sys.executable, metavar="PATH", help="a Python that has torch"
    )
    options = parser.parse_args()
    if options.tool:
        return one(next(make for make in TOOLS if make.__name__ == options.tool))
    costs = {
        make.__name__.replace("_", " "): in_process(
            make, options.torch_python if make is torch_record_function else sys.executable
        )
        for make in TOOLS
    }
    if options.json:
        found: dict[str, Any] = {
            name: {**cost._asdict(), "ratio": cost.ratio} for name, cost in costs.items() if cost is not None
        }
        print(json.dumps(found, indent=2))
        return 0
    print(f"{'one span with':<30}{'ns':>9}{'x bare pair':>14}")
    for name, cost in costs.items():
        print(f"{name:<30}" + ("  not installed" if cost is None else f"{cost.ns:>9.0f}{cost.ratio:>14.1f}"))
    return 0


def one(make: Callable[[], Loop]) -> int:
    try:
        print(json.dumps(measure(make)), flush=True)
    except ImportError:
        return MISSING
    return 0


if __name__ == "__main__":
    sys.exit(main())
