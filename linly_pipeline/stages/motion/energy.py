"""Mouth motion from loudness alone."""

from __future__ import annotations

from typing import ClassVar

from linly_pipeline.registry import About
from linly_pipeline.stages.motion.visemes import Visemes


class Energy(Visemes):
    """ARKit curves for sound without phonemes: the louder, the wider, and still in silence and steady noise.

    Takes the same settings as `Visemes`; wrap plain sound as `Speech(audio=...)`.
    """

    name = "energy"
    about = About(
        "loudness to ARKit blendshapes, for voices without phonemes",
        licence="Apache-2.0",
        streaming="frame",
    )
    _by_phonemes: ClassVar[bool] = False
