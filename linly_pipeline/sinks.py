"""Where a turn's media goes. A sink reports what was really written or played.

Files appear whole or not at all: they are written beside their place and renamed when the turn ends well. A
second turn of the same session does not overwrite the first one's file: `answer.mp4`, then `answer-2.mp4`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from linly_pipeline.errors import SinkError
from linly_pipeline.packets import Audio, FloatArray, Motion, Packet, Speech, UInt8Array, Video
from linly_pipeline.workers import Worker

if TYPE_CHECKING:
    from linly_pipeline.media.writer import Writer
    from linly_pipeline.turn import Turn


@dataclass(frozen=True, slots=True)
class Played:
    """What a sink really wrote or played of a turn.

    Attributes:
        media_s: seconds of media.
        frames: pictures.
        path: the file or folder; None where there is none.
    """

    media_s: float
    frames: int = 0
    path: Path | None = None


class Sink:
    """The end of a pipeline. Subclass and write what is needed; the defaults do nothing.

    Attributes:
        name: shown in traces and errors.
        accepts: packet types that it can take.
    """

    name: str = "sink"
    accepts: ClassVar[tuple[type[Packet], ...]] = (Packet,)

    async def prepare(self) -> None:
        """Called when the session opens, before models load: fail now if writing cannot work.

        Raises:
            SinkError: says what is wrong with the target and what to do.
        """

    async def begin(self, turn: Turn) -> None:
        """A turn starts; its first packet follows."""

    async def write(self, packet: Packet) -> None:
        """Take one packet."""

    async def finish(self) -> Played:
        """The turn ended well: make its media final and report it."""
        return Played(0.0)

    async def clear(self) -> Played:
        """The turn was cancelled or failed: drop what was not played yet, and report what was."""
        return Played(0.0)

    async def close(self) -> None:
        """The session ends."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class NullSink(Sink):
    """Takes everything, keeps nothing, and counts."""

    name = "null"

    def __init__(self) -> None:
        self._played = Played(0.0)

    async def begin(self, turn: Turn) -> None:
        self._played = Played(0.0)

    async def write(self, packet: Packet) -> None:
        audio = audio_of(packet)
        frames = len(packet.frames) if isinstance(packet, Video) else 0
        end_s = audio.end_s if audio else 0.0
        self._played = Played(max(self._played.media_s, end_s), self._played.frames + frames)

    async def finish(self) -> Played:
        return self._played

    async def clear(self) -> Played:
        return self._played


class FileSink(Sink):
    """Base of the sinks that write a file or folder per turn, on a thread of their own."""

    suffixes: ClassVar[tuple[str, ...]] = ()

    def __init__(self, path: str | PathLike[str]) -> None:
        self._path = Path(path)
        self._worker = Worker(f"linly-{self.name}")
        self._writer: Writer | None = None
        self._turn: Turn | None = None
        self._turns = 0
        self._finished = Played(0.0)
        self._target = self._path

    async def prepare(self) -> None:
        from linly_pipeline.media.output import check_writable

        check_writable(self._path, self.suffixes)

    async def begin(self, turn: Turn) -> None:
        await self._worker.ensure(self._abort)  # a turn that was left behind may still hold its writer
        self._turns += 1
        self._turn = turn
        self._finished = Played(0.0)
        self._target = self._path if self._turns == 1 else _numbered(self._path, self._turns)

    async def write(self, packet: Packet) -> None:
        await self._worker.call(self._turn, self._write, packet)

    async def finish(self) -> Played:
        return await self._worker.call(self._turn, self._finish)

    async def clear(self) -> Played:
        await self._worker.ensure(self._abort)
        return self._finished

    async def close(self) -> None:
        await self._worker.ensure(self._abort)
        await self._worker.close()

    def _write(self, packet: Packet) -> None:
        if self._writer is None:
            self._writer = self._open(self._target, packet)
        assert self._turn is not None
        with self._turn.span(f"{self.name}.write", frames=len(frames_of(packet))):
            self._writer.write(frames_of(packet), samples_of(packet))

    def _finish(self) -> Played:
        writer, self._writer = self._writer, None
        if writer is not None:  # else nothing came: no file
            report = writer.close()
            self._finished = Played(report.duration_s, report.frames, self._target)
        return self._finished

    def _abort(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.abort()

    def _open(self, path: Path, first: Packet) -> Writer:
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self._path)!r})"


