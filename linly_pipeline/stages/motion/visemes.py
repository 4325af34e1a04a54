"""Mouth motion from phonemes and their times."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, ClassVar

from linly_pipeline.errors import ConfigError
from linly_pipeline.packets import Motion, Speech
from linly_pipeline.registry import About
from linly_pipeline.stage import Stage
from linly_pipeline.stages.motion.framing import check_framing
from linly_pipeline.stages.motion.track import Track

if TYPE_CHECKING:
    from linly_pipeline.turn import Turn


class Visemes(Stage[Speech, Motion]):
    """ARKit curves from phonemes: coarticulated, with firm closures, blinks, a little sway and small accents.

    A fragment without phonemes moves the mouth by its loudness. Sound that does not fill a frame waits for
    the next fragment; the end of the stream gives the last frame. The sound of all packets joins to the sound
    of all fragments, sample for sample.

    Args:
        fps: frames per second.
        lead_ms: how far the mouth is ahead of the sound; people's lips are, and viewers expect it.
        chunk_frames: most frames in one packet: small for an early first frame.
        idle: blinks, sway and accents; False leaves only the mouth.

    Raises:
        ConfigError: a setting is out of range.
    """

    name = "visemes"
    kind: ClassVar[str] = "motion"
    about = About(
        "phonemes to ARKit blendshapes by rules, with blinks and a little sway",
        licence="Apache-2.0",
        streaming="frame",
    )
    _by_phonemes: ClassVar[bool] = True

    def __init__(
        self, *, fps: int = 25, lead_ms: float = 40.0, chunk_frames: int = 5, idle: bool = True
    ) -> None:
        check_framing(self.name, fps, chunk_frames)
        if not 0.0 <= lead_ms <= 200.0:
            raise ConfigError(f"{self.name}: lead_ms must be from 0 to 200, not {lead_ms!r}")
        self.fps = fps
        self.lead_ms = lead_ms
        self.chunk_frames = chunk_frames
        self.idle = idle

    async def run(self, stream: AsyncIterator[Speech], turn: Turn) -> AsyncIterator[Motion]:
        track = self._track(turn.seed)
        async for speech in stream:
            with turn.span("motion.shape", audio_s=round(speech.audio.duration_s, 3)):
                motions = list(track.push(speech))
            for motion in motions:
                yield motion
        for motion in track.flush():
            yield motion

    def _track(self, seed: int) -> Track:
        lead_s = self.lead_ms / 1000
        return Track(self.fps, lead_s, self.chunk_frames, seed, by_phonemes=self._by_phonemes, idle=self.idle)
