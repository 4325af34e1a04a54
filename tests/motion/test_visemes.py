"""The mouth follows the phonemes."""

from __future__ import annotations

import asyncio
import time

import numpy as np
import pytest
from utterances import Run, joined, spoken, voice

from linly_pipeline import Energy, Visemes
from linly_pipeline.errors import ConfigError
from linly_pipeline.packets import Audio, FloatArray, Phoneme, Speech
from linly_pipeline.stages.motion.arkit import INDEX
from linly_pipeline.testing import check_stage

JAW, CLOSE, PUCKER = INDEX["jawOpen"], INDEX["mouthClose"], INDEX["mouthPucker"]


def opening(rows: FloatArray) -> FloatArray:
    return rows[:, JAW] - rows[:, CLOSE]


def frame_of(time_s: float, lead_s: float = 0.04) -> int:
    return round((time_s - lead_s) * 25)


def test_a_vowel_opens_the_mouth_and_it_rests_before_and_after(run: Run) -> None:
    rows = joined(run(spoken(["ɑ"], each_s=0.3)))
    assert opening(rows)[frame_of(0.35)] > 0.3
    assert opening(rows)[0] < 0.02
    assert opening(rows)[-1] < 0.02


@pytest.mark.parametrize("symbol", ["p", "b", "m"])
@pytest.mark.parametrize("each_s", [0.03, 0.06, 0.1, 0.15])
def test_lips_close_fully_between_open_vowels(run: Run, symbol: str, each_s: float) -> None:
    rows = joined(run(spoken(["ɑ", symbol, "ɑ"], each_s=each_s)))
    closed = frame_of(0.2 + 1.5 * each_s)
    assert opening(rows)[closed] < 0.01
    assert rows[closed, [INDEX["mouthUpperUpLeft"], INDEX["mouthLowerDownRight"]]].max() < 0.01


def test_f_tucks_the_lower_lip_under_the_teeth(run: Run) -> None:
    rows = joined(run(spoken(["ɑ", "f", "ɑ"])))
    touching = frame_of(0.38)
    assert rows[touching, INDEX["mouthRollLower"]] > 0.5
    assert opening(rows)[touching] < 0.05


def test_rounding_reaches_into_the_sound_before(run: Run) -> None:
    """Coarticulation: in "stu" the lips round already on the t."""
    before_u = joined(run(spoken(["t", "u"])))[frame_of(0.3), PUCKER]
    before_i = joined(run(spoken(["t", "i"])))[frame_of(0.3), PUCKER]
    assert before_u > before_i + 0.08


def test_the_mouth_leads_the_sound(run: Run) -> None:
    without = opening(joined(run(spoken(["ɑ"], each_s=0.3), lead_ms=0)))
    ahead = opening(joined(run(spoken(["ɑ"], each_s=0.3), lead_ms=80)))
    assert np.allclose(ahead[3:-4], without[5:-2], atol=0.03)


def test_stress_opens_wider(run: Run) -> None:
    plain = opening(joined(run(spoken(["ɑ"], stress=0)))).max()
    stressed = opening(joined(run(spoken(["ɑ"], stress=2)))).max()
    assert stressed > 1.1 * plain


def test_loudness_opens_wider(run: Run) -> None:
    speech = spoken(["ɑ", "t", "ɑ", "t", "ɑ"], each_s=0.2)
    ramp = np.linspace(0.2, 1.0, len(speech.audio.samples), dtype=np.float32) ** 2
    rows = opening(joined(run(speech.replace(audio=Audio(speech.audio.samples * ramp, 24_000)))))
    assert rows[frame_of(1.1)] > 1.1 * rows[frame_of(0.3)]


def test_phonemes_over_digital_silence_leave_the_mouth_still(run: Run) -> None:
    speech = spoken(["ɑ", "ɛ", "ɔ"])
    silent = speech.replace(audio=Audio(np.zeros_like(speech.audio.samples), 24_000))
    assert not joined(run(silent)).any()


