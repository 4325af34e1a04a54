"""What a span did on a GPU, read from torch if the program uses it. It is never imported, and never waited for.

Facts from the documentation of `torch.cuda`: an event pair measures the time between two points of one stream, so
it includes queueing and whatever else ran on that stream; `elapsed_time` before the end event is reached is an error;
timing events must not be recorded while a CUDA graph is captured.
"""

from __future__ import annotations

import logging
import sys
from typing import Any

from linly_profiling.record import CudaUse

_log = logging.getLogger("linly_profiling")


class CudaProbe:
    """Starts and ends measurements. The first one that raises switches the probe off, with one line in the log."""

    def __init__(self) -> None:
        self._broken = False

    def begin(self, timed: bool) -> CudaSpan | None:
        """Start to measure on the current device and stream.

        Args:
            timed: False leaves the time null: for a thread whose stream is shared with other work.

        Returns:
            None where no GPU is in use.
        """
        if self._broken:
            return None
        try:
            # torch may be half imported by another thread: then it has no `cuda` yet.
            cuda: Any = getattr(sys.modules.get("torch"), "cuda", None)
            if cuda is None or not cuda.is_initialized():
                return None
            return CudaSpan(self, cuda, timed)
        except Exception as error:  # noqa: BLE001  a probe must never break the program it watches
            self.switch_off(error)
            return None

    def switch_off(self, error: Exception) -> None:
        if not self._broken:
            self._broken = True
            _log.warning("GPU use is not recorded any more: %s: %s", type(error).__name__, error)


class CudaSpan:
    """One measurement. `use()` is complete once the GPU has passed the end of the span."""

    __slots__ = ("_allocated", "_cuda", "_device", "_end", "_probe", "_start", "_top", "_use")

    def __init__(self, probe: CudaProbe, cuda: Any, timed: bool) -> None:
        self._probe = probe
        self._cuda = cuda
        self._use: CudaUse | None = None
        self._end: Any = None
        self._device = int(cuda.current_device())
        self._allocated = (int(cuda.memory_allocated(self._device)), int(cuda.memory_reserved(self._device)))
        self._top = int(cuda.max_memory_allocated(self._device))
        self._start: Any = self._mark() if timed else None

    def _mark(self) -> Any:
        if self._cuda.is_current_stream_capturing():
            return None
        event = self._cuda.Event(enable_timing=True)
        event.record()
        return event

    def end(self, timed: bool) -> None:
        """Stop measuring.

        Args:
            timed: False leaves the time null: for another thread than the one that began, with a stream of its own.
        """
        try:
            self._use = self._memory()
            # Two events can only be compared on one device.
            if timed and self._start is not None and int(self._cuda.current_device()) == self._device:
                self._end = self._mark()
        except Exception as error:  # noqa: BLE001  see CudaProbe.begin
            self._probe.switch_off(error)

    def _memory(self) -> CudaUse:
        cuda, device = self._cuda, self._device
        allocated, reserved = int(cuda.memory_allocated(device)), int(cuda.memory_reserved(device))
        before, before_reserved = self._allocated
        # torch keeps one peak for the process. Resetting it would spoil it for others; but if it rose, it rose here.
        top = int(cuda.max_memory_allocated(device))
        peak = top if top > self._top else max(before, allocated)
        return CudaUse(device, None, allocated - before, reserved - before_reserved, peak)

    def use(self) -> CudaUse | None:
        """What is known by now; the time is None until the GPU is done. Never waits."""
        if self._use is not None and self._end is not None:
            try:
                self._resolve(self._use)
            except Exception as error:  # noqa: BLE001  see CudaProbe.begin
                self._end = None
                self._probe.switch_off(error)
        return self._use

    def _resolve(self, use: CudaUse) -> None:
        start, end = self._start, self._end
        if end.query():
            elapsed_ms: float = start.elapsed_time(end)
            self._use = use._replace(time_ns=round(elapsed_ms * 1e6))
            self._end = None


PROBE = CudaProbe()
