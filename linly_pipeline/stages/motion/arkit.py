"""The 52 facial blendshapes of ARKit, in the order of Apple's `ARFaceAnchor.BlendShapeLocation` listing.

Source: https://developer.apple.com/documentation/arkit/arfaceanchor/blendshapelocation
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from linly_pipeline.packets import FloatArray

NAMES: tuple[str, ...] = (
    "eyeBlinkLeft",
    "eyeLookDownLeft",
    "eyeLookInLeft",
    "eyeLookOutLeft",
    "eyeLookUpLeft",
    "eyeSquintLeft",
    "eyeWideLeft",
    "eyeBlinkRight",
    "eyeLookDownRight",
    "eyeLookInRight",
    "eyeLookOutRight",
    "eyeLookUpRight",
    "eyeSquintRight",
    "eyeWideRight",
    "jawForward",
    "jawLeft",
    "jawRight",
    "jawOpen",
    "mouthClose",
    "mouthFunnel",
    "mouthPucker",
    "mouthLeft",
    "mouthRight",
    "mouthSmileLeft",
    "mouthSmileRight",
    "mouthFrownLeft",
    "mouthFrownRight",
    "mouthDimpleLeft",
    "mouthDimpleRight",
    "mouthStretchLeft",
    "mouthStretchRight",
    "mouthRollLower",
    "mouthRollUpper",
    "mouthShrugLower",
    "mouthShrugUpper",
    "mouthPressLeft",
    "mouthPressRight",
    "mouthLowerDownLeft",
    "mouthLowerDownRight",
    "mouthUpperUpLeft",
    "mouthUpperUpRight",
    "browDownLeft",
    "browDownRight",
    "browInnerUp",
    "browOuterUpLeft",
    "browOuterUpRight",
    "cheekPuff",
    "cheekSquintLeft",
    "cheekSquintRight",
    "noseSneerLeft",
    "noseSneerRight",
    "tongueOut",
)

INDEX: dict[str, int] = {name: i for i, name in enumerate(NAMES)}


def columns(name: str) -> tuple[int, ...]:
    """Indices of a blendshape; a name without its side ("mouthSmile") gives left and right.

    Raises:
        KeyError: no such blendshape.
    """
    if name in INDEX:
        return (INDEX[name],)
    return (INDEX[f"{name}Left"], INDEX[f"{name}Right"])


def spread(names: Iterable[str]) -> FloatArray:
    """`[len(names), 52]`: multiply rows of values for `names` by it to get ARKit rows, both sides alike."""
    names = list(names)
    matrix = np.zeros((len(names), len(NAMES)), np.float32)
    for row, name in enumerate(names):
        matrix[row, list(columns(name))] = 1.0
    return matrix
