"""Any interleaving of tasks, threads and streams: right parent, right request, and an outcome on every span."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from linly_profiling import Record, Trace, attach
from trace_tools import nested_as_a_viewer_does

# What one task does, step by step. Between two steps any other task may run.
_step = st.sampled_from(
    ["enter", "leave", "fail", "yield", "stream", "next", "break", "close", "thread", "spawn"]
)
_plans = st.lists(st.lists(_step, max_size=12), min_size=1, max_size=4)


class Actor:
    """Follows a plan within one request. A span's name says whose child it must be: its parent's name + '/x'."""

    def __init__(self, trace: Trace, plan: list[str]) -> None:
        self.trace = trace
        self.plan = list(plan)

    async def run(self, path: str) -> None:
        await self._block(path, depth=0)

    async def _block(self, path: str, depth: int) -> None:
        stream: AsyncIterator[int] | None = None
        while self.plan:
            step = self.plan.pop(0)
            await asyncio.sleep(0)
            self.trace.start(f"{path}/leaf").end()
            if step == "enter" and depth < 4:
                with self.trace.span(f"{path}/block"):
                    await self._block(f"{path}/block", depth + 1)
            elif step == "leave":
                break
            elif step == "fail":
                with pytest.raises(ZeroDivisionError), self.trace.span(f"{path}/failed"):
                    await asyncio.sleep(0)
                    raise ZeroDivisionError
            elif step == "stream":
                stream = self.trace.iterate(f"{path}/stream", self._source(f"{path}/stream"))
            elif step == "next" and stream is not None:
                await anext(stream, None)
            elif step == "break":
                stream = None
            elif step == "close" and stream is not None:
                await asyncio.create_task(stream.aclose())  # type: ignore[attr-defined]
            elif step == "thread":
                await asyncio.to_thread(self.trace.start(f"{path}/thread").end)
            elif step == "spawn":
                await self._in_worker(path)

    async def _source(self, path: str) -> AsyncIterator[int]:
        for number in range(2):
            with self.trace.span(f"{path}/item"):
                await asyncio.sleep(0)
            yield number

    async def _in_worker(self, path: str) -> None:
        with self.trace.span(f"{path}/job") as job:

            def work() -> None:
                with attach(job), self.trace.span(f"{path}/job/model"):
                    pass

            worker = threading.Thread(target=work)
            worker.start()
            worker.join()


@settings(max_examples=60, deadline=None)
@given(_plans)
def test_every_span_has_its_parent_its_request_and_an_outcome(plans: list[list[str]]) -> None:
    traces = [Trace(f"r{number % 2}") for number in range(len(plans))]

    async def turn() -> None:
        async with asyncio.TaskGroup() as group:
            for trace, plan in zip(traces, plans, strict=True):
                group.create_task(Actor(trace, plan).run("linly.request"))

    asyncio.run(turn())
    for trace in traces:
        trace.close()
        _check(trace.records(), trace)


def _check(records: list[Record], trace: Trace) -> None:
    by_id = {record.span_id: record for record in records}
    for record in records:
        if record.name in ("linly.loop.blocked", "linly.gc.pause"):  # a busy machine's
            continue
        assert record.request_id == trace.request_id
        assert record.outcome in ("ok", "cancelled", "error")
        assert (record.outcome == "error") == record.name.endswith("/failed")
        if record.parent_id is not None:
            assert by_id[record.parent_id].name == record.name.rpartition("/")[0]


_change = st.tuples(
    st.sampled_from(["start", "end", "mark", "tick"]),
    st.integers(0, 5),
    st.sampled_from(["", "", "asr", "llm"]),
    st.integers(0, 3),
)


@given(st.lists(_change, max_size=60))
def test_viewers_nest_any_tree_of_spans_right(changes: list[tuple[str, int, str, int]]) -> None:
    from linly_profiling.chrome.layout import lay_out

    now = [0]
    trace = Trace("r", clock_ns=lambda: now[0])
    spans = [trace.root]
    for kind, pick, row, ticks in changes:
        span = spans[-1 - pick % len(spans)]
        if kind == "start":
            spans.append(trace.start("s", span, False, **({"row": row} if row else {})))
        elif kind == "end" and span is not trace.root:
            span.end()
        elif kind == "mark":
            span.mark("m")
        now[0] += [0, 1, 2, 5_000][ticks]
    records = trace.records()
    layout = lay_out(records)
    slices = [
        {
            "pid": 0,
            "tid": place.tid,
            "name": place.record.name,
            "ts": place.record.start_ns / 1000,
            "dur": (place.end_ns - place.record.start_ns) / 1000,
            "args": {"linly": {"span_id": place.record.span_id}},
        }
        for place in layout.places.values()
    ]
    by_id = {record.span_id: record for record in records}
    assert len(slices) == len(records)
    for span_id, parent_id in nested_as_a_viewer_does(slices).items():
        assert parent_id is None or parent_id in _ancestors(span_id, by_id)
    for place in layout.places.values():
        assert 0 <= place.record.end_ns - place.end_ns <= 1_000


def _ancestors(span_id: int, by_id: dict[int, Record]) -> set[int]:
    found: set[int] = set()
    parent_id = by_id[span_id].parent_id
    while parent_id is not None:
        found.add(parent_id)
        parent_id = by_id[parent_id].parent_id
    return found
