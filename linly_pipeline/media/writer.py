"""What all writers share: the protocol, the report, and a life that ends in a whole output or in none."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

import numpy as np

from linly_pipeline.errors import SinkError
from linly_pipeline.media.output import cause_of, check_writable, refused, remove
from linly_pipeline.packets import FloatArray, UInt8Array

__all__ = ["FileWriter", "MediaReport", "Writer", "check_frames", "check_writable"]


@dataclass(frozen=True, slots=True)
class MediaReport:
    """What a writer wrote.

    Attributes:
        frames: pictures in the file, those included that were held to cover the sound.
        samples: sound samples in the file, at the rate the writer was given.
        duration_s: the longer of picture and sound.
        path: the file or folder; absolute.
        bytes: its size; 0 means that nothing came and no file was made.
    """

    frames: int
    samples: int
    duration_s: float
    path: Path
    bytes: int


class Writer(Protocol):
    """Writes pictures with their sound. Synchronous; any one thread at a time may call it."""

    def write(self, frames: UInt8Array, audio: FloatArray) -> None:
        """Append `[n, height, width, 3]` uint8 RGB and `[m]` float32; either may be empty."""

    def close(self) -> MediaReport:
        """Finish: the output appears under its name. A second call gives the same report."""
        ...

    def abort(self) -> None:
        """Drop everything: nothing is left on disk. Does nothing once closed or aborted."""


class FileWriter:
    """The life of an output: open, then closed, aborted or failed.

    It is written beside its target under a hidden name, then renamed. A subclass opens, writes and finishes
    `_draft` inside `with self._writing()`, where an error or an interrupt aborts, and puts what it holds open
    on `_held`.

    Attributes:
        path: the target, absolute.
        named: what errors call it; the target unless it is part of a larger output.
    """

    def __init__(self, path: Path) -> None:
        self.path = self.named = path
        # The name is short: one made from the target's could exceed what the file system allows.
        self._draft = self.path.with_name(f".linly-{secrets.token_hex(6)}.part")
        self._held = ExitStack()
        self._report: MediaReport | None = None
        self._over = ""

    def close(self) -> MediaReport:
        """Finish: the output appears under its name. A second call gives the same report.

        Raises:
            SinkError: it could not be finished (nothing is left on disk), or was aborted before.
        """
        if self._report is None:
            with self._writing():
                frames, samples, duration_s = self._finish()
                size = self._keep() if frames or samples else 0
            if not size:
                self.abort()
            self._report = MediaReport(frames, samples, duration_s, self.path, size)
            self._over = "closed"
        return self._report

    def abort(self) -> None:
        """Drop everything: nothing is left on disk. Does nothing once closed or aborted."""
        if self._over:
            return
        self._over = "aborted"
        with suppress(OSError):  # a full disk, which led here and is told already, fails again while closing
            self._held.close()
        remove(self._draft)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Errors inside become `SinkError`, and nothing is left on disk."""
        if self._over:
            raise SinkError(f"cannot write '{self.named}': it is {self._over} already; open a new writer")
        try:
            yield
        except BaseException as error:  # also an interrupt: no half file, whatever happened
            self.abort()
            if isinstance(error, OSError):
                raise SinkError(f"cannot write '{self.named}': {cause_of(error)}") from error
            raise

    def _keep(self) -> int:
        size = sum(file.stat().st_size for file in (self._draft, *self._draft.glob("*")) if file.is_file())
        if self.path.is_dir():  # empty, as `check_writable` found; Windows does not rename over it
            self.path.rmdir()
        self._draft.replace(self.path)
        return size

    def _finish(self) -> tuple[int, int, float]:
        """Write the rest and let go of the draft; frames, samples, seconds."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()


def check_frames(frames: UInt8Array, path: Path, size: tuple[int, int] | None) -> None:
    """Refuse what is not `[n, height, width, 3]` uint8 of the given (height, width); no frames always fit."""
    if not frames.size:
        return
    fits = frames.dtype == np.uint8 and frames.ndim == 4 and frames.shape[3] == 3
    if not fits or size not in (None, frames.shape[1:3]):
        height, width = size or ("height", "width")
        wanted = f"[n, {height}, {width}, 3] uint8"
        raise refused(path, f"frames of shape {list(frames.shape)} {frames.dtype} came; give {wanted}")
