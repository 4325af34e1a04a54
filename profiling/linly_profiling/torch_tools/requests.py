"""`torch_profile` for spans that some other code opens: "the language model of the next request"."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import weakref
from typing import TypedDict, Unpack

from linly_profiling.span import Span
from linly_profiling.torch_tools import watch
from linly_profiling.torch_tools.profiler import TorchProfile, profiled, warm_up
from linly_profiling.trace import Trace


class Options(TypedDict, total=False):
    """As in `torch_profile`."""

    activities: list[str] | None
    record_shapes: bool
    with_stack: bool
    memory: bool
    limit: int


class TorchProfiles:
    """Profiles the spans of one name in the next requests.

    Spans that are made in an event loop are not profiled: their thread works for other tasks as well. A model call in
    a worker thread is what this is for.

    Attributes:
        results: what became of each profile.
        in_loop: spans of the name that an event loop made.
    """

    def __init__(self, match: str, count: int = 1, **options: Unpack[Options]) -> None:
        """Nothing is profiled before `install`.

        Args:
            match: a span's name, or the part of it before a dot: "llm" means "llm", "llm.generate" and the like.
            count: how many requests.
            **options: as in `torch_profile`.
        """
        if not match or count < 1:
            raise ValueError(f"profiles need a name and a count from 1, not {match!r} and {count}")
        self.match = match
        self.results: list[TorchProfile] = []
        self.in_loop = 0
        self._options = options
        self._lock = threading.Lock()
        self._left = count
        self._requests: weakref.WeakSet[Trace] = weakref.WeakSet()
        self._open: dict[Span, contextlib.ExitStack] = {}

    def install(self) -> TorchProfiles:
        """Begin; warms the profiler up, which takes one to two seconds the first time.

        Raises:
            ImportError: torch is not installed.
        """
        warm_up()
        watch.add(self)
        return self

    def remove(self) -> None:
        """Profile nothing any more. A profile that runs goes on to its end."""
        watch.remove(self)

    def entered(self, span: Span) -> None:
        if not self._wants(span):
            return
        stack = contextlib.ExitStack()
        self.results.append(stack.enter_context(profiled(span, span.parent or span, **self._options)))
        self._open[span] = stack
        span.start_ns = span.trace._clock_ns()  # so that starting the profiler is not the span's work

    def _wants(self, span: Span) -> bool:
        if span.name != self.match and not span.name.startswith(f"{self.match}."):
            return False
        if any(self._is_above(outer, span) for outer in list(self._open)):
            return False
        if asyncio._get_running_loop() is not None:
            self.in_loop += 1
            return False
        with self._lock:
            if span.trace in self._requests:
                return True
            if self._left == 0:
                self.remove()
                return False
            self._left -= 1
            self._requests.add(span.trace)
            return True

    @staticmethod
    def _is_above(outer: Span, span: Span) -> bool:
        parent: Span | None = span
        while parent is not None:
            if parent is outer:
                return True
            parent = parent.parent
        return False

    def left(self, span: Span) -> None:
        stack = self._open.pop(span, None)
        if stack is not None:
            stack.close()

    def summary(self) -> str:
        """What happened, as one sentence."""
        done = [result for result in self.results if result.note == "ok"]
        if done:
            added = sum(result.spans for result in done)
            left_out = sum(result.left_out for result in done)
            beyond = f", {left_out:,} shorter ones left out" if left_out else ""
            return f"torch profiled {len(done)} span(s) of {self.match!r}: {added:,} events{beyond}."
        if self.results:
            return f"torch profiled nothing of {self.match!r}: {self.results[-1].note}."
        if self.in_loop:
            return f"torch profiled nothing: {self.match!r} ran in an event loop, which it shares with other work."
        return f"torch profiled nothing: no span named {self.match!r} was made."
