"""Shared by the tests of linly_profiling."""

from __future__ import annotations

import asyncio
import functools
import json
import time
from collections import defaultdict
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from linly_profiling import LoadedTrace, Record, Trace

MS = 1_000_000


def in_event_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run an async test in a loop of its own."""

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        asyncio.run(test(*args, **kwargs))

    return run


class Clock:
    """A clock that stands still until told otherwise."""

    def __init__(self, now_ns: int = 1_000 * MS) -> None:
        self.now_ns = now_ns

    def __call__(self) -> int:
        return self.now_ns

    def tick(self, ns: int = MS) -> None:
        self.now_ns += ns


def only(trace: Trace | LoadedTrace, name: str) -> Record:
    """The one span of this name."""
    (record,) = [record for record in trace.records() if record.name == name]
    return record


def parent_name(trace: Trace, name: str) -> str | None:
    by_id = {record.span_id: record for record in trace.records()}
    parent_id = only(trace, name).parent_id
    return None if parent_id is None else by_id[parent_id].name


def events(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(path.read_text("utf-8"))["traceEvents"]
    return found


def nested_as_a_viewer_does(slices: list[dict[str, Any]]) -> dict[int, int | None]:
    """Parent span by span, from nothing but pid, tid, ts and dur, in the order of the file.

    Raises:
        AssertionError: a slice sticks out of the one below it: Perfetto would drop it.
    """
    stacks: dict[tuple[int, int], list[tuple[int, int, int]]] = defaultdict(list)
    parents: dict[int, int | None] = {}
    for event in slices:
        start, end = to_ns(event["ts"]), to_ns(event["ts"]) + to_ns(event["dur"])
        stack = stacks[event["pid"], event["tid"]]
        # A slice without length adopts what begins at the same instant.
        while stack and max(stack[-1][1], stack[-1][2] + 1) <= start:
            stack.pop()
        assert not stack or end <= stack[-1][1], f"{event['name']} sticks out"
        parents[event["args"]["linly"]["span_id"]] = stack[-1][0] if stack else None
        stack.append((event["args"]["linly"]["span_id"], end, start))
    return parents


def to_ns(us: float) -> int:
    """A time of the file; sums of its floats are not exact, whole nanoseconds are."""
    return round(us * 1000)


def until(done: Callable[[], Any], deadline_s: float = 5.0) -> None:
    """Wait for what another thread does."""
    end_s = time.monotonic() + deadline_s
    while not done():
        assert time.monotonic() < end_s, "it did not happen in time"
        time.sleep(0.001)
