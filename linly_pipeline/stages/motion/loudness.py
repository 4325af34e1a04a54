"""How loud the voice is, frame by frame."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from linly_pipeline.packets import FloatArray

Times = npt.NDArray[np.float64]

SILENCE_DB = -60.0  # below this there is no voice: quantisation, dither, a quiet line
_LOW_HZ, _HIGH_HZ = 150.0, 4000.0  # a voice's vowels; hum and hiss lie outside


def level_db(samples: FloatArray, rate_hz: int, time_s: Times, window_s: float = 0.05) -> Times:
    """RMS level in dB of full scale in a window around each time, `[n]`; digital silence is -120.

    Times beyond the ends get the level at the nearest end.
    """
    power = np.concatenate([[0.0], np.cumsum(samples.astype(np.float64) ** 2)])
    half = window_s / 2
    middle = np.clip(time_s, half, max(half, len(samples) / rate_hz - half))
    left = np.clip(np.round((middle - half) * rate_hz), 0, len(samples)).astype(np.int64)
    right = np.clip(np.round((middle + half) * rate_hz), 0, len(samples)).astype(np.int64)
    mean = np.maximum(power[right] - power[left], 0.0) / np.maximum(right - left, 1)
    return np.asarray(10.0 * np.log10(mean + 1e-12))


def voice_band(samples: FloatArray, rate_hz: int) -> FloatArray:
    """Keep 150 Hz to 4 kHz, without delay, by fading out the other bins of the spectrum."""
    edge = min(rate_hz // 25, len(samples) - 1)
    if edge < 1:
        return np.zeros_like(samples)
    # Mirrored ends, faded out: a cut through a low hum must not sound like a click.
    fade = np.linspace(0, 1, edge, dtype=np.float32)
    before = (2 * samples[0] - samples[edge:0:-1]) * fade
    after = (2 * samples[-1] - samples[-2 : -edge - 2 : -1]) * fade[::-1]
    padded = np.concatenate([before, samples, after])
    size = 1 << len(padded).bit_length()
    spectrum = np.fft.rfft(padded, size)
    hz = np.fft.rfftfreq(size, 1 / rate_hz)
    spectrum *= np.clip(2 * hz / _LOW_HZ - 1, 0, 1) * np.clip(2 - hz / _HIGH_HZ, 0, 1)
    return np.fft.irfft(spectrum, size)[edge : edge + len(samples)].astype(np.float32)
