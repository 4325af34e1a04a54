"""Writing MP4 files."""

from __future__ import annotations

import errno
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pictures import atoms, moving, silence
from sounds import POSIX_NAME, level_of, pitch_of, tone

from linly_pipeline.errors import MediaError, SinkError
from linly_pipeline.media import mp4
from linly_pipeline.media.audio import read_audio
from linly_pipeline.media.probe import probe, read_frames
from linly_pipeline.media.video import Mp4Writer

SIZE: dict[str, Any] = {"width": 96, "height": 64}


def write(path: Path, frames: Any, sound: Any, fps: int = 25, rate_hz: int = 16000, **options: Any) -> Path:
    height, width = frames.shape[1:3]
    with Mp4Writer(path, width=width, height=height, fps=fps, rate_hz=rate_hz, **options) as writer:
        writer.write(frames, sound)
    return path


def left_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_pictures_and_sound_come_back_as_they_went_in(tmp_path: Path) -> None:
    frames, sound = moving(25), tone(16000)

    path = write(tmp_path / "a.mp4", frames, sound)

    seen = np.stack(list(read_frames(path)))
    heard = read_audio(path)
    assert seen.shape == frames.shape
    assert np.abs(seen.astype(int) - frames).mean() < 3
    assert pitch_of(heard.samples, heard.rate_hz) == pytest.approx(440, abs=0.5)
    assert level_of(heard.samples) == pytest.approx(0.5, abs=0.02)


def test_the_file_plays_everywhere(tmp_path: Path) -> None:
    info = probe(write(tmp_path / "a.mp4", moving(25), tone(16000)))

    assert (info.video_codec, info.pix_fmt, info.audio_codec) == ("h264", "yuv420p", "aac")
    assert atoms(tmp_path / "a.mp4") == ["ftyp", "moov", "free", "mdat"]  # the index comes first
    assert left_in(tmp_path) == ["a.mp4"]


@pytest.mark.parametrize(("height", "width"), [(63, 96), (64, 95), (511, 513), (1, 1)])
def test_an_odd_size_is_padded_by_its_last_row_and_column(tmp_path: Path, height: int, width: int) -> None:
    frames = moving(2, height, width)

    path = write(tmp_path / "a.mp4", frames, silence(1280))

    info, seen = probe(path), next(read_frames(path)).astype(int)
    assert (info.height, info.width) == (height + height % 2, width + width % 2)
    assert np.abs(seen[-1] - seen[height - 1]).max() < 12
    assert np.abs(seen[:height, :width] - frames[0]).mean() < 12


@pytest.mark.parametrize(
    ("colour", "yuv"),
    [((255, 0, 0), (63, 102, 240)), ((0, 255, 0), (173, 42, 26)), ((255, 255, 255), (235, 128, 128))],
)
def test_colours_are_bt709_and_tagged_so(tmp_path: Path, colour: Any, yuv: Any) -> None:
    path = write(tmp_path / "a.mp4", np.full((3, 64, 64, 3), colour, np.uint8), silence(1920))

    with av.open(str(path)) as container:
        context = container.streams.video[0].codec_context
        tags = (context.color_primaries, context.color_trc, context.colorspace, context.color_range)
        frame = next(container.decode(video=0))
        planes = [np.frombuffer(plane, np.uint8)[0] for plane in frame.planes]
    assert tags == (1, 1, 1, 1)
    np.testing.assert_allclose(planes, yuv, atol=1)
    np.testing.assert_allclose(next(read_frames(path))[32, 32], colour, atol=3)


