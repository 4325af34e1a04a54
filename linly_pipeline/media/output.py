"""Whether a place takes output, told before the long work, and why it does not."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
from collections.abc import Sequence
from os import PathLike
from pathlib import Path

from linly_pipeline.errors import SinkError

MIN_FREE_BYTES = 32 * 2**20  # minutes of video at the default quality


def check_writable(
    path: str | PathLike[str], suffixes: Sequence[str] = (), min_free_bytes: int = MIN_FREE_BYTES
) -> Path:
    """Find out before the long work whether a file can be written; nothing stays behind.

    Args:
        path: the file. Its folder must exist; an existing file will be replaced.
        suffixes: the endings allowed, such as (".mp4",); () allows any.
        min_free_bytes: room that the disk must have.

    Returns:
        The absolute path.

    Raises:
        SinkError: wrong ending, no such folder, a folder of that name, no permission, or the disk is nearly
            full.
    """
    full = Path(path).absolute()
    if suffixes and full.suffix.lower() not in suffixes:
        raise refused(path, f"its name must end in {' or '.join(suffixes)}")
    if full.is_dir():
        raise refused(path, "it is a folder; name a file in it")
    if full.exists() and not os.access(full, os.W_OK):
        raise refused(path, "the file is there and read-only; remove it or choose another name")
    check_folder(full.parent, path, min_free_bytes)
    return full


def check_folder(folder: Path, path: str | PathLike[str], min_free_bytes: int = MIN_FREE_BYTES) -> None:
    """Find out whether `folder` takes a new file; `path` is what the error names."""
    if not folder.is_dir():
        kind = "is not a folder" if folder.exists() else "does not exist; create it first"
        raise refused(path, f"the folder '{folder}' {kind}")
    probe = folder / f".linly-{secrets.token_hex(6)}.part"
    try:
        # Asking for the permission bits is not enough: network and read-only file systems answer wrongly.
        probe.touch(exist_ok=False)
        probe.unlink()
        free = shutil.disk_usage(folder).free
    except OSError as error:
        raise refused(path, f"the folder '{folder}' takes no files: {cause_of(error)}") from error
    if free < min_free_bytes:
        raise refused(path, f"the disk is nearly full: {free // 2**20} MiB free; make room")


def check_new_folder(path: str | PathLike[str], min_free_bytes: int = MIN_FREE_BYTES) -> Path:
    """As `check_writable`, for a folder of frames: it may exist if it is empty, its parent must.

    Raises:
        SinkError: it holds something, is a file, or its parent takes no files.
    """
    full = Path(path).absolute()
    if full.is_file():
        raise refused(path, "it is a file; name a folder")
    if full.is_dir() and any(full.iterdir()):
        raise refused(path, "the folder holds something; empty it or name a new one")
    check_folder(full.parent, path, min_free_bytes)
    return full


def remove(path: Path) -> None:
    """Remove a file or a folder with all in it, if it is there."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def refused(path: str | PathLike[str], cause: str) -> SinkError:
    """The error for a path that cannot be written."""
    return SinkError(f"cannot write '{path}': {cause}")


def cause_of(error: OSError) -> str:
    """An error of the system in words, with a remedy."""
    if error.errno in (errno.ENOSPC, getattr(errno, "EDQUOT", None)):  # Windows has no quota error
        return "the disk is full; make room"
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return "permission denied; choose another folder, or let this user write there"
    if error.errno == errno.EFBIG:
        return "the file grew beyond what the file system or a limit of this process allows"
    return error.strerror or str(error)
