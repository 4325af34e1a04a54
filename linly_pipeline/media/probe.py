"""Look into a media file: what is in it, by decoding it, and its pictures."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from linly_pipeline.media.decode import decode_blocks, open_media
from linly_pipeline.media.source import read_head, source_path, true_cause, unreadable
from linly_pipeline.packets import UInt8Array

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.video.frame import VideoFrame

BT709, UNSPECIFIED = 1, 2  # matrix coefficients: ITU-T H.273, table 4
HD_HEIGHT = 720  # from here on untagged video is BT.709, below BT.601, as players take it


@dataclass(frozen=True, slots=True)
class MediaInfo:
    """What a file holds, counted while decoding all of it. None stands for a track that is not there.

    Attributes:
        duration_s: end of the later of picture and sound, as the file says or as counted.
        video_codec: FFmpeg's name, "h264".
        width: in pixels.
        height: in pixels.
        fps: frames per second.
        frames: pictures decoded.
        pix_fmt: FFmpeg's name, "yuv420p".
        video_start_s: when the first picture is shown.
        audio_codec: FFmpeg's name, "aac".
        audio_rate_hz: sample rate.
        samples: sound samples decoded, one channel's; without an encoder's padding at the end.
        audio_start_s: when the first sample sounds.
        metadata: tags of the file.
    """

    duration_s: float = 0.0
    video_codec: str | None = None
    width: int | None = None
    height: int | None = None
    fps: float | None = None
    frames: int = 0
    pix_fmt: str | None = None
    video_start_s: float | None = None
    audio_codec: str | None = None
    audio_rate_hz: int | None = None
    samples: int = 0
    audio_start_s: float | None = None
    metadata: dict[str, str] = field(default_factory=dict)


def probe(path: str | PathLike[str]) -> MediaInfo:
    """Decode a whole file and say what is in it.

    Raises:
        MediaError: missing, of no known format, truncated or damaged, or without sound and picture.
    """
    full = source_path(path, "video")
    with open_media(full, "video") as container:
        if not container.streams.video and not container.streams.audio:
            raise unreadable(path, "video", true_cause(read_head(full), "sound or pictures"))
        declared_s = (container.duration or 0) / 1_000_000  # AV_TIME_BASE
        info = MediaInfo(duration_s=declared_s, metadata=dict(container.metadata))
        info = _with_picture(info, container)
    return _with_sound(info, full)


def _with_picture(info: MediaInfo, container: InputContainer) -> MediaInfo:
    if not container.streams.video:
        return info
    stream = container.streams.video[0]
    starts = [frame.time for frame in container.decode(stream)]
    fps = float(stream.average_rate or 0)
    return replace(
        info,
        duration_s=max(info.duration_s, len(starts) / fps if fps else 0.0),
        video_codec=stream.codec_context.name,
        width=stream.codec_context.width,
        height=stream.codec_context.height,
        fps=fps,
        frames=len(starts),
        pix_fmt=stream.codec_context.pix_fmt,
        video_start_s=starts[0] if starts else None,
    )


def _with_sound(info: MediaInfo, path: Path) -> MediaInfo:
    with open_media(path, "sound") as container:
        if not container.streams.audio:
            return info
        stream = container.streams.audio[0]
        codec = stream.codec_context.name
        start_s = next((frame.time for frame in container.decode(stream)), None)
    samples, rate_hz = 0, 0
    for block in decode_blocks(path):
        samples, rate_hz = samples + len(block.samples), block.rate_hz
    return replace(
        info,
        duration_s=max(info.duration_s, samples / rate_hz),
        audio_codec=codec,
        audio_rate_hz=rate_hz,
        samples=samples,
        audio_start_s=start_s,
    )


def read_frames(path: str | PathLike[str]) -> Iterator[UInt8Array]:
    """The pictures of a video one by one, `[height, width, 3]` uint8 RGB, at constant memory.

    Raises:
        MediaError: while iterating: missing, of no known format, truncated, damaged, or without pictures.
    """
    full = source_path(path, "video")
    with open_media(full, "video") as container:
        if not container.streams.video:
            raise unreadable(path, "video", "it holds no pictures; give a video")
        for frame in container.decode(container.streams.video[0]):
            yield _rgb(frame)


def _rgb(frame: VideoFrame) -> UInt8Array:
    untagged_hd = frame.colorspace == UNSPECIFIED and frame.height >= HD_HEIGHT
    rgb = frame.reformat(format="rgb24", src_colorspace=BT709 if untagged_hd else None)
    return np.asarray(rgb.to_ndarray(), np.uint8)
