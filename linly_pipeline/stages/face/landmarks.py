"""Faces and their landmarks, with MediaPipe's Face Landmarker model.

The `.task` file is a zip of three TensorFlow Lite networks: a detector, a mesh of 478 landmarks and 52
blendshapes. They run on `ai-edge-litert`; what surrounds them follows MediaPipe's `face_landmarker` graphs
(https://github.com/google-ai-edge/mediapipe, Apache-2.0).
"""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from linly_pipeline.errors import ConfigError, ModelError
from linly_pipeline.packets import FloatArray, UInt8Array
from linly_pipeline.stages.face.arrays import Array
from linly_pipeline.stages.face.detector import Detection, detect, overlap
from linly_pipeline.stages.motion.arkit import INDEX, NAMES

_MESH_SIZE = 256
_ROOM = 1.5  # the mesh network wants the face's square times this
_RIGHT_EYE_CORNER, _LEFT_EYE_CORNER = (
    33,
    263,
)  # outer corners; sides are the person's
_LEAST_PRESENCE = 0.5
_FARTHEST_EYE = 0.35  # from where the detector saw it, in eye distances: else the mesh has lost the face

# What the blendshape network reads (MediaPipe, face_blendshapes_graph.cc, kLandmarksSubsetIdxs).
# fmt: off
_BLENDSHAPE_POINTS = (
    0, 1, 4, 5, 6, 7, 8, 10, 13, 14, 17, 21, 33, 37, 39, 40, 46, 52, 53, 54,
    55, 58, 61, 63, 65, 66, 67, 70, 78, 80, 81, 82, 84, 87, 88, 91, 93, 95, 103, 105,
    107, 109, 127, 132, 133, 136, 144, 145, 146, 148, 149, 150, 152, 153, 154, 155, 157, 158, 159, 160,
    161, 162, 163, 168, 172, 173, 176, 178, 181, 185, 191, 195, 197, 234, 246, 249, 251, 263, 267, 269,
    270, 276, 282, 283, 284, 285, 288, 291, 293, 295, 296, 297, 300, 308, 310, 311, 312, 314, 317, 318,
    321, 323, 324, 332, 334, 336, 338, 356, 361, 362, 365, 373, 374, 375, 377, 378, 379, 380, 381, 382,
    384, 385, 386, 387, 388, 389, 390, 397, 398, 400, 402, 405, 409, 415, 454, 466, 468, 469, 470, 471,
    472, 473, 474, 475, 476, 477,
)
# fmt: on
# The network's order: a neutral score, then the names by alphabet; it has no tongue.
_BLENDSHAPE_ORDER = [INDEX[name] for name in sorted(NAMES) if name != "tongueOut"]


@dataclass(frozen=True, slots=True, eq=False)
class Face:
    """A face in a picture.

    Attributes:
        box: x0, y0, x1, y1 of the landmarks, in pixels.
        score: how sure the detector is, 0..1.
        landmarks: `[478, 3]` float32 in pixels; z is depth away from the viewer, at the same scale.
        blendshapes: `[52]` float32 in ARKit order.
    """

    box: FloatArray
    score: float
    landmarks: FloatArray
    blendshapes: FloatArray

    @property
    def width(self) -> float:
        return float(self.box[2] - self.box[0])


class Landmarker:
    """Finds faces. Loads in about 20 ms; a picture takes about 15 ms. Not for two threads at once.

    Args:
        path: `face_landmarker.task`.

    Raises:
        ConfigError: `ai-edge-litert` or OpenCV is missing.
        ModelError: the file is missing or not such a model.
    """

    def __init__(self, path: str | Path) -> None:
        require_face_packages()
        parts = _read_task(Path(path))
        self._detector = _Network(parts["face_detector.tflite"])
        self._mesh = _Network(parts["face_landmarks_detector.tflite"])
        self._blendshapes = _Network(parts["face_blendshapes.tflite"])

    def detect(self, image: UInt8Array) -> list[Face]:
        """Faces in an RGB picture `[height, width, 3]`, largest first."""
        faces: list[Face] = []
        for detection in detect(image, self._detector):
            face = self._face(image, detection)
            if face is not None and all(overlap(face.box, other.box) < 0.5 for other in faces):
                faces.append(face)
        return sorted(faces, key=lambda face: -face.width)

    def _face(self, image: UInt8Array, detection: Detection) -> Face | None:
        right, left = detection.points[:2]
        found = self._landmarks(image, _square(detection.box, left - right))
        if found is not None:
            found = self._landmarks(image, _around(found))  # a second look, from a better place
        if found is None or _has_left(found, detection):
            return None
        box = np.concatenate([found[:, :2].min(axis=0), found[:, :2].max(axis=0)])
        points = found[list(_BLENDSHAPE_POINTS), :2]
        blendshapes = np.zeros(len(NAMES), np.float32)
        blendshapes[_BLENDSHAPE_ORDER] = self._blendshapes(points[None])[0].reshape(-1)[1:]
        return Face(box, detection.score, found, blendshapes)

    def track(self, image: UInt8Array, face: Face) -> Face | None:
        """The same face in a picture that differs little: no search, half the time. None if it is lost."""
        found = self._landmarks(image, _around(face.landmarks))
        if found is None:
            return None
        box = np.concatenate([found[:, :2].min(axis=0), found[:, :2].max(axis=0)])
        return Face(box, face.score, found, face.blendshapes)

    def _landmarks(self, image: UInt8Array, region: _Region) -> FloatArray | None:
        """`[478, 3]` pixels of the picture, or None if the network sees no face in the region."""
        import cv2

        picture, scale = _at_most(image, region.side, 2 * _MESH_SIZE)
        matrix = region.to_crop(scale)
        crop = cv2.warpAffine(picture, matrix, (_MESH_SIZE, _MESH_SIZE), borderMode=cv2.BORDER_REPLICATE)
        outputs = self._mesh((crop / np.float32(255.0))[None])
        points, presence = outputs[0].reshape(-1, 3), float(outputs[1].reshape(-1)[0])
        if 1.0 / (1.0 + np.exp(-presence)) < _LEAST_PRESENCE:
            return None
        back = cv2.invertAffineTransform(matrix)
        flat = points[:, :2] @ back[:, :2].T + back[:, 2]
        depth = points[:, 2] * region.side / _MESH_SIZE
        return np.column_stack([flat / scale, depth]).astype(np.float32)


