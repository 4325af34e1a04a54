"""Writing WAV files and folders of frames."""

from __future__ import annotations

import errno
import tracemalloc
import wave
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from pictures import moving, silence
from PIL import Image
from sounds import tone

from linly_pipeline.errors import MediaError, SinkError
from linly_pipeline.media.audio import WavWriter, read_audio, to_audio, write_wav
from linly_pipeline.media.frames import FramesWriter
from linly_pipeline.media.video import Mp4Writer
from linly_pipeline.media.writer import Writer
from linly_pipeline.packets import Audio


def left_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_all_writers_have_one_interface(tmp_path: Path) -> None:
    writers: list[Writer] = [
        Mp4Writer(tmp_path / "a.mp4", width=96, height=64, fps=25, rate_hz=16000),
        WavWriter(tmp_path / "a.wav", 16000),
        FramesWriter(tmp_path / "frames", fps=25, rate_hz=16000),
    ]
    for writer in writers:
        writer.write(moving(5), silence(3200))

    reports = [writer.close() for writer in writers]

    assert [(report.frames, report.samples) for report in reports] == [(5, 3200), (0, 3200), (5, 3200)]
    assert all(report.duration_s == pytest.approx(0.2) for report in reports)
    assert left_in(tmp_path) == ["a.mp4", "a.wav", "frames"]


def test_a_wav_file_is_16_bit_mono_pcm(tmp_path: Path) -> None:
    report = write_wav(tmp_path / "a.wav", Audio(tone(24000), 24000))

    with wave.open(str(tmp_path / "a.wav")) as file:
        assert file.getparams()[:4] == (1, 2, 24000, 24000)
    assert (report.samples, report.duration_s) == (24000, 1.0)
    assert report.bytes == (tmp_path / "a.wav").stat().st_size


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(hnp.arrays(np.int16, st.integers(1, 2000)))
def test_16_bit_sound_goes_round_unchanged(tmp_path: Path, samples: Any) -> None:
    write_wav(tmp_path / "a.wav", to_audio(samples, 16000))

    with wave.open(str(tmp_path / "a.wav")) as file:
        np.testing.assert_array_equal(np.frombuffer(file.readframes(2000), "<i2"), samples)


def test_full_scale_does_not_wrap_around_and_nan_is_silence(tmp_path: Path) -> None:
    write_wav(tmp_path / "a.wav", Audio(np.array([1.0, -1.0, 7.0, -7.0, np.nan], np.float32), 16000))

    with wave.open(str(tmp_path / "a.wav")) as file:
        assert np.frombuffer(file.readframes(5), "<i2").tolist() == [32767, -32768, 32767, -32768, 0]


def test_pieces_are_joined_without_a_gap(tmp_path: Path) -> None:
    sound = to_audio((tone(16000) * 32768).astype(np.int16), 16000)

    write_wav(tmp_path / "a.wav", (Audio(piece, 16000) for piece in np.array_split(sound.samples, 7)))

    np.testing.assert_array_equal(read_audio(tmp_path / "a.wav").samples, sound.samples)


def test_a_piece_of_another_rate_is_refused_and_nothing_is_left(tmp_path: Path) -> None:
    pieces = [Audio(tone(16000), 16000), Audio(tone(24000), 24000)]

    with pytest.raises(SinkError, match="24000 Hz came for a file of 16000 Hz"):
        write_wav(tmp_path / "a.wav", pieces)

    assert left_in(tmp_path) == []


def test_no_pieces_leave_no_file(tmp_path: Path) -> None:
    assert write_wav(tmp_path / "a.wav", [], rate_hz=16000).bytes == 0
    with pytest.raises(SinkError, match=r"a\.wav.*no sound"):
        write_wav(tmp_path / "a.wav", [])
    assert left_in(tmp_path) == []


def test_an_hour_of_sound_takes_the_memory_of_a_second(tmp_path: Path) -> None:
    second = tone(8000)
    writer = WavWriter(tmp_path / "a.wav", 8000)
    writer.write(None, second)
    tracemalloc.start()
    try:
        for _ in range(3600):
            writer.write(None, second)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        writer.abort()

    assert peak < 2**20
    assert left_in(tmp_path) == []


