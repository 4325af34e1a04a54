"""Cut a stream of samples into video frames without losing one.

Frame k shows media time k / fps and owns the samples from `k * rate_hz // fps` up to the next frame's first.
All of it is integer arithmetic, so an hour does not drift.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from linly_pipeline.errors import ConfigError
from linly_pipeline.packets import Audio, FloatArray, Motion


def first_sample(frame: int, rate_hz: int, fps: int) -> int:
    """Index of the first sample that belongs to a frame."""
    return frame * rate_hz // fps


def whole_frames(samples: int, rate_hz: int, fps: int) -> int:
    """How many frames have all of their sound in the first `samples` samples."""
    return ((samples + 1) * fps - 1) // rate_hz


def frames_needed(samples: int, rate_hz: int, fps: int) -> int:
    """How many frames it takes to show all of the sound: `ceil(samples * fps / rate_hz)`."""
    return -(-samples * fps // rate_hz)


def check_framing(stage: str, fps: int, chunk_frames: int) -> None:
    """Raise ConfigError unless both are whole and positive."""
    if not (isinstance(fps, int) and 1 <= fps <= 240):
        raise ConfigError(f"{stage}: fps must be a whole number from 1 to 240, not {fps!r}")
    if not (isinstance(chunk_frames, int) and chunk_frames >= 1):
        raise ConfigError(f"{stage}: chunk_frames must be a whole number from 1, not {chunk_frames!r}")


class Framer:
    """Sound of one turn on its way into frames; what does not fill a frame waits for the next fragment.

    Attributes:
        rate_hz: that of the first fragment; later ones are brought to it. 0 before the first.
        total: samples taken so far.
        frame: the next frame to be given.
    """

    def __init__(self, fps: int) -> None:
        self.fps = fps
        self.rate_hz = 0
        self.total = 0
        self.frame = 0
        self._tail = np.zeros(0, np.float32)

    def push(self, audio: Audio) -> int:
        """Take a fragment; the number of frames that can be shown now."""
        if self.rate_hz == 0:
            self.rate_hz = audio.rate_hz
        samples = audio.at_rate(self.rate_hz).samples if audio.rate_hz != self.rate_hz else audio.samples
        self._tail = np.concatenate([self._tail, samples]) if len(self._tail) else samples
        self.total += len(samples)
        return max(0, whole_frames(self.total, self.rate_hz, self.fps) - self.frame)

    def flush(self) -> int:
        """The number of frames, 0 or 1, that the rest of the sound needs."""
        if self.rate_hz == 0:
            return 0
        return max(0, frames_needed(self.total, self.rate_hz, self.fps) - self.frame)

    @property
    def pending(self) -> Audio:
        """The sound that no frame has taken yet."""
        return Audio(self._tail, self.rate_hz, self.total - len(self._tail))

    def take(self, blendshapes: FloatArray, pose: FloatArray, chunk_frames: int) -> Iterator[Motion]:
        """Give the next `len(blendshapes)` frames with their sound, in packets of at most `chunk_frames`."""
        for at in range(0, len(blendshapes), chunk_frames):
            part = slice(at, at + chunk_frames)
            count = len(blendshapes[part])
            audio = self._cut(self.frame + count)
            yield Motion(audio, blendshapes[part], pose[part], self.fps, self.frame)
            self.frame += count

    def _cut(self, until_frame: int) -> Audio:
        start = self.total - len(self._tail)
        end = min(self.total, first_sample(until_frame, self.rate_hz, self.fps))
        piece, self._tail = self._tail[: end - start], self._tail[end - start :]
        return Audio(piece, self.rate_hz, start)
