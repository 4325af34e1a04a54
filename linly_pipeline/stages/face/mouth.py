"""The inside of the mouth: a dark hollow, upper teeth that belong to the skull, lower teeth and tongue to the jaw.

Teeth are the photo's own where it shows them. Otherwise they are painted: soft, shaded towards the corners, tinted
by the light of the photo, and never brighter than the skin around them.
"""

from __future__ import annotations

import numpy as np

from linly_pipeline.packets import FloatArray, UInt8Array
from linly_pipeline.stages.face.arrays import Array
from linly_pipeline.stages.face.closing import Lips
from linly_pipeline.stages.face.geometry import FaceFrame, smoothstep
from linly_pipeline.stages.face.sampling import blur, cut, opencv

_HOLLOW = np.array([46.0, 18.0, 16.0])
_TEETH = np.array([246.0, 230.0, 203.0])
_TONGUE = np.array([178.0, 92.0, 86.0])
_USUAL_SKIN = 165.0  # luminance of well lit skin: the colours above go with it
_UPPER_WIDTHS = (
    0.135,
    0.105,
    0.115,
    0.105,
    0.10,
)  # from the middle out, in eye distances (8.5 mm, 6.6 mm, …)
_LOWER_WIDTHS = (0.085, 0.09, 0.10, 0.105, 0.10)
_UPPER_SHOWS = 0.035  # how far the incisors' edge is below the line of the closed lips (2 mm)
_LOWER_BEHIND = 0.012  # how far the lower teeth's edge is below it


class MouthInside:
    """What is seen between the lips of one portrait.

    Args:
        photo: the portrait as it was, maybe with an open mouth.
        frame: of the face.
        points: landmarks in face coordinates.
        lips: the closed lips.
    """

    def __init__(self, photo: UInt8Array, frame: FaceFrame, points: Array, lips: Lips) -> None:
        line = lips.line
        left, right = line.across[0] - 0.12, line.across[-1] + 0.12
        top, bottom = line.down.min() - 0.35, line.down.max() + 0.75
        corners = frame.to_pixels(np.array([[left, top], [right, top], [left, bottom], [right, bottom]]))
        self.x0, self.y0 = (int(v) for v in np.floor(corners.min(axis=0)))
        self.x1, self.y1 = (int(v) + 1 for v in np.ceil(corners.max(axis=0)))
        self._unit = frame.unit
        pixels = np.stack(
            np.meshgrid(np.arange(self.x0, self.x1), np.arange(self.y0, self.y1)), axis=-1
        ).astype(np.float64)
        here = frame.from_pixels(pixels)
        light = _light(photo, frame, points)
        painter = _Painter(here[..., 0] - line.middle, here[..., 1] - line.at(line.middle), light, frame.unit)
        corner = smoothstep((np.abs(line.along(here[..., 0])) - 0.35) / 0.75)
        self._corner_shade = (1.0 - 0.6 * corner).astype(np.float32)[..., None]
        self._hollow = (_HOLLOW * light).astype(np.float32)
        self._skull = painter.upper_teeth()
        if lips.was_open:
            self._skull = _photo_teeth(photo, here, lips, self.x0, self.y0, frame.unit)
        self._jaw = painter.lower_teeth_and_tongue()

    def draw(
        self,
        patch: UInt8Array,
        under_upper: FloatArray,
        over_lower: FloatArray,
        skull_px: Array,
        jaw_px: Array,
        teeth: float,
        offset: tuple[int, int],
    ) -> None:
        """Paint between the lips of one frame.

        Args:
            patch: `[h, w, 3]` part of the frame, changed in place.
            under_upper: `[h, w]` pixels below the upper lip's edge.
            over_lower: `[h, w]` pixels above the lower lip's edge.
            skull_px: `[2]` shift of the skull.
            jaw_px: `[2]` shift of the jaw.
            teeth: how much of the upper teeth is seen, 0..1: rounded lips hide them.
            offset: place of the patch in this mouth's own rectangle, (x, y).
        """
        # An open lip ends a little before its line: the photo has a shadow there, where the lips met.
        open_by = 0.7 * np.clip((under_upper + over_lower) / 4.0, 0.0, 1.0)
        covered = np.clip(0.5 - under_upper - open_by, 0, 1) + np.clip(0.5 - over_lower - open_by, 0, 1)
        seen = np.clip(1.0 - covered, 0.0, 1.0)
        rows, columns = np.flatnonzero(seen.any(axis=1)), np.flatnonzero(seen.any(axis=0))
        if not len(rows):
            return
        part = (slice(rows[0], rows[-1] + 1), slice(columns[0], columns[-1] + 1))
        corner = (offset[0] + int(columns[0]), offset[1] + int(rows[0]))
        size = (int(columns[-1] - columns[0]) + 1, int(rows[-1] - rows[0]) + 1)
        inside = self._hollow * np.ones((size[1], size[0], 1), np.float32)
        for layer, shift, share in ((self._jaw, jaw_px, 1.0), (self._skull, skull_px, teeth)):
            moved = share * _shifted(layer, corner, size, shift)
            inside = inside * (1.0 - moved[..., 3:]) + moved[..., :3]
        inside *= self._shade(under_upper[part], over_lower[part])[..., None]
        inside *= _shifted(self._corner_shade, corner, size, skull_px).reshape(size[1], size[0], 1)
        alpha = seen[part][..., None]
        patch[part] = np.clip(patch[part] * (1.0 - alpha) + inside * alpha, 0, 255)

    def _shade(self, under_upper: FloatArray, over_lower: FloatArray) -> FloatArray:
        """Soft shadow of the lips: deep under the upper one, slight over the lower one."""
        upper = 0.42 * np.exp(-np.maximum(under_upper, 0) / (0.035 * self._unit))
        lower = 0.22 * np.exp(-np.maximum(over_lower, 0) / (0.02 * self._unit))
        return np.asarray((1.0 - upper) * (1.0 - lower), np.float32)


