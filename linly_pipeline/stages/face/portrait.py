"""From a photo to what the renderer needs: which face, which part of the picture, and what may look odd."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from linly_pipeline.errors import MediaError
from linly_pipeline.packets import FloatArray, UInt8Array
from linly_pipeline.stages.face.arrays import Array
from linly_pipeline.stages.face.geometry import (
    CHIN,
    FOREHEAD,
    INNER_LOWER_LIP,
    INNER_UPPER_LIP,
    LEFT_PUPIL,
    LEFT_SIDE,
    OUTER_LOWER_LIP,
    RIGHT_PUPIL,
    RIGHT_SIDE,
    FaceFrame,
    face_points,
)
from linly_pipeline.stages.face.landmarks import Face, Landmarker
from linly_pipeline.stages.face.sampling import resize
from linly_pipeline.stages.motion.arkit import INDEX

_SMALLEST_EYE_DISTANCE_PX = 16.0  # fewer pixels hold no mouth to move
_SMALL_FACE_PX = 150.0
_CROP_SIDE = 2.45  # a head and shoulders picture is this many face heights wide
_FACE_CENTRE_AT = 0.44  # of its height
_ROUND_PX = 2  # yuv420p needs even sides
_TURNED_DEGREES = 15.0
_GAP_OPEN = 0.05  # of the eye distance


@dataclass(frozen=True, slots=True, eq=False)
class PortraitState:
    """A face in a picture of the output's size.

    Attributes:
        image: `[H, W, 3]` uint8 RGB, both sides even.
        landmarks: `[478, 3]` float32 in pixels of `image`.
        smile: how much the face smiles, 0..1.
        warnings: what may look odd, in words.
    """

    image: UInt8Array
    landmarks: FloatArray
    smile: float = 0.0
    warnings: tuple[str, ...] = ()


def prepare(
    image: UInt8Array,
    landmarker: Landmarker,
    *,
    size: int = 512,
    face: int = 0,
    crop: bool = True,
    name: str = "the picture",
) -> PortraitState:
    """Choose a face and make a picture of the output's size around it.

    Args:
        image: `[H, W, 3]` uint8 RGB.
        landmarker: finds the faces.
        size: length of the output's longer side, in pixels.
        face: which face, largest first.
        crop: True for head and shoulders, False for the whole picture.
        name: what to call the picture in messages.

    Raises:
        MediaError: no face, no such face, one too small to move its mouth, or one that is cut off.
    """
    if min(image.shape[:2]) < 2:
        raise MediaError(f"{name}: {image.shape[1]}x{image.shape[0]} pixels hold no face")
    faces = landmarker.detect(image)
    chosen = _choose(faces, face, name)
    unit = FaceFrame.of(chosen.landmarks).unit
    if unit < _SMALLEST_EYE_DISTANCE_PX:
        raise MediaError(
            f"{name}: the face is only {chosen.width:.0f} pixels wide: use a picture where it is larger"
        )
    _require_eyes_and_mouth(chosen, image.shape[1], image.shape[0], name)
    window = _head_and_shoulders(image, chosen) if crop else (0, 0, image.shape[1], image.shape[0])
    cut, landmarks = _resized(image, chosen.landmarks, window, size)
    smile = float(chosen.blendshapes[[INDEX["mouthSmileLeft"], INDEX["mouthSmileRight"]]].mean())
    warnings = (*_choice(faces, face), *_warnings(chosen, image.shape[1], image.shape[0]))
    return PortraitState(cut, landmarks, smile, warnings)


def _choose(faces: list[Face], wanted: int, name: str) -> Face:
    if not faces:
        raise MediaError(
            f"{name}: no face was found; use an upright, sharp photo that shows a face from the front"
        )
    if not 0 <= wanted < len(faces):
        raise MediaError(
            f"{name}: there is no face {wanted}; found {len(faces)}, largest first: {_places(faces)}"
        )
    return faces[wanted]


def _choice(faces: list[Face], taken: int) -> list[str]:
    if len(faces) == 1:
        return []
    return [f"{len(faces)} faces were found, face={taken} is used; there are {_places(faces)}"]


def _places(faces: list[Face]) -> str:
    return "; ".join(f"face={i}: {_place(face)}" for i, face in enumerate(faces))


def _require_eyes_and_mouth(face: Face, width: int, height: int, name: str) -> None:
    for what, ids in (("an eye", [RIGHT_PUPIL, LEFT_PUPIL]), ("the mouth", OUTER_LOWER_LIP)):
        places = face.landmarks[ids, :2]
        if places.min() < 0 or (places > [width - 1, height - 1]).any():
            raise MediaError(
                f"{name}: the face is cut off, {what} lies outside; use one that shows all of it"
            )


def _place(face: Face) -> str:
    x, y = (face.box[:2] + face.box[2:]) / 2
    return f"{face.width:.0f} pixels wide at ({x:.0f}, {y:.0f})"


def _head_and_shoulders(image: UInt8Array, face: Face) -> tuple[int, int, int, int]:
    """x0, y0, x1, y1: a square around the head, moved and, where it must be, cut to fit the picture."""
    height, width = image.shape[:2]
    face_height = float(np.linalg.norm(face.landmarks[FOREHEAD, :2] - face.landmarks[CHIN, :2]))
    x, y = (face.box[:2] + face.box[2:]) / 2
    side = round(_CROP_SIDE * face_height)
    x0, x1 = _fit(round(x - side / 2), side, width)
    y0, y1 = _fit(round(y - side * _FACE_CENTRE_AT), side, height)
    return x0, y0, x1, y1


def _fit(start: int, length: int, most: int) -> tuple[int, int]:
    length = min(length, most)
    start = min(max(start, 0), most - length)
    return start, start + length


def _resized(
    image: UInt8Array, landmarks: FloatArray, window: tuple[int, int, int, int], size: int
) -> tuple[UInt8Array, FloatArray]:
    x0, y0, x1, y1 = window
    scale = size / max(x1 - x0, y1 - y0)
    width, height = _even((x1 - x0) * scale), _even((y1 - y0) * scale)
    resized = resize(image[y0:y1, x0:x1], width, height)
    per_axis = np.array([width / (x1 - x0), height / (y1 - y0), scale])
    half = np.array([0.5, 0.5, 0.0])  # pixels have their centre at whole numbers
    moved = (landmarks + half - np.array([x0, y0, 0.0])) * per_axis - half
    return resized, moved.astype(np.float32)


def _even(length: float) -> int:
    return max(_ROUND_PX, round(length / _ROUND_PX) * _ROUND_PX)


def _warnings(face: Face, width: int, height: int) -> list[str]:
    checks = {
        f"the face is only {face.width:.0f} pixels wide, so it may look soft": face.width < _SMALL_FACE_PX,
        "the head is turned; a frontal photo moves better": abs(_yaw_degrees(face)) > _TURNED_DEGREES,
        "the face touches the edge of the picture": _is_cut(face, width, height),
        "the mouth is open; it is closed first, which may look soft": lip_gap(face.landmarks) > _GAP_OPEN,
        "the eyes are closed": _eyes_closed(face),
    }
    return [sentence for sentence, applies in checks.items() if applies]


def lip_gap(landmarks: Array) -> float:
    """The widest gap between the lips, in eye distances."""
    points = face_points(FaceFrame.of(landmarks), np.asarray(landmarks, np.float32))
    return float((points[INNER_LOWER_LIP, 1] - points[INNER_UPPER_LIP, 1]).max())


def _yaw_degrees(face: Face) -> float:
    """How far the head is turned, from the depth of its two sides."""
    right, left = face.landmarks[RIGHT_SIDE], face.landmarks[LEFT_SIDE]
    return float(np.degrees(np.arctan2(left[2] - right[2], np.hypot(*(left[:2] - right[:2])))))


def _is_cut(face: Face, width: int, height: int) -> bool:
    x0, y0, x1, y1 = face.box
    return bool(x0 < 1 or y0 < 1 or x1 > width - 2 or y1 > height - 2)


def _eyes_closed(face: Face) -> bool:
    return bool(min(face.blendshapes[INDEX["eyeBlinkLeft"]], face.blendshapes[INDEX["eyeBlinkRight"]]) > 0.6)
