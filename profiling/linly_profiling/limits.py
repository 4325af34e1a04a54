"""How much memory this process may use."""

from __future__ import annotations

import functools
import os
from pathlib import Path

_UNLIMITED = 2**60  # cgroup v1 says "no limit" with a number close to 2^63


@functools.cache
def memory_limit_bytes() -> int | None:
    """The container's limit, or the machine's memory where that is less; None where the system does not tell.

    Linux: `memory.max` of the cgroup of this process and of those above it (Linux kernel, cgroup-v2.rst).
    """
    found = [value for value in (_cgroup_v2(), _cgroup_v1(), _physical()) if value is not None]
    return min(found, default=None)


def _physical() -> int | None:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None


def _cgroup_v2() -> int | None:
    try:
        lines = Path("/proc/self/cgroup").read_text("ascii").splitlines()
    except (OSError, ValueError):
        return None
    own = next((line[3:] for line in lines if line.startswith("0::")), None)
    if own is None:
        return None
    folder = Path("/sys/fs/cgroup") / own.lstrip("/")
    limits = [_number(each / "memory.max") for each in (folder, *folder.parents)]
    return min((limit for limit in limits if limit is not None), default=None)


def _cgroup_v1() -> int | None:
    return _number(Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


def _number(path: Path) -> int | None:
    try:
        value = int(path.read_text("ascii"))
    except (OSError, ValueError):  # no such file, or "max"
        return None
    return value if value < _UNLIMITED else None