class _Painter:
    """Paints teeth and tongue as premultiplied RGBA in 0..255 and 0..1; `a`, `b` count from the lips' middle."""

    def __init__(self, a: Array, b: Array, light: Array, unit: float) -> None:
        self._a, self._b, self._light, self._unit = a, b, light, unit

    def upper_teeth(self) -> FloatArray:
        edge = _UPPER_SHOWS - 0.16 * self._a**2
        alpha, tone = self._row(_UPPER_WIDTHS, edge - self._b)
        tone = tone * (1.0 - 0.9 * np.clip(self._a / 0.5, -1, 1) ** 2 * 0.75)
        return self._layer(_TEETH, alpha, tone)

    def lower_teeth_and_tongue(self) -> FloatArray:
        edge = _LOWER_BEHIND - 0.10 * self._a**2
        alpha, tone = self._row(_LOWER_WIDTHS, self._b - edge)
        alpha = alpha * (1.0 - smoothstep((self._b - edge - 0.10) / 0.06))
        teeth = self._layer(_TEETH, alpha, tone * 0.66 * (1.0 - 0.7 * np.clip(self._a / 0.45, -1, 1) ** 2))
        off = np.hypot(self._a / 0.33, (self._b - 0.03) / 0.15)
        dome = 1.0 - smoothstep((off - 0.65) / 0.45)
        tongue = self._layer(_TONGUE, 0.9 * dome, 0.50 + 0.35 * (1.0 - np.clip(off, 0, 1)))
        return np.asarray(tongue * (1.0 - teeth[..., 3:]) + teeth, np.float32)

    def _row(self, widths: tuple[float, ...], inside: Array) -> tuple[Array, Array]:
        """Coverage and tone of a row of teeth; `inside` is how far a point is within their free edge."""
        ends = np.cumsum(widths)
        outward = np.abs(self._a)
        which = np.minimum(np.searchsorted(ends, outward), len(widths) - 1)
        width = np.asarray(widths)[which]
        along = (outward - (ends[which] - width)) / width * 2 - 1  # -1..1 over the tooth
        rounding = 0.014 * np.abs(along) ** 3
        alpha = np.clip((inside - rounding) * self._unit + 0.5, 0, 1) * (outward < ends[-1])
        gap = np.exp(-(((1 - np.abs(along)) * width / 0.010) ** 2))
        return alpha, 1.0 - 0.22 * gap

    def _layer(self, colour: Array, alpha: Array, tone: Array) -> FloatArray:
        rgb = colour * self._light * tone[..., None] * alpha[..., None]
        layer = np.concatenate([rgb, alpha[..., None]], axis=-1).astype(np.float32)
        return blur(layer, max(0.4, 0.010 * self._unit))


def _photo_teeth(photo: UInt8Array, here: Array, lips: Lips, x0: int, y0: int, unit: float) -> FloatArray:
    """The photo's own teeth, continued upwards and sideways where the lips hid them."""
    height, width = here.shape[:2]
    cv2 = opencv()
    piece = cut(photo, np.array([[1.0, 0.0, x0], [0.0, 1.0, y0]]), width, height)
    across, down = here[..., 0], here[..., 1]
    upper, lower = lips.upper.at(across), lips.lower.at(across)
    known = (down > upper + 0.022) & (down < lower - 0.016)
    hidden = (~known).astype(np.uint8)
    near = cv2.dilate(
        known.astype(np.uint8), np.ones((3, 3), np.uint8), iterations=max(2, round(0.14 * unit))
    )
    filled = cv2.inpaint(np.ascontiguousarray(piece), hidden & near, 3, cv2.INPAINT_TELEA)
    alpha = np.clip((lower - 0.010 - down) * unit + 0.5, 0, 1) * near
    alpha = blur(alpha.astype(np.float32), 0.6)[..., None]
    return np.concatenate([filled * alpha, alpha], axis=-1).astype(np.float32)


def _shifted(layer: FloatArray, corner: tuple[int, int], size: tuple[int, int], shift: Array) -> FloatArray:
    """A rectangle of a layer that has moved by `shift` pixels."""
    matrix = np.array([[1.0, 0.0, corner[0] - shift[0]], [0.0, 1.0, corner[1] - shift[1]]])
    return cut(layer, matrix, *size)


def _light(photo: UInt8Array, frame: FaceFrame, points: Array) -> Array:
    """Colour and strength of the light on the face, 1 for well lit skin under white light."""
    cheeks = frame.to_pixels(points[[50, 280, 205, 425, 117, 346]])
    height, width = photo.shape[:2]
    columns = np.clip(cheeks[:, 0].round().astype(int), 0, width - 1)
    rows = np.clip(cheeks[:, 1].round().astype(int), 0, height - 1)
    skin = float(photo[rows, columns].mean(axis=0) @ [0.299, 0.587, 0.114])
    white = np.percentile(photo.reshape(-1, 3)[:: max(1, height * width // 20000)], 97, axis=0)
    tint = (white / max(float(white.mean()), 1.0)) ** 0.3
    return np.asarray(tint * np.clip(skin / _USUAL_SKIN, 0.3, 1.15))
