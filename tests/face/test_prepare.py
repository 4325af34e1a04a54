"""From any photo to a picture that can be moved, or a sentence that says why not."""

from __future__ import annotations

import numpy as np
import pytest
from portraits import beside, scaled

from linly_pipeline.errors import MediaError
from linly_pipeline.packets import UInt8Array
from linly_pipeline.stages.face.landmarks import Landmarker
from linly_pipeline.stages.face.portrait import prepare


@pytest.mark.parametrize("size", [64, 127, 256, 511, 512, 777])
@pytest.mark.parametrize("crop", [True, False])
@pytest.mark.parametrize("shape", [(600, 512), (599, 511), (401, 333)])
def test_the_picture_has_even_sides_of_the_size_asked_for(
    landmarker: Landmarker, hopper: UInt8Array, size: int, crop: bool, shape: tuple[int, int]
) -> None:
    state = prepare(hopper[: shape[0], : shape[1]], landmarker, size=size, crop=crop)
    height, width = state.image.shape[:2]
    assert height % 2 == width % 2 == 0
    assert abs(max(height, width) - size) <= 1
    assert state.image.dtype == np.uint8


def test_landmarks_lie_on_the_face_of_the_new_picture(landmarker: Landmarker, astronaut: UInt8Array) -> None:
    state = prepare(astronaut, landmarker, size=400)
    again = landmarker.detect(state.image)[0].landmarks
    assert np.linalg.norm(state.landmarks[:, :2] - again[:, :2], axis=1).mean() < 2.5


def test_head_and_shoulders_are_cut_out_around_the_face(
    landmarker: Landmarker, astronaut: UInt8Array
) -> None:
    cut, whole = (prepare(astronaut, landmarker, crop=crop) for crop in (True, False))
    assert np.ptp(cut.landmarks[:, 0]) > 1.5 * np.ptp(whole.landmarks[:, 0])
    centre = cut.landmarks[:, 0].mean() / cut.image.shape[1]
    assert 0.4 < centre < 0.6


def test_without_a_face_it_says_so_and_what_to_use() -> None:
    class Blind:
        def detect(self, image: UInt8Array) -> list[object]:
            return []

    with pytest.raises(MediaError, match=r"'me\.jpg': no face was found; use an upright, sharp photo"):
        prepare(np.zeros((100, 100, 3), np.uint8), Blind(), name="'me.jpg'")  # type: ignore[arg-type]


def test_one_pixel_is_no_portrait(landmarker: Landmarker) -> None:
    with pytest.raises(MediaError, match="1x1 pixels hold no face"):
        prepare(np.zeros((1, 1, 3), np.uint8), landmarker)


def test_of_two_faces_the_largest_is_taken_or_the_one_chosen(
    landmarker: Landmarker, astronaut: UInt8Array, hopper: UInt8Array
) -> None:
    both = beside(astronaut, hopper)
    first, second = (prepare(both, landmarker, face=face) for face in (0, 1))
    assert first.smile < 0.3 < 0.6 < second.smile
    assert "2 faces were found, face=0 is used; there are face=0: " in first.warnings[0]


def test_a_face_that_is_not_there_is_refused_with_a_list_of_those_that_are(
    landmarker: Landmarker, astronaut: UInt8Array, hopper: UInt8Array
) -> None:
    with pytest.raises(MediaError, match=r"no face 2; found 2, largest first: face=0: 18\d pixels wide at"):
        prepare(beside(astronaut, hopper), landmarker, face=2)


def test_a_face_of_a_few_pixels_is_refused(landmarker: Landmarker, astronaut: UInt8Array) -> None:
    with pytest.raises(MediaError, match="pixels wide: use a picture where it is larger"):
        prepare(scaled(astronaut, 0.35), landmarker)


def test_a_face_without_its_mouth_is_refused(landmarker: Landmarker, hopper: UInt8Array) -> None:
    with pytest.raises(MediaError, match="the mouth lies outside"):
        prepare(hopper[:265], landmarker)


def test_a_good_photo_has_no_warnings(landmarker: Landmarker, hopper: UInt8Array) -> None:
    assert prepare(hopper, landmarker).warnings == ()


def test_what_may_look_odd_is_said_in_words(
    landmarker: Landmarker, astronaut: UInt8Array, hopper: UInt8Array
) -> None:
    small_and_smiling = " ".join(prepare(astronaut, landmarker).warnings)
    assert "pixels wide" in small_and_smiling
    assert "the mouth is open" in small_and_smiling
    cut = prepare(hopper[:, 205:], landmarker).warnings
    assert "the face touches the edge of the picture" in cut


def test_a_squeezed_face_counts_as_turned_only_by_its_depth(
    landmarker: Landmarker, hopper: UInt8Array
) -> None:
    warnings = prepare(hopper, landmarker).warnings
    assert not any("turned" in warning for warning in warnings)
