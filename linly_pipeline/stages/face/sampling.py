"""The few OpenCV calls of the face stages, with their types. OpenCV is imported by the first call."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any, TypeVar

import numpy as np

from linly_pipeline.packets import FloatArray, UInt8Array
from linly_pipeline.stages.face.arrays import Array

T = TypeVar("T", UInt8Array, FloatArray)


@cache
def opencv() -> Any:
    """The module `cv2`."""
    return import_module("cv2")


def sample(image: UInt8Array, places: Array) -> UInt8Array:
    """A picture at `[h, w, 2]` places (x, y) in pixels, by cubic interpolation; its edge goes on beyond it."""
    cv2 = opencv()
    maps = np.asarray(places, np.float32)
    picked: UInt8Array = cv2.remap(image, maps, None, cv2.INTER_CUBIC, borderMode=cv2.BORDER_REPLICATE)
    return picked


def sample_field(field: FloatArray, places: FloatArray) -> FloatArray:
    """A smooth field at places, linearly."""
    cv2 = opencv()
    picked: FloatArray = cv2.remap(field, places, None, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
    return picked


def enlarge(field: FloatArray, times: int) -> FloatArray:
    """A field `[rows, columns, ...]` on `times` as many pixels each way."""
    cv2 = opencv()
    size = (field.shape[1] * times, field.shape[0] * times)
    larger: FloatArray = cv2.resize(field, size, interpolation=cv2.INTER_LINEAR)
    return larger


def resize(image: UInt8Array, width: int, height: int) -> UInt8Array:
    """A picture at another size, without aliasing and without more blur than it needs."""
    cv2 = opencv()
    shrinks = width < image.shape[1]
    how = cv2.INTER_AREA if shrinks else cv2.INTER_CUBIC
    resized: UInt8Array = cv2.resize(np.ascontiguousarray(image), (width, height), interpolation=how)
    return resized


def cut(image: T, matrix: Array, width: int, height: int) -> T:
    """A piece of a picture: its pixel (x, y) shows the picture at `matrix @ (x, y, 1)`, linearly."""
    cv2 = opencv()
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    piece: T = cv2.warpAffine(image, matrix, (width, height), flags=flags, borderMode=cv2.BORDER_REPLICATE)
    return piece


def blur(field: T, sigma: float) -> T:
    """Gaussian blur."""
    blurred: T = opencv().GaussianBlur(field, (0, 0), sigma)
    return blurred


def blur_across(image: T, sigma: float) -> T:
    """Gaussian blur along the rows alone."""
    blurred: T = opencv().GaussianBlur(image, (2 * int(2.5 * sigma) + 1, 1), sigma)
    return blurred
