"""Close the mouth of an open or smiling photo, once, so that the rig begins with lips that touch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from linly_pipeline.packets import UInt8Array
from linly_pipeline.stages.face.arrays import Array
from linly_pipeline.stages.face.geometry import (
    CHIN,
    INNER_LOWER_LIP,
    INNER_UPPER_LIP,
    NOSE_BASE,
    FaceFrame,
    Line,
    smoothstep,
)
from linly_pipeline.stages.face.sampling import sample

_SEEN = 0.022  # a gap that is wider than this, in eye distances, shows what lies behind the lips
_INTO_LIP = 0.010  # the mesh puts the lips' edges a little inside the mouth
_UPPER_SHARE = 0.55  # of the gap that the upper lip closes: a smile has raised it
_SEAM = 0.010  # width of the shadow where lips meet
_SEAM_DARK = 0.35


@dataclass(frozen=True, slots=True, eq=False)
class Lips:
    """The lips of a photo, closed.

    Attributes:
        image: the photo with its mouth closed; the photo itself where it was closed already.
        line: where the lips meet in `image`, in face coordinates.
        upper: lower edge of the upper lip in the photo as it was.
        lower: upper edge of the lower lip in the photo as it was.
        was_open: there was a gap, so the photo shows teeth or a dark mouth between `upper` and `lower`.
    """

    image: UInt8Array
    line: Line
    upper: Line
    lower: Line
    was_open: bool


def close_lips(image: UInt8Array, frame: FaceFrame, points: Array) -> Lips:
    """Pull the lips together where they are apart. `points` are the landmarks in face coordinates."""
    upper = Line.through(points[INNER_UPPER_LIP])
    lower = Line.through(points[INNER_LOWER_LIP])
    gap = lower.at(upper.across) - upper.down
    if float(gap.max()) < _SEEN:
        return Lips(image, upper.mixed(lower, 0.5), upper, lower, False)
    inset = _INTO_LIP * smoothstep(gap / _SEEN)
    upper = Line(upper.across, upper.down - inset)
    lower = Line(upper.across, lower.at(upper.across) + inset)
    line = upper.mixed(lower, _UPPER_SHARE)
    room_up = float(line.at(points[NOSE_BASE, 0]) - points[NOSE_BASE, 1])
    room_down = float(points[CHIN, 1] - line.at(points[CHIN, 0]))
    closed = _pull(image, frame, upper, lower, line, 0.9 * room_up, 0.9 * room_down)
    return Lips(closed, line, upper, lower, True)


def _pull(
    image: UInt8Array,
    frame: FaceFrame,
    upper: Line,
    lower: Line,
    line: Line,
    room_up: float,
    room_down: float,
) -> UInt8Array:
    """The photo with both lips moved to the line; the move fades out towards the nose and the chin."""
    x0, y0, x1, y1 = _window(image, frame, line, room_up, room_down)
    pixels = np.stack(np.meshgrid(np.arange(x0, x1), np.arange(y0, y1)), axis=-1).astype(np.float64)
    here = frame.from_pixels(pixels)
    across, down = here[..., 0], here[..., 1]
    meet = line.at(across)
    from_above = _source(down, meet, meet - upper.at(across), -room_up)
    from_below = _source(down, meet, meet - lower.at(across), room_down)
    below = down > meet
    source = frame.to_pixels(np.stack([across, np.where(below, from_below, from_above)], axis=-1))
    patch = sample(image, source)
    opened = smoothstep((lower.at(across) - upper.at(across)) / (2 * _SEEN))
    shadow = 1.0 - _SEAM_DARK * opened * np.exp(-(((down - meet) / _SEAM) ** 2))
    result = image.copy()
    result[y0:y1, x0:x1] = np.clip(patch * shadow[..., None], 0, 255)
    return result


def _source(down: Array, meet: Array, move: Array, room: float) -> Array:
    """Where a pixel of one lip comes from, when its edge moved by `move` to `meet`, fading over `room`.

    Solves `source + move * fade(source) = down` by iteration; the fade is gentle, so it settles fast.
    """
    source: Array = down - move
    for _ in range(8):
        source = down - move * (1.0 - smoothstep((source - (meet - move)) / room))
    return source


def _window(
    image: UInt8Array, frame: FaceFrame, line: Line, room_up: float, room_down: float
) -> tuple[int, int, int, int]:
    """x0, y0, x1, y1 of the pixels that can move."""
    high, low = line.down.min() - room_up - 0.1, line.down.max() + room_down + 0.1
    left, right = line.across[0], line.across[-1]
    corners = frame.to_pixels(np.array([[left, high], [right, high], [left, low], [right, low]]))
    x0, y0 = np.floor(corners.min(axis=0)).astype(int)
    x1, y1 = np.ceil(corners.max(axis=0)).astype(int) + 1
    height, width = image.shape[:2]
    return max(0, int(x0)), max(0, int(y0)), min(width, int(x1)), min(height, int(y1))
