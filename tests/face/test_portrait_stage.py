"""The stage: motion in, video out."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from portraits import shape

from linly_pipeline import Portrait
from linly_pipeline.errors import ConfigError, MediaError, ModelError
from linly_pipeline.models import locate
from linly_pipeline.packets import Audio, Motion, UInt8Array, Video
from linly_pipeline.testing import check_stage, fake_turn


def motions(counts: list[int]) -> list[Motion]:
    found: list[Motion] = []
    frame = 0
    for count in counts:
        blendshapes = np.stack([shape(jawOpen=0.1 * (frame + i)) for i in range(count)])
        audio = Audio(np.full(count * 640, 0.1, np.float32), 16_000, frame * 640)
        found.append(Motion(audio, blendshapes, np.zeros((count, 6), np.float32), 25, frame))
        frame += count
    return found


async def videos(stage: Portrait, items: list[Motion]) -> list[Video]:
    async def stream():  # type: ignore[no-untyped-def]
        for item in items:
            yield item

    await stage.load()
    try:
        return [video async for video in stage.run(stream(), fake_turn())]
    finally:
        await stage.close()


async def load(stage: Portrait) -> None:
    try:
        await stage.load()
    finally:
        await stage.close()


def test_it_keeps_the_rules_of_stages() -> None:
    asyncio.run(check_stage(lambda: Portrait(locate("portrait-astronaut"), size=128), motions([3, 1, 2])))


def test_video_has_the_frames_and_the_sound_of_the_motion() -> None:
    items = motions([5, 5, 2])
    found = asyncio.run(videos(Portrait(locate("portrait-grace-hopper"), size=128), items))
    assert [video.first_frame for video in found] == [0, 5, 10]
    assert [video.frames.shape for video in found] == [(5, 128, 128, 3), (5, 128, 128, 3), (2, 128, 128, 3)]
    assert all(a.audio is b.audio for a, b in zip(items, found, strict=True))
    assert not np.array_equal(found[0].frames[0], found[0].frames[4])


def test_a_picture_may_be_an_array(astronaut: UInt8Array) -> None:
    (video,) = asyncio.run(videos(Portrait(astronaut, size=100), motions([1])))
    assert video.frames.shape == (1, 100, 100, 3)


def test_a_picture_lying_on_its_side_by_exif_stands_up(tmp_path: Path, hopper: UInt8Array) -> None:
    path = tmp_path / "你好 world.jpg"
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.fromarray(np.rot90(hopper).copy()).save(path, exif=exif)
    (video,) = asyncio.run(videos(Portrait(path, size=128), motions([1])))
    assert video.frames.shape == (1, 128, 128, 3)


def test_two_portraits_at_once_are_never_mixed(astronaut: UInt8Array, hopper: UInt8Array) -> None:
    async def main() -> list[list[Video]]:
        items = motions([2] * 6)
        return await asyncio.gather(
            *(videos(Portrait(image, size=96), items) for image in (astronaut, hopper, astronaut))
        )

    first, second, third = (np.concatenate([v.frames for v in found]) for found in asyncio.run(main()))
    assert np.array_equal(first, third)
    assert np.abs(first.astype(int) - second).mean() > 10


def test_what_may_look_odd_is_known_after_loading(astronaut: UInt8Array) -> None:
    stage = Portrait(astronaut, size=96)
    assert stage.warnings == ()
    asyncio.run(load(stage))
    assert any("mouth is open" in warning for warning in stage.warnings)


def test_a_picture_without_a_face_is_named(tmp_path: Path) -> None:
    path = tmp_path / "wall 'white'.png"
    Image.new("RGB", (200, 200), "white").save(path)
    with pytest.raises(MediaError, match=r"wall 'white'\.png': no face was found"):
        asyncio.run(load(Portrait(path)))


def test_a_missing_picture_is_named(tmp_path: Path) -> None:
    with pytest.raises(MediaError, match=r"nobody\.jpg"):
        asyncio.run(load(Portrait(tmp_path / "nobody.jpg")))


def test_a_wrong_landmark_file_is_named(tmp_path: Path, astronaut: UInt8Array) -> None:
    path = tmp_path / "not a model.task"
    path.write_text("hello")
    with pytest.raises(ModelError, match=r"not a model\.task"):
        asyncio.run(load(Portrait(astronaut, landmarks=path)))


@pytest.mark.parametrize("settings", [{"size": 10}, {"size": 9000}, {"face": -1}])
def test_settings_out_of_range_are_named(settings: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match=next(iter(settings))):
        Portrait("me.jpg", **settings)
