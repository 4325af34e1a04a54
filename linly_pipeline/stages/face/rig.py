"""The rig: how far each control moves each point of a face, as smooth fields in face coordinates.

Two layers share everything but the lips: the upper layer ends at the line where the lips meet and is continued
below it, the lower layer ends there from below and is continued above it. So both are smooth, and a mouth opens
by moving them apart. Beyond the corners of the mouth the layers agree.

Amounts are in eye distances (about 63 mm) at a control's full value. They follow human anatomy: the jaw opens
about 33 mm, a corner of the mouth is drawn out by about 10 mm.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from linly_pipeline.packets import FloatArray
from linly_pipeline.stages.face.arrays import Array
from linly_pipeline.stages.face.geometry import (
    CHIN,
    FOREHEAD,
    LEFT_BROW,
    LEFT_SIDE,
    LEFT_UPPER_LID,
    NOSE_BASE,
    RIGHT_BROW,
    RIGHT_SIDE,
    RIGHT_UPPER_LID,
    Line,
    smoothstep,
)
from linly_pipeline.stages.motion.arkit import INDEX, NAMES

JAW_DROP = 0.52
_CORNER_FOLLOWS = 0.28  # share of the jaw's drop that the corners of the mouth take part in
_NECK = 0.95  # the jaw's movement fades out over this length below the chin
_HEAD_ENDS = 1.75  # the pose fades out from the outline of the head to this many times its size
_PIVOT_BEHIND = 1.1  # the head turns about the neck, this far behind the eyes
_JAW_LIMIT = 0.8  # full jawOpen, reached softly: more tears the skin under the chin
_POSE_LIMIT = np.array([0.14, 0.14, 0.2, 0.25, 0.25, 0.25], np.float32)  # 8 degrees; roll shows nothing new
_SMILE_GIVES_WAY = 0.55  # share of the photo's smile that speech takes back
_POSE = ("pitch", "yaw", "roll", "x", "y", "z")
CONTROLS: tuple[str, ...] = (*NAMES, *_POSE)


@dataclass(frozen=True, slots=True, eq=False)
class Anatomy:
    """The measures of one face, in face coordinates.

    Attributes:
        points: `[478, 2]` landmarks.
        depth: `[478]`, towards the viewer positive, from the depth of the eyes.
        line: where the lips meet.
    """

    points: Array
    depth: Array
    line: Line

    @property
    def chin(self) -> float:
        return float(self.points[CHIN, 1])

    @property
    def half_width(self) -> float:
        return float(self.points[LEFT_SIDE, 0] - self.points[RIGHT_SIDE, 0]) / 2

    @property
    def head(self) -> tuple[float, float, float]:
        """An ellipse around head and hair: how far down its centre is, its half width and its half height."""
        top = float(self.points[FOREHEAD, 1])
        half = (self.chin - top) / 2
        return top + 0.82 * half, 1.02 * self.half_width, 1.18 * half


class Fields:
    """Displacement of points for every control: `upper` and `lower`, both `[controls, n, 2]`.

    Args:
        anatomy: of the face.
        where: `[n, 2]` points in face coordinates.
    """

    def __init__(self, anatomy: Anatomy, where: Array) -> None:
        self._anatomy = anatomy
        self._a, self._b = where[:, 0], where[:, 1]
        line = anatomy.line
        self._t = line.along(self._a)
        self._v = self._b - line.at(self._a)
        self.upper = np.zeros((len(CONTROLS), len(where), 2), np.float32)
        self.lower = np.zeros_like(self.upper)
        self._bow = np.clip(1.0 - self._t**2, 0.0, None)  # 1 in the middle of the lips, 0 at the corners
        beyond = np.clip(np.abs(self._t) - 1.0, 0.0, None)
        self._past_corner = np.exp(-((beyond / 0.55) ** 2))
        self._above = np.minimum(self._v, 0.0)
        self._below = np.maximum(self._v, 0.0)
        self._mouth_room = float(line.at(0.0) - anatomy.points[NOSE_BASE, 1])
        self._chin_room = anatomy.chin - float(line.at(0.0))
        self._jaw()
        self._lips()
        self._corners()
        self._brows()
        self._pose()

    def _add(
        self,
        name: str,
        *,
        upper: tuple[Array | float, Array | float] | None = None,
        lower: tuple[Array | float, Array | float] | None = None,
    ) -> None:
        k = CONTROLS.index(name)
        for field, move in ((self.upper, upper), (self.lower, lower)):
            if move is not None:
                field[k, :, 0] += move[0]
                field[k, :, 1] += move[1]

    def _fade_up(self, reach: float) -> Array:
        return 1.0 - smoothstep(-self._above / reach)

    def _fade_down(self, reach: float) -> Array:
        return 1.0 - smoothstep(self._below / reach)

    def _jaw(self) -> None:
        at_lip_lower = np.where(
            np.abs(self._t) < 1,
            _CORNER_FOLLOWS + (1 - _CORNER_FOLLOWS) * self._bow**0.62,
            _CORNER_FOLLOWS * self._past_corner,
        )
        at_lip_upper = _CORNER_FOLLOWS * np.where(np.abs(self._t) < 1, 1 - self._bow**0.62, self._past_corner)
        reach = np.clip(np.abs(self._a) / (1.12 * self._anatomy.half_width), 0, 1)
        at_chin = np.cos(np.pi / 2 * reach) ** 1.2
        share = smoothstep(self._below / self._chin_room)
        under_chin = smoothstep((self._below - self._chin_room) / _NECK)
        drop = (at_lip_lower * (1 - share) + at_chin * share) * (1 - under_chin)
        rise = at_lip_upper * self._fade_up(0.6)
        self._lip_gap = at_lip_lower - at_lip_upper
        inward = -0.09 * self._sideways()
        self._add(
            "jawOpen",
            upper=(inward * self._fade_up(0.4), JAW_DROP * rise),
            lower=(inward * self._fade_down(0.4), JAW_DROP * drop),
        )
        for name, sign in (("jawLeft", 1.0), ("jawRight", -1.0)):
            self._add(name, lower=(sign * 0.12 * drop * smoothstep(self._below / 0.1), 0.0))
        close = JAW_DROP * self._lip_gap
        self._add(
            "mouthClose",
            upper=(0.0, 0.12 * close * self._fade_up(self._mouth_room)),
            lower=(0.0, -0.88 * close * self._fade_down(0.9 * self._chin_room)),
        )

    def _sideways(self) -> Array:
        """-1 at the left corner, 1 at the right one, in between in proportion, and fading beyond."""
        return np.clip(self._t, -1, 1) * self._past_corner

    def _lips(self) -> None:
        bow = self._bow**0.8
        up, down = self._fade_up(0.9 * self._mouth_room), self._fade_down(0.8 * self._chin_room)
        for side, half in self._halves():
            self._add(f"mouthUpperUp{side}", upper=(0.0, -0.16 * half * bow * up))
            self._add(f"mouthLowerDown{side}", lower=(0.0, 0.16 * half * bow * down))
            self._add(
                f"mouthPress{side}",
                upper=(0.0, -0.18 * half * self._fuller(self._above)),
                lower=(0.0, -0.18 * half * self._fuller(self._below)),
            )
        self._add(
            "mouthFunnel",
            upper=(0.0, -0.05 * bow * up + 0.25 * self._fuller(self._above)),
            lower=(0.0, 0.07 * bow * down + 0.25 * self._fuller(self._below)),
        )
        self._add(
            "mouthPucker",
            upper=(0.0, 0.35 * self._fuller(self._above)),
            lower=(0.0, 0.35 * self._fuller(self._below)),
        )
        self._add("mouthRollUpper", upper=(0.0, -0.5 * self._fuller(self._above)))
        self._add("mouthRollLower", lower=(0.0, -0.06 * bow * down - 0.4 * self._fuller(self._below)))
        for name, amount in (("mouthShrugLower", -0.07), ("mouthShrugUpper", -0.05)):
            self._add(name, upper=(0.0, amount * bow * up), lower=(0.0, amount * bow * down))

    def _fuller(self, off_line: Array) -> Array:
        """Spread the red of the lips away from the line where they meet."""
        return np.asarray(off_line * np.exp(-((off_line / 0.17) ** 2)) * self._bow)

    def _halves(self) -> tuple[tuple[str, Array], tuple[str, Array]]:
        """Weight of a control's left and right part; both together are 1. The person's left is on the right."""
        left = 0.5 + 0.5 * np.tanh(2.0 * self._t)
        return ("Left", left), ("Right", 1.0 - left)

    def _corners(self) -> None:
        amount = np.clip(self._t, -1, 1) ** 2 * self._past_corner
        near = amount * np.exp(-((self._v / 0.5) ** 2))
        for side, sign in (("Left", 1.0), ("Right", -1.0)):
            one = near * (self._t * sign > 0)
            for name, out, down in (
                ("Smile", 0.14, -0.12),
                ("Stretch", 0.14, 0.02),
                ("Frown", 0.02, 0.10),
                ("Dimple", 0.06, -0.01),
            ):
                move = (sign * out * one, down * one)
                self._add(f"mouth{name}{side}", upper=move, lower=move)
        narrow = self._sideways() * np.exp(-((self._v / 0.45) ** 2))
        for name, inward in (("mouthFunnel", 0.09), ("mouthPucker", 0.17)):
            self._add(name, upper=(-inward * narrow, 0.0), lower=(-inward * narrow, 0.0))
        whole = self._past_corner * np.exp(-((self._v / 0.5) ** 2))
        for name, shift in (("mouthLeft", 0.12), ("mouthRight", -0.12)):
            self._add(name, upper=(shift * whole, 0.0), lower=(shift * whole, 0.0))

    def _brows(self) -> None:
        both = self._anatomy.points[[*RIGHT_BROW, *LEFT_BROW]]
        height = float(both[:, 1].mean())
        off = self._b - height
        to_lid = float(self._anatomy.points[[*RIGHT_UPPER_LID, *LEFT_UPPER_LID], 1].mean()) - height
        tall = np.where(off < 0, np.exp(-((off / 0.42) ** 2)), 1.0 - smoothstep(off / (0.9 * to_lid)))
        inner = tall * np.exp(-((self._a / 0.42) ** 2))
        self._add("browInnerUp", upper=(0.0, -0.13 * inner), lower=(0.0, -0.13 * inner))
        for side, ids in (("Left", LEFT_BROW), ("Right", RIGHT_BROW)):
            middle = float(self._anatomy.points[ids, 0].mean())
            outer = tall * np.exp(-(((self._a - 1.15 * middle) / 0.36) ** 2))
            whole = tall * np.exp(-(((self._a - 0.9 * middle) / 0.40) ** 2))
            self._add(f"browOuterUp{side}", upper=(0.0, -0.11 * outer), lower=(0.0, -0.11 * outer))
            self._add(f"browDown{side}", upper=(0.0, 0.09 * whole), lower=(0.0, 0.09 * whole))

    def _pose(self) -> None:
        """A small rigid turn of the head about the neck; depth makes the parts move by different amounts."""
        held = self._head()
        depth = self._depth() + _PIVOT_BEHIND
        a, b = self._a, self._b - self._anatomy.chin
        moves: dict[str, tuple[Array | float, Array | float]] = {
            "pitch": (0.0, depth),
            "yaw": (depth, 0.0),
            "roll": (-b, a),
            "x": (1.0, 0.0),
            "y": (0.0, 1.0),
            "z": (0.3 * a, 0.3 * (b + 1.0)),
        }
        for name, (across, down) in moves.items():
            move = (held * across, held * down)
            self._add(name, upper=move, lower=move)

    def _head(self) -> Array:
        """1 on the head and hair, 0 on shoulders and background."""
        middle, wide, tall = self._anatomy.head
        off = np.hypot(self._a / wide, (self._b - middle) / tall)
        return 1.0 - smoothstep((off - 1.05) / (_HEAD_ENDS - 1.05))

    def _depth(self) -> Array:
        """The landmarks' depth, smoothed."""
        points, depth = self._anatomy.points[::3], self._anatomy.depth[::3].astype(np.float32)
        away = (self._a[:, None] - points[:, 0]) ** 2 + (self._b[:, None] - points[:, 1]) ** 2
        weight = np.exp(-away.astype(np.float32) / np.float32(2 * 0.16**2)) + np.float32(1e-9)
        return np.asarray(weight @ depth / weight.sum(axis=1))


