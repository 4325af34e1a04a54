from __future__ import annotations

import pytest
from utterances import Run

from linly_pipeline.packets import Motion, Speech
from linly_pipeline.stages.motion.track import Track


@pytest.fixture
def run() -> Run:
    """Fragments through one turn's track."""

    def run(
        *fragments: Speech,
        fps: int = 25,
        lead_ms: float = 40.0,
        chunk_frames: int = 5,
        seed: int = 0,
        by_phonemes: bool = True,
        idle: bool = False,
    ) -> list[Motion]:
        track = Track(fps, lead_ms / 1000, chunk_frames, seed, by_phonemes=by_phonemes, idle=idle)
        motions = [motion for fragment in fragments for motion in track.push(fragment)]
        return [*motions, *track.flush()]

    return run
