"""Small gestures on stressed syllables: the brows rise a little and the head nods."""

from __future__ import annotations

import numpy as np

from linly_pipeline.stages.motion.coarticulation import Segment
from linly_pipeline.stages.motion.loudness import Times

NOD_RADIANS = float(np.radians(1.3))
BROW_RAISE = 0.28
_EVERY_S = 1.1  # not on every stress: that looks like a puppet
_CHANCE = 0.6
_BROW_S, _NOD_S = 0.44, 0.56  # whole length of a raise and a nod
_NOD_LATER_S = 0.06


class Accents:
    """The accents of one turn, chosen with its seed from the stressed vowels."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._at_s: list[float] = []

    def add(self, segments: list[Segment], from_s: float) -> None:
        """Choose among new segments; none begins before `from_s`, which has been shown already."""
        for segment in segments:
            stressed = segment.viseme.is_vowel and segment.gain > 1.1
            if stressed and segment.centre_s - self._latest >= _EVERY_S and self._picks(segment.centre_s):
                self._at_s.append(max(segment.centre_s, from_s + _BROW_S / 2))

    def brows(self, time_s: Times) -> Times:
        """`[n]` in 0..1, for browInnerUp."""
        return BROW_RAISE * self._bumps(time_s, _BROW_S)

    def nod(self, time_s: Times) -> Times:
        """`[n]` radians of pitch."""
        return NOD_RADIANS * self._bumps(time_s - _NOD_LATER_S, _NOD_S)

    @property
    def _latest(self) -> float:
        return self._at_s[-1] if self._at_s else -_EVERY_S

    def _picks(self, time_s: float) -> bool:
        return bool(np.random.default_rng([self._seed, round(time_s * 1000)]).random() < _CHANCE)

    def _bumps(self, time_s: Times, length_s: float) -> Times:
        """Raised cosines around the accents."""
        if not self._at_s:
            return np.zeros(len(time_s))
        near = np.array(self._at_s[-64:])
        x = np.clip((time_s[:, None] - near) / length_s, -0.5, 0.5)
        return np.asarray((0.5 + 0.5 * np.cos(2 * np.pi * x)).max(axis=1))
