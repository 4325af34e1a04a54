"""What the tests of the face share: turned and pasted pictures, expressions, and measures of rendered frames."""

from __future__ import annotations

import numpy as np

from linly_pipeline.packets import FloatArray, UInt8Array
from linly_pipeline.stages.face.geometry import FaceFrame
from linly_pipeline.stages.face.landmarks import Face, Landmarker
from linly_pipeline.stages.face.sampling import cut, resize
from linly_pipeline.stages.face.warp import Warp
from linly_pipeline.stages.motion.arkit import NAMES, columns
from linly_pipeline.stages.motion.shapes import TO_ARKIT, shapes_of

UPPER_LIP, LOWER_LIP = 13, 14  # the inner edges, in the middle
UPPER_LID, LOWER_LID = [159, 386], [145, 374]


def turned(image: UInt8Array, degrees: float) -> tuple[UInt8Array, FloatArray]:
    """The picture turned about its middle, and the matrix `[2, 3]` from old pixels to new ones."""
    height, width = image.shape[:2]
    a = np.radians(degrees)
    turn = np.array([[np.cos(a), -np.sin(a)], [np.sin(a), np.cos(a)]])
    middle = np.array([width, height]) / 2
    forth = np.column_stack([turn, middle - turn @ middle])
    back = np.column_stack([turn.T, middle - turn.T @ middle])
    return cut(image, back, width, height), forth


def beside(left: UInt8Array, right: UInt8Array) -> UInt8Array:
    """Two pictures side by side."""
    height = max(len(left), len(right))
    canvas = np.full((height, left.shape[1] + right.shape[1], 3), 100, np.uint8)
    canvas[: len(left), : left.shape[1]] = left
    canvas[: len(right), left.shape[1] :] = right
    return canvas


def scaled(image: UInt8Array, factor: float) -> UInt8Array:
    return resize(image, round(image.shape[1] * factor), round(image.shape[0] * factor))


def shape(**values: float) -> FloatArray:
    """`[52]`: a name without its side sets both."""
    row = np.zeros(len(NAMES), np.float32)
    for name, value in values.items():
        row[list(columns(name))] = value
    return row


def sound(symbol: str) -> FloatArray:
    """`[52]`: the mouth held for a phoneme."""
    return np.asarray(shapes_of(symbol)[0].targets @ TO_ARKIT, np.float32)


def rendered(warp: Warp, *rows: FloatArray, **pose: float) -> UInt8Array:
    """Frames for blendshape rows; `yaw=0.05` and the like set the pose of all."""
    names = ("pitch", "yaw", "roll", "x", "y", "z")
    one = [pose.get(name, 0.0) for name in names]
    return warp.render(np.array(rows, np.float32), np.full((len(rows), 6), one, np.float32))


def seen(landmarker: Landmarker, frames: UInt8Array) -> list[Face]:
    """The face in each frame, found independently of how the frame was made."""
    first = landmarker.detect(frames[0])[0]
    faces = [landmarker.track(frame, first) for frame in frames]
    assert all(face is not None for face in faces)
    return [face for face in faces if face is not None]


def lip_gap(face: Face) -> float:
    """Between the inner edges of the lips, in eye distances."""
    apart = face.landmarks[LOWER_LIP, :2] - face.landmarks[UPPER_LIP, :2]
    return float(np.hypot(*apart)) / FaceFrame.of(face.landmarks).unit


def mouth_width(face: Face) -> float:
    apart = face.landmarks[291, :2] - face.landmarks[61, :2]
    return float(np.hypot(*apart)) / FaceFrame.of(face.landmarks).unit


def lid_gap(face: Face) -> float:
    apart = face.landmarks[LOWER_LID, :2] - face.landmarks[UPPER_LID, :2]
    return float(np.hypot(apart[:, 0], apart[:, 1]).mean()) / FaceFrame.of(face.landmarks).unit
