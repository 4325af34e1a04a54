"""A face that does not speak is alive, and never strange."""

from __future__ import annotations

import numpy as np
import pytest
from utterances import Run, joined, voice

from linly_pipeline.packets import Audio, FloatArray, Phoneme, Speech
from linly_pipeline.stages.motion.arkit import INDEX
from linly_pipeline.stages.motion.idle import SWAY_DEGREES, Idle

MINUTE_S = np.arange(60 * 100) / 100


def blink_starts(closed: FloatArray) -> FloatArray:
    return np.flatnonzero((closed[1:] > 0) & (closed[:-1] == 0)) / 100


@pytest.mark.parametrize("seed", range(5))
def test_blinks_come_every_2_to_4_and_a_half_seconds_and_close_fully(seed: int) -> None:
    closed = Idle(seed).blink(MINUTE_S)
    every_s = np.diff(blink_starts(closed))
    assert 1.95 <= every_s.min() <= every_s.max() <= 4.55
    assert closed.max() > 0.95


def test_lids_fall_faster_than_they_rise() -> None:
    closed = Idle(0).blink(MINUTE_S)
    start = int(blink_starts(closed)[0] * 100)
    shut = start + int(np.argmax(closed[start : start + 40]))
    end = shut + int(np.argmax(closed[shut:] == 0))
    assert (shut - start) / 100 == pytest.approx(0.09, abs=0.02)
    assert (end - shut) / 100 == pytest.approx(0.17, abs=0.02)


def test_the_head_sways_a_little_and_smoothly() -> None:
    pose = np.degrees(Idle(3).pose(MINUTE_S)[:, :3])
    most = np.abs(pose).max(axis=0)
    assert (most <= np.array(SWAY_DEGREES) + 1e-3).all()
    assert (most > 0.4 * np.array(SWAY_DEGREES)).all()
    assert np.abs(np.diff(pose, axis=0)).max() * 100 < 5.0  # degrees a second


def test_the_head_begins_where_the_photo_has_it() -> None:
    assert np.abs(Idle(1).pose(np.array([0.0]))).max() == 0.0


def test_life_depends_on_media_time_alone_not_on_how_it_is_cut() -> None:
    whole, pieces = Idle(9), Idle(9)
    parts = [pieces.blink(part) for part in np.array_split(MINUTE_S, 37)]
    assert np.array_equal(np.concatenate(parts), whole.blink(MINUTE_S))


def test_life_goes_on_through_silence_while_the_mouth_rests(run: Run) -> None:
    motions = run(Speech(Audio(np.zeros(10 * 16_000, np.float32), 16_000)), idle=True)
    rows, pose = joined(motions), np.concatenate([motion.pose for motion in motions])
    eyes = [INDEX["eyeBlinkLeft"], INDEX["eyeBlinkRight"]]
    assert rows[:, eyes].max() > 0.5
    assert np.ptp(pose[:, 1]) > 0.01
    assert not np.delete(rows, eyes, axis=1).any()


def test_stressed_vowels_raise_the_brows_and_nod_now_and_then(run: Run) -> None:
    phonemes = tuple(Phoneme("ɑ", 0.3 * i, 0.3 * i + 0.2, 2) for i in range(40))
    rows = joined(run(Speech(voice(12.5), phonemes=phonemes), idle=True))
    brows = rows[:, INDEX["browInnerUp"]]
    raises = int(((brows[1:] > 0.05) & (brows[:-1] <= 0.05)).sum())
    assert 3 <= raises <= 11
    assert 0.15 < brows.max() < 0.35


def test_unstressed_speech_leaves_the_brows_alone(run: Run) -> None:
    phonemes = tuple(Phoneme("ɑ", 0.3 * i, 0.3 * i + 0.2) for i in range(20))
    assert not joined(run(Speech(voice(6.5), phonemes=phonemes), idle=True))[:, INDEX["browInnerUp"]].any()
