"""One turn's motion: frames the sound, moves the mouth, and adds the life that a face has of itself."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from linly_pipeline.packets import FloatArray, Motion, Speech
from linly_pipeline.stages.motion.accents import Accents
from linly_pipeline.stages.motion.arkit import columns
from linly_pipeline.stages.motion.framing import Framer
from linly_pipeline.stages.motion.idle import Idle
from linly_pipeline.stages.motion.loudness import Times
from linly_pipeline.stages.motion.mouths import EnergyMouth, PhonemeMouth
from linly_pipeline.stages.motion.shapes import CONTROLS, TO_ARKIT

_BLINK = list(columns("eyeBlink"))
_BROW_INNER = list(columns("browInnerUp"))
_BROW_OUTER = list(columns("browOuterUp"))
_HEAL = 0.5  # a jump at the border of two fragments is halved with every frame


class Track:
    """State of one turn. `push` what is said, in order, then `flush`.

    Args:
        fps: frames per second.
        lead_s: how far the mouth is ahead of the sound.
        chunk_frames: most frames in one packet.
        seed: for blinks, sway and accents.
        by_phonemes: False moves the mouth by loudness even where phonemes are known.
        idle: blinks, sway and accents.
    """

    def __init__(
        self, fps: int, lead_s: float, chunk_frames: int, seed: int, *, by_phonemes: bool, idle: bool
    ) -> None:
        self._framer = Framer(fps)
        self._chunk_frames = chunk_frames
        self._by_phonemes = by_phonemes
        self._idle = Idle(seed) if idle else None
        self._accents = Accents(seed)
        self._visemes = PhonemeMouth(fps, lead_s, self._accents)
        self._energy = EnergyMouth(fps, lead_s)
        self._mouth: PhonemeMouth | EnergyMouth = self._energy
        self._heals = False
        self._last = np.zeros(len(CONTROLS), np.float32)

    def push(self, speech: Speech) -> Iterator[Motion]:
        """Take a fragment and give the frames that have all of their sound."""
        framer = self._framer
        start = framer.total
        count = framer.push(speech.audio)
        if speech.audio.rate_hz != framer.rate_hz:
            speech = speech.replace(audio=speech.audio.at_rate(framer.rate_hz))
        mouth = self._visemes if self._by_phonemes and speech.phonemes else self._energy
        # The envelope of one loudness goes on over the border of fragments; phonemes begin anew.
        self._heals = mouth is self._visemes or mouth is not self._mouth
        self._mouth = mouth
        self._mouth.hear(speech, start / framer.rate_hz, framer.frame / framer.fps)
        yield from self._frames(count)

    def flush(self) -> Iterator[Motion]:
        """The last frame, where the sound ends within it."""
        yield from self._frames(self._framer.flush())

    def _frames(self, count: int) -> Iterator[Motion]:
        if count:
            first = self._framer.frame
            yield from self._framer.take(*self._controls(first, count), self._chunk_frames)

    def _controls(self, first: int, count: int) -> tuple[FloatArray, FloatArray]:
        """Blendshapes `[count, 52]` and pose `[count, 6]`."""
        mouth = self._mouth.shape(first, count)
        if self._heals:
            mouth = self._healed(mouth)
        if isinstance(self._mouth, PhonemeMouth):
            self._mouth.touch(mouth, first)
        self._last = mouth[-1].copy()
        blendshapes = mouth @ TO_ARKIT
        pose = np.zeros((count, 6), np.float32)
        if self._idle is not None:
            self._enliven(blendshapes, pose, np.arange(first, first + count) / self._framer.fps)
        return np.clip(blendshapes, 0.0, 1.0), pose

    def _healed(self, mouth: FloatArray) -> FloatArray:
        """Lead over from the last frame sent: a fragment may begin in the middle of a sound."""
        fade = _HEAL ** np.arange(1, len(mouth) + 1, dtype=np.float32)
        return np.asarray(mouth + fade[:, None] * (self._last - mouth[0]), np.float32)

    def _enliven(self, blendshapes: FloatArray, pose: FloatArray, time_s: Times) -> None:
        assert self._idle is not None
        brows = self._accents.brows(time_s)[:, None]
        blendshapes[:, _BLINK] = self._idle.blink(time_s)[:, None]
        blendshapes[:, _BROW_INNER] = brows
        blendshapes[:, _BROW_OUTER] = 0.6 * brows
        pose[:] = self._idle.pose(time_s)
        pose[:, 0] += self._accents.nod(time_s)