@pytest.mark.parametrize(
    ("fps", "rate_hz"), [(25, 16000), (30, 44100), (25, 24000), (60, 48000), (24, 22050)]
)
def test_a_flash_and_a_click_at_one_time_come_back_at_one_time(
    tmp_path: Path, fps: int, rate_hz: int
) -> None:
    frames = np.zeros((3 * fps, 64, 64, 3), np.uint8)
    frames[2 * fps] = 255
    sound = silence(3 * rate_hz)
    sound[2 * rate_hz : 2 * rate_hz + rate_hz // 200] = 0.9

    path = write(tmp_path / "a.mp4", frames, sound, fps, rate_hz)

    with av.open(str(path)) as container:
        flash_s = next(f.time for f in container.decode(video=0) if f.to_ndarray(format="gray").mean() > 128)
    click_s = int(np.argmax(np.abs(read_audio(path).samples) > 0.3)) / rate_hz
    assert flash_s == pytest.approx(2.0, abs=1e-6)
    assert click_s == pytest.approx(2.0, abs=0.003)


@pytest.mark.parametrize(("fps", "rate_hz"), [(25, 16000), (30, 44100), (29, 24000)])
def test_both_tracks_start_at_zero_and_frames_are_evenly_spaced(
    tmp_path: Path, fps: int, rate_hz: int
) -> None:
    path = write(tmp_path / "a.mp4", moving(4 * fps), tone(rate_hz, 4), fps, rate_hz)

    with av.open(str(path)) as container:
        times = [frame.pts * frame.time_base for frame in container.decode(video=0)]
    assert all(time * fps == index for index, time in enumerate(times))
    info = probe(path)
    assert (info.video_start_s, info.audio_start_s, info.fps) == (0, 0, fps)
    assert info.duration_s == pytest.approx(4.0, abs=0.001)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    pieces=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3000)), min_size=1, max_size=8),
    rate_hz=st.sampled_from([16000, 22050, 24000, 44100]),
)
def test_however_it_is_cut_nothing_is_lost_and_the_lengths_agree(
    tmp_path: Path, pieces: list[tuple[int, int]], rate_hz: int
) -> None:
    frame_count, sample_count = (sum(column) for column in zip(*pieces, strict=True))
    frames, sound = moving(frame_count, 32, 32), tone(rate_hz, 2)[:sample_count]
    sound = np.resize(sound, sample_count) if sample_count else silence(0)
    frame_at = sample_at = 0
    with Mp4Writer(tmp_path / "a.mp4", width=32, height=32, fps=25, rate_hz=rate_hz) as writer:
        for some, more in pieces:
            writer.write(frames[frame_at : frame_at + some], sound[sample_at : sample_at + more])
            frame_at, sample_at = frame_at + some, sample_at + more
    report = writer.close()

    if not frame_count and not sample_count:
        assert report.bytes == 0
        return
    assert report.frames >= frame_count
    assert report.samples >= sample_count
    assert abs(report.frames / 25 - report.samples / rate_hz) <= 1 / 25
    info = probe(tmp_path / "a.mp4")
    assert info.frames == report.frames
    assert info.samples == report.samples
    assert info.duration_s == pytest.approx(report.duration_s, abs=0.001)


def test_the_last_partial_audio_is_not_lost(tmp_path: Path) -> None:
    sound = silence(16000 + 300)  # 19 ms more than 25 frames
    sound[-200:] = tone(16000, pitch_hz=1000)[:200]

    path = write(tmp_path / "a.mp4", moving(25), sound)

    heard = read_audio(path)
    assert len(heard.samples) == 16300
    assert np.abs(heard.samples[-200:]).max() > 0.3


def test_one_frame_is_a_video(tmp_path: Path) -> None:
    path = write(tmp_path / "a.mp4", moving(1), silence(640))

    info = probe(path)
    assert (info.frames, info.samples) == (1, 640)


def test_no_frames_and_no_sound_leave_no_file(tmp_path: Path) -> None:
    writer = Mp4Writer(tmp_path / "a.mp4", **SIZE, fps=25, rate_hz=16000)

    report = writer.close()

    assert (report.frames, report.samples, report.bytes) == (0, 0, 0)
    assert left_in(tmp_path) == []


def test_sound_without_frames_is_shown_on_black(tmp_path: Path) -> None:
    path = write(tmp_path / "a.mp4", moving(0), tone(16000))

    frames = list(read_frames(path))
    assert len(frames) == 25
    assert max(frame.max() for frame in frames) < 5
    assert len(read_audio(path).samples) == 16000


def test_a_picture_that_ends_early_is_held(tmp_path: Path) -> None:
    path = write(tmp_path / "a.mp4", moving(10), tone(16000))

    frames = list(read_frames(path))
    assert len(frames) == 25
    assert np.abs(frames[24].astype(int) - frames[9]).mean() < 2


def test_sound_that_ends_early_is_followed_by_silence(tmp_path: Path) -> None:
    path = write(tmp_path / "a.mp4", moving(25), tone(16000)[:8000])

    heard = read_audio(path).samples
    assert len(heard) == 16000
    assert np.abs(heard[10000:]).max() < 0.01


def test_the_held_frame_is_the_one_given_even_if_the_caller_uses_its_buffer_again(tmp_path: Path) -> None:
    frames = np.full((1, 64, 64, 3), 200, np.uint8)
    with Mp4Writer(tmp_path / "a.mp4", width=64, height=64, fps=25, rate_hz=16000) as writer:
        writer.write(frames, tone(16000))
        frames[:] = 0

    assert list(read_frames(tmp_path / "a.mp4"))[-1].mean() == pytest.approx(200, abs=2)


@pytest.mark.parametrize(
    ("rate_hz", "expected"), [(20000, 22050), (96000, 48000), (7000, 8000), (16000, 16000)]
)
def test_a_rate_that_aac_does_not_know_is_resampled(tmp_path: Path, rate_hz: int, expected: int) -> None:
    path = write(tmp_path / "a.mp4", moving(25), tone(rate_hz), rate_hz=rate_hz)

    heard = read_audio(path)
    assert (heard.rate_hz, len(heard.samples)) == (expected, expected)
    assert pitch_of(heard.samples, expected) == pytest.approx(440, abs=0.5)


