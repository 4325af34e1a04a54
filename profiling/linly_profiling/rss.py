"""Resident memory of this process, without a third-party package; None where the system does not say."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from collections.abc import Callable

_UNOPENED = -1


class _Statm:
    """Linux: the second field of /proc/self/statm is the resident set in pages (man 5 proc).

    The file stays open: opening it costs ten times as much as reading it.
    """

    def __init__(self) -> None:
        self._fd = _UNOPENED
        self._file: tuple[int, int] | None = None
        self._page_bytes = os.sysconf("SC_PAGE_SIZE")

    def __call__(self) -> int | None:
        try:
            return self._read()
        except (OSError, ValueError, IndexError):
            # Never opened, or closed by code that closes all descriptors: then the number is not ours any more.
            return self._reopened()

    def _read(self) -> int:
        return int(os.pread(self._fd, 64, 0).split(b" ", 2)[1]) * self._page_bytes

    def _reopened(self) -> int | None:
        try:
            self._fd = os.open("/proc/self/statm", os.O_RDONLY)
            self._file = self._identity()
            return self._read()
        except (OSError, ValueError, IndexError):
            return None

    def forget(self) -> None:
        """In a forked child: /proc/self was resolved when the file was opened, and still means the parent."""
        if self._fd != _UNOPENED:
            with contextlib.suppress(OSError):
                if self._identity() == self._file:  # else the number has become another file's
                    os.close(self._fd)
            self._fd = _UNOPENED

    def _identity(self) -> tuple[int, int]:
        status = os.fstat(self._fd)
        return status.st_dev, status.st_ino


class _MachTaskBasicInfo(ctypes.Structure):
    """`struct mach_task_basic_info` of <mach/task_info.h>."""

    _pack_ = 4
    _fields_ = (
        ("virtual_size", ctypes.c_uint64),
        ("resident_size", ctypes.c_uint64),
        ("resident_size_max", ctypes.c_uint64),
        ("user_time", ctypes.c_int32 * 2),
        ("system_time", ctypes.c_int32 * 2),
        ("policy", ctypes.c_int32),
        ("suspend_count", ctypes.c_int32),
    )


def _mach() -> Callable[[], int | None]:
    """macOS: `task_info(MACH_TASK_BASIC_INFO)`; `getrusage` knows only the peak there."""
    flavor, words = 20, ctypes.sizeof(_MachTaskBasicInfo) // 4
    libc = ctypes.CDLL(None)
    libc.mach_task_self.restype = ctypes.c_uint32
    libc.task_info.argtypes = [ctypes.c_uint32, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_void_p]

    def read() -> int | None:
        info, count = _MachTaskBasicInfo(), ctypes.c_uint32(words)
        failed = libc.task_info(libc.mach_task_self(), flavor, ctypes.byref(info), ctypes.byref(count))
        return None if failed else int(info.resident_size)

    return read


class _ProcessMemoryCounters(ctypes.Structure):
    """`PROCESS_MEMORY_COUNTERS` of <psapi.h>."""

    _fields_ = (
        ("cb", ctypes.c_uint32),
        ("PageFaultCount", ctypes.c_uint32),
        ("PeakWorkingSetSize", ctypes.c_size_t),
        ("WorkingSetSize", ctypes.c_size_t),
        ("QuotaPeakPagedPoolUsage", ctypes.c_size_t),
        ("QuotaPagedPoolUsage", ctypes.c_size_t),
        ("QuotaPeakNonPagedPoolUsage", ctypes.c_size_t),
        ("QuotaNonPagedPoolUsage", ctypes.c_size_t),
        ("PagefileUsage", ctypes.c_size_t),
        ("PeakPagefileUsage", ctypes.c_size_t),
    )


def _windows() -> Callable[[], int | None]:
    """Windows: the working set of `GetProcessMemoryInfo`."""
    kernel = ctypes.CDLL("kernel32")
    kernel.GetCurrentProcess.restype = ctypes.c_void_p
    kernel.K32GetProcessMemoryInfo.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint32]

    def read() -> int | None:
        info = _ProcessMemoryCounters()
        info.cb = ctypes.sizeof(info)
        done = kernel.K32GetProcessMemoryInfo(kernel.GetCurrentProcess(), ctypes.byref(info), info.cb)
        return int(info.WorkingSetSize) if done else None

    return read


def _unknown() -> int | None:
    return None


def _reader() -> Callable[[], int | None]:
    try:
        if sys.platform == "darwin":
            return _mach()
        if sys.platform == "win32":
            return _windows()
        return _Statm() if hasattr(os, "pread") else _unknown
    except (OSError, AttributeError):
        return _unknown


rss_bytes: Callable[[], int | None] = _reader()
"""Resident memory of this process in bytes, right now; None where the system does not say."""

if isinstance(rss_bytes, _Statm):
    os.register_at_fork(after_in_child=rss_bytes.forget)
