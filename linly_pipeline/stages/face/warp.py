"""Render frames: bend the photo by the rig's fields, and show what lies behind lips and lids.

The fields say where each point of the photo goes; a picture needs the reverse, where each pixel comes from.
The reverse is found by iteration on a coarse grid (`source = pixel - move(source)`, which settles because the
fields are gentle), enlarged, and sampled once with cubic interpolation. The lower layer is shown where its source
lies below the line of the lips, the upper layer where its source lies above; what neither covers is the mouth.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from linly_pipeline.packets import FloatArray, UInt8Array
from linly_pipeline.stages.face.arrays import Array
from linly_pipeline.stages.face.closing import close_lips
from linly_pipeline.stages.face.eyes import Eyes
from linly_pipeline.stages.face.geometry import FaceFrame
from linly_pipeline.stages.face.mouth import MouthInside
from linly_pipeline.stages.face.portrait import PortraitState
from linly_pipeline.stages.face.rig import JAW_DROP, Anatomy, Fields, control_values, head_box
from linly_pipeline.stages.face.sampling import enlarge, opencv, sample, sample_field
from linly_pipeline.stages.motion.arkit import INDEX, NAMES

_STEP_PX = 4  # of the coarse grid
_TURNS_UPPER, _TURNS_LOWER = 4, 6  # iterations; the jaw bends its layer more


@dataclass(frozen=True, slots=True)
class _Window:
    """The pixels that can move: whole grid cells, so it may reach a little beyond the picture's right and bottom."""

    x0: int
    y0: int
    columns: int
    rows: int

    @property
    def width(self) -> int:
        return self.columns * _STEP_PX

    @property
    def height(self) -> int:
        return self.rows * _STEP_PX

    def nodes(self) -> Array:
        """`[rows, columns, 2]` pixel places of the grid's nodes: the centres of its cells."""
        x = self.x0 + (np.arange(self.columns) + 0.5) * _STEP_PX - 0.5
        y = self.y0 + (np.arange(self.rows) + 0.5) * _STEP_PX - 0.5
        return np.stack(np.meshgrid(x, y), axis=-1)

    def place(self, picture: UInt8Array) -> UInt8Array:
        """The part of a picture that lies in the window, as a view."""
        return picture[self.y0 : self.y0 + self.height, self.x0 : self.x0 + self.width]

    def pixels(self) -> FloatArray:
        """`[height, width, 2]` the place of each pixel."""
        x = np.arange(self.x0, self.x0 + self.width)
        y = np.arange(self.y0, self.y0 + self.height)
        return np.stack(np.meshgrid(x, y), axis=-1).astype(np.float32)


