"""Arrays as sound, and its rate."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sounds import RATES_HZ, level_of, pitch_of, tone

from linly_pipeline.errors import MediaError
from linly_pipeline.media.audio import Resampler, loudness_dbfs, mix_down, resample, to_audio
from linly_pipeline.packets import Audio


@pytest.mark.parametrize(
    ("dtype", "scale", "shift"),
    [
        (np.int16, 32767, 0),
        (np.int32, 2**31 - 1, 0),
        (np.int8, 127, 0),
        (np.uint8, 127, 128),
        (np.float16, 1, 0),
        (np.float32, 1, 0),
        (np.float64, 1, 0),
    ],
)
def test_every_sample_type_gives_the_same_sound(dtype: Any, scale: float, shift: float) -> None:
    samples = (tone(16000).astype(np.float64) * scale + shift).astype(dtype)

    audio = to_audio(samples, 16000)

    assert audio.samples.dtype == np.float32
    assert level_of(audio.samples) == pytest.approx(0.5, abs=0.01)
    assert abs(audio.samples.mean()) < 0.01


@pytest.mark.parametrize("shape", [(16000,), (16000, 1), (1, 16000), (16000, 2), (2, 16000), (16000, 6)])
def test_every_layout_gives_one_channel(shape: tuple[int, ...]) -> None:
    sound = tone(16000)
    samples = np.broadcast_to(
        sound if shape[-1] == 16000 else sound.reshape(-1, *[1] * (len(shape) - 1)), shape
    )

    np.testing.assert_allclose(Audio.of(samples, 16000).samples, sound, atol=1e-6)


def test_a_voice_on_the_right_only_keeps_its_full_level() -> None:
    sides = np.stack([np.zeros(16000, np.float32), tone(16000)], axis=1)

    np.testing.assert_array_equal(mix_down(sides), tone(16000))


def test_a_quiet_speaker_on_the_other_side_is_not_taken_for_silence() -> None:
    sides = np.stack([tone(16000, level=0.02, pitch_hz=300), tone(16000, level=0.8, pitch_hz=1000)], axis=1)

    spectrum = np.abs(np.fft.rfft(mix_down(sides)))
    assert spectrum[300] == pytest.approx(0.01 * 8000, rel=0.01)  # half of 0.02: the mean of two


def test_channels_in_opposite_phase_do_not_cancel() -> None:
    sides = np.stack([tone(16000), -tone(16000)], axis=1)

    assert level_of(mix_down(sides)) == pytest.approx(0.5, abs=0.01)


def test_silence_on_all_channels_is_silence() -> None:
    np.testing.assert_array_equal(mix_down(np.zeros((100, 2), np.float32)), np.zeros(100, np.float32))


def test_nan_and_infinity_become_silence_and_too_loud_is_clipped() -> None:
    audio = to_audio([0.5, np.nan, np.inf, -np.inf, 3.0, -3.0], 16000)

    np.testing.assert_array_equal(audio.samples, [0.5, 0, 0, 0, 1, -1])


@given(hnp.arrays(np.float64, st.integers(0, 50), elements=st.floats(allow_nan=True, allow_infinity=True)))
def test_any_floats_give_finite_samples_in_range(samples: Any) -> None:
    result = to_audio(samples, 16000).samples

    assert len(result) == len(samples)
    assert np.isfinite(result).all()
    assert (np.abs(result) <= 1).all()


def test_the_samples_are_copied() -> None:
    buffer = tone(16000)
    audio = to_audio(buffer, 16000)

    buffer[:] = 0

    assert level_of(audio.samples) > 0.4


@pytest.mark.parametrize("empty", [[], np.zeros((0, 2)), np.zeros((2, 0)), np.zeros(0, np.int16)])
def test_no_samples_are_no_sound_but_no_error(empty: Any) -> None:
    assert len(to_audio(empty, 16000).samples) == 0


def test_a_list_of_whole_zeros_is_silence() -> None:
    np.testing.assert_array_equal(to_audio([0, 0, 0], 16000).samples, np.zeros(3, np.float32))


@pytest.mark.parametrize(
    ("samples", "cause"),
    [
        (["a", "b"], "type"),
        ([1j], "type"),
        ([True], "type"),
        ([12000, -3000], "int16"),
        (0.5, "shape"),
        (np.zeros((2, 3, 4)), "shape"),
        (np.zeros((480, 640)), "too many channels"),
        ([[1.0], [1.0, 2.0]], "no array"),
    ],
)
def test_what_is_no_sound_is_refused_with_a_reason(samples: Any, cause: str) -> None:
    with pytest.raises(MediaError, match=cause):
        to_audio(samples, 16000)


@pytest.mark.parametrize("rate_hz", [0, -16000, 0.5])
def test_a_rate_that_cannot_be_is_refused(rate_hz: Any) -> None:
    with pytest.raises(MediaError, match="sample rate"):
        to_audio([0.0], rate_hz)
    with pytest.raises(MediaError, match="sample rate"):
        resample(Audio(tone(8000), 8000), rate_hz)


@pytest.mark.parametrize("rate_hz", RATES_HZ)
@pytest.mark.parametrize("to_hz", RATES_HZ)
def test_resampling_keeps_pitch_level_and_duration(rate_hz: int, to_hz: int) -> None:
    audio = resample(Audio(tone(rate_hz), rate_hz), to_hz)

    assert (audio.rate_hz, len(audio.samples)) == (to_hz, to_hz)
    assert audio.samples.dtype == np.float32
    assert pitch_of(audio.samples, to_hz) == pytest.approx(440, abs=0.5)
    assert level_of(audio.samples) == pytest.approx(0.5, abs=0.005)


def test_resampling_does_not_fold_high_tones_down() -> None:
    audio = resample(Audio(tone(48000, pitch_hz=11000), 48000), 16000)

    assert level_of(audio.samples) < 0.001


@pytest.mark.parametrize("count", [0, 1, 2, 319, 320, 3199])
@pytest.mark.parametrize(
    ("rate_hz", "to_hz"), [(16000, 24000), (48000, 16000), (22050, 16000), (16000, 8000)]
)
def test_short_sounds_resample_to_the_exact_length(count: int, rate_hz: int, to_hz: int) -> None:
    audio = resample(Audio(tone(rate_hz)[:count], rate_hz), to_hz)

    assert len(audio.samples) == int(count * to_hz / rate_hz + 0.5)


def test_resampling_to_its_own_rate_gives_the_same_object() -> None:
    audio = Audio(tone(16000), 16000, start=5)

    assert audio.at_rate(16000) is audio


def test_the_place_in_time_is_counted_at_the_new_rate() -> None:
    audio = Audio(tone(16000), 16000, start=32000).at_rate(24000)

    assert (audio.start, audio.start_s, audio.end_s) == (48000, 2.0, 3.0)


@given(
    cuts=st.lists(st.integers(0, 4000), max_size=8),
    rates=st.tuples(st.sampled_from(RATES_HZ), st.sampled_from(RATES_HZ)),
)
def test_a_stream_resamples_as_the_whole_however_it_is_cut(cuts: list[int], rates: tuple[int, int]) -> None:
    rng = np.random.default_rng(len(cuts))
    samples = rng.uniform(-0.9, 0.9, 4000).astype(np.float32)
    resampler = Resampler(*rates)

    pieces = [resampler.feed(piece) for piece in np.split(samples, sorted(cuts))]
    joined = np.concatenate([*pieces, resampler.flush()])

    np.testing.assert_allclose(joined, resample(Audio(samples, rates[0]), rates[1]).samples, atol=1e-5)


def test_a_resampler_starts_anew_after_flush() -> None:
    resampler = Resampler(44100, 16000)
    first = np.concatenate([resampler.feed(tone(44100)), resampler.flush()])

    second = np.concatenate([resampler.feed(tone(44100)), resampler.flush()])

    np.testing.assert_array_equal(first, second)


def test_a_resampler_holds_back_less_than_a_twentieth_of_a_second() -> None:
    resampler = Resampler(24000, 16000)

    ready = len(resampler.feed(tone(24000)))

    assert 16000 - ready < 800


def test_overshoot_of_the_filter_stays_in_range() -> None:
    square = np.sign(tone(8000, pitch_hz=100)).astype(np.float32)

    assert np.abs(resample(Audio(square, 8000), 48000).samples).max() <= 1


def test_loudness_is_in_decibels_of_full_scale() -> None:
    assert loudness_dbfs(np.ones(100, np.float32)) == pytest.approx(0)
    assert loudness_dbfs(tone(16000, level=0.1)) == pytest.approx(-23.01, abs=0.01)
    assert loudness_dbfs(np.zeros(100, np.float32)) == -np.inf
    assert loudness_dbfs([]) == -np.inf
