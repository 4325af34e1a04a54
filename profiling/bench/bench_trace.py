"""What tracing costs: python profiling/bench/bench_trace.py

Every figure is also a ratio to a bare pair of clock readings of the same run, because absolute times differ by a
factor of two between a quiet and a busy minute of the same machine, and ratios by a tenth. Each round times every
variant once, in a fresh trace, so that a busy moment hits all of them; the median of the rounds is shown, less the
cost of the empty loop. `--json` prints plain data.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import statistics
import time
from collections.abc import Callable
from typing import NamedTuple

from linly_profiling import Trace, attach, traced

Variant = Callable[[Trace, int], None]


class Row(NamedTuple):
    """A line of the result; a limit of None means that there is no target."""

    name: str
    ns: float
    ratio: float
    limit_ns: float | None


def empty_loop(trace: Trace, count: int) -> None:
    for _ in range(count):
        pass


def bare_pair(trace: Trace, count: int) -> None:
    clock = time.perf_counter_ns
    for _ in range(count):
        start = clock()
        start = clock() - start


@traced("off")
def _untraced() -> None:
    pass


def off(trace: Trace, count: int) -> None:
    """A traced function where no span is current; includes the call of the function itself."""
    for _ in range(count):
        _untraced()


def span(trace: Trace, count: int) -> None:
    for _ in range(count):
        with trace.span("llm.decode"):
            pass


def span_with_attributes(trace: Trace, count: int) -> None:
    for _ in range(count):
        with trace.span("llm.decode", row="llm", tokens=12):
            pass


def started_span(trace: Trace, count: int) -> None:
    for _ in range(count):
        trace.start("llm.decode").end()


def exact_span(trace: Trace, count: int) -> None:
    for _ in range(count):
        with trace.span("llm.decode", exact=True):
            pass


def exact_span_in_a_task(trace: Trace, count: int) -> None:
    async def run() -> None:
        exact_span(trace, count)

    asyncio.run(run())


def mark(trace: Trace, count: int) -> None:
    with trace.span("llm.decode") as current:
        for _ in range(count):
            current.mark("token")


def mark_with_value(trace: Trace, count: int) -> None:
    with trace.span("llm.decode") as current:
        for _ in range(count):
            current.mark("kv_bytes", 4096)


def attach_a_span(trace: Trace, count: int) -> None:
    for _ in range(count):
        with attach(trace.root):
            pass


def traced_stream_item(trace: Trace, count: int) -> None:
    for _ in trace.iterate("llm.stream", range(count)):
        pass


# What the hot ones may cost at most, in ns, on a quiet machine.
_VARIANTS: dict[Variant, float | None] = {
    bare_pair: None,
    off: 250,
    span: 1_500,
    span_with_attributes: None,
    started_span: None,
    exact_span: None,
    exact_span_in_a_task: 3_500,
    mark: 250,
    mark_with_value: None,
    attach_a_span: None,
    traced_stream_item: None,
}


def measure(rounds: int, count: int) -> list[Row]:
    """Median cost of every variant."""
    times: dict[Variant, list[float]] = {variant: [] for variant in (empty_loop, *_VARIANTS)}
    for _ in range(rounds):
        for variant, seen in times.items():
            seen.append(_time(variant, count))
    medians = {variant: statistics.median(seen) for variant, seen in times.items()}
    loop_ns = medians.pop(empty_loop)
    bare_ns = medians[bare_pair] - loop_ns
    return [
        Row(variant.__name__.replace("_", " "), ns - loop_ns, (ns - loop_ns) / bare_ns, _VARIANTS[variant])
        for variant, ns in medians.items()
    ]


def _time(variant: Variant, count: int) -> float:
    gc.collect()  # what the variant before has left behind is not this one's
    with Trace("bench") as trace, attach(None):
        start_ns = time.perf_counter_ns()
        variant(trace, count)
        return (time.perf_counter_ns() - start_ns) / count


def main() -> None:
    parser = argparse.ArgumentParser(description="What tracing costs, against a bare pair of clock readings.")
    parser.add_argument("--rounds", type=int, default=31)
    parser.add_argument("--count", type=int, default=3_000, help="operations of each kind in a round")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = measure(options.rounds, options.count)
    if options.json:
        print(json.dumps([row._asdict() for row in rows], indent=2))
        return
    print(f"{'operation':<24}{'ns':>8}{'x bare pair':>14}{'target ns':>12}")
    for row in rows:
        limit = "" if row.limit_ns is None else f"{row.limit_ns:.0f}"
        print(f"{row.name:<24}{row.ns:>8.0f}{row.ratio:>14.1f}{limit:>12}")


if __name__ == "__main__":
    main()
