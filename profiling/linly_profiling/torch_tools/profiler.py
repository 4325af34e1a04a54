"""`torch.profiler` for one stretch of one request, with its operators and kernels in the request's own trace.

What torch's profiler is like, as of torch 2.13:

- Its first start in a process takes one to two seconds. `warm_up` gets that over with.
- There can be one at a time in a process. A second one, nested or in another thread, does not fail cleanly: it takes
  the process down. So a second one here does nothing and says so in the trace, and neither does one that is asked
  for while the program uses the profiler by itself. The reverse cannot be prevented: a program must not start a
  profiler of its own inside of `torch_profile`.
- It must stop in the thread in which it was started, and records operators of that thread only (kineto#443); but
  kernels of the whole process, of which those of other threads are left out here.
- It keeps everything in memory, about 1 kB an event, and `key_averages()` several times that: neither that nor
  `events()` is used here, only the file that it exports.
- It writes lines such as "profiler_start" to the standard error stream, unless the environment has KINETO_LOG_LEVEL=6
  before torch is imported.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from linly_profiling.clock import Epoch, anchor
from linly_profiling.span import Span, current_span
from linly_profiling.torch_tools.kineto import Event, Profile, read_kineto
from linly_profiling.torch_tools.merge import homes, insert
from linly_profiling.torch_tools.tree import CLOCK, LIMIT, graft
from linly_profiling.trace import Trace

_log = logging.getLogger("linly_profiling")

_ROW = "torch.profiler"
_CLOCK_MARKS = 12  # at each end; the best few decide
_PENDING = "not finished"
_running = threading.Lock()
_warm = False


@dataclass
class TorchProfile:
    """What became of a profile.

    Attributes:
        note: "ok", or why there is no profile.
        spans: spans that were added to the trace.
        left_out: short events beyond the limit.
        foreign: events of other requests, which the profiler saw as well.
        alignment_ns: how far, at most, the profiler's clock as used here is from the trace's; None if it is unknown.
    """

    note: str = _PENDING
    spans: int = 0
    left_out: int = 0
    foreign: int = 0
    alignment_ns: int | None = None


def warm_up() -> None:
    """Start and stop the profiler once, which takes one to two seconds the first time and nothing later.

    Raises:
        ImportError: torch is not installed.
    """
    global _warm
    torch = _torch()
    with _alone(torch) as note:
        if note is None and not _warm:
            profiler = _new(torch, None, record_shapes=False, with_stack=False, memory=False)
            profiler.start()
            profiler.stop()
            _warm = True


@contextlib.contextmanager
def torch_profile(
    target: Span | Trace | None = None,
    *,
    activities: Sequence[str] | None = None,
    record_shapes: bool = False,
    with_stack: bool = False,
    memory: bool = False,
    limit: int = LIMIT,
) -> Iterator[TorchProfile]:
    """Profile what the block does in this thread; afterwards its operators and kernels are spans of the trace.

    They are below `target`, in the rows "torch cpu thread 1" and "cuda:0 stream 7" and with the attribute `source`
    "torch"; arrows "launch" lead from the CPU to the GPU. Starting, stopping and converting are spans of their own
    in the row "torch.profiler", since they are no work of the request's: allow for up to a second per 10,000 events
    after the block. Nothing raises because of the profiler: see `TorchProfile.note`, also an attribute of these spans.

    Args:
        target: the span that takes up the events, or a trace for its root; by default the current span.
        activities: of "cpu" and "cuda"; by default what the machine has. "cpu" is always included.
        record_shapes: keep the shapes of operators' inputs.
        with_stack: also record Python functions; slows Python code down several times.
        memory: let the profiler follow allocations; they appear only in its own export.
        limit: most events taken over, of the CPU and of the GPU each; the longest are.

    Raises:
        ImportError: torch is not installed.
    """
    span = target.root if isinstance(target, Trace) else target or current_span()
    with profiled(
        span,
        span,
        activities=activities,
        record_shapes=record_shapes,
        with_stack=with_stack,
        memory=memory,
        limit=limit,
    ) as result:
        yield result


@contextlib.contextmanager
def profiled(
    span: Span | None,
    books: Span | None,
    *,
    activities: Sequence[str] | None = None,
    record_shapes: bool = False,
    with_stack: bool = False,
    memory: bool = False,
    limit: int = LIMIT,
) -> Iterator[TorchProfile]:
    """`torch_profile` with another parent, `books`, for the spans that tell what the profiler itself costs."""
    torch = _torch()
    result = TorchProfile()
    if span is None or books is None or not span.trace.enabled:
        result.note = "no span is recorded here"
        yield result
        return
    with _alone(torch) as busy:
        if busy is not None:
            result.note = busy
            _say(books, result)
            yield result
            return
        session = _Session(torch, span, books, limit)
        session.start(
            result,
            lambda: _new(
                torch, activities, record_shapes=record_shapes, with_stack=with_stack, memory=memory
            ),
        )
        try:
            yield result
        finally:
            session.stop(result)


def _say(span: Span, result: TorchProfile) -> None:
    span.trace.start("torch.profiler.skipped", span, row=_ROW, note=result.note).end()
    _log.warning("no torch profile of %s: %s", span.name, result.note)


class _Session:
    """One profile from start to the spans in the trace."""

    def __init__(self, torch: Any, span: Span, books: Span, limit: int) -> None:
        self._torch = torch
        self._span = span
        self._books = books
        self._trace = span.trace
        self._clock_ns = span.trace._clock_ns
        self._limit = limit
        self._profiler: Any = None
        self._thread = threading.get_ident()
        self._marks: list[tuple[int, int]] = []
        self._epoch = Epoch(0, 0)
        self._window = (0, 0)

    def start(self, result: TorchProfile, make: Callable[[], Any]) -> None:
        global _warm
        with self._trace.start("torch.profiler.start", self._books, row=_ROW, first_use=not _warm):
            try:
                profiler = make()
                profiler.start()
            except Exception as error:  # noqa: BLE001  a profiler must not break the program that it watches
                result.note = _failed("it did not start", error)
                return
            self._profiler = profiler
            _warm = True
            self._try(result, "its clock could not be marked", self._mark_clock)
        self._epoch = anchor(self._clock_ns)
        self._window = (self._clock_ns(), 0)

    def stop(self, result: TorchProfile) -> None:
        if self._profiler is None:
            _say(self._books, result)
            return
        self._window = (self._window[0], self._clock_ns())
        if threading.get_ident() != self._thread:
            # This ends the profile, and without it the process would crash at its exit; but the thread that began
            # stays marked as profiled, and another start would be fatal.
            self._try(result, "it did not stop", self._profiler.stop)
            _lose(result, "its block ended in another thread than it began in")
            _say(self._books, result)
            return
        with self._trace.start("torch.profiler.export", self._books, row=_ROW) as span:
            self._try(result, "its clock could not be marked", self._mark_clock)
            self._try(result, "it did not stop", self._profiler.stop)
            if self._torch.autograd._profiler_enabled():
                _lose(result, f"it runs on: {result.note}")
            if result.note == _PENDING:
                self._try(result, "it could not be converted", lambda: self._convert(result))
            self._profiler = None
            span.set(**vars(result))

    def _try(self, result: TorchProfile, what: str, step: Callable[[], None]) -> None:
        try:
            step()
        except Exception as error:  # noqa: BLE001  see start
            if result.note == _PENDING:
                result.note = _failed(what, error)

    def _mark_clock(self) -> None:
        """Ranges whose place on the trace's clock is known; the first ones are slow."""
        for _ in range(_CLOCK_MARKS):
            before_ns = self._clock_ns()
            with self._torch.profiler.record_function(CLOCK):
                pass
            self._marks.append((before_ns, self._clock_ns()))

    def _convert(self, result: TorchProfile) -> None:
        if self._trace.outcome is not None:
            result.note = "the request was over before its profile"
            return
        profile = self._exported()
        epoch = Epoch(self._epoch.clock_ns, self._epoch.wall_ns)
        clocks = [event for event in profile.events if event.name == CLOCK]
        correction_ns, result.alignment_ns = align(self._marks, clocks, epoch)
        shift_ns = epoch.clock_ns - epoch.wall_ns + correction_ns
        grafts = graft(
            profile,
            lambda at_ns: at_ns + shift_ns,
            homes(self._hosts(), self._span.span_id),
            limit=self._limit,
            window=self._window,
        )
        insert(self._trace, grafts)
        result.spans, result.left_out, result.foreign = len(grafts.spans), grafts.left_out, grafts.foreign
        result.note = "ok"

    def _exported(self) -> Profile:
        with tempfile.TemporaryDirectory(prefix="linly-torch-") as folder:
            path = Path(folder) / "kineto.json"
            self._profiler.export_chrome_trace(str(path))
            self._profiler = None  # its memory is needed for reading
            return read_kineto(path)

    def _hosts(self) -> list[Any]:
        """The span itself, and spans below it that this thread made: all that operators can belong to."""
        below = {self._span.span_id}
        hosts = []
        for record in self._trace.records():  # parents before children
            if record.parent_id in below and record.attrs.get("row") != _ROW:
                below.add(record.span_id)
                if record.thread_id == self._thread:
                    hosts.append(record)
        return hosts