@dataclass(frozen=True, slots=True)
class _Region:
    """A turned square of the picture."""

    centre: Array
    side: float
    roll: float

    def to_crop(self, scale: float) -> Array:
        """`[2, 3]`: from pixels of the picture times `scale` to the network's input."""
        zoom = _MESH_SIZE / (self.side * scale)
        cos, sin = zoom * np.cos(self.roll), zoom * np.sin(self.roll)
        turn = np.array([[cos, sin], [-sin, cos]])
        shift = _MESH_SIZE / 2 - turn @ (self.centre * scale)
        return np.column_stack([turn, shift])


class _Network:
    """A TensorFlow Lite network with one input, on one thread."""

    def __init__(self, model: bytes) -> None:
        from ai_edge_litert.interpreter import Interpreter, OpResolverType

        # The default delegate is faster, but prints a line to stderr from C++ that no setting silences; a portrait
        # is looked at once.
        self._interpreter: Any = Interpreter(
            model_content=model,
            num_threads=1,
            experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
        )
        self._interpreter.allocate_tensors()
        self._input = self._interpreter.get_input_details()[0]["index"]
        self._outputs = [output["index"] for output in self._interpreter.get_output_details()]

    def __call__(self, values: Array) -> tuple[Array, ...]:
        self._interpreter.set_tensor(self._input, values.astype(np.float32, copy=False))
        self._interpreter.invoke()
        return tuple(self._interpreter.get_tensor(output) for output in self._outputs)


def require_face_packages() -> None:
    """Raise ConfigError, with what to install, unless the face extra is there."""
    try:
        import cv2  # noqa: F401
    except ImportError as error:
        raise ConfigError.missing_extra("the face stage", "face", "opencv-python-headless") from error
    try:
        import ai_edge_litert.interpreter  # noqa: F401
    except ImportError as error:
        raise ConfigError.missing_extra("the face stage", "face", "ai-edge-litert") from error


def _read_task(path: Path) -> dict[str, bytes]:
    names = ("face_detector.tflite", "face_landmarks_detector.tflite", "face_blendshapes.tflite")
    try:
        with zipfile.ZipFile(path) as task:
            return {name: task.read(name) for name in names}
    except FileNotFoundError as error:
        raise ModelError(f"face landmarks: there is no file '{path}'") from error
    except (OSError, KeyError, zipfile.BadZipFile) as error:
        raise ModelError(
            f"face landmarks: '{path}' is not a whole face_landmarker.task file ({error})"
        ) from error


def _square(box: Array, eye_line: Array) -> _Region:
    side = float((box[2:] - box[:2]).max()) * _ROOM
    return _Region((box[:2] + box[2:]) / 2, side, float(np.arctan2(eye_line[1], eye_line[0])))


def _around(landmarks: FloatArray) -> _Region:
    """The region for a face whose landmarks are about known: upright along its own eye line."""
    flat = landmarks[:, :2]
    eye_line = flat[_LEFT_EYE_CORNER] - flat[_RIGHT_EYE_CORNER]
    roll = float(np.arctan2(eye_line[1], eye_line[0]))
    cos, sin = np.cos(roll), np.sin(roll)
    upright = flat @ np.array([[cos, -sin], [sin, cos]])
    low, high = upright.min(axis=0), upright.max(axis=0)
    centre = np.array([[cos, -sin], [sin, cos]]) @ ((low + high) / 2)
    return _Region(centre, float((high - low).max()) * _ROOM, roll)


def _at_most(image: UInt8Array, side: float, most: float) -> tuple[UInt8Array, float]:
    """The picture, made smaller where the region would lose detail unevenly, and by how much."""
    import cv2

    if side <= most:
        return image, 1.0
    scale = most / side
    size = (max(1, round(image.shape[1] * scale)), max(1, round(image.shape[0] * scale)))
    return np.asarray(cv2.resize(image, size, interpolation=cv2.INTER_AREA), np.uint8), scale


def _has_left(landmarks: FloatArray, detection: Detection) -> bool:
    """True if the mesh sits where the detector saw no eyes: its own score stays high even then."""
    eyes = np.array([landmarks[[33, 133], :2].mean(axis=0), landmarks[[263, 362], :2].mean(axis=0)])
    apart = float(np.linalg.norm(eyes[1] - eyes[0]))
    off = float(np.linalg.norm(eyes - detection.points[:2], axis=1).max())
    return apart < 4.0 or off > _FARTHEST_EYE * apart
