"""A trace file that grows: an array that viewers open although its end is missing, and an object once it is closed.

While it grows, each event is a line, and the first is one that says nothing, at length. A viewer, and `repair`,
read what is whole of it after the process was killed. On closing, the end is appended, and in the place of the first
line comes the head of the object form, which more tools read; nothing is written twice. A file that is full is
closed and set aside.
"""

from __future__ import annotations

import gzip
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from linly_profiling.chrome.names import CLOSED, FIRST_PID
from linly_profiling.chrome.text import dumps
from linly_profiling.files import check_folder

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
        max_files: how many of its own files are kept; the oldest are deleted. None keeps all.

    Attributes:
        head: what stands at the top of the object form; up to 230 bytes as JSON.
    """

    def __init__(self, path: str | os.PathLike[str], max_bytes: int, max_files: int | None) -> None:
        if max_files is not None and max_files < 1:
            raise ValueError(f"max_files is a number from 1, or None for all, not {max_files!r}")
        self._asked = self._path = Path(path)
        check_folder(self._path)
        self.head: dict[str, object] = {}
        self._max_bytes = max_bytes
        self._max_files = max_files
        self._aside: list[Path] = []
        self._written = False
        self._fd: int | None = None
        self._size = 0

    @property
    def paths(self) -> tuple[Path, ...]:
        """The files written so far, the current one last."""
        current = self._growing if self._fd is not None else self._path
        return (*self._aside, current) if self._written else tuple(self._aside)

    @property
    def full(self) -> bool:
        return self._size > self._max_bytes

    @property
    def _growing(self) -> Path:
        return self._path.with_suffix("") if self._path.suffix == ".gz" else self._path

    def write(self, lines: Sequence[str]) -> None:
        """Append events, each a JSON object without a line break."""
        if self._fd is None:
            self._fd = self._open()
            self._written = True
            self._size = 0
            self._append(_FIRST)
        self._append("".join(f"{line},\n" for line in lines).encode("utf-8"))

    def close(self) -> None:
        """Make it whole. The next `write` begins a new file, and sets this one aside."""
        if self._fd is None:
            return
        fd, self._fd, self._size = self._fd, None, 0
        try:
            _write(fd, _TAIL)  # the end first: killed in between, `repair` still reads all of it
            os.lseek(fd, 0, os.SEEK_SET)
            head = (dumps(self.head)[:-1] + ',"traceEvents":[').encode("utf-8")
            _write(fd, head.ljust(_HEAD_BYTES - 1) + b"\n")
        finally:
            os.close(fd)
        if self._growing != self._path:
            _compress(self._growing, self._path)

    def forget(self) -> None:
        """In a child process: the file is the parent's; this one writes beside it, under its own process number."""
        if self._fd is not None:
            os.close(self._fd)
        self._fd, self._size, self._aside, self._written = None, 0, [], False
        self._path = _with_middle(self._asked, f"pid{os.getpid()}")

    def _open(self) -> int:
        if any(
            _is_in_use(path) for path in (self._growing, self._path)
        ):  # by another program, or another Journal
            self._path = _with_middle(self._asked, f"pid{os.getpid()}")
        self._set_aside()
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
        fd = os.open(self._growing, flags, 0o666)
        _mark_as_in_use(fd)
        return fd

    def _append(self, data: bytes) -> None:
        assert self._fd is not None
        _write(self._fd, data)
        self._size += len(data)

    def _set_aside(self) -> None:
        """Give files of this name a number: this run's former one, and what a run before left behind."""
        number = self._highest_number() + 1
        for path in {self._path, self._growing}:
            if path.exists():
                aside = _with_middle(path, str(number))
                path.rename(aside)
                if self._written and path == self._path:
                    self._aside.append(aside)
        self._written = False
        while self._max_files is not None and len(self._aside) >= self._max_files:
            self._aside.pop(0).unlink(missing_ok=True)

    def _highest_number(self) -> int:
        """Of the numbers in use; 0 if there is none."""
        stem, suffix = _parts(self._growing)
        found = 0
        for path in self._path.parent.glob(f"{_escaped(stem)}.*{_escaped(suffix)}*"):
            middle = path.name.removesuffix(".gz").removesuffix(suffix)[len(stem) + 1 :]
            if middle.isdecimal():
                found = max(found, int(middle))
        return found


def _write(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _parts(path: Path) -> tuple[str, str]:
    """ "run.1.json.gz" is "run.1" and ".json.gz"."""
    stem = path.name.removesuffix(".gz")
    stem = stem.removesuffix(Path(stem).suffix)
    return stem, path.name[len(stem) :]


def _with_middle(path: Path, middle: str) -> Path:
    """ "run.json" and "2" give "run.2.json"."""
    stem, suffix = _parts(path)
    return path.with_name(f"{stem}.{middle}{suffix}")


def _escaped(text: str) -> str:
    return "".join(f"[{char}]" if char in "*?[" else char for char in text)


def _mark_as_in_use(fd: int) -> None:
    """For other writers; on Windows, where open files cannot be renamed, the system sees to it."""
    try:
        import fcntl

        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (ImportError, OSError):  # a file system without locks
        return


def _is_in_use(path: Path) -> bool:
    try:
        import fcntl

        fd = os.open(path, os.O_RDONLY)
    except (ImportError, OSError):
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return False
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(fd)


def _compress(source: Path, target: Path) -> None:
    beside = target.with_name(f".{target.name}.part")
    try:
        with source.open("rb") as plain, gzip.open(beside, "wb", compresslevel=1) as zipped:
            shutil.copyfileobj(plain, zipped, 1 << 20)
        beside.replace(target)
    finally:
        beside.unlink(missing_ok=True)
    source.unlink()