def test_without_audio_there_is_no_sound_track(tmp_path: Path) -> None:
    info = probe(write(tmp_path / "a.mp4", moving(10), tone(16000)[:6400], audio=False))

    assert (info.frames, info.audio_codec, info.audio_rate_hz) == (10, None, None)


def test_nan_and_too_loud_sound_cannot_break_the_file(tmp_path: Path) -> None:
    sound = tone(16000)
    sound[100:200], sound[300:400] = np.nan, 9.0

    heard = read_audio(write(tmp_path / "a.mp4", moving(25), sound)).samples

    assert np.isfinite(heard).all()
    assert len(heard) == 16000


@pytest.mark.parametrize(
    "tags", [{"title": "Hello 你好", "comment": "AI-generated"}, {"made_by": "linly", "title": "x"}]
)
def test_tags_of_any_name_come_back(tmp_path: Path, tags: dict[str, str]) -> None:
    info = probe(write(tmp_path / "a.mp4", moving(2), silence(1280), metadata=tags))

    assert tags.items() <= info.metadata.items()


@pytest.mark.parametrize(
    "name",
    [
        "a b.mp4",
        pytest.param('it\'s "x".mp4', marks=POSIX_NAME),
        "你好.mp4",
        "c%03d.mp4",
        pytest.param("x" * 240 + ".mp4", marks=POSIX_NAME),
        "A.MP4",
        "a.mov",
    ],
)
def test_any_file_name_works(tmp_path: Path, name: str) -> None:
    write(tmp_path / name, moving(2), silence(1280))

    assert left_in(tmp_path) == [name]
    assert probe(tmp_path / name).frames == 2


def test_a_relative_path_stays_where_it_was_meant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    writer = Mp4Writer("a.mp4", **SIZE, fps=25, rate_hz=16000)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    writer.write(moving(2), silence(1280))

    assert writer.close().path == tmp_path / "a.mp4"


def test_the_file_appears_only_when_it_is_whole_and_replaces_the_old_one(tmp_path: Path) -> None:
    (tmp_path / "a.mp4").write_text("old")
    writer = Mp4Writer(tmp_path / "a.mp4", **SIZE, fps=25, rate_hz=16000)
    writer.write(moving(25), tone(16000))
    assert (tmp_path / "a.mp4").read_text() == "old"

    report = writer.close()

    assert probe(tmp_path / "a.mp4").frames == 25
    assert report.bytes == (tmp_path / "a.mp4").stat().st_size
    assert left_in(tmp_path) == ["a.mp4"]


def test_abort_leaves_nothing_and_keeps_what_was_there(tmp_path: Path) -> None:
    (tmp_path / "a.mp4").write_text("old")
    writer = Mp4Writer(tmp_path / "a.mp4", **SIZE, fps=25, rate_hz=16000)
    writer.write(moving(25), tone(16000))

    writer.abort()
    writer.abort()

    assert left_in(tmp_path) == ["a.mp4"]
    assert (tmp_path / "a.mp4").read_text() == "old"
    with pytest.raises(SinkError, match="aborted"):
        writer.write(moving(1), silence(0))
    with pytest.raises(SinkError, match="aborted"):
        writer.close()


def test_closing_twice_gives_one_report_and_aborting_after_it_keeps_the_file(tmp_path: Path) -> None:
    writer = Mp4Writer(tmp_path / "a.mp4", **SIZE, fps=25, rate_hz=16000)
    writer.write(moving(2), silence(1280))

    first = writer.close()
    writer.abort()

    assert writer.close() == first
    assert left_in(tmp_path) == ["a.mp4"]


def test_an_exception_in_the_with_block_leaves_nothing(tmp_path: Path) -> None:
    with (
        pytest.raises(KeyboardInterrupt),
        Mp4Writer(tmp_path / "a.mp4", **SIZE, fps=25, rate_hz=16000) as writer,
    ):
        writer.write(moving(2), silence(1280))
        raise KeyboardInterrupt

    assert left_in(tmp_path) == []


@pytest.mark.parametrize(
    "frames",
    [
        np.zeros((1, 64, 97, 3), np.uint8),
        np.zeros((1, 96, 64, 3), np.uint8),
        np.zeros((64, 96, 3), np.uint8),
        np.zeros((1, 64, 96, 4), np.uint8),
        np.zeros((1, 64, 96, 3), np.float32),
    ],
    ids=["width", "turned", "one frame", "rgba", "float"],
)
def test_frames_of_another_shape_or_type_are_refused(tmp_path: Path, frames: Any) -> None:
    writer = Mp4Writer(tmp_path / "a.mp4", **SIZE, fps=25, rate_hz=16000)

    with pytest.raises(SinkError, match=r"a\.mp4.*\[n, 64, 96, 3\] uint8"):
        writer.write(frames, silence(640))

    assert left_in(tmp_path) == []


