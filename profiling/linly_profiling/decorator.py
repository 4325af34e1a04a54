"""`@traced`: a span around every call of a function, or around every stream that it returns."""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Generator
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeAlias, TypeVar

from linly_profiling.span import Span, current_span
from linly_profiling.streams import TracedAsyncIterator, TracedIterator

Function = TypeVar("Function", bound=Callable[..., Any])
_Open: TypeAlias = Callable[[Span], Span]  # opens the span of one call below the given parent


def traced(
    name: str | None = None, *, exact: bool = False, **attrs: object
) -> Callable[[Function], Function]:
    """Decorate a function, coroutine function, generator function or async generator function.

    The span belongs to the current span; where none is current, the function runs as if undecorated.
    A stream's span is open until the stream ends, and current only while the next item is made. Values sent into
    an async generator are not passed on.

    Args:
        name: of the span; by default the function's qualified name.
        exact: as in `Trace.start`.
        **attrs: attributes of every span.
    """

    def decorate(function: Function) -> Function:
        span_name = name or function.__qualname__

        def open_span(parent: Span) -> Span:
            return parent.trace.start(span_name, parent, exact, **attrs)

        wrapper: Any = functools.wraps(function)(_wrap(function, open_span))
        typed: Function = wrapper
        return typed

    return decorate


def _wrap(function: Callable[..., Any], open_span: _Open) -> Callable[..., Any]:
    """A wrapper of the function's own kind, so that `inspect` still tells what it is."""
    if inspect.isasyncgenfunction(function):
        return _async_stream(function, open_span)
    if inspect.isgeneratorfunction(function):
        return _stream(function, open_span)
    if inspect.iscoroutinefunction(function):
        return _coroutine(function, open_span)
    return _plain(function, open_span)


def _call(open_span: _Open) -> AbstractContextManager[Any]:
    parent = current_span()
    return nullcontext() if parent is None else open_span(parent)


def _plain(function: Callable[..., Any], open_span: _Open) -> Callable[..., Any]:
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        parent = current_span()
        if parent is None:
            return function(*args, **kwargs)
        with open_span(parent):
            return function(*args, **kwargs)

    return wrapper


def _coroutine(function: Callable[..., Any], open_span: _Open) -> Callable[..., Coroutine[Any, Any, Any]]:
    async def wrapper(*args: Any, **kwargs: Any) -> Any:
        with _call(open_span):
            return await function(*args, **kwargs)

    return wrapper


def _stream(function: Callable[..., Any], open_span: _Open) -> Callable[..., Generator[Any, Any, Any]]:
    def wrapper(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        source, parent = function(*args, **kwargs), current_span()
        if parent is None:
            return (yield from source)
        return (yield from TracedIterator(source, functools.partial(open_span, parent)))

    return wrapper


def _async_stream(function: Callable[..., Any], open_span: _Open) -> Callable[..., AsyncGenerator[Any, None]]:
    async def wrapper(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, None]:
        source, parent = function(*args, **kwargs), current_span()
        stream: AsyncIterator[Any] = source
        if parent is not None:
            stream = TracedAsyncIterator(source, functools.partial(open_span, parent))
        try:
            async for item in stream:
                yield item
        finally:
            await stream.aclose()  # type: ignore[attr-defined]

    return wrapper
