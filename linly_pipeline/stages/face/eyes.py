"""Blinking: the lids of a photo, drawn once at every stage of closing.

The upper lid's skin is pulled down over the eye and the lower lid rises a little; the eyeball stays where it is.
Because this touches a small patch of the photo, and before everything else, the patches are made beforehand.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from linly_pipeline.packets import FloatArray, UInt8Array
from linly_pipeline.stages.face.arrays import Array
from linly_pipeline.stages.face.geometry import (
    LEFT_LOWER_LID,
    LEFT_UPPER_LID,
    RIGHT_LOWER_LID,
    RIGHT_UPPER_LID,
    FaceFrame,
    Line,
    smoothstep,
)
from linly_pipeline.stages.face.sampling import blur_across, sample
from linly_pipeline.stages.motion.arkit import INDEX

LEVELS = 24
_UPPER_SHARE = 0.87  # of the way that the upper lid makes
_LASHES = 0.016  # thickness of the lashes above the edge of the lid, in eye distances
_LASH_WIDTH, _LASH_DARK = 0.016, 0.45  # of the line that closed lashes draw
_STREAKS = 0.03
_SKIN_ABOVE, _SKIN_BELOW = 0.17, 0.14  # what the lids draw along
_LEAST_SKIN = 0.07
_DARKER = 0.75  # of the skin's tone: a brow, a rim
_SHADE, _SHADE_REACH = 0.30, 0.05
_SQUINT = 0.25  # how far a full squint closes the eye


@dataclass(frozen=True, slots=True)
class _Patch:
    """One eye at every level, `[levels + 1, h, w, 3]`, and where it belongs."""

    x0: int
    y0: int
    levels: UInt8Array


class Eyes:
    """Both eyes of a portrait. `points` are the landmarks in face coordinates."""

    def __init__(self, image: UInt8Array, frame: FaceFrame, points: Array) -> None:
        self._patches = {
            "Right": _patch(image, frame, *_lids(points, RIGHT_UPPER_LID, RIGHT_LOWER_LID)),
            "Left": _patch(image, frame, *_lids(points, LEFT_UPPER_LID, LEFT_LOWER_LID)),
        }

    def draw(self, image: UInt8Array, values: FloatArray) -> None:
        """Put the lids of one frame's control values into the photo."""
        for side, patch in self._patches.items():
            shut = values[INDEX[f"eyeBlink{side}"]] + _SQUINT * values[INDEX[f"eyeSquint{side}"]]
            level = round(min(max(float(shut), 0.0), 1.0) * LEVELS)
            picture = patch.levels[level]
            height, width = picture.shape[:2]
            image[patch.y0 : patch.y0 + height, patch.x0 : patch.x0 + width] = picture


def _lids(points: Array, upper_ids: list[int], lower_ids: list[int]) -> tuple[Line, Line]:
    """Edges of the upper and the lower lid; they meet at the corners."""
    upper = Line.through(points[upper_ids], 0.01)
    lower = Line.through(points[lower_ids], 0.01)
    return upper, Line(upper.across, np.maximum(lower.at(upper.across), upper.down))


def _patch(image: UInt8Array, frame: FaceFrame, upper: Line, lower: Line) -> _Patch:
    x0, y0, x1, y1 = _window(image, frame, upper, lower)
    pixels = np.stack(np.meshgrid(np.arange(x0, x1), np.arange(y0, y1)), axis=-1).astype(np.float64)
    eye = _Eye(image, frame, frame.from_pixels(pixels), upper, lower)
    still = image[y0:y1, x0:x1]
    return _Patch(x0, y0, np.stack([still, *(eye.closed(still, n / LEVELS) for n in range(1, LEVELS + 1))]))


