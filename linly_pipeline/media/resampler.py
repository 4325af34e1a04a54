"""Change the sample rate of a stream piece by piece, as if it had been done in one go."""

from __future__ import annotations

from typing import Any

import numpy as np

from linly_pipeline.errors import MediaError
from linly_pipeline.packets import FloatArray


def rescaled(count: int, rate_hz: int, to_hz: int) -> int:
    """`count` samples at `rate_hz`, counted at `to_hz`; a half rounds up: one sample never becomes none."""
    return (2 * count * to_hz + rate_hz) // (2 * rate_hz)


class Resampler:
    """Streaming resampler (soxr, high quality). One stream at a time; after `flush` it takes the next one.

    All output of a stream of n samples together has `rescaled(n)` samples, however it was cut into pieces.
    Output lags by the length of the filter, about 20 ms of sound, until `flush`.

    Raises:
        MediaError: a rate that is not positive.
    """

    def __init__(self, rate_hz: int, to_hz: int) -> None:
        self.rate_hz = checked_rate(rate_hz)
        self.to_hz = checked_rate(to_hz)
        self._stream: Any = None
        if self.rate_hz != self.to_hz:
            import soxr

            self._stream = soxr.ResampleStream(self.rate_hz, self.to_hz, 1, dtype="float32")

    def feed(self, samples: FloatArray) -> FloatArray:
        """Take `[n]` float32; give what is ready, maybe nothing."""
        return self._step(samples, last=False)

    def flush(self) -> FloatArray:
        """End the stream and give the rest."""
        rest = self._step(np.zeros(0, np.float32), last=True)
        if self._stream is not None:
            self._stream.clear()
        return rest

    def _step(self, samples: FloatArray, *, last: bool) -> FloatArray:
        if self._stream is None:
            return samples
        out: FloatArray = self._stream.resample_chunk(np.ascontiguousarray(samples, np.float32), last=last)
        return out.clip(-1.0, 1.0)  # the filter overshoots at steep edges


def checked_rate(rate_hz: int) -> int:
    if rate_hz <= 0 or rate_hz != int(rate_hz):
        raise MediaError(f"a sample rate of {rate_hz} Hz is not possible; give a positive whole number")
    return int(rate_hz)
