"""The dearer half of an exact span: memory right now, CPU time, the asyncio task, the GPU."""

from __future__ import annotations

import asyncio
import threading
import time

from linly_profiling.cuda import PROBE
from linly_profiling.record import CudaUse
from linly_profiling.rss import rss_bytes


class Exact:
    """Measured from construction to `end()`, which may happen in another thread.

    In an asyncio task the thread, and the GPU stream with it, is shared with other tasks: CPU and GPU time would
    charge their work to this span, and are null. A span around the model call in its worker thread has both.
    """

    __slots__ = ("_cpu_start_ns", "_cuda", "_thread_id", "cpu_ns", "rss_end_bytes", "rss_start_bytes", "task")

    def __init__(self) -> None:
        self.task = _task_name()
        self.cpu_ns: int | None = None
        self.rss_start_bytes = rss_bytes()
        self.rss_end_bytes: int | None = None
        self._thread_id = threading.get_ident()
        self._cuda = PROBE.begin(timed=self.task is None)
        self._cpu_start_ns = time.thread_time_ns() if self.task is None else None

    def end(self) -> None:
        same_thread = self._thread_id == threading.get_ident()
        if self._cpu_start_ns is not None and same_thread:
            self.cpu_ns = time.thread_time_ns() - self._cpu_start_ns
        if self._cuda is not None:
            self._cuda.end(timed=same_thread)
        self.rss_end_bytes = rss_bytes()

    @property
    def cuda(self) -> CudaUse | None:
        return self._cuda.use() if self._cuda is not None else None


def _task_name() -> str | None:
    # `current_task()` alone raises where no loop runs, which is slow, and the usual case in a worker.
    loop = asyncio._get_running_loop()
    task = asyncio.current_task(loop) if loop is not None else None
    return task.get_name() if task is not None else None
