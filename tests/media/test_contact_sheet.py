"""Contact sheets."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pictures import moving

from linly_pipeline.errors import MediaError
from linly_pipeline.media.contact_sheet import GAP, contact_sheet


def solid(*values: int) -> Any:
    return np.stack([np.full((64, 96, 3), value, np.uint8) for value in values])


def test_frames_lie_in_rows_from_left_to_right() -> None:
    sheet = contact_sheet(solid(0, 50, 100, 150, 200), columns=3)

    assert sheet.shape == (2 * 64 + 3 * GAP, 3 * 96 + 4 * GAP, 3)
    centres = [(row * (64 + GAP) + 36, column * (96 + GAP) + 52) for row in range(2) for column in range(3)]
    assert [int(sheet[place][0]) for place in centres] == [0, 50, 100, 150, 200, 255]


def test_fewer_frames_than_columns_leave_no_empty_places() -> None:
    assert contact_sheet(moving(2), columns=8).shape == (64 + 2 * GAP, 2 * 96 + 3 * GAP, 3)


def test_labels_stand_below_their_pictures_and_never_reach_the_neighbour() -> None:
    plain = contact_sheet(solid(90, 90), 2)

    sheet = contact_sheet(solid(90, 90), 2, ["a very long label " * 10, ""])

    below = sheet[64 + GAP :, :].min(axis=(0, 2))
    assert sheet.shape[0] > plain.shape[0]
    assert below[GAP : 96 + GAP].min() < 128
    assert below[96 + 2 * GAP :].min() == 255


def test_any_iterable_of_pictures_is_taken() -> None:
    frames = moving(3)

    np.testing.assert_array_equal(contact_sheet(iter(frames), 2), contact_sheet(frames, 2))


@pytest.mark.parametrize(
    ("frames", "columns", "labels", "cause"),
    [
        ([], 3, None, "0 frames"),
        (solid(1), 0, None, "0 columns"),
        ([solid(1)[0], solid(1)[0][:10]], 2, None, "differ in size"),
        (solid(1, 2), 2, ["one"], "1 labels came for 2 frames"),
    ],
)
def test_what_makes_no_sheet_is_named(frames: Any, columns: int, labels: Any, cause: str) -> None:
    with pytest.raises(MediaError, match=cause):
        contact_sheet(frames, columns, labels)
