"""Looking into media files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from pictures import moving
from sounds import save, tone

from linly_pipeline.errors import MediaError
from linly_pipeline.media.probe import probe, read_frames
from linly_pipeline.media.video import Mp4Writer


def test_a_video_is_told_in_full(tmp_path: Path) -> None:
    with Mp4Writer(
        tmp_path / "a.mp4", width=96, height=64, fps=30, rate_hz=24000, metadata={"title": "x"}
    ) as writer:
        writer.write(moving(45), tone(24000, 1.5))

    info = probe(tmp_path / "a.mp4")

    assert (info.width, info.height, info.fps, info.frames) == (96, 64, 30, 45)
    assert (info.audio_rate_hz, info.samples) == (24000, 36000)
    assert info.duration_s == pytest.approx(1.5)
    assert info.metadata["title"] == "x"


def test_sound_alone_has_no_picture_and_that_is_none_and_not_zero(tmp_path: Path) -> None:
    info = probe(save(tmp_path / "a.wav", tone(8000, 2), 8000))

    assert (info.audio_codec, info.audio_rate_hz, info.samples, info.duration_s) == (
        "pcm_s16le",
        8000,
        16000,
        2.0,
    )
    assert (info.video_codec, info.width, info.fps, info.video_start_s, info.frames) == (
        None,
        None,
        None,
        None,
        0,
    )


@pytest.mark.parametrize("kept", [0.1, 0.5, 0.9])
def test_a_cut_video_is_truncated(tmp_path: Path, kept: float) -> None:
    rng = np.random.default_rng(0)
    with Mp4Writer(tmp_path / "a.mp4", width=96, height=64, fps=25, rate_hz=16000) as writer:
        writer.write(rng.integers(0, 255, (50, 64, 96, 3), dtype=np.uint8), tone(16000, 2))
    content = (tmp_path / "a.mp4").read_bytes()
    (tmp_path / "cut.mp4").write_bytes(content[: int(len(content) * kept)])

    with pytest.raises(MediaError, match=r"cut\.mp4.*truncated"):
        probe(tmp_path / "cut.mp4")


def test_what_is_no_video_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.mp4").write_text("not a video\n" * 50)

    with pytest.raises(MediaError, match=r"a\.mp4.*text file"):
        probe(tmp_path / "a.mp4")
    with pytest.raises(MediaError, match=r"a\.wav.*no pictures"):
        next(read_frames(save(tmp_path / "a.wav", tone(8000), 8000)))


def test_importing_the_media_modules_loads_no_codec_library() -> None:
    modules = "audio, contact_sheet, frames, image, probe, video, wav, writer"
    code = f"import sys; from linly_pipeline.media import {modules}; print({{'av', 'PIL', 'soxr'}} & set(sys.modules))"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "set()"
