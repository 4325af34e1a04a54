"""What a WAV header promises against what the file holds; decoders play a cut file without a word."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import BinaryIO

# Recorders that write to a pipe cannot know the length: they leave 0 or a size near 2 or 4 GiB.
UNKNOWN_SIZE = 0x7FFF0000
SLACK = 64  # bytes; some recorders count their own header as sound


def wav_fault(path: Path) -> str | None:
    """The fault of a truncated or empty WAV file; None if it is whole, of unknown length, or no WAV."""
    with path.open("rb") as file:
        head = file.read(12)
        if not b"RIFF".startswith(head[:4]) or not b"WAVE".startswith(head[8:12]):
            return None
        size = _data_size(file) if len(head) == 12 else None
        if size is None:
            return "the WAV file is truncated: it ends before its sound begins; copy it again"
        start = file.tell()
        there = file.seek(0, 2) - start
    if there == 0 and size == 0:
        return "the WAV file holds no sound (0 samples); record it again"
    if size < UNKNOWN_SIZE and size - there > SLACK:
        return f"the WAV file is truncated: {size} bytes of sound promised, {there} there; copy it again"
    return None


def _data_size(file: BinaryIO) -> int | None:
    """Size of the 'data' chunk, with the file at its first byte; None if there is none."""
    while len(header := file.read(8)) == 8:
        name, size = struct.unpack("<4sI", header)
        if name == b"data":
            return int(size)
        file.seek(size + size % 2, 1)
    return None