class _Eye:
    """Draws one eye's patch; `here` is where its pixels lie in face coordinates."""

    def __init__(self, image: UInt8Array, frame: FaceFrame, here: Array, upper: Line, lower: Line) -> None:
        self._image, self._frame = image, frame
        self._across, self._down = here[..., 0], here[..., 1]
        self._above, self._below = upper.at(self._across), lower.at(self._across)
        self._room = _skin_above(image, frame, upper)
        # Skin that is stretched far shows its grain as streaks; there a softer copy is used.
        self._soft = blur_across(image, _STREAKS * frame.unit)

    def closed(self, still: UInt8Array, shut: float) -> UInt8Array:
        """The patch with the lids `shut` of the way together; `still` is the patch of the photo."""
        drop = shut * _UPPER_SHARE * (self._below - self._above)
        rise = shut * (1.0 - _UPPER_SHARE) * (self._below - self._above)
        edge, rim = self._above + drop, self._below - rise
        in_upper = np.clip((edge - self._down) * self._frame.unit + 0.5, 0.0, 1.0)[..., None]
        in_lower = np.clip((self._down - rim) * self._frame.unit + 0.5, 0.0, 1.0)[..., None]
        eyeball = still * self._shaded(edge, shut)
        lids = self._lower_lid(rise) * in_lower + eyeball * (1.0 - in_lower)
        drawn = self._upper_lid(drop, edge, shut) * in_upper + lids * (1.0 - in_upper)
        return np.asarray(np.clip(drawn, 0, 255), np.uint8)

    def _upper_lid(self, drop: Array, edge: Array, shut: float) -> Array:
        room = self._room
        along = (self._down - self._above + room) / (room + drop)
        source = np.minimum(self._down - drop * smoothstep(along), self._above)
        softness = np.clip((drop / room - 0.4) / 1.0, 0.0, 0.85)[..., None] * (along > 0)[..., None]
        skin = self._pick(self._image, source) * (1.0 - softness) + self._pick(self._soft, source) * softness
        lashes = _LASH_DARK * shut * np.exp(-(((self._down - edge) / _LASH_WIDTH) ** 2))
        return np.asarray(skin * (1.0 - lashes * (drop > 0.01))[..., None])

    def _lower_lid(self, rise: Array) -> UInt8Array:
        reach = (self._below + _SKIN_BELOW - self._down) / (_SKIN_BELOW + rise)
        return self._pick(self._image, self._down + rise * smoothstep(reach))

    def _shaded(self, edge: Array, shut: float) -> Array:
        """The shadow of the upper lid on the eyeball."""
        under = np.clip(self._down - edge, 0.0, None)
        inside = smoothstep((self._below - self._above) / 0.05)
        return np.asarray(1.0 - _SHADE * shut * inside * np.exp(-under / _SHADE_REACH))[..., None]

    def _pick(self, image: UInt8Array, down: Array) -> UInt8Array:
        return sample(image, self._frame.to_pixels(np.stack([self._across, down], axis=-1)))


def _skin_above(image: UInt8Array, frame: FaceFrame, upper: Line) -> float:
    """How much skin there is above the lid before something darker begins: a brow, or the rim of glasses."""
    across = upper.across[len(upper.across) // 4 : -len(upper.across) // 4]
    up = np.linspace(_LASHES, _SKIN_ABOVE + _LASHES, 25)
    a = np.broadcast_to(across, (len(up), len(across)))
    places = frame.to_pixels(np.stack([a, upper.at(across) - up[:, None]], axis=-1))
    tone = np.median(sample(image, places).mean(axis=-1), axis=1)
    dark = np.flatnonzero(tone < _DARKER * np.maximum.accumulate(tone))
    after_lashes = dark[dark > int(np.argmax(tone[: len(tone) // 2]))]
    reach = up[after_lashes[0]] - _LASHES if len(after_lashes) else _SKIN_ABOVE
    return float(np.clip(0.8 * reach if len(after_lashes) else reach, _LEAST_SKIN, _SKIN_ABOVE))


def _window(image: UInt8Array, frame: FaceFrame, upper: Line, lower: Line) -> tuple[int, int, int, int]:
    """x0, y0, x1, y1 of the pixels that the lids move."""
    left, right = upper.across[0] - 0.04, upper.across[-1] + 0.04
    top, bottom = upper.down.min() - _SKIN_ABOVE - 0.02, lower.down.max() + _SKIN_BELOW + 0.02
    corners = frame.to_pixels(np.array([[left, top], [right, top], [left, bottom], [right, bottom]]))
    (x0, y0), (x1, y1) = np.floor(corners.min(axis=0)), np.ceil(corners.max(axis=0)) + 1
    height, width = image.shape[:2]
    x0, x1 = np.clip([x0, x1], 0, width)
    y0, y1 = np.clip([y0, y1], 0, height)
    return int(x0), int(y0), int(x1), int(y1)
