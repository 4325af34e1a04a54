"""What a span did on a GPU, read from torch if the program uses it. It is never imported, and never waited for.

Facts from the documentation of CUDA and of `torch.cuda`: an event pair measures the time between two points of one
stream, so it includes queueing and whatever else ran on that stream; `elapsed_time` before the end event is reached
is an error; timing events must not be recorded while a CUDA graph is captured; and even asking whether an event is
reached breaks a graph that any other thread captures in torch's default mode, unless the asking thread has said
that it is none of its business (`cudaThreadExchangeStreamCaptureMode`, as torch's NCCL watchdog does).
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import itertools
import logging
import os
import sys
import threading
from collections import deque
from collections.abc import Iterator
from typing import Any

from linly_profiling.record import CudaUse
from linly_profiling.values import Value

_log = logging.getLogger("linly_profiling")

_MAX_FREE_EVENTS = 256  # of one device: more than spans that end between two looks at the results
_RELAXED = 2  # cudaStreamCaptureModeRelaxed
_NOW = getattr(os, "RTLD_NOW", 0)
_keys = itertools.count()


def cuda_in_use() -> Any:
    """`torch.cuda` if the program has initialised it, else None. Neither imports torch nor initialises CUDA."""
    # torch may be half imported by another thread: then it has no `cuda` yet.
    cuda: Any = getattr(sys.modules.get("torch"), "cuda", None)
    return cuda if cuda is not None and cuda.is_initialized() else None


def gpu_facts() -> dict[str, Value]:
    """Attributes for the span of a request: `gpu_name`, `gpu_memory_total_bytes`, `cuda_launch_blocking`.

    They are those of the current device; empty as long as CUDA is not initialised. Takes microseconds, so it can be
    called at the end of every request, when models are loaded.
    """
    try:
        cuda = cuda_in_use()
        if cuda is None:
            return {}
        properties = cuda.get_device_properties(cuda.current_device())
        return {
            "gpu_name": str(properties.name),
            "gpu_memory_total_bytes": int(properties.total_memory),
            "cuda_launch_blocking": os.environ.get("CUDA_LAUNCH_BLOCKING", "0") not in ("", "0"),
        }
    except Exception as error:  # noqa: BLE001  see CudaProbe.begin
        PROBE.switch_off(error)
        return {}


class _Presence:
    """A span that is on a device now, and whether it met one of another trace there."""

    __slots__ = ("device", "key", "owner", "shared")

    def __init__(self, key: int, device: int, owner: int) -> None:
        self.key = key
        self.device = device
        self.owner = owner
        self.shared = False


class _Devices:
    """Who is on which device. Without a lock: of two that arrive at once, the second to be entered sees the first."""

    def __init__(self) -> None:
        self._present: dict[int, _Presence] = {}

    def arrive(self, device: int, owner: object) -> _Presence:
        # The ID, not the owner: a trace that everyone else has forgotten must be able to go.
        mine = _Presence(next(_keys), device, id(owner))
        self._present[mine.key] = mine
        for other in self._others():
            if other.device == device and other.owner != mine.owner:
                other.shared = mine.shared = True
        return mine

    def _others(self) -> list[_Presence]:
        while True:
            try:
                return list(self._present.values())
            except RuntimeError:  # it changed its size meanwhile
                continue

    def leave(self, presence: _Presence) -> None:
        self._present.pop(presence.key, None)

    def __len__(self) -> int:
        return len(self._present)


class _Events:
    """Timing events that are free, by device. Making one costs more than recording it."""

    def __init__(self) -> None:
        self._free: dict[int, deque[Any]] = {}

    def take(self, cuda: Any, device: int) -> Any:
        try:
            return self._free[device].pop()
        except LookupError:
            return cuda.Event(enable_timing=True)

    def give(self, device: int, *events: Any) -> None:
        """Take back events that the GPU has passed."""
        self._free.setdefault(device, deque(maxlen=_MAX_FREE_EVENTS)).extend(events)

    def __len__(self) -> int:
        return sum(map(len, self._free.values()))


class CudaProbe:
    """Starts and ends measurements. The first one that raises switches the probe off, with one line in the log."""

    def __init__(self) -> None:
        self.devices = _Devices()
        self.events = _Events()
        self.resolving = threading.Lock()  # never taken while a span is measured
        self.has_memory = True
        self._broken = False

    def begin(self, timed: bool, owner: object = None) -> CudaSpan | None:
        """Start to measure on the current device and stream.

        Args:
            timed: False leaves the time null: for a thread whose stream is shared with other work.
            owner: the trace; spans of different owners on one device make each other "shared".

        Returns:
            None where no GPU is in use.
        """
        if self._broken:
            return None
        try:
            cuda = cuda_in_use()
            return None if cuda is None else CudaSpan(self, cuda, timed, owner)
        except Exception as error:  # noqa: BLE001  a probe must never break the program it watches
            self.switch_off(error)
            return None

    def memory(self, cuda: Any, device: int) -> tuple[int, int, int] | None:
        """Bytes that torch has allocated, that it has reserved, and the most it ever had allocated.

        One call for all three: `memory_allocated` and its like each build, flatten and sort the whole table.
        """
        if not self.has_memory:
            return None
        try:
            table = cuda.memory_stats_as_nested_dict(device)
            allocated, reserved = table["allocated_bytes"]["all"], table["reserved_bytes"]["all"]
            return int(allocated["current"]), int(reserved["current"]), int(allocated["peak"])
        except (RuntimeError, LookupError) as error:  # an allocator of the program's own keeps no statistics
            self.has_memory = False
            _log.warning("GPU memory is not recorded: %s: %s", type(error).__name__, error)
            return None

    def switch_off(self, error: Exception) -> None:
        if not self._broken:
            self._broken = True
            _log.warning("GPU use is not recorded any more: %s: %s", type(error).__name__, error)

    def forget(self) -> None:
        """In a forked child: CUDA of the parent is out of reach, and a lock may be held by a thread that is gone."""
        self.__init__()  # type: ignore[misc]


class CudaSpan:
    """One measurement. `use()` is complete once the GPU has passed the end of the span."""

    __slots__ = (
        "_before",
        "_cuda",
        "_device",
        "_end",
        "_events",
        "_owned",
        "_presence",
        "_probe",
        "_start",
        "_use",
    )

    def __init__(self, probe: CudaProbe, cuda: Any, timed: bool, owner: object = None) -> None:
        self._probe = probe
        self._cuda = cuda
        self._events = probe.events
        self._use: CudaUse | None = None
        self._end: Any = None
        self._device = int(cuda.current_device())
        self._owned = owner is not None
        self._presence = probe.devices.arrive(self._device, owner) if self._owned else None
        self._before = probe.memory(cuda, self._device)
        self._start: Any = self._mark() if timed else None

    def _mark(self) -> Any:
        if self._cuda.is_current_stream_capturing():
            return None
        event = self._events.take(self._cuda, self._device)
        event.record()
        return event

    def end(self, timed: bool) -> None:
        """Stop measuring.

        Args:
            timed: False leaves the time null: for another thread than the one that began, with a stream of its own.
        """
        try:
            # Two events can only be compared on one device.
            if timed and self._start is not None and int(self._cuda.current_device()) == self._device:
                self._end = self._mark()
            self._use = self._measured()
        except Exception as error:  # noqa: BLE001  see CudaProbe.begin
            self._probe.switch_off(error)
        finally:
            self._leave()

    def _leave(self) -> None:
        presence, self._presence = self._presence, None
        if presence is not None:
            self._probe.devices.leave(presence)

    def __del__(self) -> None:
        if hasattr(self, "_presence"):  # it is missing where the constructor failed
            self._leave()

    def _measured(self) -> CudaUse:
        use = CudaUse(self._device, shared=self._presence.shared if self._presence is not None else None)
        after = self._probe.memory(self._cuda, self._device)
        if self._before is None or after is None:
            return use
        (allocated, reserved, top), (allocated_now, reserved_now, top_now) = self._before, after
        return use._replace(
            allocated_bytes=allocated_now - allocated,
            reserved_bytes=reserved_now - reserved,
            # torch keeps one peak for the process. Resetting it would spoil it for others; but if it rose, it
            # rose here.
            peak_bytes=top_now if top_now > top else max(allocated, allocated_now),
        )

    def use(self) -> CudaUse | None:
        """What is known by now; the time is None until the GPU is done. Never waits for it."""
        if self._end is not None and self._events is self._probe.events:
            try:
                with self._probe.resolving:
                    self._resolve()
            except Exception as error:  # noqa: BLE001  see CudaProbe.begin
                self._end = None
                self._probe.switch_off(error)
        return self._use

    def _resolve(self) -> None:
        start, end = self._start, self._end
        if end is None or self._use is None:  # another thread was faster
            return
        with _beside_captures(self._cuda, self._device):
            if not end.query():
                return
            elapsed_ms: float = start.elapsed_time(end)
        self._use = self._use._replace(time_ns=round(elapsed_ms * 1e6))
        self._start = self._end = None
        self._events.give(self._device, start, end)


@contextlib.contextmanager
def _beside_captures(cuda: Any, device: int) -> Iterator[None]:
    """Inside, asking about events leaves graphs alone that other threads capture."""
    # With a device that is in use anyway: a thread that has none yet would set one up, and its memory.
    with cuda.device(device):
        exchange = _capture_mode_exchange()
        if exchange is None:
            yield
            return
        mode = ctypes.c_int(_RELAXED)
        exchanged = exchange(ctypes.byref(mode)) == 0
        try:
            yield
        finally:
            if exchanged:
                exchange(ctypes.byref(mode))


@functools.cache
def _capture_mode_exchange() -> Any:
    """CUDA's function for it; None where there is none. Only libraries that torch has loaded are looked at."""
    major = str(getattr(getattr(sys.modules.get("torch"), "version", None), "cuda", "")).partition(".")[0]
    places = (
        (f"libcudart.so.{major}", "cudaThreadExchangeStreamCaptureMode"),
        ("libcuda.so.1", "cuThreadExchangeStreamCaptureMode"),
        ("nvcuda.dll", "cuThreadExchangeStreamCaptureMode"),
    )
    for library, function in places:
        with contextlib.suppress(OSError, AttributeError):
            return getattr(ctypes.CDLL(library, mode=getattr(os, "RTLD_NOLOAD", 0) | _NOW), function)
    return None


PROBE = CudaProbe()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=PROBE.forget)
