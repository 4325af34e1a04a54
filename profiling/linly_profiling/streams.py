"""Streams with a span: open for the whole stream, current only while the source makes the next item.

A span that stayed current between two items would adopt whatever the consumer does with them.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, Generic, TypeVar

from linly_profiling.span import Span, attach, current_span

Item = TypeVar("Item")
Result = TypeVar("Result")

ITEM = "item"  # the mark that each item leaves


class _Traced:
    """The span of a stream: opened with the first step, ended with the last, with the close, or when thrown away."""

    def __init__(self, source: object, open_span: Callable[[], Span]) -> None:
        self._open_span = open_span
        self._span: Span | None = None
        # An error ends a generator. Another source may well go on after one: a queue's, after a timeout.
        self._ends_by_error = inspect.isgenerator(source) or inspect.isasyncgen(source)

    def _begin(self) -> Span:
        if self._span is None:
            self._span = self._open_span()
        return self._span

    def _end(self, outcome: str | None = None, error: BaseException | None = None) -> None:
        if self._span is not None:
            self._span.end(outcome, error)

    def __del__(self) -> None:
        self._end("cancelled")


class TracedIterator(_Traced, Iterator[Item], Generic[Item]):
    """A synchronous stream. `send`, `throw` and `close` work where the source is a generator."""

    def __init__(self, source: Iterator[Item], open_span: Callable[[], Span]) -> None:
        super().__init__(source, open_span)
        self._source: Any = source

    def __next__(self) -> Item:
        return self._step(self._source.__next__)

    def send(self, value: Any) -> Item:
        return self._step(self._source.send, value)

    def throw(self, error: BaseException) -> Item:
        return self._step(self._source.throw, error)

    def _step(self, step: Callable[..., Item], *args: Any) -> Item:
        span = self._begin()
        with attach(span):
            try:
                item = step(*args)
            except StopIteration:
                span.end()
                raise
            except BaseException as error:
                if self._ends_by_error:
                    span.end(error=error)
                raise
        span.mark(ITEM)
        return item

    def close(self) -> None:
        """Close the source; the span is "cancelled" unless the stream had ended."""
        close = getattr(self._source, "close", None)
        try:
            if close is not None:
                with attach(self._span or current_span()):
                    close()
        finally:
            self._end("cancelled")


class TracedAsyncIterator(_Traced, AsyncIterator[Item], Generic[Item]):
    """An asynchronous stream. `asend`, `athrow` and `aclose` work where the source is an async generator."""

    def __init__(self, source: AsyncIterator[Item], open_span: Callable[[], Span]) -> None:
        super().__init__(source, open_span)
        self._source: Any = source

    async def __anext__(self) -> Item:
        return await self._step(self._source.__anext__)

    async def asend(self, value: Any) -> Item:
        return await self._step(self._source.asend, value)

    async def athrow(self, error: BaseException) -> Item:
        return await self._step(self._source.athrow, error)

    async def _step(self, step: Callable[..., Awaitable[Item]], *args: Any) -> Item:
        span = self._begin()
        with attach(span):
            try:
                item = await step(*args)
            except StopAsyncIteration:
                span.end()
                raise
            except BaseException as error:
                if self._ends_by_error:
                    span.end(error=error)
                raise
        span.mark(ITEM)
        return item

    async def aclose(self) -> None:
        """Close the source, from any task; the span is "cancelled" unless the stream had ended."""
        aclose = getattr(self._source, "aclose", None)
        try:
            if aclose is not None:
                with attach(self._span or current_span()):
                    await aclose()
        finally:
            self._end("cancelled")