def head_box(anatomy: Anatomy) -> tuple[float, float, float, float]:
    """left, top, right, bottom in face coordinates: nothing outside it ever moves."""
    middle, wide, tall = anatomy.head
    side, up = _HEAD_ENDS * wide, _HEAD_ENDS * tall
    return -side, middle - up, side, max(middle + up, anatomy.chin + _NECK)


def control_values(blendshapes: FloatArray, pose: FloatArray, photo_smile: float = 0.0) -> FloatArray:
    """`[frames, controls]` for the fields, kept to what a photo can bear.

    Closed lips cannot close further than the jaw is open. A large turn would show what the photo does not have:
    pose is limited softly. A photo's smile gives way while the mouth speaks, or every vowel would grin.
    """
    values = np.concatenate([blendshapes, _POSE_LIMIT * np.tanh(pose / _POSE_LIMIT)], axis=1)
    jaw, close = INDEX["jawOpen"], INDEX["mouthClose"]
    rounded = values[:, INDEX["mouthPucker"]] + values[:, INDEX["mouthFunnel"]]
    speaks = np.clip(3.0 * (values[:, jaw] - values[:, close]) + 1.5 * rounded, 0.0, 1.0)
    for name in ("mouthSmileLeft", "mouthSmileRight"):
        values[:, INDEX[name]] -= _SMILE_GIVES_WAY * photo_smile * speaks
    values[:, jaw] = _JAW_LIMIT * np.tanh(values[:, jaw] / _JAW_LIMIT)
    values[:, close] = np.minimum(values[:, close], values[:, jaw])
    return values.astype(np.float32)
