"""What was hashed already: a small file a model, so that start-up does not read 100 MB each time."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from pathlib import Path

from linly_pipeline.models.catalogue import WeightFile


class Stamps:
    """Remembers which files of one model had the right hash, by path, size and time of last change.

    It is only a memory: where its file is lost, unreadable or cannot be written, files are hashed again.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._rows = _read(path)

    def knows(self, path: Path, file: WeightFile) -> bool:
        """Whether this very file was found to have the catalogue's hash."""
        return self._rows.get(str(path)) == _row(path, file)

    def add(self, path: Path, file: WeightFile) -> None:
        """Remember that the file has the catalogue's hash."""
        self._rows[str(path)] = _row(path, file)

    def clear(self) -> None:
        """Forget everything, so that every file is hashed again."""
        self._rows = {}
        with contextlib.suppress(OSError):
            self._path.unlink()

    def save(self) -> None:
        """Write the memory; a read-only cache is fine."""
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(self._path, json.dumps(self._rows, indent=1).encode())


def write_whole(path: Path, content: bytes) -> None:
    """Write a small file whole or not at all, also beside another process that does the same."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _row(path: Path, file: WeightFile) -> list[int | str]:
    status = path.stat()
    return [status.st_size, status.st_mtime_ns, file.sha256]


def _read(path: Path) -> dict[str, list[int | str]]:
    try:
        rows = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return rows if isinstance(rows, dict) else {}
