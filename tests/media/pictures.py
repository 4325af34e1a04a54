"""Pictures for the tests, and a look at MP4 files that does not go through the code under test."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np

from linly_pipeline.packets import FloatArray, UInt8Array


def moving(count: int, height: int = 64, width: int = 96) -> UInt8Array:
    """A grey gradient with a bright bar that moves a step a frame."""
    frames = np.empty((count, height, width, 3), np.uint8)
    frames[:] = np.linspace(30, 120, width, dtype=np.uint8)[:, np.newaxis]
    for index, frame in enumerate(frames):
        frame[:, 4 * index % width : 4 * index % width + 8] = (250, 200, 150)
    return frames


def silence(count: int) -> FloatArray:
    return np.zeros(count, np.float32)


def atoms(path: Path) -> list[str]:
    """Names of the top-level atoms of an MP4 file, in order: ISO/IEC 14496-12."""
    names, place, content = [], 0, path.read_bytes()
    while place < len(content):
        size, name = struct.unpack(">I4s", content[place : place + 8])
        names.append(name.decode())
        place += size
    return names
