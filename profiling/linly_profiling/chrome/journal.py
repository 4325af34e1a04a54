"""A trace file that grows: an array that viewers open although its end is missing, and an object once it is closed.

While it grows, each event is a line, and the first is one that says nothing, at length. A viewer, and `repair`,
read what is whole of it after the process was killed. On closing, the end is appended, and in the place of the first
line comes the head of the object form, which more tools read; nothing is written twice. A file that is full is
closed and set aside.
"""

from __future__ import annotations

import errno
import gzip
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from linly_profiling.chrome.names import CLOSED, FIRST_PID
from linly_profiling.chrome.text import dumps

_HEAD_BYTES = 256  # room for the head of the object form
# Perfetto knows an array by its first two characters: space between them, and it is "of unknown type".
_FIRST = f'[{{"ph":"M","name":"linly.file","pid":{FIRST_PID},"args":{{"room":"'.encode()
_FIRST += b" " * (_HEAD_BYTES - len(_FIRST) - 5) + b'"}},\n'
_TAIL = f'{{"ph":"M","name":"{CLOSED}","pid":{FIRST_PID},"args":{{}}}}\n]}}\n'.encode()


class Journal:
    """One file at a time, written without a buffer: what was handed over survives the process.

    Args:
        path: the file; its folder must exist. One that exists is set aside first, never overwritten. With the suffix
            ".gz" the file grows beside it, uncompressed, and is compressed when it is closed.
        max_bytes: a file that has grown beyond is closed, and set aside as "name.1.json", "name.2.json" and so on.
        max_files: how many files are kept in all; the oldest are deleted. None keeps all.

    Attributes:
        head: what stands at the top of the object form; up to 250 bytes as JSON.
    """

    def __init__(self, path: str | os.PathLike[str], max_bytes: int, max_files: int | None) -> None:
        self.head: dict[str, object] = {}
        self.path = Path(path)
        if not self.path.parent.is_dir():
            raise FileNotFoundError(
                errno.ENOENT, "cannot write traces: no such folder", str(self.path.parent)
            )
        self._zipped = self.path.suffix == ".gz"
        self._growing = self.path.with_suffix("") if self._zipped else self.path
        self._max_bytes = max_bytes
        self._max_files = max_files
        self._fd: int | None = None
        self._size = 0

    @property
    def full(self) -> bool:
        return self._size > self._max_bytes

    def write(self, lines: Sequence[str]) -> None:
        """Append events, each a JSON object without a line break."""
        if self._fd is None:
            self._open()
        self._append("".join(f"{line},\n" for line in lines).encode("utf-8"))

    def close(self) -> None:
        """Make it whole. The next `write` begins a new file, and sets this one aside."""
        if self._fd is None:
            return
        fd, self._fd = self._fd, None
        try:
            _write(fd, _TAIL)  # the end first: killed in between, it is still an array
            os.lseek(fd, 0, os.SEEK_SET)
            _write(fd, self._object_head().ljust(_HEAD_BYTES - 1) + b"\n")
        finally:
            os.close(fd)
        if self._zipped:
            _compress(self._growing, self.path)

    def forget(self) -> None:
        """In a child process: the file is the parent's; this one writes beside it, under its own process number."""
        if self._fd is not None:
            os.close(self._fd)
        self._fd = None
        self.path = _with_middle(self.path, str(os.getpid()))
        self._growing = self.path.with_suffix("") if self._zipped else self.path

    def _object_head(self) -> bytes:
        head = (dumps(self.head)[:-1] + ',"traceEvents":[').encode("utf-8")
        return head if len(head) < _HEAD_BYTES else b"["

    def _open(self) -> None:
        self._set_aside()
        flags = (
            os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
        )
        self._fd = os.open(self._growing, flags, 0o666)
        self._size = 0
        self._append(_FIRST)

    def _append(self, data: bytes) -> None:
        assert self._fd is not None
        _write(self._fd, data)
        self._size += len(data)

    def _set_aside(self) -> None:
        """Give files of this name a number: this run's former ones, and what a run before left behind."""
        for path in {self.path, self._growing}:
            if path.exists():
                path.rename(_with_middle(path, str(self._numbers()[-1] + 1)))
        if self._max_files is not None:
            for number in self._numbers()[1 : -self._max_files + 1 or None]:
                for path in {self.path, self._growing}:
                    _with_middle(path, str(number)).unlink(missing_ok=True)

    def _numbers(self) -> list[int]:
        """0 and the numbers in use, rising."""
        stem, _, suffixes = self._growing.name.partition(".")
        found = {0}
        for path in self.path.parent.glob(f"{_escaped(stem)}.*"):
            number = path.name[len(stem) + 1 :].partition(".")[0]
            if number.isdecimal() and path.name.removesuffix(".gz") == f"{stem}.{number}.{suffixes}":
                found.add(int(number))
        return sorted(found)


def _write(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _with_middle(path: Path, middle: str) -> Path:
    """ "run.json" and "2" give "run.2.json"."""
    stem, dot, suffixes = path.name.partition(".")
    return path.with_name(f"{stem}.{middle}{dot}{suffixes}")


def _escaped(text: str) -> str:
    return "".join(f"[{char}]" if char in "*?[" else char for char in text)


def _compress(source: Path, target: Path) -> None:
    beside = target.with_name(f".{target.name}.part")
    try:
        with source.open("rb") as plain, gzip.open(beside, "wb", compresslevel=1) as zipped:
            shutil.copyfileobj(plain, zipped, 1 << 20)
        beside.replace(target)
    finally:
        beside.unlink(missing_ok=True)
    source.unlink()
