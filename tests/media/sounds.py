"""Sound for the tests, and what it is measured with."""

from __future__ import annotations

import sys
from pathlib import Path

import av
import numpy as np
import numpy.typing as npt
import pytest

from linly_pipeline.packets import FloatArray

RATES_HZ = (8000, 16000, 22050, 24000, 32000, 44100, 48000)


POSIX_NAME = pytest.mark.skipif(sys.platform == "win32", reason="Windows allows no such name")


def tone(rate_hz: int, seconds: float = 1.0, pitch_hz: float = 440.0, level: float = 0.5) -> FloatArray:
    time_s = np.arange(round(rate_hz * seconds)) / rate_hz
    return (level * np.sin(2 * np.pi * pitch_hz * time_s)).astype(np.float32)


def pitch_of(samples: FloatArray, rate_hz: int) -> float:
    """The strongest frequency, in Hz, to about 0.1 Hz."""
    spectrum = np.abs(np.fft.rfft(samples * np.hanning(len(samples)), n=16 * len(samples)))
    return float(spectrum.argmax() * rate_hz / (16 * len(samples)))


def level_of(samples: FloatArray) -> float:
    """The amplitude of a steady tone, its ends left out."""
    middle = samples[len(samples) // 4 : -len(samples) // 4]
    return float(np.sqrt(2 * np.mean(middle.astype(np.float64) ** 2)))


def save(
    path: Path,
    samples: npt.NDArray[np.float32],
    rate_hz: int,
    codec: str = "pcm_s16le",
    kind: str | None = None,
) -> Path:
    """Encode `[n]` or `[channels, n]` with FFmpeg, independent of the code under test."""
    channels = np.atleast_2d(samples).astype(np.float32)
    layout = "mono" if len(channels) == 1 else "stereo"
    with av.open(str(path), "w", format=kind) as container:
        stream = container.add_stream(codec, rate=rate_hz, layout=layout)
        frame = av.AudioFrame.from_ndarray(np.ascontiguousarray(channels), "fltp", layout)
        frame.sample_rate, frame.pts = rate_hz, 0
        container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return path