def test_a_short_gap_between_words_does_not_close_the_mouth(run: Run) -> None:
    phonemes = (Phoneme("ɑ", 0.2, 0.4), Phoneme("", 0.4, 0.44), Phoneme("ɑ", 0.44, 0.64))
    rows = opening(joined(run(Speech(voice(0.9), phonemes=phonemes))))
    assert rows[frame_of(0.42)] > 0.2


def test_curves_run_on_over_the_border_of_fragments(run: Run) -> None:
    """Two fragments that are cut in the middle of a vowel move no faster than one that is whole."""
    whole = spoken(["ɑ"], each_s=0.6)
    cut = 0.5
    at = int(cut * 24_000)
    samples = whole.audio.samples
    first = Speech(Audio(samples[:at], 24_000), phonemes=(Phoneme("", 0, 0.2), Phoneme("ɑ", 0.2, cut)))
    second = Speech(Audio(samples[at:], 24_000, at), phonemes=(Phoneme("ɑ", 0, 0.3), Phoneme("", 0.3, 0.6)))
    steps = np.abs(np.diff(opening(joined(run(first, second))))).max()
    assert steps <= 1.3 * np.abs(np.diff(opening(joined(run(whole))))).max()


@pytest.mark.parametrize("chunk_frames", [1, 5, 7, 1000])
def test_chunks_do_not_change_the_motion(run: Run, chunk_frames: int) -> None:
    speech = spoken("hɛlo", stress=2)
    assert np.array_equal(
        joined(run(speech, chunk_frames=chunk_frames, idle=True)), joined(run(speech, idle=True))
    )


def test_the_same_seed_gives_the_same_motion_and_another_one_other_life(run: Run) -> None:
    speech = spoken("hɛloðɛɹ" * 6, stress=2)
    first, again, other = (run(speech, seed=seed, idle=True) for seed in (7, 7, 8))
    assert all(np.array_equal(a.pose, b.pose) for a, b in zip(first, again, strict=True))
    assert np.array_equal(joined(first), joined(again))
    assert not np.array_equal(joined(first), joined(other))
    mouth = [JAW, CLOSE, PUCKER]
    assert np.array_equal(joined(first)[:, mouth], joined(other)[:, mouth])


def test_a_fragment_without_phonemes_moves_by_loudness(run: Run) -> None:
    silent = Audio(np.zeros(4_800, np.float32), 24_000)
    rows = opening(joined(run(Speech(silent), Speech(voice(0.4)), Speech(silent))))
    assert rows[12] > 0.15
    assert rows[0] == 0.0


def test_times_outside_the_fragment_are_brought_into_it(run: Run) -> None:
    phonemes = (Phoneme("ɑ", -1.0, 0.3), Phoneme("m", 0.3, 0.2), Phoneme("u", 0.3, 99.0))
    rows = joined(run(Speech(voice(0.5), phonemes=phonemes)))
    assert len(rows) == 13
    assert np.isfinite(rows).all()


def test_values_stay_between_0_and_1(run: Run) -> None:
    rows = joined(run(*[spoken("wɑmɑuɪpOIɹʃ", each_s=0.05, stress=2)] * 4, idle=True))
    assert rows.min() >= 0.0
    assert rows.max() <= 1.0
    assert rows.dtype == np.float32


def test_a_second_of_speech_takes_well_under_3_ms(run: Run) -> None:
    speech = spoken("hɛloðɛɹ" * 12, stress=1)
    run(speech, idle=True)
    start_s = time.thread_time()
    run(speech, idle=True)
    assert (time.thread_time() - start_s) / speech.audio.duration_s < 0.003


@pytest.mark.parametrize("stage", [Visemes, Energy])
def test_the_stage_keeps_the_rules_of_stages(stage: type[Visemes]) -> None:
    items = [spoken("hɛlo"), Speech(voice(0.333)), spoken("ðɛɹ")]
    start = 0
    for i, item in enumerate(items):
        items[i] = item.replace(audio=item.audio.replace(start=start))
        start = items[i].audio.end
    asyncio.run(check_stage(stage, items))


@pytest.mark.parametrize("settings", [{"fps": 0}, {"lead_ms": -1}, {"lead_ms": 500}, {"chunk_frames": 0}])
def test_settings_out_of_range_are_named(settings: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match=next(iter(settings))):
        Visemes(**settings)
