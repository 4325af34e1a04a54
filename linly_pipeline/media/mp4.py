"""The encoders beneath `Mp4Writer`: H.264 and AAC into one MP4 file. Their errors are FFmpeg's own."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from linly_pipeline.errors import SinkError
from linly_pipeline.media.resampler import Resampler
from linly_pipeline.packets import FloatArray, UInt8Array

if TYPE_CHECKING:
    from av.container import OutputContainer

# Sampling frequencies of AAC: ISO/IEC 14496-3, table 1.18; those that not every player takes are left out.
AAC_RATES_HZ = (8000, 11025, 12000, 16000, 22050, 24000, 32000, 44100, 48000)
AAC_BITS_PER_SAMPLE = 4  # transparent for speech with FFmpeg's encoder; it takes at most 6
AAC_MAX_BITS_PER_S = 128_000
BT709 = 1  # primaries, transfer and matrix alike: ITU-T H.273, tables 2 to 4
LIMITED_RANGE = 1  # FFmpeg's AVCOL_RANGE_MPEG: luma 16..235
# What an MP4's usual tag list can hold. Other keys need QuickTime's key list, which fewer players show.
COMMON_TAGS = {"title", "artist", "album", "comment", "genre", "date", "copyright", "description", "synopsis"}


class PictureTrack:
    """The H.264 stream of a container; frame k is shown at k / fps.

    Args:
        size: width and height in pixels, even.
        options: x264's, such as {"crf": "20"}.
        threads: that x264 may use.
    """

    def __init__(
        self,
        container: OutputContainer,
        size: tuple[int, int],
        fps: int,
        options: Mapping[str, str],
        threads: int,
    ) -> None:
        from av.video.reformatter import VideoReformatter

        _require_encoder("libx264")
        self._container = container
        self._to_yuv = VideoReformatter()
        self._time_base = Fraction(1, fps)
        self._count = 0
        self._stream = container.add_stream("libx264", rate=fps, options=dict(options))
        context = self._stream.codec_context
        context.width, context.height = size
        context.pix_fmt = "yuv420p"
        context.thread_count = threads
        context.color_primaries = context.color_trc = context.colorspace = BT709
        context.color_range = LIMITED_RANGE

    def put(self, frame: UInt8Array) -> None:
        """Append `[height, width, 3]` RGB."""
        from av import VideoFrame

        picture = self._to_yuv.reformat(
            VideoFrame.from_ndarray(frame, "rgb24"),
            format="yuv420p",
            dst_colorspace=BT709,
            dst_color_range=LIMITED_RANGE,
            threads=1,  # the default is one thread a core, which costs more than it gains at this size
        )
        picture.pts, picture.time_base = self._count, self._time_base
        self._count += 1
        self._container.mux(self._stream.encode(picture))

    def finish(self) -> None:
        self._container.mux(self._stream.encode(None))


class SoundTrack:
    """The AAC stream of a container; a rate that AAC does not know is resampled to the next higher."""

    def __init__(self, container: OutputContainer, rate_hz: int) -> None:
        _require_encoder("aac")
        self.rate_hz = next((rate for rate in AAC_RATES_HZ if rate >= rate_hz), AAC_RATES_HZ[-1])
        self._container = container
        self._resampler = Resampler(rate_hz, self.rate_hz)
        self._count = 0
        self._stream = container.add_stream("aac", rate=self.rate_hz, layout="mono")
        self._stream.codec_context.bit_rate = min(AAC_BITS_PER_SAMPLE * self.rate_hz, AAC_MAX_BITS_PER_S)

    def put(self, samples: FloatArray) -> None:
        """Append `[n]` float32; more than -1..1 is clipped, NaN is silence."""
        finite = np.nan_to_num(samples, nan=0.0, posinf=0.0, neginf=0.0)
        self._encode(self._resampler.feed(finite.astype(np.float32, copy=False).clip(-1.0, 1.0)))

    def finish(self) -> None:
        self._encode(self._resampler.flush())
        self._container.mux(self._stream.encode(None))

    def _encode(self, samples: FloatArray) -> None:
        from av import AudioFrame

        if not len(samples):
            return
        frame = AudioFrame.from_ndarray(np.ascontiguousarray(samples[np.newaxis]), "fltp", "mono")
        frame.sample_rate = self.rate_hz
        frame.pts, frame.time_base = self._count, Fraction(1, self.rate_hz)
        self._count += len(samples)
        self._container.mux(self._stream.encode(frame))


def open_mp4(path: Path, kind: str, metadata: Mapping[str, str], time_scale: int) -> OutputContainer:
    """A file to add tracks to, "mp4" or "mov", whatever the suffix of `path`; `start_encoding` creates it."""
    import av

    flags = "+faststart" if COMMON_TAGS.issuperset(metadata) else "+faststart+use_metadata_tags"
    # Edit lists count in the movie's time scale; in the default of 1/1000 s they would cut sound at odd
    # places.
    options = {"movflags": flags, "movie_timescale": str(time_scale)}
    container = av.open(str(path), "w", format=kind, container_options=options)
    container.metadata.update(metadata)
    return container


def _require_encoder(name: str) -> None:
    from av.codec.codec import Codec, UnknownCodecError

    try:
        Codec(name, "w")
    except UnknownCodecError:
        raise SinkError(
            f"this build of PyAV has no encoder {name!r}: pip install --force-reinstall av"
        ) from None