def align(marks: Sequence[tuple[int, int]], seen: Sequence[Event], epoch: Epoch) -> tuple[int, int | None]:
    """How to correct times of the profiler, and how wrong they can still be.

    Each mark was made between two readings of the trace's clock. That the profiler places it between them, too,
    bounds the error from both sides.

    Returns:
        What to add to a time converted by the epoch, and the greatest error after that; None without any mark.
    """
    if not seen or len(seen) != len(marks):
        return 0, None
    shift_ns = epoch.clock_ns - epoch.wall_ns
    seen = sorted(seen, key=lambda event: event.start_ns)
    lows = [
        before_ns - (event.start_ns + shift_ns) for (before_ns, _), event in zip(marks, seen, strict=True)
    ]
    highs = [after_ns - (event.end_ns + shift_ns) for (_, after_ns), event in zip(marks, seen, strict=True)]
    low_ns, high_ns = max(lows), min(highs)
    if low_ns > high_ns:  # the clocks ran apart: the middle is wrong by half of that
        return (low_ns + high_ns) // 2, (low_ns - high_ns + 1) // 2
    correction_ns = min(max(0, low_ns), high_ns)
    return correction_ns, max(correction_ns - low_ns, high_ns - correction_ns)


@contextlib.contextmanager
def _alone(torch: Any) -> Iterator[str | None]:
    """Gives None if this is the only profile in the process, else why it is not."""
    if not _running.acquire(blocking=False):
        yield "another torch profile is running"
        return
    try:
        yield "the program uses torch's profiler itself" if _used_by_program(torch) else None
    finally:
        if not _lost:
            _running.release()