class _Layer:
    """One layer's fields on the grid, from row `top` on.

    Args:
        moves: `[controls, rows * columns, 2]` pixels, for the whole grid.
        off_line: `[rows, columns]` how far each node is below the line of the lips, in pixels.
        window: the grid.
        top: first row of the layer.
        turns: iterations to find the sources.
    """

    def __init__(self, moves: Array, off_line: Array, window: _Window, top: int, turns: int) -> None:
        self.top = top
        self._turns = turns
        rows, columns = window.rows - top, window.columns
        part = moves.reshape(len(moves), window.rows, columns, 2)[:, top:] / _STEP_PX
        self._used = np.flatnonzero(part.any(axis=(1, 2, 3)))
        self._moves = np.ascontiguousarray(part[self._used], np.float32)
        self._shape = (rows, columns, 2)
        nodes = np.stack(np.meshgrid(np.arange(columns), np.arange(rows)), axis=-1)
        self._nodes = np.ascontiguousarray(nodes, np.float32)
        self._off_line = np.ascontiguousarray(off_line[top:], np.float32)

    def moved(self, values: FloatArray) -> FloatArray:
        """`[rows, columns, 2]` displacement in grid cells for one frame's controls."""
        cv2 = opencv()
        total = np.zeros(self._shape, np.float32)
        # Few controls are in use at a time: adding them up beats a product with all, whose threads get in the way.
        for k in np.flatnonzero(values[self._used]):
            cv2.scaleAdd(self._moves[k], float(values[self._used[k]]), total, total)
        return total

    def sources(self, values: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Per node: the way back to its source in grid cells, and how far below the lips' line the source is."""
        cv2 = opencv()
        move = self.moved(values)
        back, source = move, np.empty_like(move)
        for _ in range(self._turns):
            cv2.subtract(self._nodes, back, source)
            back = sample_field(move, source)
        cv2.subtract(self._nodes, back, source)
        off = sample_field(self._off_line, source)
        return back, off


class Warp:
    """Renders one portrait. It does not change after it is made, so sessions may share it.

    Args:
        portrait: what `prepare` gave.
    """

    def __init__(self, portrait: PortraitState) -> None:
        frame = FaceFrame.of(portrait.landmarks)
        points = frame.from_pixels(portrait.landmarks[:, :2])
        lips = close_lips(portrait.image, frame, points)
        depth = portrait.landmarks[:, 2]
        anatomy = Anatomy(points, (depth[[33, 263]].mean() - depth) / frame.unit, lips.line)
        self.image = lips.image
        self._photo_smile = portrait.smile
        self._frame = frame
        self._eyes = Eyes(lips.image, frame, points)
        self._inside = MouthInside(portrait.image, frame, points, lips)
        self._window = _window(frame, anatomy, lips.image.shape)
        self._upper, self._lower = self._layers(anatomy)
        self._pixels = self._window.pixels()
        middle = np.array([[lips.line.middle, lips.line.at(lips.line.middle)]], np.float64)
        self._pose_at_mouth = frame.vectors_to_pixels(Fields(anatomy, middle).upper[len(NAMES) :, 0])
        self._jaw_px = frame.vectors_to_pixels(np.array([0.0, JAW_DROP]))

    def _layers(self, anatomy: Anatomy) -> tuple[_Layer, _Layer]:
        frame, window = self._frame, self._window
        where = frame.from_pixels(window.nodes())
        fields = Fields(anatomy, where.reshape(-1, 2))
        off_line = (where[..., 1] - anatomy.line.at(where[..., 0])) * frame.unit
        reached = np.flatnonzero((off_line > -0.45 * frame.unit).any(axis=1))
        top = int(reached[0]) if len(reached) else 0
        upper, lower = (frame.vectors_to_pixels(part) for part in (fields.upper, fields.lower))
        return (
            _Layer(upper, off_line, window, 0, _TURNS_UPPER),
            _Layer(lower, off_line, window, top, _TURNS_LOWER),
        )

    def render(self, blendshapes: FloatArray, pose: FloatArray) -> UInt8Array:
        """`[frames, H, W, 3]` uint8 RGB for blendshapes `[frames, 52]` and pose `[frames, 6]`."""
        values = control_values(blendshapes, pose, self._photo_smile)
        frames = np.empty((len(values), *self.image.shape), np.uint8)
        photo = self.image.copy()
        for i, picture in enumerate(frames):
            self._eyes.draw(photo, values[i])
            picture[:] = self.image
            self._draw(picture, photo, values[i])
        return frames

    def _draw(self, picture: UInt8Array, photo: UInt8Array, values: FloatArray) -> None:
        cv2 = opencv()
        back_upper, off_upper = self._upper.sources(values)
        back_lower, off_lower = self._lower.sources(values)
        first = self._lower.top * _STEP_PX
        back = _enlarged(back_upper)
        under, over = _enlarged(off_upper[self._lower.top :]), _enlarged(off_lower)
        cv2.copyTo(_enlarged(back_lower), (under > 0).view(np.uint8), back[first:])
        place = self._window.place(picture)
        source = cv2.scaleAdd(back, -float(_STEP_PX), self._pixels)[: place.shape[0], : place.shape[1]]
        place[:] = sample(photo, source)
        self._show_inside(picture, values, under, -over, first)

    def _show_inside(
        self, picture: UInt8Array, values: FloatArray, under: FloatArray, over: FloatArray, first: int
    ) -> None:
        """Paint between the lips; `under` and `over` begin at row `first` of the window."""
        window, inside = self._window, self._inside
        top, left = window.y0 + first, window.x0
        y0, y1 = max(inside.y0, top), min(inside.y1, top + len(under), len(picture))
        x0, x1 = max(inside.x0, left), min(inside.x1, left + window.width, picture.shape[1])
        rows, columns = slice(y0 - top, y1 - top), slice(x0 - left, x1 - left)
        skull = values[len(NAMES) :] @ self._pose_at_mouth
        jaw = skull + 0.95 * values[INDEX["jawOpen"]] * self._jaw_px
        rounded = 1.2 * values[INDEX["mouthPucker"]] + 0.7 * values[INDEX["mouthFunnel"]]
        inside.draw(
            picture[y0:y1, x0:x1],
            under[rows, columns],
            over[rows, columns],
            skull,
            jaw,
            max(0.1, 1.0 - float(rounded)),
            (x0 - inside.x0, y0 - inside.y0),
        )


def _enlarged(nodes: FloatArray) -> FloatArray:
    """From grid nodes to pixels."""
    return enlarge(nodes, _STEP_PX)


def _window(frame: FaceFrame, anatomy: Anatomy, shape: tuple[int, ...]) -> _Window:
    """The grid over the part of the picture that can move."""
    left, top, right, bottom = head_box(anatomy)
    corners = frame.to_pixels(np.array([[left, top], [right, top], [left, bottom], [right, bottom]]))
    x0, y0 = np.clip(np.floor(corners.min(axis=0)), 0, [shape[1] - _STEP_PX, shape[0] - _STEP_PX])
    x1, y1 = np.clip(np.ceil(corners.max(axis=0)), 0, [shape[1], shape[0]])
    columns, rows = max(1, -(-int(x1 - x0) // _STEP_PX)), max(1, -(-int(y1 - y0) // _STEP_PX))
    return _Window(int(x0), int(y0), columns, rows)
