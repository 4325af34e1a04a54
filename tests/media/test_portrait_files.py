"""Loading portraits."""

from __future__ import annotations

import io
import struct
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image, ImageCms
from sounds import POSIX_NAME

from linly_pipeline.errors import MediaError
from linly_pipeline.media.image import load_portrait

RED, GREEN, BLUE, WHITE = (255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 255)


def corners(width: int = 64, height: int = 32) -> Image.Image:
    """Red and green above, blue and white below."""
    image = Image.new("RGB", (width, height))
    half = (width // 2, height // 2)
    for place, colour in (((0, 0), RED), ((half[0], 0), GREEN), ((0, half[1]), BLUE), (half, WHITE)):
        image.paste(colour, (*place, place[0] + half[0], place[1] + half[1]))
    return image


def seen(array: Any) -> list[tuple[int, ...]]:
    """The colours of the four corners, row by row, rounded to 0 or 255."""
    height, width = array.shape[:2]
    places = [(y, x) for y in (height // 8, -height // 8) for x in (width // 8, -width // 8)]
    return [tuple(int(v > 127) * 255 for v in array[y, x]) for y, x in places]


# How a camera in that orientation stores a picture that is seen upright: TIFF 6.0, tag 274.
STORED = {
    1: lambda upright: upright,
    2: lambda upright: upright[:, ::-1],
    3: lambda upright: upright[::-1, ::-1],
    4: lambda upright: upright[::-1],
    5: lambda upright: upright.transpose(1, 0, 2),
    6: lambda upright: np.rot90(upright, 1),
    7: lambda upright: np.rot90(upright.transpose(1, 0, 2), 2),
    8: lambda upright: np.rot90(upright, -1),
}


@pytest.mark.parametrize("orientation", STORED)
@pytest.mark.parametrize("suffix", ["jpg", "png", "webp"])
def test_a_picture_comes_upright_whatever_the_camera_was_held_like(
    tmp_path: Path, orientation: int, suffix: str
) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    stored = Image.fromarray(np.ascontiguousarray(STORED[orientation](np.asarray(corners()))))
    stored.save(tmp_path / f"a.{suffix}", exif=exif)

    loaded = load_portrait(tmp_path / f"a.{suffix}")

    assert loaded.shape == (32, 64, 3)
    assert seen(loaded) == [RED, GREEN, BLUE, WHITE]


@pytest.mark.parametrize(
    ("mode", "suffix"),
    [
        ("RGB", "png"),
        ("RGB", "jpg"),
        ("RGBA", "png"),
        ("P", "png"),
        ("P", "gif"),
        ("CMYK", "jpg"),
        ("CMYK", "tif"),
    ],
)
def test_every_mode_gives_the_same_colours(tmp_path: Path, mode: str, suffix: str) -> None:
    corners().convert(mode).save(tmp_path / f"a.{suffix}")

    loaded = load_portrait(tmp_path / f"a.{suffix}")

    assert loaded.dtype == np.uint8
    assert loaded.shape == (32, 64, 3)
    assert seen(loaded) == [RED, GREEN, BLUE, WHITE]


@pytest.mark.parametrize(
    ("mode", "grey"), [("L", 180), ("LA", 180), ("1", 255), ("I;16", 180 * 257), ("F", 180.0)]
)
def test_grey_stays_grey_whatever_its_depth(tmp_path: Path, mode: str, grey: Any) -> None:
    if mode == "I;16":
        image = Image.fromarray(np.full((8, 8), grey, np.uint16))
    else:
        image = Image.new(mode, (8, 8), (grey, 255) if mode == "LA" else grey)
    image.save(tmp_path / "a.tif")

    expected = 255 if mode in ("1", "F") else 180  # floats above 1 are scaled by their largest
    np.testing.assert_array_equal(load_portrait(tmp_path / "a.tif"), np.full((8, 8, 3), expected))


def test_a_16_bit_png_keeps_its_brightness(tmp_path: Path) -> None:
    Image.fromarray(np.linspace(0, 65535, 256).astype(np.uint16).reshape(16, 16)).save(tmp_path / "a.png")

    loaded = load_portrait(tmp_path / "a.png")

    np.testing.assert_array_equal(loaded[..., 0].ravel(), np.arange(256))


def test_transparency_is_laid_over_mid_grey(tmp_path: Path) -> None:
    image = Image.new("RGBA", (8, 8), (255, 0, 0, 0))
    image.paste((255, 0, 0, 255), (0, 0, 4, 8))
    image.save(tmp_path / "a.png")

    loaded = load_portrait(tmp_path / "a.png")

    assert tuple(loaded[0, 0]) == RED
    assert tuple(loaded[0, 7]) == (127, 127, 127)


def test_one_transparent_palette_colour_is_transparency_too(tmp_path: Path) -> None:
    image = Image.new("P", (8, 8), 0)
    image.putpalette([255, 0, 0, 0, 255, 0])
    image.save(tmp_path / "a.png", transparency=0)

    assert tuple(load_portrait(tmp_path / "a.png")[0, 0]) == (127, 127, 127)


def test_an_embedded_colour_profile_is_converted(tmp_path: Path) -> None:
    lab = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    Image.new("RGB", (8, 8), (200, 100, 50)).save(tmp_path / "srgb.png", icc_profile=lab)
    Image.new("RGB", (8, 8), (200, 100, 50)).save(tmp_path / "broken.png", icc_profile=b"no profile")

    for name in ("srgb.png", "broken.png"):
        np.testing.assert_allclose(load_portrait(tmp_path / name)[0, 0], (200, 100, 50), atol=1)


@pytest.mark.parametrize("size", [(1, 1), (511, 513), (1, 300), (2048, 2048)])
def test_odd_sizes_stay_as_they_are(tmp_path: Path, size: tuple[int, int]) -> None:
    Image.new("RGB", size, RED).save(tmp_path / "a.png")

    assert load_portrait(tmp_path / "a.png").shape == (size[1], size[0], 3)


@pytest.mark.parametrize(("size", "shape"), [((4000, 3000), (1536, 2048, 3)), ((9000, 2), (1, 2048, 3))])
def test_large_pictures_are_scaled_down_in_proportion(
    tmp_path: Path, size: tuple[int, int], shape: tuple[int, ...]
) -> None:
    corners(*size).save(tmp_path / "a.jpg")

    loaded = load_portrait(tmp_path / "a.jpg")

    assert loaded.shape == shape


@pytest.mark.parametrize("suffix", ["jpg", "png"])
def test_a_picture_of_8000_by_8000_is_loaded(tmp_path: Path, suffix: str) -> None:
    corners(8000, 8000).save(tmp_path / f"a.{suffix}", **({"compress_level": 1} if suffix == "png" else {}))

    loaded = load_portrait(tmp_path / f"a.{suffix}")

    assert loaded.shape == (2048, 2048, 3)
    assert seen(loaded) == [RED, GREEN, BLUE, WHITE]


def test_a_large_jpeg_is_never_decoded_at_full_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[tuple[int, int]] = []
    resize = Image.Image.resize

    def noted(image: Image.Image, *args: Any, **options: Any) -> Image.Image:
        decoded.append(image.size)
        return resize(image, *args, **options)

    corners(6000, 6000).save(tmp_path / "a.jpg")
    monkeypatch.setattr(Image.Image, "resize", noted)

    load_portrait(tmp_path / "a.jpg", max_side=512)

    assert decoded[0] == (750, 750)  # an eighth; the JPEG decoder knows halves, quarters and eighths


def huge_png(width: int, height: int) -> bytes:
    """A PNG that says how large it is and has nothing behind it."""
    chunks = (b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0), b"IDAT")
    packed = (struct.pack(">I", len(c) - 4) + c + struct.pack(">I", zlib.crc32(c)) for c in chunks)
    return b"\x89PNG\r\n\x1a\n" + b"".join(packed)


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
@pytest.mark.parametrize("size", [(9500, 9500), (12000, 9000), (60000, 60000)])
def test_decompression_bombs_are_refused_before_they_are_unpacked(
    tmp_path: Path, size: tuple[int, int]
) -> None:
    (tmp_path / "bomb.png").write_bytes(huge_png(*size))

    with pytest.raises(MediaError, match=r"bomb\.png.*too large.*scale it down"):
        load_portrait(tmp_path / "bomb.png")


@pytest.mark.parametrize(
    "name", ["./my.face.jpg", "你好 world.png", pytest.param('it\'s "me".png', marks=POSIX_NAME), "no_suffix"]
)
def test_odd_file_names_are_only_names(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    corners().save(name, format="PNG")

    assert seen(load_portrait(name)) == [RED, GREEN, BLUE, WHITE]


def test_a_wrong_suffix_does_not_matter(tmp_path: Path) -> None:
    corners().save(tmp_path / "a.png", format="JPEG")

    assert seen(load_portrait(tmp_path / "a.png")) == [RED, GREEN, BLUE, WHITE]


@pytest.mark.parametrize("kept", [0.1, 0.5, 0.95])
@pytest.mark.parametrize("suffix", ["jpg", "png", "gif", "webp", "tif"])
def test_a_truncated_picture_is_called_truncated(tmp_path: Path, suffix: str, kept: float) -> None:
    noise = np.random.default_rng(0).integers(0, 255, (64, 64, 3), dtype=np.uint8)
    stream = io.BytesIO()
    Image.fromarray(noise).save(stream, format={"jpg": "JPEG", "tif": "TIFF"}.get(suffix, suffix))
    (tmp_path / f"cut.{suffix}").write_bytes(stream.getvalue()[: int(len(stream.getvalue()) * kept)])

    with pytest.raises(MediaError, match=rf"cut\.{suffix}.*truncated"):
        load_portrait(tmp_path / f"cut.{suffix}")


@pytest.mark.parametrize(
    ("content", "cause"),
    [
        (b"", "empty"),
        (b"I am a text file\n" * 10, "text file"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", "git lfs pull"),
        (np.random.default_rng(0).bytes(5000), "no known format"),
        (b"%PDF-1.7\n" + bytes(100), "PDF"),
        (b"\x00\x00\x00\x20ftypheic\x00\x00\x00\x00mif1heic" + bytes(100), "HEIC.*pillow-heif|truncated"),
    ],
    ids=["empty", "text", "lfs pointer", "noise", "pdf", "heic"],
)
def test_what_is_no_picture_is_named_for_what_it_is(tmp_path: Path, content: bytes, cause: str) -> None:
    (tmp_path / "face.png").write_bytes(content)

    with pytest.raises(MediaError, match=cause) as caught:
        load_portrait(tmp_path / "face.png")

    assert "face.png" in str(caught.value)


def test_heic_without_its_plug_in_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pillow_heif", None)  # as if it were not installed
    (tmp_path / "face.heic").write_bytes(b"\x00\x00\x00\x20ftypheic\x00\x00\x00\x00mif1heic" + bytes(100))

    with pytest.raises(MediaError, match=r"face\.heic.*HEIC.*pip install pillow-heif"):
        load_portrait(tmp_path / "face.heic")


def test_a_folder_and_a_missing_file_are_named(tmp_path: Path) -> None:
    with pytest.raises(MediaError, match=f"{tmp_path.name}.*folder"):
        load_portrait(tmp_path)
    with pytest.raises(MediaError, match="nobody.png.*no such file"):
        load_portrait(tmp_path / "nobody.png")


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
@pytest.mark.filterwarnings("ignore")
def test_a_damaged_picture_gives_pixels_or_a_media_error_and_nothing_else(data: st.DataObject) -> None:
    stream = io.BytesIO()
    kind = data.draw(st.sampled_from(["JPEG", "PNG", "GIF", "WEBP", "TIFF", "BMP"]))
    corners().save(stream, format=kind, exif=Image.Exif())
    content = bytearray(stream.getvalue())
    for place in data.draw(st.lists(st.integers(0, len(content) - 1), min_size=1, max_size=6)):
        content[place] = data.draw(st.integers(0, 255))

    try:
        loaded = load_portrait(bytes(content))
    except MediaError:
        return
    assert loaded.ndim == 3


def test_the_first_frame_of_an_animation_is_the_portrait(tmp_path: Path) -> None:
    first, second = Image.new("RGB", (8, 8), RED), Image.new("RGB", (8, 8), BLUE)
    first.save(tmp_path / "a.gif", save_all=True, append_images=[second])

    assert tuple(load_portrait(tmp_path / "a.gif")[0, 0]) == RED


@pytest.mark.parametrize(
    "array",
    [
        np.asarray(corners()),
        np.asarray(corners()).astype(np.int64),
        np.asarray(corners()).astype(np.uint16) * 257,
        np.asarray(corners()).astype(np.float32) / 255,
        np.asarray(corners().convert("RGBA")),
    ],
    ids=["uint8", "int64", "uint16", "float32", "rgba"],
)
def test_arrays_of_any_usual_type_are_taken(array: Any) -> None:
    np.testing.assert_array_equal(load_portrait(array), np.asarray(corners()))


@pytest.mark.parametrize("shape", [(8, 8), (8, 8, 1)])
def test_grey_arrays_become_rgb(shape: tuple[int, ...]) -> None:
    assert load_portrait(np.full(shape, 9, np.uint8)).shape == (8, 8, 3)


@pytest.mark.parametrize(
    ("array", "cause"),
    [
        (np.zeros((3, 8, 8), np.uint8), "shape"),
        (np.zeros((0, 8, 3), np.uint8), "shape"),
        (np.zeros(8, np.uint8), "shape"),
        (np.full((8, 8, 3), 200.0), "0..1"),
        (np.full((8, 8, 3), np.nan), "0..1"),
        (np.full((8, 8, 3), "a"), "uint8"),
    ],
)
def test_arrays_that_are_no_picture_are_refused_with_a_reason(array: Any, cause: str) -> None:
    with pytest.raises(MediaError, match=cause):
        load_portrait(array)


def test_a_pillow_image_is_taken_and_left_alone() -> None:
    image = corners(4096, 32)

    assert load_portrait(image).shape == (16, 2048, 3)
    assert image.size == (4096, 32)


def test_the_result_can_be_written_to() -> None:
    array = np.asarray(corners()).copy()
    loaded = load_portrait(array)

    loaded[:] = 0

    assert array.any()
