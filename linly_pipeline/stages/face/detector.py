"""Where faces are in a picture: BlazeFace's anchors, boxes and key points, in NumPy.

After Bazarevsky et al., "BlazeFace: Sub-millisecond Neural Face Detection on Mobile GPUs" (2019), and the
anchor and tensor options of MediaPipe's `face_detection_short_range` graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from linly_pipeline.packets import UInt8Array
from linly_pipeline.stages.face.arrays import Array

SIZE = 128
_LAYERS = ((16, 2), (8, 6))  # cells a side, anchors a cell
_SAME_FACE = 0.3  # overlap from which two boxes are one face
_LEAST_SCORE = 0.5
_LEAST_SCORE_IN_TILE = 0.6  # a tile shows more noise than a whole picture
_TILED_FROM_PX = 256

Network = Callable[[Array], tuple[Array, ...]]


@dataclass(frozen=True, slots=True)
class Detection:
    """A face as the detector sees it.

    Attributes:
        score: 0..1.
        box: x0, y0, x1, y1 in pixels.
        points: `[6, 2]` pixels: the eye on the left of the picture, the other eye, nose, mouth, ears.
    """

    score: float
    box: Array
    points: Array


def anchors() -> Array:
    """Centres of the 896 anchors, `[896, 2]` in 0..1."""
    rows = []
    for cells, times in _LAYERS:
        line = (np.arange(cells) + 0.5) / cells
        grid = np.stack(np.meshgrid(line, line), axis=-1).reshape(-1, 2)
        rows.append(np.repeat(grid, times, axis=0))
    return np.concatenate(rows).astype(np.float32)


_ANCHORS = anchors()


def detect(image: UInt8Array, network: Network) -> list[Detection]:
    """Faces in an RGB picture, largest first: the whole, closer, and closest if none was found."""
    height, width = image.shape[:2]
    found = _look(image, network, 0, 0, max(height, width), _LEAST_SCORE)
    for part in (2, 4):
        side = max(height, width) // part
        if side < _TILED_FROM_PX // 2 or (part > 2 and found):
            break
        for top, left in _tiles(height, width, side):
            tile = image[top : top + side, left : left + side]
            inside = _look(tile, network, left, top, side, _LEAST_SCORE_IN_TILE)
            found += [face for face in inside if _is_whole(face, left, top, side, width, height)]
    return sorted(_distinct(found), key=lambda face: -float(np.prod(face.box[2:] - face.box[:2])))


def _tiles(height: int, width: int, side: int) -> Iterator[tuple[int, int]]:
    """Top left corners of squares that cover the picture and overlap by half."""
    for top in range(0, max(1, height - side // 2), side // 2):
        for left in range(0, max(1, width - side // 2), side // 2):
            yield top, left


def _is_whole(face: Detection, left: int, top: int, side: int, width: int, height: int) -> bool:
    """False if an edge of the tile cuts the face and not the picture's: another tile has all of it."""
    x0, y0, x1, y1 = face.box
    cut = (x0 < left and left > 0) or (y0 < top and top > 0)
    return not (cut or (x1 > left + side < width) or (y1 > top + side < height))


def _look(
    image: UInt8Array, network: Network, left: int, top: int, side: int, least: float
) -> list[Detection]:
    """Run the network on a square of `side` pixels; what the picture does not fill stays black."""
    import cv2

    scale = SIZE / side
    height, width = image.shape[:2]
    small = cv2.resize(
        image, (max(1, round(width * scale)), max(1, round(height * scale))), interpolation=cv2.INTER_AREA
    )
    square = np.full((SIZE, SIZE, 3), -1.0, np.float32)
    square[: small.shape[0], : small.shape[1]] = small[:SIZE, :SIZE] / 127.5 - 1.0
    raw, logits = network(square[None])[:2]
    scores = 1.0 / (1.0 + np.exp(-np.clip(logits.reshape(-1), -80, 80)))
    return _decode(raw.reshape(-1, 16), scores, least, side, np.array([left, top], np.float32))


def _decode(raw: Array, scores: Array, least: float, side: int, offset: Array) -> list[Detection]:
    """Boxes and key points of the anchors that see a face, in pixels of the whole picture."""
    keep = np.flatnonzero(scores >= least)
    centre = raw[keep, :2] / SIZE + _ANCHORS[keep]
    half = raw[keep, 2:4] / SIZE / 2
    boxes = np.concatenate([centre - half, centre + half], axis=1) * side + np.tile(offset, 2)
    points = (raw[keep, 4:].reshape(-1, 6, 2) / SIZE + _ANCHORS[keep, None]) * side + offset
    return _distinct([Detection(float(scores[k]), boxes[i], points[i]) for i, k in enumerate(keep)])


def _distinct(found: list[Detection]) -> list[Detection]:
    """One of each group of boxes that overlap: the surest, at the weighted mean of the group."""
    rest = sorted(found, key=lambda face: -face.score)
    kept: list[Detection] = []
    while rest:
        group = [face for face in rest if overlap(face.box, rest[0].box) > _SAME_FACE]
        rest = [face for face in rest if overlap(face.box, rest[0].box) <= _SAME_FACE]
        weight = np.array([face.score for face in group], np.float32)
        weight /= weight.sum()
        box = np.tensordot(weight, np.array([face.box for face in group]), 1)
        points = np.tensordot(weight, np.array([face.points for face in group]), 1)
        kept.append(Detection(group[0].score, box, points))
    return kept


def overlap(a: Array, b: Array) -> float:
    """Intersection over the smaller of two boxes: a face within a face is the same face."""
    inner = np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2])
    if inner.min() <= 0:
        return 0.0
    smaller = min(float(np.prod(a[2:] - a[:2])), float(np.prod(b[2:] - b[:2])))
    return float(np.prod(inner)) / max(smaller, 1e-6)
