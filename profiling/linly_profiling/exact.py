"""The dearer half of an exact span: memory right now, CPU time, the asyncio task, the GPU."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from collections.abc import Callable

from linly_profiling.cuda import PROBE, CudaSpan
from linly_profiling.record import CudaUse
from linly_profiling.rss import _Statm, rss_bytes

_modules = sys.modules
_running_loop, _current_task = asyncio._get_running_loop, asyncio.current_task
_ident, _cpu_ns, _now_ns = threading.get_ident, time.thread_time_ns, time.perf_counter_ns

_FRESH_NS = 100_000  # a reading of memory this young serves as the start of the next span


def _reader() -> Callable[[], bytes | int | None]:
    """Reads resident memory; on Linux as the text of the file, because parsing it can wait until someone looks."""
    if not isinstance(rss_bytes, _Statm):
        return rss_bytes
    statm, pread = rss_bytes, os.pread

    def read() -> bytes | int | None:
        try:
            return pread(statm._fd, 64, 0)
        except OSError:  # not opened yet, or closed by code that closes all descriptors
            return rss_bytes()

    return read


_read = _reader()
# The last reading at the end of a span, and when it was made.
_newest: tuple[bytes | int | None, int] = (None, -_FRESH_NS)


def _bytes_of(reading: bytes | int | None) -> int | None:
    """What `_read` gave, in bytes."""
    if not isinstance(reading, bytes):
        return reading
    try:
        return int(reading.split(b" ", 2)[1]) * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, IndexError):  # the descriptor had been taken over by another file
        return None


class Exact:
    """Measured from construction to `end()`, which may happen in another thread.

    In an asyncio task the thread, and the GPU stream with it, is shared with other tasks: CPU and GPU time would
    charge their work to this span, and are null. A span around the model call in its worker thread has both.
    Memory at the end is read at the end; memory at the start may be 100 µs old.
    """

    __slots__ = ("_cpu_start_ns", "_cuda", "_rss_end", "_rss_start", "_thread_id", "cpu_ns", "task")

    def __init__(self, owner: object = None) -> None:
        """Start.

        Args:
            owner: the trace that the span belongs to; without it, nobody knows whether the GPU was shared.
        """
        loop = (
            _running_loop()
        )  # `current_task()` alone raises where no loop runs: slow, and usual in a worker
        task = None if loop is None else _current_task(loop)
        self.cpu_ns: int | None = None
        self._rss_end: bytes | int | None = None
        reading, read_ns = _newest
        self._rss_start = reading if _now_ns() - read_ns < _FRESH_NS else _read()
        self._cuda: CudaSpan | None = None
        self._cpu_start_ns: int | None = None
        if task is not None:
            self.task: str | None = task.get_name()
            self._thread_id = 0
            if "torch" in _modules:
                self._cuda = PROBE.begin(timed=False, owner=owner)
            return
        self.task = None
        self._thread_id = _ident()
        if "torch" in _modules:
            self._cuda = PROBE.begin(timed=True, owner=owner)
        self._cpu_start_ns = _cpu_ns()

    def end(self) -> None:
        started_here = self._thread_id == _ident()
        if started_here and self._cpu_start_ns is not None:
            self.cpu_ns = _cpu_ns() - self._cpu_start_ns
        if self._cuda is not None:
            self._cuda.end(timed=started_here)
        self._rss_end = reading = _read()
        global _newest
        _newest = (reading, _now_ns())

    @property
    def rss_start_bytes(self) -> int | None:
        return _bytes_of(self._rss_start)

    @property
    def rss_end_bytes(self) -> int | None:
        return _bytes_of(self._rss_end)

    @property
    def cuda(self) -> CudaUse | None:
        return self._cuda.use() if self._cuda is not None else None
