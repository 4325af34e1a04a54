"""A portrait photo that speaks."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from linly_pipeline.errors import ConfigError
from linly_pipeline.packets import Motion, UInt8Array, Video
from linly_pipeline.registry import About
from linly_pipeline.stage import Stage
from linly_pipeline.stages.face.landmarks import Landmarker, require_face_packages
from linly_pipeline.stages.face.portrait import prepare
from linly_pipeline.stages.face.warp import Warp
from linly_pipeline.stages.motion.arkit import NAMES
from linly_pipeline.workers import Worker

if TYPE_CHECKING:
    from linly_pipeline.turn import Turn

_SIZES = (64, 2048)

log = logging.getLogger(__name__)


class Portrait(Stage[Motion, Video]):
    """One photo, moved by blendshapes and head pose, on one CPU core.

    The photo's face is bent by smooth fields; a mouth that is open in the photo is closed first; the inside of
    the mouth and the closing lids are drawn. Pixels away from the head stay as they are.

    Args:
        image: a picture file, a portrait's name in the model store, or `[H, W, 3]` uint8 RGB.
        size: length of the longer side of the video, in pixels, rounded to an even number.
        face: which face of the picture, the largest is 0.
        crop: True for head and shoulders, False for the whole picture.
        landmarks: a `face_landmarker.task` file; the model store's if None.

    Attributes:
        warnings: what may look odd about the photo, in words; known after `load()`.

    Raises:
        ConfigError: a setting is out of range, or a package is missing (`load()`).
        MediaError: the picture cannot be read or has no usable face (`load()`).
        ModelError: the landmark model is missing or broken (`load()`).
    """

    name = "portrait"
    kind: ClassVar[str] = "face"
    itemwise = True
    about = About(
        "a photo, bent by 2-D fields: lips, lids, brows and a little head movement",
        modules=("cv2", "ai_edge_litert"),
        extra="face",
        models=("face-landmarker",),
        licence="Apache-2.0",
        streaming="frame",
    )

    def __init__(
        self,
        image: str | PathLike[str] | UInt8Array,
        *,
        size: int = 512,
        face: int = 0,
        crop: bool = True,
        landmarks: str | PathLike[str] | None = None,
    ) -> None:
        if not _SIZES[0] <= size <= _SIZES[1]:
            raise ConfigError(f"portrait: size is {_SIZES[0]} to {_SIZES[1]} pixels, not {size}")
        if face < 0:
            raise ConfigError(f"portrait: face counts from 0, it cannot be {face}")
        self.image = image
        self.size = size
        self.face = face
        self.crop = crop
        self.landmarks = landmarks
        self.warnings: tuple[str, ...] = ()
        self._worker = Worker("linly-portrait")
        self._warp: Warp | None = None

    async def load(self) -> None:
        if self._warp is None:
            self._warp, self.warnings = await self._worker.call(None, self._load)
            # A portrait of the store has been looked at already.
            level = logging.DEBUG if self._named else logging.WARNING
            for warning in self.warnings:
                log.log(level, "%s: %s", self._picture, warning)

    async def close(self) -> None:
        self._warp = None
        await self._worker.close()

    async def run(self, stream: AsyncIterator[Motion], turn: Turn) -> AsyncIterator[Video]:
        async for motion in stream:
            frames = await self._worker.call(turn, self._render, motion, turn)
            yield Video(motion.audio, frames, motion.fps, motion.first_frame)

    def _load(self) -> tuple[Warp, tuple[str, ...]]:
        from linly_pipeline.media.image import load_portrait
        from linly_pipeline.models import check_file, locate

        require_face_packages()
        image = load_portrait(locate(str(self.image)) if self._named else self.image)
        path = check_file(self.landmarks, kind="task") if self.landmarks else locate("face-landmarker")
        landmarker = Landmarker(path)
        state = prepare(image, landmarker, size=self.size, face=self.face, crop=self.crop, name=self._picture)
        warp = Warp(state)
        warp.render(np.full((1, len(NAMES)), 0.1, np.float32), np.zeros((1, 6), np.float32))
        return warp, state.warnings

    def _render(self, motion: Motion, turn: Turn) -> UInt8Array:
        assert self._warp is not None, "load() comes before run()"
        with turn.span("face.render", frames=len(motion.blendshapes), first_frame=motion.first_frame):
            return self._warp.render(motion.blendshapes, motion.pose)

    @property
    def _named(self) -> bool:
        from linly_pipeline.models import CATALOGUE

        return isinstance(self.image, str) and self.image in CATALOGUE

    @property
    def _picture(self) -> str:
        return "the picture" if isinstance(self.image, np.ndarray) else f"'{Path(self.image)}'"

    def __repr__(self) -> str:
        return f"Portrait({self._picture}, size={self.size})"
