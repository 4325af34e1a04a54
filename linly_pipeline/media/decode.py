"""Decode the sound of any file block by block, and notice when the file ends before its sound does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from linly_pipeline.errors import MediaError
from linly_pipeline.media.riff import wav_fault
from linly_pipeline.media.source import kind_of, read_head, source_path, true_cause, unreadable
from linly_pipeline.packets import FloatArray

if TYPE_CHECKING:
    from av.audio.frame import AudioFrame
    from av.audio.stream import AudioStream
    from av.container import InputContainer

# Playlists name other files; none of them may reach out to the network.
LEAST_RATE_HZ, MOST_RATE_HZ = 4_000, 768_000  # of real recordings, with room on both sides

OPEN_OPTIONS = {"protocol_whitelist": "file"}
# Containers whose header says how long the sound is. MP3 and Ogg only estimate it, WAV has `wav_fault`.
KNOWS_LENGTH = {"flac", "aiff", "au", "matroska,webm", "mov,mp4,m4a,3gp,3g2,mj2"}
MISSING_S = 0.1  # shorter gaps are rounding of container time stamps and encoder delay
PADDING = 4096  # samples; AAC fills its last frame: at most 2048, twice that with SBR


class Block(NamedTuple):
    """`samples` is `[n, channels]` float32."""

    samples: FloatArray
    rate_hz: int


def decode_blocks(path: Path) -> Iterator[Block]:
    """Decode the first sound track at its own rate, at constant memory; all blocks have one channel count.

    Raises:
        MediaError: while iterating: no sound, truncated, damaged, or a rate or channel count that changes.
    """
    path = source_path(path, "sound")
    if fault := wav_fault(path):
        raise unreadable(path, "sound", fault)
    with open_media(path, "sound") as container:
        stream = _sound_track(container, path)
        length_s = _declared_s(container, stream)
        count, rate_hz = 0, 0
        for block in _without_padding(_frames(container, stream, path), length_s):
            count, rate_hz = count + len(block.samples), block.rate_hz
            yield block
    if count == 0:
        raise unreadable(path, "sound", "it holds no sound (0 samples); record it again")
    if length_s is not None and length_s - count / rate_hz > MISSING_S:
        cause = f"it is truncated: {length_s:.2f} s promised, {count / rate_hz:.2f} s there; copy it again"
        raise unreadable(path, "sound", cause)


@contextmanager
def open_media(path: Path, what: str) -> Iterator[InputContainer]:
    """Open a file for demuxing; failures of FFmpeg inside the block become `MediaError`."""
    import av

    try:
        container = av.open(str(path), "r", options=OPEN_OPTIONS, **_tag_options(av.__version__))
    except av.FFmpegError:
        raise unreadable(path, what, true_cause(read_head(path), what)) from None
    with container:
        try:
            yield container
        except av.FFmpegError as error:
            cause = f"it is truncated or damaged ({error.strerror}); use the original file"
            raise unreadable(path, what, cause) from error


def _sound_track(container: InputContainer, path: Path) -> AudioStream:
    if not container.streams.audio:
        head = read_head(path)
        cause = f"it is {kind_of(head) or 'a video without sound track'}; give a file that holds sound"
        raise unreadable(path, "sound", cause if container.streams.video else true_cause(head, "sound"))
    return container.streams.audio[0]


def _declared_s(container: InputContainer, stream: AudioStream) -> float | None:
    if container.format.name not in KNOWS_LENGTH:
        return None
    if stream.duration is not None and stream.time_base is not None:
        return float(stream.duration * stream.time_base)
    if container.duration is not None and len(container.streams) == 1:
        return container.duration / 1_000_000  # AV_TIME_BASE
    return None


def _frames(container: InputContainer, stream: AudioStream, path: Path) -> Iterator[Block]:
    first: tuple[int, int] | None = None
    for frame in container.decode(stream):
        layout = (frame.sample_rate, frame.layout.nb_channels)
        if not LEAST_RATE_HZ <= frame.sample_rate <= MOST_RATE_HZ:
            cause = (
                f"its header says {frame.sample_rate} Hz, which no sound is recorded at; correct the header"
            )
            raise unreadable(path, "sound", cause)
        first = first or layout
        if layout != first:
            cause = f"its rate or channels change midway: {first} to {layout}; convert it to WAV"
            raise unreadable(path, "sound", cause)
        yield Block(as_float(_interleaved(frame)), frame.sample_rate)


def _interleaved(frame: AudioFrame) -> npt.NDArray[np.generic]:
    array = frame.to_ndarray()  # [channels, n] if planar, else [1, n * channels]
    return array.T if frame.format.is_planar else array.reshape(-1, frame.layout.nb_channels)


def _without_padding(blocks: Iterator[Block], length_s: float | None) -> Iterator[Block]:
    """Drop what an encoder added to fill its last frame: up to PADDING samples after the declared length."""
    count = 0
    held: list[Block] = []
    for block in blocks:
        keep = len(block.samples)
        if length_s is not None:
            keep = min(keep, max(0, round(length_s * block.rate_hz) - count))
        count += len(block.samples)
        if keep:
            yield block._replace(samples=block.samples[:keep])
        if keep < len(block.samples):
            held.append(block._replace(samples=block.samples[keep:]))
        if sum(len(piece.samples) for piece in held) > PADDING:  # no padding: the declared length is wrong
            yield from held
            held, length_s = [], None


def as_float(array: npt.NDArray[np.generic]) -> FloatArray:
    """Scale integer samples to -1..1; floats stay as they are. The result is a new float32 array.

    Raises:
        MediaError: not a sample type. 64-bit integers only pass if they lie in -1..1, as in a list of zeros.
    """
    kind, bits = array.dtype.kind, 8 * array.dtype.itemsize
    if kind == "f":
        with np.errstate(over="ignore"):  # a float64 too large for float32 is infinite, which callers silence
            return array.astype(np.float32)
    if kind in "iu" and bits <= 32:
        half = float(2 ** (bits - 1))
        centred = array.astype(np.float64) - (half if kind == "u" else 0.0)
        return (centred / half).astype(np.float32)
    if kind in "iu" and (array.size == 0 or -1 <= int(array.min()) <= int(array.max()) <= 1):
        return array.astype(np.float32)
    raise MediaError(f"samples of type {array.dtype} have no known scale; give int16, int32, uint8 or float")


def _tag_options(version: str) -> dict[str, Any]:
    """PyAV before 19 fails on tags that are not UTF-8 unless it is told to replace what it cannot read."""
    return {"metadata_errors": "replace"} if int(version.split(".")[0]) < 19 else {}
