"""The mouth follows loudness, and stays still where nobody speaks."""

from __future__ import annotations

import numpy as np
import pytest
from utterances import Run, joined, spoken, voice

from linly_pipeline.packets import Audio, Speech
from linly_pipeline.stages.motion.arkit import INDEX

JAW = INDEX["jawOpen"]


def noise(duration_s: float, level_db: float, rate_hz: int = 16_000) -> Speech:
    random = np.random.default_rng(1)
    samples = random.normal(0, 10 ** (level_db / 20), round(duration_s * rate_hz))
    return Speech(Audio(samples.astype(np.float32), rate_hz))


def test_two_seconds_of_digital_silence_keep_the_whole_face_mouth_still(run: Run) -> None:
    assert not joined(run(Speech(Audio(np.zeros(48_000, np.float32), 24_000)), by_phonemes=False)).any()


@pytest.mark.parametrize("level_db", [-70, -50, -30, -15])
def test_steady_noise_keeps_the_mouth_still(run: Run, level_db: float) -> None:
    assert not joined(run(noise(2.0, level_db), by_phonemes=False)).any()


def test_hum_keeps_the_mouth_still(run: Run) -> None:
    time_s = np.arange(32_000) / 16_000
    hum = Speech(Audio((0.3 * np.sin(2 * np.pi * 50 * time_s)).astype(np.float32), 16_000))
    assert joined(run(hum, by_phonemes=False))[:, JAW].max() < 0.02


def syllables(level: float = 0.2) -> Speech:
    """Five times 0.2 s of voice and 0.2 s of silence."""
    part = [voice(0.2, level=level).samples, np.zeros(4_800, np.float32)]
    return Speech(Audio(np.concatenate(part * 5), 24_000))


def test_the_mouth_opens_on_each_syllable_and_closes_between(run: Run) -> None:
    jaw = joined(run(syllables(), by_phonemes=False, lead_ms=0))[:, JAW]
    loud = np.array([jaw[10 * i + 1 : 10 * i + 5].max() for i in range(5)])
    soft = np.array([jaw[10 * i + 8 : 10 * i + 10].min() for i in range(5)])
    assert loud.min() > 0.2
    assert soft.max() < 0.08


def test_a_louder_voice_opens_wider(run: Run) -> None:
    speech = syllables()
    ramp = np.linspace(0.15, 1, len(speech.audio.samples), dtype=np.float32)
    jaw = joined(run(Speech(Audio(speech.audio.samples * ramp, 24_000)), by_phonemes=False))[:, JAW]
    assert jaw[40:].max() > 1.2 * jaw[:10].max()


def test_a_soft_voice_still_moves_the_mouth(run: Run) -> None:
    assert joined(run(syllables(level=0.03), by_phonemes=False))[:, JAW].max() > 0.1


def test_phonemes_are_not_looked_at(run: Run) -> None:
    speech = spoken(["ɑ", "m", "u"])
    plain = speech.replace(phonemes=())
    assert np.array_equal(joined(run(speech, by_phonemes=False)), joined(run(plain)))


def test_packets_of_20_ms_give_nearly_the_motion_of_one_piece(run: Run) -> None:
    whole = syllables()
    pieces = [
        Speech(Audio(whole.audio.samples[at : at + 480], 24_000, at))
        for at in range(0, len(whole.audio.samples), 480)
    ]
    at_once = joined(run(whole, by_phonemes=False, lead_ms=0))[:, JAW]
    streamed = joined(run(*pieces, by_phonemes=False, lead_ms=0))[:, JAW]
    assert len(at_once) == len(streamed)
    assert np.corrcoef(at_once[10:], streamed[10:])[0, 1] > 0.9
