"""Portraits in: any picture file or array as upright 8-bit RGB."""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from os import PathLike
from typing import TYPE_CHECKING, Any, BinaryIO, TypeAlias

import numpy as np
import numpy.typing as npt

from linly_pipeline.errors import MediaError
from linly_pipeline.media.source import HEAD_BYTES, is_heic, source_path, true_cause, unreadable
from linly_pipeline.packets import UInt8Array

if TYPE_CHECKING:
    from PIL.Image import Image

Source: TypeAlias = "str | PathLike[str] | bytes | npt.NDArray[np.generic] | Image"

MAX_SIDE = 2048  # pixels; more than any face model takes
ORIENTATION = 0x0112  # tag of TIFF 6.0 and Exif 2.3, as are its values; Pillow turns counter-clockwise
ORIENTATIONS = {
    2: "FLIP_LEFT_RIGHT",
    3: "ROTATE_180",
    4: "FLIP_TOP_BOTTOM",
    5: "TRANSPOSE",
    6: "ROTATE_270",
    7: "TRANSVERSE",
    8: "ROTATE_90",
}
# What Pillow's decoders raise on damaged data, beside UnidentifiedImageError.
DAMAGE = (OSError, SyntaxError, ValueError, EOFError, struct.error)
# Decoding takes up to 4 bytes a pixel: 360 MB. Pillow warns of decompression bombs from the same size on.
MAX_PIXELS = 89_000_000
BACKGROUND = (127, 127, 127)  # mid-grey: neither a white nor a black halo around cut-out hair


def load_portrait(source: Source, max_side: int = MAX_SIDE) -> UInt8Array:
    """Load a picture as `[height, width, 3]` uint8 RGB, upright.

    EXIF orientation is applied, transparency is laid over mid-grey, embedded colour profiles are converted
    to sRGB, 16 bits become 8, and a larger picture is scaled down to `max_side`. Of an animation it is the
    first frame.

    Args:
        source: a file; the bytes of one; a Pillow image; or an array, `[h, w]` grey, `[h, w, 3]` RGB or
            `[h, w, 4]` RGBA, as uint8, uint16, or float in 0..1.
        max_side: the longer side of the result, at most, in pixels.

    Raises:
        MediaError: missing, a folder, no picture, truncated, of an unsupported kind, or above 89 megapixels.
    """
    from PIL import Image

    if isinstance(source, np.ndarray):
        return _upright_rgb(_from_array(source), max_side)
    if isinstance(source, Image.Image):
        with _errors_of("the image", b""):
            return _upright_rgb(source, max_side)
    if isinstance(source, bytes):
        return _decode(io.BytesIO(source), f"{len(source)} bytes", max_side)
    with source_path(source, "a picture").open("rb") as file:
        return _decode(file, source, max_side)


def _decode(file: BinaryIO, name: str | PathLike[str], max_side: int) -> UInt8Array:
    from PIL import Image

    head = file.read(HEAD_BYTES)
    file.seek(0)
    if is_heic(head):
        # Without the plug-in the picture stays unidentified, and the error says what to install.
        with suppress(ImportError):
            import_module("pillow_heif").register_heif_opener()
    with _errors_of(name, head), Image.open(file) as image:
        if image.width * image.height > MAX_PIXELS:
            raise _too_large(name, f"{image.width} x {image.height} pixels")
        image.draft("RGB", (max_side, max_side))  # a JPEG is decoded at a half, a quarter or an eighth
        return _upright_rgb(image, max_side)


@contextmanager
def _errors_of(name: str | PathLike[str], head: bytes) -> Iterator[None]:
    """Errors of Pillow become `MediaError`."""
    from PIL import Image, UnidentifiedImageError

    try:
        yield
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise _too_large(name, str(error)) from None
    except UnidentifiedImageError:
        raise unreadable(name, "a picture", true_cause(head, "a picture")) from None
    except DAMAGE as error:
        cause = f"it is truncated or damaged ({error}); use the original file"
        raise unreadable(name, "a picture", cause) from error