def test_a_wav_file_beyond_4_gib_is_refused_before_it_breaks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("linly_pipeline.media.wav.MAX_BYTES", 40_000)
    writer = WavWriter(tmp_path / "a.wav", 16000)
    writer.write(None, tone(16000))

    with pytest.raises(SinkError, match=r"a\.wav.*4 GiB"):
        writer.write(None, tone(16000))

    assert left_in(tmp_path) == []


@pytest.mark.parametrize("kind", [WavWriter, FramesWriter])
def test_a_full_disk_is_named_and_leaves_nothing(
    tmp_path: Path, kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    name, options = ("a.wav", {}) if kind is WavWriter else ("frames", {"fps": 25})
    writer = kind(tmp_path / name, rate_hz=16000, **options)
    writer.write(moving(1), tone(16000))
    monkeypatch.setattr(wave.Wave_write, "writeframesraw", full)

    with pytest.raises(SinkError, match=f"{name}.*disk is full; make room"):
        writer.write(moving(1), tone(16000))

    assert left_in(tmp_path) == []


def test_a_rate_of_zero_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MediaError, match="sample rate"):
        WavWriter(tmp_path / "a.wav", 0)
    with pytest.raises(MediaError, match="sample rate"):
        FramesWriter(tmp_path / "frames", fps=25, rate_hz=0)


def test_frames_come_back_unchanged_with_their_sound(tmp_path: Path) -> None:
    frames = moving(3, 33, 51)
    with FramesWriter(tmp_path / "frames", fps=25, rate_hz=16000) as writer:
        writer.write(frames[:2], tone(16000)[:1280])
        writer.write(frames[2:], tone(16000)[1280:2000])

    assert left_in(tmp_path / "frames") == ["000000.png", "000001.png", "000002.png", "audio.wav"]
    for index, frame in enumerate(frames):
        with Image.open(tmp_path / "frames" / f"{index:06d}.png") as image:
            np.testing.assert_array_equal(np.asarray(image), frame)
    assert len(read_audio(tmp_path / "frames" / "audio.wav").samples) == 2000
    assert writer.close().bytes == sum(file.stat().st_size for file in (tmp_path / "frames").iterdir())


def test_the_folder_appears_only_when_it_is_whole(tmp_path: Path) -> None:
    (tmp_path / "frames").mkdir()
    writer = FramesWriter(tmp_path / "frames", fps=25, rate_hz=16000)
    writer.write(moving(2), silence(1280))
    assert left_in(tmp_path / "frames") == []

    writer.close()

    assert len(left_in(tmp_path / "frames")) == 3
    assert left_in(tmp_path) == ["frames"]


def test_aborted_frames_leave_nothing(tmp_path: Path) -> None:
    writer = FramesWriter(tmp_path / "frames", fps=25, rate_hz=16000)
    writer.write(moving(2), silence(1280))

    writer.abort()

    assert left_in(tmp_path) == []
    with pytest.raises(SinkError, match="aborted"):
        writer.close()


def test_frames_without_sound_have_no_audio_file_and_nothing_at_all_has_no_folder(tmp_path: Path) -> None:
    with FramesWriter(tmp_path / "mute", fps=25, rate_hz=16000) as writer:
        writer.write(moving(1), silence(0))
    with FramesWriter(tmp_path / "nothing", fps=25, rate_hz=16000) as writer:
        writer.write(moving(0), silence(0))

    assert left_in(tmp_path) == ["mute"]
    assert left_in(tmp_path / "mute") == ["000000.png"]


def test_frames_that_are_no_frames_are_refused(tmp_path: Path) -> None:
    writer = FramesWriter(tmp_path / "frames", fps=25, rate_hz=16000)

    with pytest.raises(SinkError, match=r"frames.*\[n, height, width, 3\] uint8"):
        writer.write(np.zeros((1, 8, 8), np.uint8), silence(0))

    assert left_in(tmp_path) == []


def test_a_folder_that_was_filled_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    writer = FramesWriter(tmp_path / "frames", fps=25, rate_hz=16000)
    writer.write(moving(1), silence(0))
    (tmp_path / "frames").mkdir()
    (tmp_path / "frames" / "dear.txt").write_text("x")

    with pytest.raises(SinkError, match="frames"):
        writer.close()

    assert left_in(tmp_path / "frames") == ["dear.txt"]
    assert left_in(tmp_path) == ["frames"]
