"""Pictures out: a folder of PNG files with their sound beside them."""

from __future__ import annotations

from os import PathLike

from linly_pipeline.media.output import check_new_folder
from linly_pipeline.media.resampler import checked_rate
from linly_pipeline.media.wav import WavWriter
from linly_pipeline.media.writer import FileWriter, check_frames
from linly_pipeline.packets import FloatArray, UInt8Array

PNG_EFFORT = 1  # of 0..9: a fifth of the time of the default for a tenth more bytes


class FramesWriter(FileWriter):
    """Writes frames as 000000.png, 000001.png, … and the sound as audio.wav; the folder appears on `close`.

    Frames keep their size, odd or not, and may even differ in it from call to call. Without sound there is no
    audio.wav.

    Args:
        path: the folder. It may exist if it is empty; its parent exists.
        fps: frames per second; only for the report's duration.
        rate_hz: of the sound.

    Raises:
        SinkError: the folder cannot be written, or holds something.
        MediaError: `rate_hz` is not positive.
    """

    def __init__(self, path: str | PathLike[str], *, fps: int, rate_hz: int) -> None:
        self.fps, self.rate_hz = fps, checked_rate(rate_hz)
        super().__init__(check_new_folder(path))
        self._frames = self._samples = 0
        with self._writing():
            self._draft.mkdir()
            self._sound = WavWriter(self._draft / "audio.wav", rate_hz)
            self._sound.named = self.path / "audio.wav"
            self._held.callback(self._sound.abort)

    def write(self, frames: UInt8Array, audio: FloatArray) -> None:
        """Append `[n, height, width, 3]` uint8 RGB and `[m]` float32; either may be empty.

        Raises:
            SinkError: frames of another shape or type, the disk is full, or the writer is over. The folder
                is gone.
        """
        from PIL import Image

        with self._writing():
            check_frames(frames, self.path, None)
            for frame in frames:
                name = f"{self._frames:06d}.png"
                Image.fromarray(frame).save(self._draft / name, compress_level=PNG_EFFORT)
                self._frames += 1
            self._sound.write(frames, audio)
            self._samples += len(audio)

    def _finish(self) -> tuple[int, int, float]:
        self._sound.close()
        return self._frames, self._samples, max(self._frames / self.fps, self._samples / self.rate_hz)
