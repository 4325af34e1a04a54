"""Sound is cut into frames without losing or repeating a sample."""

from __future__ import annotations

from math import ceil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from linly_pipeline.errors import ConfigError
from linly_pipeline.packets import Audio, Motion, Speech
from linly_pipeline.stages.motion.framing import check_framing, first_sample, frames_needed, whole_frames
from linly_pipeline.stages.motion.track import Track

RATES = st.sampled_from([8_000, 11_025, 16_000, 22_050, 24_000, 44_100, 48_000])
FPS = st.sampled_from([1, 24, 25, 30, 50, 60])


def motions(lengths: list[int], rate_hz: int, fps: int, chunk_frames: int) -> list[Motion]:
    track = Track(fps, 0.04, chunk_frames, 0, by_phonemes=True, idle=True)
    numbers = np.arange(sum(lengths), dtype=np.float32) / 1e6
    found: list[Motion] = []
    start = 0
    for length in lengths:
        audio = Audio(numbers[start : start + length], rate_hz, start)
        found += track.push(Speech(audio))
        start += length
    return [*found, *track.flush()]


@given(st.lists(st.integers(0, 9_000), max_size=6), RATES, FPS, st.integers(1, 9))
def test_all_sound_comes_out_once_and_in_order(
    lengths: list[int], rate_hz: int, fps: int, chunk_frames: int
) -> None:
    found = motions(lengths, rate_hz, fps, chunk_frames)
    total = sum(lengths)
    sound = np.concatenate([motion.audio.samples for motion in found]) if found else np.zeros(0)
    assert np.array_equal(sound, np.arange(total, dtype=np.float32) / 1e6)
    assert sum(len(motion.pose) for motion in found) == ceil(total * fps / rate_hz)


@given(st.lists(st.integers(0, 9_000), max_size=6), RATES, FPS, st.integers(1, 9))
def test_frames_are_numbered_without_gaps_and_own_the_sound_of_their_time(
    lengths: list[int], rate_hz: int, fps: int, chunk_frames: int
) -> None:
    frame = 0
    for motion in motions(lengths, rate_hz, fps, chunk_frames):
        assert motion.first_frame == frame
        assert motion.audio.start == first_sample(frame, rate_hz, fps)
        assert 1 <= len(motion.pose) == len(motion.blendshapes) <= chunk_frames
        frame += len(motion.pose)


@given(st.integers(0, 10**9), RATES, FPS)
def test_the_end_needs_at_most_one_frame_more(samples: int, rate_hz: int, fps: int) -> None:
    assert 0 <= frames_needed(samples, rate_hz, fps) - whole_frames(samples, rate_hz, fps) <= 1


def test_an_hour_does_not_drift() -> None:
    frame = 3600 * 30
    assert first_sample(frame, 44_100, 30) == 3600 * 44_100
    assert whole_frames(3600 * 44_100, 44_100, 30) == frame


def test_a_fragment_at_another_rate_is_brought_to_the_first() -> None:
    track = Track(25, 0.04, 5, 0, by_phonemes=True, idle=False)
    found = [
        *track.push(Speech(Audio(np.zeros(24_000, np.float32), 24_000))),
        *track.push(Speech(Audio(np.zeros(16_000, np.float32), 16_000))),
        *track.flush(),
    ]
    assert {motion.audio.rate_hz for motion in found} == {24_000}
    assert sum(len(motion.audio.samples) for motion in found) == 48_000


@pytest.mark.parametrize(("fps", "chunk_frames"), [(0, 5), (25.0, 5), (-1, 5), (1000, 5), (25, 0)])
def test_settings_that_make_no_frames_are_refused(fps: int, chunk_frames: int) -> None:
    with pytest.raises(ConfigError, match="whole number"):
        check_framing("visemes", fps, chunk_frames)