def _too_large(name: str | PathLike[str], size: str) -> MediaError:
    cause = f"it is too large ({size}), the limit is {MAX_PIXELS // 1_000_000} megapixels; scale it down"
    return unreadable(name, "a picture", cause)


def _upright_rgb(image: Image, max_side: int) -> UInt8Array:
    from PIL.Image import Transpose

    profile = image.info.get("icc_profile")
    flat = _flat(_scaled_down(_eight_bits(image), max_side))
    rgb = _srgb(flat, profile) if profile else flat.convert("RGB")
    turn = ORIENTATIONS.get(image.getexif().get(ORIENTATION, 1))
    return np.array(rgb.transpose(Transpose[turn]) if turn else rgb, np.uint8)


def _eight_bits(image: Image) -> Image:
    """The picture in a mode that scales well: 8 bits a channel, no palette, and alpha where it has any."""
    if image.mode.startswith("I"):  # 16 bits; some versions of Pillow hold them in 32
        return _from_array(np.asarray(image).clip(0, 65535).astype(np.uint16))
    if image.mode == "F":
        values = np.asarray(image).clip(0, None)
        return _from_array(values / max(1.0, float(values.max())))
    if "transparency" in image.info or image.mode in ("PA", "LA", "La", "RGBa"):
        return image.convert("RGBA")
    if image.mode in ("1", "P"):
        return image.convert("RGB")
    return image


def _scaled_down(image: Image, max_side: int) -> Image:
    from PIL.Image import Resampling

    share = max_side / max(image.size)
    if share >= 1:
        return image
    size = (max(1, round(image.width * share)), max(1, round(image.height * share)))
    return image.resize(size, Resampling.LANCZOS, reducing_gap=2.0)


def _flat(image: Image) -> Image:
    """Lay transparency over the background."""
    from PIL import Image as Images

    if image.mode != "RGBA":
        return image
    sheet = Images.new("RGBA", image.size, (*BACKGROUND, 255))
    return Images.alpha_composite(sheet, image).convert("RGB")


def _srgb(image: Image, profile: bytes) -> Image:
    """Convert colours from an embedded profile; one that is broken or does not fit is left out."""
    from PIL import ImageCms

    try:
        source = ImageCms.ImageCmsProfile(io.BytesIO(profile))
        converted = ImageCms.profileToProfile(image, source, ImageCms.createProfile("sRGB"), outputMode="RGB")
    except (ImageCms.PyCMSError, OSError):
        return image.convert("RGB")
    return converted or image.convert("RGB")


def _from_array(array: npt.NDArray[np.generic]) -> Image:
    from PIL import Image

    if array.ndim == 3 and array.shape[2] == 1:
        array = array[:, :, 0]
    channels = array.shape[2] if array.ndim == 3 else 1
    if array.ndim not in (2, 3) or channels not in (1, 3, 4) or not array.size:
        raise MediaError(
            f"an array of shape {list(array.shape)} is no picture; give [h, w], [h, w, 3] or [h, w, 4]"
        )
    return Image.fromarray(np.ascontiguousarray(_bytes_of(array)))


def _bytes_of(array: npt.NDArray[Any]) -> UInt8Array:
    """Values as 0..255."""
    kind = array.dtype.kind
    if array.dtype == np.uint8:
        return array.astype(np.uint8)
    if array.dtype == np.uint16:
        return np.asarray(array >> 8, np.uint8)
    low, high = (float(array.min()), float(array.max())) if kind in "iuf" else (np.nan, np.nan)
    if kind == "f" and low >= 0 and high <= 1:
        return np.asarray(np.rint(array * np.float32(255)), np.uint8)
    if kind in "iu" and low >= 0 and high <= 255:
        return array.astype(np.uint8)
    scale = "give uint8, uint16, or float in 0..1"
    raise MediaError(f"a picture of {array.dtype} values in {low:g}..{high:g} has no known scale; {scale}")
