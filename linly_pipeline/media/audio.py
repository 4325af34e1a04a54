"""Sound in: read any file, take any array, mix down to mono, resample."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from os import PathLike
from pathlib import Path

import numpy as np
import numpy.typing as npt

from linly_pipeline.errors import MediaError
from linly_pipeline.media.decode import as_float, decode_blocks
from linly_pipeline.media.resampler import Resampler, checked_rate, rescaled
from linly_pipeline.media.source import source_path
from linly_pipeline.media.wav import WavWriter, write_wav
from linly_pipeline.packets import Audio, FloatArray

__all__ = [
    "Resampler",
    "WavWriter",
    "loudness_dbfs",
    "mix_down",
    "read_audio",
    "resample",
    "stream_audio",
    "to_audio",
    "write_wav",
]

MAX_CHANNELS = 32  # more columns than that are no channels: an image or a feature matrix was passed
SILENT_SIDE = 1e-4  # power relative to the loudest channel, -40 dB: an open input, not a quiet speaker
CANCELLED = 0.05  # power that the mean must keep; below, the channels are in opposite phase


def read_audio(path: str | PathLike[str], rate_hz: int | None = None) -> Audio:
    """Read a whole sound file, or the first sound track of a video, as mono.

    The rate is the file's own (its header wins), or `rate_hz` if given. Channels are mixed as `mix_down`
    says.

    Raises:
        MediaError: missing, a folder, empty, of no known format, truncated, or without sound.
    """
    blocks = list(decode_blocks(source_path(path, "sound")))
    samples = np.concatenate([block.samples for block in blocks])
    audio = Audio(mix_down(samples), blocks[0].rate_hz)
    return audio if rate_hz is None else resample(audio, rate_hz)


def stream_audio(
    path: str | PathLike[str], rate_hz: int | None = None, chunk_s: float = 1.0
) -> Iterator[Audio]:
    """The sound of `read_audio` in pieces of `chunk_s` seconds, the last one shorter, at constant memory.

    A file of several channels is decoded twice: which of them carry sound is only known at its end.

    Raises:
        MediaError: as `read_audio`, some of it only while iterating.
    """
    full = source_path(path, "sound")
    if rate_hz is not None:
        checked_rate(rate_hz)
    return _chunks(full, rate_hz, chunk_s)


def _chunks(path: Path, rate_hz: int | None, chunk_s: float) -> Iterator[Audio]:
    gains = _gains_of_file(path)
    start, held, rate = 0, np.zeros(0, np.float32), 0
    for piece, rate in _mono_at(path, gains, rate_hz):
        held = np.concatenate([held, piece])
        size = max(1, round(chunk_s * rate))
        while len(held) >= size:
            yield Audio(held[:size].copy(), rate, start)
            start, held = start + size, held[size:]
    if len(held):
        yield Audio(held, rate, start)


def _mono_at(path: Path, gains: FloatArray, rate_hz: int | None) -> Iterator[tuple[FloatArray, int]]:
    resampler: Resampler | None = None
    for block in decode_blocks(path):
        if resampler is None:
            resampler = Resampler(block.rate_hz, rate_hz or block.rate_hz)
        yield resampler.feed(_mixed(block.samples, gains)), resampler.to_hz
    if resampler is not None:
        yield resampler.flush(), resampler.to_hz


def _gains_of_file(path: Path) -> FloatArray:
    covariance = np.zeros((1, 1))
    for block in decode_blocks(path):
        if block.samples.shape[1] == 1:
            return np.ones(1, np.float32)
        covariance = covariance + _covariance(_finite(block.samples))
    return _gains(covariance)


def to_audio(samples: npt.ArrayLike, rate_hz: int) -> Audio:
    """Take samples of any common layout and type as mono sound.

    `[n]`, `[n, channels]` or `[channels, n]`: of two axes, the shorter one is the channels. Integers of 8,
    16 and 32 bits are scaled to -1..1 (unsigned ones are centred), floats are clipped to it. NaN and
    infinity become silence. The samples are copied.

    Raises:
        MediaError: not numeric, more than two dimensions, more than 32 channels, or a rate that is not
            positive.
    """
    rate = checked_rate(rate_hz)
    try:
        array = np.asarray(samples)
    except ValueError as error:  # lists of unequal length
        raise MediaError(f"these samples form no array: {error}; give [n] or [n, channels]") from None
    if array.ndim not in (1, 2):
        raise MediaError(f"samples of shape {list(array.shape)} are not sound; give [n] or [n, channels]")
    if array.ndim == 2 and 0 < array.shape[0] < array.shape[1]:
        array = array.T
    if array.ndim == 2 and array.shape[1] > MAX_CHANNELS:
        raise MediaError(
            f"samples of shape {list(array.shape)} have too many channels; give [n] or [n, channels]"
        )
    return Audio(mix_down(as_float(array)), rate)


def mix_down(samples: FloatArray) -> FloatArray:
    """Mix `[n]` or `[n, channels]` float32 to `[n]` in -1..1.

    The result is the mean of the channels that carry sound. A channel 40 dB under the loudest one counts as
    silent, so a voice on one side only keeps its full level. Where the mean would cancel (channels in
    opposite phase), it is the loudest channel alone. NaN and infinity become silence.
    """
    if samples.ndim == 1 or samples.shape[1] == 1:
        return _mixed(samples.reshape(-1, 1), np.ones(1, np.float32))
    if not samples.size:
        return np.zeros(0, np.float32)
    return _mixed(samples, _gains(_covariance(_finite(samples))))


def _mixed(samples: FloatArray, gains: FloatArray) -> FloatArray:
    mono: FloatArray = (_finite(samples) @ gains).astype(np.float32, copy=False)
    return mono.clip(-1.0, 1.0)


def _finite(samples: FloatArray) -> FloatArray:
    return np.nan_to_num(samples, nan=0.0, posinf=0.0, neginf=0.0)


def _covariance(samples: FloatArray) -> npt.NDArray[np.float64]:
    wide = samples.astype(np.float64)
    product: npt.NDArray[np.float64] = wide.T @ wide
    return product


def _gains(covariance: npt.NDArray[np.float64]) -> FloatArray:
    """Weight of each channel in the mix, from the channels' powers and products `[channels, channels]`."""
    power = covariance.diagonal()
    heard = power >= power.max() * SILENT_SIDE
    gains: npt.NDArray[np.float64] = heard / heard.sum()
    if gains @ covariance @ gains < CANCELLED * (gains @ power):
        gains = np.eye(len(power))[power.argmax()]
    return gains.astype(np.float32)


def resample(audio: Audio, rate_hz: int) -> Audio:
    """The same sound at another rate: `round(n * rate_hz / audio.rate_hz)` samples, and `start` counted anew.

    Itself where the rate is right already.

    Raises:
        MediaError: a rate that is not positive.
    """
    resampler = Resampler(audio.rate_hz, rate_hz)
    if resampler.rate_hz == resampler.to_hz:
        return audio
    samples = np.concatenate([resampler.feed(audio.samples), resampler.flush()])
    return Audio(samples, resampler.to_hz, rescaled(audio.start, audio.rate_hz, resampler.to_hz))


def loudness_dbfs(samples: FloatArray | Iterable[float]) -> float:
    """Root mean square of `[n]` samples in dB of full scale (1.0); minus infinity for silence or nothing."""
    array = np.asarray(samples, np.float64)
    power = float(np.mean(array**2)) if array.size else 0.0
    return 10 * float(np.log10(power)) if power > 0 else float("-inf")
