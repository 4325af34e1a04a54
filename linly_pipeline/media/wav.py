"""Sound out: 16-bit WAV, written as it comes."""

from __future__ import annotations

import wave
from collections.abc import Iterable
from itertools import chain
from os import PathLike

import numpy as np
import numpy.typing as npt

from linly_pipeline.errors import SinkError
from linly_pipeline.media.output import check_writable
from linly_pipeline.media.resampler import checked_rate
from linly_pipeline.media.writer import FileWriter, MediaReport
from linly_pipeline.packets import Audio, FloatArray, UInt8Array

MAX_BYTES = 2**32 - 64  # a WAV file counts its bytes with 32 bits


class WavWriter(FileWriter):
    """Streams mono 16-bit PCM at constant memory; the file appears on `close`.

    A `Writer` that leaves the pictures out.

    Raises:
        SinkError: the path cannot be written (see `check_writable`), or does not end in .wav.
        MediaError: a rate that is not positive.
    """

    def __init__(self, path: str | PathLike[str], rate_hz: int) -> None:
        self.rate_hz = checked_rate(rate_hz)
        super().__init__(check_writable(path, (".wav",)))
        self._samples = 0
        with self._writing():
            self._file = self._held.enter_context(self._draft.open("wb"))
            self._wave = self._held.enter_context(wave.open(self._file, "wb"))  # noqa: SIM115 - it is held
        self._wave.setnchannels(1)
        self._wave.setsampwidth(2)
        self._wave.setframerate(self.rate_hz)

    def write(self, frames: UInt8Array | None, audio: FloatArray) -> None:
        """Append `[m]` float32 in -1..1; more is clipped, NaN is silence. `frames` are not looked at.

        Raises:
            SinkError: the disk is full, the file is closed, or it would exceed 4 GiB.
        """
        with self._writing():
            if 2 * (self._samples + len(audio)) > MAX_BYTES:
                raise SinkError(f"cannot write '{self.named}': a WAV file holds 4 GiB; write several")
            self._wave.writeframesraw(to_int16(audio).astype("<i2").tobytes())
            self._samples += len(audio)

    def _finish(self) -> tuple[int, int, float]:
        self._wave.close()
        self._file.close()
        return 0, self._samples, self._samples / self.rate_hz


def write_wav(
    path: str | PathLike[str], audio: Audio | Iterable[Audio], rate_hz: int | None = None
) -> MediaReport:
    """Write sound to a 16-bit WAV file, piece by piece.

    Args:
        path: ends in .wav; its folder exists.
        audio: one piece, or pieces in order.
        rate_hz: the rate of the file; that of the first piece if None.

    Raises:
        SinkError: the file cannot be written, a piece has another rate, or there is none to take a rate from.
    """
    pieces = iter([audio] if isinstance(audio, Audio) else audio)
    first = next(pieces, None)
    if first is None and rate_hz is None:
        raise SinkError(f"cannot write '{path}': no sound came; give some, or a rate_hz")
    rest = pieces if first is None else chain([first], pieces)
    with WavWriter(path, rate_hz or (first.rate_hz if first else 0)) as writer:
        for piece in rest:
            if piece.rate_hz != writer.rate_hz:
                cause = (
                    f"a piece of {piece.rate_hz} Hz came for a file of {writer.rate_hz} Hz; resample it first"
                )
                raise SinkError(f"cannot write '{path}': {cause}")
            writer.write(None, piece.samples)
        return writer.close()


def to_int16(samples: FloatArray) -> npt.NDArray[np.int16]:
    """Samples as 16-bit integers: 1/32768 a step, so that what came from 16 bits goes back unchanged."""
    finite = np.nan_to_num(samples, nan=0.0, posinf=0.0, neginf=0.0)
    whole: npt.NDArray[np.int16] = np.rint(finite * 32768.0).clip(-32768, 32767).astype(np.int16)
    return whole
