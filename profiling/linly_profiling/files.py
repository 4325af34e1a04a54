"""Files that appear whole or not at all."""

from __future__ import annotations

import errno
import secrets
from pathlib import Path


def check_folder(path: Path) -> None:
    """Raises FileNotFoundError if the folder that a file is to be written into is missing."""
    if not path.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "cannot write: no such folder", str(path.parent))


def write_whole(path: Path, data: bytes) -> None:
    """Write beside the place, then rename: a reader never sees a part, and a failure keeps what was there."""
    check_folder(path)
    beside = path.with_name(f".{path.name[:100]}.{secrets.token_hex(4)}.part")
    try:
        beside.write_bytes(data)
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