class Mp4Sink(FileSink):
    """H.264 and AAC in an MP4 file that plays everywhere, written as a stream at constant memory.

    Args:
        path: the file; its folder must exist.
        crf: quality of x264, 0 (best) to 51.
    """

    name = "mp4"
    accepts = (Video,)
    suffixes = (".mp4", ".m4v", ".mov")

    def __init__(self, path: str | PathLike[str], *, crf: int = 20) -> None:
        super().__init__(path)
        self._crf = crf

    def _open(self, path: Path, first: Packet) -> Writer:
        from linly_pipeline.media.video import Mp4Writer

        assert isinstance(first, Video)
        height, width = first.frames.shape[1:3]
        return Mp4Writer(
            path,
            width=width,
            height=height,
            fps=first.fps,
            rate_hz=first.audio.rate_hz,
            crf=self._crf,
        )


class WavSink(FileSink):
    """The sound alone, as 16-bit PCM."""

    name = "wav"
    accepts = (Audio, Speech, Motion, Video)
    suffixes = (".wav",)

    def _open(self, path: Path, first: Packet) -> Writer:
        from linly_pipeline.media.wav import WavWriter

        audio = audio_of(first)
        assert audio is not None
        return WavWriter(path, audio.rate_hz)


class FramesSink(FileSink):
    """A folder with a PNG per frame and `audio.wav`."""

    name = "frames"
    accepts = (Video,)

    async def prepare(self) -> None:
        from linly_pipeline.media.output import check_new_folder

        check_new_folder(self._path)

    def _open(self, path: Path, first: Packet) -> Writer:
        from linly_pipeline.media.frames import FramesWriter

        assert isinstance(first, Video)
        return FramesWriter(path, rate_hz=first.audio.rate_hz, fps=first.fps)


class CallbackSink(Sink):
    """Hands each packet to a function: `CallbackSink(lambda packet: player.push(packet))`.

    Everything handed over counts as played.
    """

    name = "callback"

    def __init__(self, function: Callable[[Packet], object]) -> None:
        self._function = function
        self._count = NullSink()

    async def begin(self, turn: Turn) -> None:
        await self._count.begin(turn)

    async def write(self, packet: Packet) -> None:
        self._function(packet)
        await self._count.write(packet)

    async def finish(self) -> Played:
        return await self._count.finish()

    async def clear(self) -> Played:
        return await self._count.clear()


def sink_for(path: str | PathLike[str]) -> Sink:
    """The sink that a path's suffix asks for: .mp4, .wav, or a folder of frames for no suffix.

    Raises:
        SinkError: the suffix is unknown.
    """
    suffix = Path(path).suffix.lower()
    if suffix in Mp4Sink.suffixes:
        return Mp4Sink(path)
    if suffix in WavSink.suffixes:
        return WavSink(path)
    if suffix == "":
        return FramesSink(path)
    raise SinkError(
        f"'{path}': write an .mp4 or .wav file, or a folder of frames (no suffix), not '{suffix}'"
    )


def audio_of(packet: Packet) -> Audio | None:
    """The sound that a packet is or carries."""
    if isinstance(packet, Audio):
        return packet
    if isinstance(packet, Speech | Motion | Video):
        return packet.audio
    return None


def frames_of(packet: Packet) -> UInt8Array:
    """The pictures that a packet carries, `[n, height, width, 3]`."""
    return packet.frames if isinstance(packet, Video) else np.zeros((0, 0, 0, 3), np.uint8)


def samples_of(packet: Packet) -> FloatArray:
    """The samples that a packet carries."""
    audio = audio_of(packet)
    return audio.samples if audio else np.zeros(0, np.float32)


def _numbered(path: Path, number: int) -> Path:
    return path.with_name(f"{path.stem}-{number}{path.suffix}")
