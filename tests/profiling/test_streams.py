"""Streams: the span is open for all of the stream, and current only while the source works."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator
from typing import Any

import pytest
from linly_profiling import Trace, current_span, traced
from trace_tools import MS, Clock, in_event_loop, only, parent_name


async def tokens(trace: Trace, count: int = 3) -> AsyncGenerator[int]:
    for number in range(count):
        with trace.span(f"decode {number}"):
            await asyncio.sleep(0)
        yield number


@in_event_loop
async def test_the_source_works_inside_and_the_consumer_outside() -> None:
    trace = Trace("r")
    with trace.span("consumer") as consumer:
        async for number in trace.iterate("llm.stream", tokens(trace), model="m"):
            assert current_span() is consumer
            with trace.span(f"speak {number}"):
                pass
    stream = only(trace, "llm.stream")
    assert parent_name(trace, "llm.stream") == "consumer"
    assert parent_name(trace, "decode 1") == "llm.stream"
    assert parent_name(trace, "speak 1") == "consumer"
    assert (stream.outcome, stream.attrs, [m.name for m in stream.marks]) == (
        "ok",
        {"model": "m"},
        ["item"] * 3,
    )


@in_event_loop
async def test_two_streams_read_in_turns_do_not_nest() -> None:
    trace = Trace("r")
    one, other = trace.iterate("one", tokens(trace)), trace.iterate("other", tokens(trace))
    for _ in range(3):
        await anext(one)
        await anext(other)
    assert parent_name(trace, "one") == parent_name(trace, "other") == "linly.request"


@in_event_loop
async def test_the_span_lasts_from_the_first_request_to_the_end_of_the_stream() -> None:
    clock = Clock()
    trace = Trace("r", clock_ns=clock)
    stream = trace.iterate("llm.stream", tokens(trace, 2))
    clock.tick()
    async for _ in stream:
        clock.tick()
    assert only(trace, "llm.stream").start_ns == 1_001 * MS
    assert only(trace, "llm.stream").duration_ns == 2 * MS


@in_event_loop
async def test_a_stream_closed_by_another_task_is_cancelled_and_disturbs_nobody() -> None:
    trace = Trace("r")
    stream = trace.iterate("llm.stream", tokens(trace))
    await anext(stream)

    async def barge_in() -> None:
        with trace.span("barge-in") as span:
            await stream.aclose()
            assert current_span() is span

    with trace.span("consumer") as consumer:
        await asyncio.create_task(barge_in())
        assert current_span() is consumer
    assert only(trace, "llm.stream").outcome == "cancelled"


@in_event_loop
async def test_a_stream_left_by_break_is_cancelled() -> None:
    trace = Trace("r")
    with trace.span("consumer") as consumer:
        async for _ in trace.iterate("llm.stream", tokens(trace)):
            break
        gc.collect()
        assert current_span() is consumer
        trace.start("after").end()
    assert only(trace, "llm.stream").outcome == "cancelled"
    assert parent_name(trace, "after") == "consumer"


@in_event_loop
async def test_a_stream_whose_consumer_is_cancelled_is_cancelled() -> None:
    trace = Trace("r")

    async def endless() -> AsyncIterator[int]:
        yield 0
        await asyncio.Event().wait()

    async def consume() -> None:
        async for _ in trace.iterate("llm.stream", endless()):
            pass

    task = asyncio.create_task(consume())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert only(trace, "llm.stream").outcome == "cancelled"


@in_event_loop
async def test_a_failing_stream_is_an_error() -> None:
    trace = Trace("r")

    async def failing() -> AsyncIterator[int]:
        yield 0
        raise ConnectionError

    with pytest.raises(ConnectionError):
        async for _ in trace.iterate("llm.stream", failing()):
            pass
    assert (only(trace, "llm.stream").outcome, only(trace, "llm.stream").error_type) == (
        "error",
        "ConnectionError",
    )


@in_event_loop
async def test_a_stream_nobody_reads_has_no_span() -> None:
    trace = Trace("r")
    await trace.iterate("llm.stream", tokens(trace)).aclose()
    assert [r.name for r in trace.records()] == ["linly.request"]


@in_event_loop
async def test_values_and_errors_reach_an_async_source() -> None:
    trace = Trace("r")
    heard: list[Any] = []

    async def source() -> AsyncGenerator[int, str]:
        try:
            heard.append((yield 1))
            yield 2
        except KeyError:
            yield 3

    stream = trace.iterate("s", source())
    assert [await anext(stream), await stream.asend("hi"), await stream.athrow(KeyError())] == [1, 2, 3]
    assert heard == ["hi"]


def test_synchronous_streams_behave_the_same() -> None:
    trace = Trace("r")

    def frames() -> Iterator[int]:
        for number in range(3):
            trace.start(f"render {number}").end()
            yield number

    with trace.span("consumer") as consumer:
        for number in trace.iterate("face.stream", frames()):
            assert current_span() is consumer
            trace.start(f"encode {number}").end()
        for _ in trace.iterate("again", frames()):
            break
        broken = trace.iterate("closed", frames())
        next(broken)
        broken.close()
    assert parent_name(trace, "render 2") == "face.stream"
    assert parent_name(trace, "encode 2") == "consumer"
    outcomes = [only(trace, name).outcome for name in ("face.stream", "again", "closed")]
    assert outcomes == ["ok", "cancelled", "cancelled"]


def test_lists_can_be_iterated_and_closed_too() -> None:
    trace = Trace("r")
    stream = trace.iterate("list", [1, 2])
    assert next(stream) == 1
    stream.close()
    assert only(trace, "list").outcome == "cancelled"


def test_a_generator_closed_in_a_foreign_context_disturbs_nobody() -> None:
    trace = Trace("r")

    def source() -> Iterator[int]:
        with trace.span("inside"):
            yield 1

    generator = source()
    contextvars.copy_context().run(next, generator)
    with trace.span("elsewhere") as elsewhere:
        generator.close()  # type: ignore[attr-defined]
        assert current_span() is elsewhere
    assert only(trace, "inside").outcome == "cancelled"


def test_traced_functions_keep_their_kind_and_their_result() -> None:
    @traced("plain", model="m")
    def plain(value: int) -> int:
        """Doc."""
        return value + 1

    @traced()
    async def coroutine() -> int:
        return 2

    @traced("stream")
    def stream() -> Generator[int, int, str]:
        got = yield 1
        return f"got {got}"

    @traced("agen")
    async def agen() -> AsyncIterator[int]:
        yield 1
        yield 2

    async def read() -> list[int]:
        return [item async for item in agen()]

    assert (plain(1), plain.__doc__, asyncio.run(coroutine())) == (2, "Doc.", 2)
    assert (list(stream()), asyncio.run(read())) == ([1], [1, 2])
    assert inspect.iscoroutinefunction(coroutine)
    assert inspect.isgeneratorfunction(stream)
    assert inspect.isasyncgenfunction(agen)
    with Trace("r") as trace:
        plain(1)
        asyncio.run(coroutine())
        generator = stream()
        next(generator)
        with pytest.raises(StopIteration, match="got 7"):
            generator.send(7)
        asyncio.run(read())
    names = [record.name for record in trace.records()]
    assert names == ["linly.request", "plain", coroutine.__qualname__, "stream", "agen"]
    assert {record.outcome for record in trace.records()} == {"ok"}
    assert only(trace, "plain").attrs == {"model": "m"}


def test_a_traced_function_that_fails_is_an_error() -> None:
    @traced("f")
    def fails() -> None:
        raise LookupError

    with Trace("r") as trace, pytest.raises(LookupError):
        fails()
    assert only(trace, "f").outcome == "error"


@in_event_loop
async def test_a_traced_stream_that_is_closed_is_cancelled() -> None:
    @traced("agen")
    async def agen() -> AsyncGenerator[int]:
        yield 1
        yield 2

    with Trace("r") as trace:
        stream = agen()
        await anext(stream)
        assert current_span() is trace.root
        await stream.aclose()
    assert only(trace, "agen").outcome == "cancelled"