def test_no_frames_of_any_shape_are_taken(tmp_path: Path) -> None:
    with Mp4Writer(tmp_path / "a.mp4", **SIZE, fps=25, rate_hz=16000) as writer:
        writer.write(np.zeros((0, 0, 0, 3), np.uint8), tone(16000))

    assert writer.close().samples == 16000


@pytest.mark.parametrize(
    ("setting", "cause"),
    [
        ({"width": 0}, "size of 0 x 64"),
        ({"fps": 0}, "0 frames per second"),
        ({"crf": 99}, "crf=99"),
        ({"preset": "warp"}, "preset='warp'.*veryfast"),
        ({"threads": 0}, "threads=0"),
    ],
)
def test_settings_out_of_range_are_named(tmp_path: Path, setting: dict[str, Any], cause: str) -> None:
    with pytest.raises(SinkError, match=cause):
        Mp4Writer(tmp_path / "a.mp4", **{**SIZE, "fps": 25, "rate_hz": 16000, **setting})

    assert left_in(tmp_path) == []


def test_a_rate_of_zero_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MediaError, match="sample rate"):
        Mp4Writer(tmp_path / "a.mp4", **SIZE, fps=25, rate_hz=0)


@pytest.mark.parametrize("missing", ["libx264", "aac"])
def test_a_missing_encoder_is_named_with_a_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    from av.codec import codec

    real = codec.Codec

    def without(name: str, mode: str) -> Any:
        if name == missing:
            raise codec.UnknownCodecError(name)
        return real(name, mode)

    monkeypatch.setattr(codec, "Codec", without)

    with pytest.raises(SinkError, match=f"no encoder '{missing}'.*pip install"):
        Mp4Writer(tmp_path / "a.mp4", **SIZE, fps=25, rate_hz=16000)

    assert left_in(tmp_path) == []


def test_a_full_disk_is_named_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise av.error.OSError(errno.ENOSPC, "No space left on device", "a.mp4")

    writer = Mp4Writer(tmp_path / "a.mp4", **SIZE, fps=25, rate_hz=16000)
    writer.write(moving(2), silence(1280))
    monkeypatch.setattr(mp4.PictureTrack, "put", full)

    with pytest.raises(SinkError, match=r"a\.mp4.*disk is full"):
        writer.write(moving(2), silence(1280))

    assert left_in(tmp_path) == []
    with pytest.raises(SinkError, match="aborted"):
        writer.close()


@pytest.mark.skipif(sys.platform == "win32", reason="file size limits are POSIX")
@pytest.mark.parametrize("limit", [10_000, 400_000])
def test_a_file_that_may_not_grow_really_fails_and_leaves_nothing(tmp_path: Path, limit: int) -> None:
    import resource

    noise = np.random.default_rng(0).integers(0, 255, (20, 128, 128, 3), dtype=np.uint8)
    writer = Mp4Writer(tmp_path / "a.mp4", width=128, height=128, fps=25, rate_hz=16000, crf=1)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        with pytest.raises(SinkError, match=r"a\.mp4.*grew beyond"):
            writer.write(noise, silence(12800))
            writer.close()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)

    assert left_in(tmp_path) == []


def test_memory_does_not_grow_with_the_length(tmp_path: Path) -> None:
    frames, sound = moving(25), tone(16000)
    with Mp4Writer(tmp_path / "a.mp4", **SIZE, fps=25, rate_hz=16000) as writer:
        writer.write(frames, sound)
        tracemalloc.start()
        try:
            for _ in range(20):
                writer.write(frames, sound)
            grown = tracemalloc.get_traced_memory()[0]
        finally:
            tracemalloc.stop()

    assert grown < 2**20


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts file handles through /proc")
def test_no_file_handle_stays_open(tmp_path: Path) -> None:
    def open_files() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    write(tmp_path / "warm.mp4", moving(2), silence(1280))
    before = open_files()
    for index in range(5):
        write(tmp_path / f"{index}.mp4", moving(2), silence(1280))
        Mp4Writer(tmp_path / "b.mp4", **SIZE, fps=25, rate_hz=16000).abort()

    assert open_files() == before


def test_the_encoder_may_use_several_threads_and_gives_the_same_frames(tmp_path: Path) -> None:
    path = write(tmp_path / "a.mp4", moving(50), tone(16000, 2), threads=2)

    assert probe(path).frames == 50
