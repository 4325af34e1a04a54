"""A face's own coordinates, and the lines on it that the rig is built from.

Coordinates are (across, down): origin between the eyes, across to the right of the picture along the eye
line, in units of the distance between the eyes. 0.1 is a tenth of that, whatever the size, place and roll of a
face.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from linly_pipeline.packets import FloatArray
from linly_pipeline.stages.face.arrays import Array

# Landmark numbers of MediaPipe's face mesh; "left" and "right" are the person's, lists run from the left of
# the picture to its right.
INNER_UPPER_LIP = [78, 191, 80, 81, 82, 13, 312, 311, 310, 415, 308]
INNER_LOWER_LIP = [78, 95, 88, 178, 87, 14, 317, 402, 318, 324, 308]
OUTER_LOWER_LIP = [61, 146, 91, 181, 84, 17, 314, 405, 321, 375, 291]
RIGHT_UPPER_LID = [33, 246, 161, 160, 159, 158, 157, 173, 133]
RIGHT_LOWER_LID = [33, 7, 163, 144, 145, 153, 154, 155, 133]
LEFT_UPPER_LID = [362, 398, 384, 385, 386, 387, 388, 466, 263]
LEFT_LOWER_LID = [362, 382, 381, 380, 374, 373, 390, 249, 263]
RIGHT_BROW = [70, 63, 105, 66, 107, 46, 53, 52, 65, 55]
LEFT_BROW = [336, 296, 334, 293, 300, 285, 295, 282, 283, 276]
RIGHT_PUPIL, LEFT_PUPIL = 468, 473
FOREHEAD, CHIN, NOSE_BASE, RIGHT_SIDE, LEFT_SIDE = 10, 152, 2, 234, 454


def smoothstep(x: Array) -> Array:
    """0 below 0, 1 above 1, smooth in between."""
    x = np.clip(x, 0.0, 1.0)
    return x * x * (3.0 - 2.0 * x)


@dataclass(frozen=True, slots=True, eq=False)
class FaceFrame:
    """Where a face's coordinates lie in the picture.

    Attributes:
        origin: `[2]` pixels: the middle between the eyes.
        across: `[2]` unit vector along the eye line, to the right of the picture.
        unit: pixels in one eye distance.
    """

    origin: Array
    across: Array
    unit: float

    @classmethod
    def of(cls, landmarks: Array) -> FaceFrame:
        right, left = landmarks[RIGHT_PUPIL, :2], landmarks[LEFT_PUPIL, :2]
        line = (left - right).astype(np.float64)
        unit = float(np.hypot(*line))
        return cls((left + right).astype(np.float64) / 2, line / unit, unit)

    @property
    def down(self) -> Array:
        return np.array([-self.across[1], self.across[0]])

    def from_pixels(self, points: Array) -> Array:
        """`[..., 2]` pixels to face coordinates."""
        away = (points - self.origin) / self.unit
        return np.stack([away @ self.across, away @ self.down], axis=-1)

    def vectors_to_pixels(self, vectors: Array) -> Array:
        """`[..., 2]` displacements in face coordinates to pixels."""
        turn = (
            np.stack([self.across, self.down]) * self.unit
        )  # rows: one step across, one step down, in pixels
        return np.asarray(vectors.reshape(-1, 2) @ turn.astype(vectors.dtype)).reshape(vectors.shape)

    def to_pixels(self, points: Array) -> Array:
        return self.vectors_to_pixels(points) + self.origin


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """A curve from left to right: how far down it is, by how far across. Level beyond its ends.

    Attributes:
        across: `[n]`, rising.
        down: `[n]`.
    """

    across: Array
    down: Array

    @classmethod
    def through(cls, points: Array, smooth: float = 0.02) -> Line:
        """Through `[n, 2]` points, rounded off over the distance `smooth`."""
        order = np.argsort(points[:, 0])
        x, y = points[order, 0], points[order, 1]
        across = np.linspace(x[0], x[-1], 200)
        fine = np.interp(across, x, y)
        step = (across[1] - across[0]) or 1.0
        reach = max(1, round(2 * smooth / step))
        kernel = np.hanning(2 * reach + 1)
        padded = np.concatenate(
            [2 * fine[0] - fine[reach:0:-1], fine, 2 * fine[-1] - fine[-2 : -reach - 2 : -1]]
        )
        return cls(across, np.convolve(padded, kernel / kernel.sum(), "valid"))

    def at(self, across: Array | float) -> Array:
        return np.asarray(np.interp(across, self.across, self.down))

    @property
    def middle(self) -> float:
        return float(self.across[0] + self.across[-1]) / 2

    @property
    def half_width(self) -> float:
        return float(self.across[-1] - self.across[0]) / 2

    def along(self, across: Array) -> Array:
        """-1 at the left end, 0 in the middle, 1 at the right end, and on beyond."""
        return np.asarray((across - self.middle) / self.half_width)

    def mixed(self, other: Line, share: float) -> Line:
        """The line that lies `share` of the way to another with the same ends."""
        return Line(self.across, self.down + share * (other.at(self.across) - self.down))


def face_points(frame: FaceFrame, landmarks: FloatArray) -> Array:
    """`[478, 2]` landmarks in face coordinates."""
    return frame.from_pixels(landmarks[:, :2])
