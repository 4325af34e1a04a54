"""What flows between stages: immutable pieces of text and media that carry their rate and their place in time.

Media time is counted in whole samples and whole frames from the start of a turn, never in floating-point
seconds, so a long answer does not drift. `Motion` and `Video` hold the slice of audio that they belong to:
whoever plays or writes takes both from the same packet, and they cannot slip against each other.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from os import PathLike
from typing import Any, Self

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float32]
UInt8Array = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Packet:
    """Base of all packets."""

    def replace(self, **changes: Any) -> Self:
        """A copy with some fields changed."""
        return dataclasses.replace(self, **changes)


@dataclass(frozen=True, slots=True, eq=False)
class Audio(Packet):
    """Mono sound.

    Attributes:
        samples: `[n]` float32 in -1..1; finite.
        rate_hz: samples per second.
        start: index of the first sample since the start of the turn, at `rate_hz`.
    """

    samples: FloatArray
    rate_hz: int
    start: int = 0

    @classmethod
    def read(cls, path: str | PathLike[str], rate_hz: int | None = None) -> Audio:
        """Read any audio (or video) file as mono.

        The rate is the file's own, or `rate_hz` if given (then it is resampled once, here).

        Raises:
            MediaError: the file is missing, unreadable, truncated or holds no audio.
        """
        from linly_pipeline.media.audio import read_audio

        return read_audio(path, rate_hz)

    @classmethod
    def of(cls, samples: npt.ArrayLike, rate_hz: int) -> Audio:
        """Take samples of any common layout: `[n]`, `[n, channels]` or `[channels, n]`; int16, int32, float.

        Channels are mixed down without losing a voice that sits on one side only. NaN and infinity become silence.

        Raises:
            MediaError: not numeric, more than two dimensions, or a rate that is not positive.
        """
        from linly_pipeline.media.audio import to_audio

        return to_audio(samples, rate_hz)

    def at_rate(self, rate_hz: int) -> Audio:
        """The same sound at another rate; itself where the rate is right already."""
        from linly_pipeline.media.audio import resample

        return resample(self, rate_hz)

    @property
    def start_s(self) -> float:
        return self.start / self.rate_hz

    @property
    def end(self) -> int:
        """Index of the first sample after this piece."""
        return self.start + len(self.samples)

    @property
    def end_s(self) -> float:
        return self.end / self.rate_hz

    @property
    def duration_s(self) -> float:
        return len(self.samples) / self.rate_hz


@dataclass(frozen=True, slots=True)
class Text(Packet):
    """A piece of text: a token, a fragment or a whole message. Pieces of one stream join to the whole text.

    Attributes:
        text: as shown and kept in the history, spaces included.
        language: ISO 639-1 code, or "" where unknown.
        whole: the piece is a fragment to be spoken as it is; whoever splits text need not wait for more.
    """

    text: str
    language: str = ""
    whole: bool = False


@dataclass(frozen=True, slots=True)
class Phoneme(Packet):
    """One speech sound and where it lies in its `Speech` packet.

    Attributes:
        symbol: IPA, without stress marks; "" is silence.
        start_s: seconds from the first sample of the packet's audio.
        end_s: seconds from the first sample of the packet's audio; not before `start_s`.
        stress: 0 none, 1 secondary, 2 primary.
    """

    symbol: str
    start_s: float
    end_s: float
    stress: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Speech(Packet):
    """A spoken fragment.

    Attributes:
        audio: the sound.
        text: the original text of the fragment, as shown.
        spoken: the form that was read aloud ("3.14" → "three point one four").
        phonemes: in order, covering the audio; empty where the engine does not know them.
    """

    audio: Audio
    text: str = ""
    spoken: str = ""
    phonemes: tuple[Phoneme, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Motion(Packet):
    """Face controls for a run of frames, with the audio they belong to.

    Attributes:
        audio: the slice that is heard while these frames are seen.
        blendshapes: `[frames, 52]` float32 in 0..1, ARKit order (`linly_pipeline.stages.motion.arkit.NAMES`).
        pose: `[frames, 6]` float32: pitch, yaw, roll in radians (nodding down, turning to the speaker's left and
            tilting to the speaker's left are positive), then x, y, z in units of the distance between the eyes.
        fps: frames per second.
        first_frame: index of the first frame since the start of the turn; frame k shows media time k / fps.
    """

    audio: Audio
    blendshapes: FloatArray
    pose: FloatArray
    fps: int
    first_frame: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Video(Packet):
    """A run of pictures, with the audio they belong to.

    Attributes:
        audio: the slice that is heard while these frames are seen.
        frames: `[frames, height, width, 3]` uint8 RGB; height and width are even.
        fps: frames per second.
        first_frame: index of the first frame since the start of the turn.
    """

    audio: Audio
    frames: UInt8Array
    fps: int
    first_frame: int = 0
