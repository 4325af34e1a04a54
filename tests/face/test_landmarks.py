"""Faces are found wherever a portrait may have them."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from portraits import beside, scaled, turned

from linly_pipeline.errors import ConfigError, ModelError
from linly_pipeline.packets import UInt8Array
from linly_pipeline.stages.face.detector import anchors
from linly_pipeline.stages.face.geometry import LEFT_PUPIL, RIGHT_PUPIL, FaceFrame
from linly_pipeline.stages.face.landmarks import Landmarker
from linly_pipeline.stages.motion.arkit import INDEX


def test_a_portrait_has_one_face_where_it_is_seen(landmarker: Landmarker, astronaut: UInt8Array) -> None:
    (face,) = landmarker.detect(astronaut)
    assert face.landmarks.shape == (478, 3)
    assert np.allclose(face.box, [180, 70, 271, 179], atol=6)
    right, left = face.landmarks[[RIGHT_PUPIL, LEFT_PUPIL], :2]
    assert np.allclose(right, [204, 101], atol=3)  # where the pupils are in the photo
    assert np.allclose(left, [246, 103], atol=3)


def test_blendshapes_tell_a_smile_from_a_closed_mouth(
    landmarker: Landmarker, astronaut: UInt8Array, hopper: UInt8Array
) -> None:
    smiling, serious = landmarker.detect(astronaut)[0], landmarker.detect(hopper)[0]
    smile = [INDEX["mouthSmileLeft"], INDEX["mouthSmileRight"]]
    assert smiling.blendshapes[smile].min() > 0.5
    assert serious.blendshapes[smile].max() < 0.2
    assert serious.blendshapes[INDEX["jawOpen"]] < 0.1


@pytest.mark.parametrize("degrees", [-45, -25, 15, 45, 80])
def test_landmarks_turn_with_the_picture(landmarker: Landmarker, hopper: UInt8Array, degrees: float) -> None:
    before = landmarker.detect(hopper)[0].landmarks
    picture, matrix = turned(hopper, degrees)
    (face,) = landmarker.detect(picture)
    expected = before[:, :2] @ matrix[:, :2].T + matrix[:, 2]
    off = np.linalg.norm(face.landmarks[:, :2] - expected, axis=1).mean()
    assert off < 0.05 * FaceFrame.of(before).unit


@pytest.mark.parametrize("factor", [0.4, 3.0])
def test_landmarks_scale_with_the_picture(landmarker: Landmarker, hopper: UInt8Array, factor: float) -> None:
    before = landmarker.detect(hopper)[0].landmarks
    face = landmarker.detect(scaled(hopper, factor))[0]
    off = np.linalg.norm(face.landmarks[:, :2] / factor - before[:, :2], axis=1).mean()
    assert off < 0.04 * FaceFrame.of(before).unit


def test_a_mirrored_face_is_found_at_the_mirrored_place(
    landmarker: Landmarker, astronaut: UInt8Array
) -> None:
    plain, mirrored = landmarker.detect(astronaut)[0], landmarker.detect(astronaut[:, ::-1].copy())[0]
    assert np.allclose(511 - mirrored.box[[2, 0]], plain.box[[0, 2]], atol=4)


def test_a_small_face_in_a_large_picture_is_found(landmarker: Landmarker, hopper: UInt8Array) -> None:
    large = np.full((1600, 1600, 3), 110, np.uint8)
    large[900 : 900 + 300, 1100 : 1100 + 256] = scaled(hopper, 0.5)
    (face,) = landmarker.detect(large)
    assert np.allclose((face.box[:2] + face.box[2:]) / 2, [1100 + 132, 900 + 117], atol=12)


def test_two_faces_are_given_largest_first(
    landmarker: Landmarker, astronaut: UInt8Array, hopper: UInt8Array
) -> None:
    faces = landmarker.detect(beside(astronaut, hopper))
    assert len(faces) == 2
    assert faces[0].box[0] > 512 > faces[1].box[2]


def test_no_face_is_found_where_there_is_none(landmarker: Landmarker) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (400, 600, 3)).astype(np.uint8)
    flat = np.full((300, 300, 3), 128, np.uint8)
    ramp = np.broadcast_to(np.linspace(0, 255, 700).astype(np.uint8)[None, :, None], (500, 700, 3)).copy()
    for picture in (noise, flat, ramp, np.zeros((1, 1, 3), np.uint8)):
        assert landmarker.detect(picture) == []


def test_tracking_finds_what_a_search_finds(landmarker: Landmarker, hopper: UInt8Array) -> None:
    face = landmarker.detect(hopper)[0]
    moved = np.roll(hopper, (4, 6), axis=(0, 1))
    tracked = landmarker.track(moved, face)
    assert tracked is not None
    assert np.abs(tracked.landmarks[:, :2] - [6, 4] - face.landmarks[:, :2]).mean() < 1.0


def test_the_anchors_are_those_of_the_model() -> None:
    places = anchors()
    assert places.shape == (896, 2)
    assert np.allclose(places[0], [1 / 32, 1 / 32])
    assert np.allclose(places[-1], [15 / 16, 15 / 16])


@pytest.mark.parametrize("content", [b"", b"version https://git-lfs.github.com/spec/v1", b"PK\x03\x04 cut"])
def test_a_broken_model_file_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "face landmarker.task"
    path.write_bytes(content)
    with pytest.raises(ModelError, match="face landmarker.task"):
        Landmarker(path)


@pytest.mark.parametrize("module", ["ai_edge_litert.interpreter", "cv2"])
def test_a_missing_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ConfigError, match=r"pip install 'linly-pipeline\[face\]'"):
        Landmarker("anything.task")
