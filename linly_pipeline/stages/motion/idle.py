"""Idle life: blinks and a little sway of the head, as functions of media time and a seed.

Blink durations and intervals follow what people do while they speak: 90 ms down, 170 ms up, every 2 to 4.5 s
(Bentivoglio et al., "Analysis of blink rate patterns in normal subjects", 1997: 26 a minute in conversation).
"""

from __future__ import annotations

import numpy as np

from linly_pipeline.packets import FloatArray
from linly_pipeline.stages.motion.loudness import Times

BLINK_DOWN_S = 0.09
BLINK_UP_S = 0.17
BLINK_EVERY_S = (2.0, 4.5)

SWAY_DEGREES = (1.2, 2.0, 1.1)  # pitch, yaw, roll: the most that they reach
SWAY_SHIFT = (0.012, 0.010, 0.0)  # x, y, z in eye distances
# Three slow waves whose periods share no multiple look like drift, not like a pendulum.
_SWAY_HZ = np.array([0.11, 0.23, 0.41])
_SWAY_SHARE = np.array([0.5, 0.32, 0.18])
_EASE_IN_S = 1.0


class Idle:
    """Blinks and sway of one turn. The same seed and time give the same values, however the time is cut."""

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng([seed, 0xB11])
        self._blinks = [float(self._random.uniform(0.8, 2.5))]
        shape = np.random.default_rng([seed, 0x5A])
        self._phase = shape.uniform(0, 2 * np.pi, (6, 3))
        self._pace = shape.uniform(0.85, 1.15, (6, 3)) * _SWAY_HZ
        self._most = np.array([*np.radians(SWAY_DEGREES), *SWAY_SHIFT])

    def blink(self, time_s: Times) -> FloatArray:
        """How far the lids are down, `[n]` in 0..1."""
        while self._blinks[-1] < time_s.max(initial=0.0) + BLINK_DOWN_S:
            self._blinks.append(self._blinks[-1] + float(self._random.uniform(*BLINK_EVERY_S)))
        since = time_s[:, None] - np.array(self._blinks)[None]
        down = 1.0 + since / BLINK_DOWN_S
        up = 1.0 - since / BLINK_UP_S
        closed = np.clip(np.minimum(down, up), 0.0, 1.0).max(axis=1)
        return _ease(closed).astype(np.float32)

    def pose(self, time_s: Times) -> FloatArray:
        """Head pose, `[n, 6]` as in `Motion.pose`; begins at rest."""
        waves = np.sin(2 * np.pi * self._pace * time_s[:, None, None] + self._phase)
        sway = (waves * _SWAY_SHARE).sum(axis=2) * self._most
        eased: Times = sway * _ease(np.clip(time_s / _EASE_IN_S, 0.0, 1.0))[:, None]
        return eased.astype(np.float32)


def _ease(x: Times) -> Times:
    """Smoothstep."""
    return x * x * (3.0 - 2.0 * x)