def _used_by_program(torch: Any) -> bool:
    module = torch.autograd.profiler
    return bool(getattr(module, "_is_profiler_enabled", False) or torch.autograd._profiler_enabled())


_lost = False


def _lose(result: TorchProfile, why: str) -> None:
    """The profiler cannot be reached any more, so there must not be another one."""
    global _lost
    _lost = True
    result.note = f"{why}; no more torch profiles in this process"


def _torch() -> Any:
    try:
        return importlib.import_module("torch")
    except ImportError as error:
        raise ImportError(
            "torch is not installed, so there is nothing to profile: pip install torch"
        ) from error


def _new(
    torch: Any, activities: Sequence[str] | None, *, record_shapes: bool, with_stack: bool, memory: bool
) -> Any:
    kinds = torch.profiler.ProfilerActivity
    wanted = {"cpu", *activities} if activities is not None else {"cpu", "cuda"}
    chosen = [kinds.CPU]
    if "cuda" in wanted and torch.cuda.is_available():
        chosen.append(kinds.CUDA)
    more = {}
    with contextlib.suppress(
        AttributeError, TypeError
    ):  # torch 2.10 and later: build no Python objects on stopping
        more["experimental_config"] = torch._C._profiler._ExperimentalConfig(trace_only=not with_stack)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.profiler.profile(
            activities=chosen,
            record_shapes=record_shapes,
            with_stack=with_stack,
            profile_memory=memory,
            **more,
        )


def _failed(what: str, error: Exception) -> str:
    return f"{what}: {type(error).__name__}: {error}"
