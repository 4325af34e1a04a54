"""Our span names in other profilers: NVTX ranges for Nsight Systems, `record_function` ranges for torch's profiler.

Both keep a stack for each thread, so what is pushed must be popped in reverse order. That holds for spans of `with`
blocks in threads. In an event loop, tasks enter and leave in any order: their spans become NVTX's other kind of range,
which may overlap, and nothing for torch's profiler, which has no such kind.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import sys
import threading
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from linly_profiling.span import Span
from linly_profiling.torch_tools import watch

_Close: TypeAlias = Callable[[], object]


class _Nvtx(NamedTuple):
    push: Callable[[str], object]
    pop: _Close
    start: Callable[[str], Any]
    end: Callable[[Any], object]


def enable_nvtx() -> None:
    """Make an NVTX range of every span of a `with` block from now on, for instance under `nsys profile`.

    Costs about 0.5 µs a span where no tool listens.

    Raises:
        ImportError: neither a CUDA build of torch is loaded nor the package `nvtx` installed.
    """
    _replace(_NvtxRanges(_nvtx()))


def enable_record_function() -> None:
    """Make a `record_function` range of every span of a `with` block in a thread that torch's profiler records.

    For a profiler that the program runs by itself. Costs about 0.1 µs a span while none runs, 8 µs while one does.
    """
    _replace(_TorchRanges())


def disable_ranges() -> None:
    """Undo `enable_nvtx` and `enable_record_function`."""
    for watcher in watch.watchers():
        if isinstance(watcher, _Ranges):
            watch.remove(watcher)


def ranges_from_environment() -> None:
    """`enable_nvtx` if the environment has LINLY_NVTX=1; raises like it."""
    if os.environ.get("LINLY_NVTX", "").lower() not in ("", "0", "off", "false", "no"):
        enable_nvtx()


def _replace(ranges: _Ranges) -> None:
    for watcher in watch.watchers():
        if type(watcher) is type(ranges):
            watch.remove(watcher)
    watch.add(ranges)


class _Stacks(threading.local):
    def __init__(self) -> None:
        self.open: list[tuple[Span, _Close]] = []


class _Ranges:
    """Opens a range for each span, and closes it in the right order."""

    def __init__(self) -> None:
        self._stacks = _Stacks()
        self._overlapping: dict[Span, _Close] = {}

    def entered(self, span: Span) -> None:
        if asyncio._get_running_loop() is not None:
            close = self._start(span.name)
            if close is not None:
                self._overlapping[span] = close
            return
        close = self._push(span.name)
        if close is not None:
            self._stacks.open.append((span, close))

    def left(self, span: Span) -> None:
        close = self._overlapping.pop(span, None)
        if close is not None:
            close()
            return
        stack = self._stacks.open
        if not any(opened is span for opened, _ in stack):
            return  # entered before anybody watched, or in another thread
        while stack:  # a span above it was never left: a generator that was thrown away
            opened, close = stack.pop()
            close()
            if opened is span:
                return

    def _push(self, name: str) -> _Close | None:
        """Open a range on top of the thread's stack; gives what closes it."""
        raise NotImplementedError

    def _start(self, name: str) -> _Close | None:
        """Open a range that may overlap others; gives what closes it, or None where there is no such thing."""
        return None


class _NvtxRanges(_Ranges):
    def __init__(self, nvtx: _Nvtx) -> None:
        super().__init__()
        self._nvtx = nvtx

    def _push(self, name: str) -> _Close:
        self._nvtx.push(name)
        return self._nvtx.pop

    def _start(self, name: str) -> _Close:
        handle = self._nvtx.start(name)
        return lambda: self._nvtx.end(handle)


class _TorchRanges(_Ranges):
    def _push(self, name: str) -> _Close | None:
        torch = sys.modules.get("torch")
        if torch is None or not torch.autograd._profiler_enabled():
            return None
        opened = torch.profiler.record_function(name)
        opened.__enter__()
        return lambda: opened.__exit__(None, None, None)


def _nvtx() -> _Nvtx:
    torch: Any = sys.modules.get("torch")
    if torch is not None and getattr(torch.version, "cuda", None):
        ours = torch.cuda.nvtx
        return _Nvtx(ours.range_push, ours.range_pop, ours.range_start, ours.range_end)
    try:
        nvtx: Any = importlib.import_module("nvtx")
    except ImportError as error:
        raise ImportError(
            'no NVTX: pip install "linly-pipeline[nvtx]", or import a CUDA build of torch first'
        ) from error
    return _Nvtx(nvtx.push_range, nvtx.pop_range, nvtx.start_range, nvtx.end_range)
