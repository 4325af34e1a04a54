"""Reading sound files."""

from __future__ import annotations

import socket
import struct
import tracemalloc
import wave
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from sounds import POSIX_NAME, RATES_HZ, level_of, pitch_of, save, tone

from linly_pipeline.errors import MediaError
from linly_pipeline.media.audio import read_audio, stream_audio, write_wav
from linly_pipeline.packets import Audio

CODECS = [
    ("a.wav", "pcm_s16le"),
    ("a.wav", "pcm_s24le"),
    ("a.wav", "pcm_f32le"),
    ("a.wav", "pcm_u8"),
    ("a.flac", "flac"),
    ("a.mp3", "libmp3lame"),
    ("a.m4a", "aac"),
    ("a.mka", "flac"),
    ("a.aiff", "pcm_s16be"),
]


@pytest.mark.parametrize("rate_hz", RATES_HZ)
def test_the_rate_is_the_files_own_and_pitch_and_length_are_right(tmp_path: Path, rate_hz: int) -> None:
    audio = read_audio(save(tmp_path / "a.wav", tone(rate_hz), rate_hz))

    assert audio.rate_hz == rate_hz
    assert len(audio.samples) == rate_hz
    assert pitch_of(audio.samples, rate_hz) == pytest.approx(440, abs=0.5)
    assert level_of(audio.samples) == pytest.approx(0.5, abs=0.01)


@pytest.mark.parametrize(("name", "codec"), CODECS, ids=[f"{codec}-{name}" for name, codec in CODECS])
def test_every_usual_format_is_read_at_full_length_and_level(tmp_path: Path, name: str, codec: str) -> None:
    audio = read_audio(save(tmp_path / name, tone(16000), 16000, codec))

    assert len(audio.samples) == 16000
    assert audio.samples.dtype == np.float32
    assert pitch_of(audio.samples, 16000) == pytest.approx(440, abs=0.5)
    assert level_of(audio.samples) == pytest.approx(0.5, abs=0.03)  # LAME turns down by 5 %


def test_a_rate_that_is_asked_for_keeps_pitch_and_duration(tmp_path: Path) -> None:
    audio = Audio.read(save(tmp_path / "a.wav", tone(44100), 44100), rate_hz=16000)

    assert (audio.rate_hz, len(audio.samples)) == (16000, 16000)
    assert pitch_of(audio.samples, 16000) == pytest.approx(440, abs=0.5)


@pytest.mark.parametrize("side", [0, 1])
def test_a_voice_on_one_side_only_keeps_its_full_level(tmp_path: Path, side: int) -> None:
    channels = np.random.default_rng(0).normal(0, 1e-4, (2, 16000)).astype(np.float32)  # an open input hisses
    channels[side] = tone(16000)

    audio = read_audio(save(tmp_path / "a.wav", channels, 16000))

    assert level_of(audio.samples) == pytest.approx(0.5, abs=0.01)


def test_the_same_voice_on_both_sides_keeps_its_level(tmp_path: Path) -> None:
    audio = read_audio(save(tmp_path / "a.wav", np.stack([tone(16000)] * 2), 16000))

    assert level_of(audio.samples) == pytest.approx(0.5, abs=0.01)


@pytest.mark.parametrize(
    "name",
    [
        "./my.voice.wav",
        "你好 world.wav",
        pytest.param('it\'s a "test".wav', marks=POSIX_NAME),
        pytest.param("http:a.wav", marks=POSIX_NAME),
    ],
)
def test_odd_file_names_are_only_names(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    save(tmp_path / "plain.wav", tone(8000), 8000).rename(name)

    assert len(read_audio(name).samples) == 8000


@pytest.mark.parametrize(
    ("content", "cause"),
    [
        (b"", "empty"),
        (b"hello, I am not a sound\n" * 40, "text file"),
        ("你好，我不是声音。".encode() * 60, "text file"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", "git lfs pull"),
        (np.random.default_rng(1).bytes(20000), "no known format"),
        (bytes(20000), "no known format"),
        (b"\x89PNG\r\n\x1a\n" + bytes(3000), "PNG picture"),
    ],
    ids=["empty", "text", "chinese text", "lfs pointer", "noise", "zeros", "png"],
)
def test_what_is_no_sound_is_named_for_what_it_is(tmp_path: Path, content: bytes, cause: str) -> None:
    path = tmp_path / "question.wav"
    path.write_bytes(content)

    with pytest.raises(MediaError, match=cause) as caught:
        read_audio(path)

    assert "question.wav" in str(caught.value)


def test_a_folder_and_a_missing_file_are_named(tmp_path: Path) -> None:
    with pytest.raises(MediaError, match=f"{tmp_path.name}.*folder"):
        read_audio(tmp_path)
    with pytest.raises(MediaError, match="nowhere.wav.*no such file"):
        read_audio(tmp_path / "nowhere.wav")


def test_a_video_without_sound_is_named(tmp_path: Path) -> None:
    from linly_pipeline.media.video import Mp4Writer

    with Mp4Writer(tmp_path / "mute.mp4", width=32, height=32, fps=25, rate_hz=16000, audio=False) as writer:
        writer.write(np.zeros((5, 32, 32, 3), np.uint8), np.zeros(0, np.float32))

    with pytest.raises(MediaError, match=r"mute\.mp4.*without sound track"):
        read_audio(tmp_path / "mute.mp4")


@pytest.mark.parametrize("kept", [1, 4, 11, 12, 20, 30, 43])
def test_a_wav_file_cut_in_its_header_is_truncated(tmp_path: Path, kept: int) -> None:
    whole = write_wav(tmp_path / "a.wav", Audio(tone(16000), 16000)).path.read_bytes()
    (tmp_path / "cut.wav").write_bytes(whole[:kept])

    with pytest.raises(MediaError, match=r"cut\.wav.*truncated"):
        read_audio(tmp_path / "cut.wav")


@pytest.mark.parametrize("kept", [0.02, 0.6, 0.97])
@pytest.mark.parametrize(
    ("name", "codec"), [("a.wav", "pcm_s16le"), ("a.flac", "flac"), ("a.m4a", "aac"), ("a.aiff", "pcm_s16be")]
)
def test_a_file_cut_in_its_sound_is_truncated(tmp_path: Path, name: str, codec: str, kept: float) -> None:
    whole = save(tmp_path / f"whole-{name}", tone(16000, 4), 16000, codec).read_bytes()
    (tmp_path / name).write_bytes(whole[: int(len(whole) * kept)])

    with pytest.raises(MediaError, match=f"{name}.*truncated"):
        read_audio(tmp_path / name)


@pytest.mark.parametrize("size", [0, 0x7FFFFFFF, 0xFFFFFFFF])
def test_a_wav_file_recorded_through_a_pipe_is_whole_without_a_length(tmp_path: Path, size: int) -> None:
    content = bytearray(write_wav(tmp_path / "a.wav", Audio(tone(16000), 16000)).path.read_bytes())
    content[40:44] = struct.pack("<I", size)
    (tmp_path / "piped.wav").write_bytes(content)

    assert len(read_audio(tmp_path / "piped.wav").samples) == 16000


def test_a_wav_file_of_no_samples_holds_no_sound(tmp_path: Path) -> None:
    with wave.open(str(tmp_path / "a.wav"), "wb") as file:
        file.setparams((1, 2, 16000, 0, "NONE", ""))

    with pytest.raises(MediaError, match=r"a\.wav.*no sound"):
        read_audio(tmp_path / "a.wav")


@pytest.mark.parametrize("count", [1, 319, 320, 3199])
def test_short_sounds_are_read_to_the_last_sample(tmp_path: Path, count: int) -> None:
    save(tmp_path / "a.wav", tone(16000)[:count], 16000)

    assert len(read_audio(tmp_path / "a.wav").samples) == count


def test_a_playlist_cannot_reach_the_network(tmp_path: Path) -> None:
    callers: list[bytes] = []

    def answer(server: socket.socket) -> None:
        while b"stop" not in callers:
            caller, _ = server.accept()
            with caller:
                callers.append(caller.recv(4))

    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor(1) as pool:
        pool.submit(answer, server)
        address = server.getsockname()
        lines = ["#EXTM3U", "#EXT-X-TARGETDURATION:1", "#EXTINF:1,", f"http://127.0.0.1:{address[1]}/a.ts"]
        (tmp_path / "a.m3u8").write_text("\n".join([*lines, "#EXT-X-ENDLIST"]))

        with pytest.raises(MediaError, match=r"a\.m3u8"):
            read_audio(tmp_path / "a.m3u8")
        with socket.create_connection(address) as last:
            last.sendall(b"stop")

    assert callers == [b"stop"]


@pytest.mark.parametrize("rate_hz", [None, 16000])
@pytest.mark.parametrize("channels", [1, 2])
def test_streaming_gives_the_sound_of_reading_in_pieces_that_join(
    tmp_path: Path, rate_hz: int | None, channels: int
) -> None:
    sound = np.zeros((channels, 3 * 44100 + 17), np.float32)
    sound[-1, : 3 * 44100] = tone(44100, 3)
    path = save(tmp_path / "a.wav", sound, 44100)

    pieces = list(stream_audio(path, rate_hz, chunk_s=0.5))

    whole = read_audio(path, rate_hz)
    assert all(len(piece.samples) == round(0.5 * whole.rate_hz) for piece in pieces[:-1])
    assert [piece.start for piece in pieces[1:]] == [piece.end for piece in pieces[:-1]]
    np.testing.assert_allclose(np.concatenate([p.samples for p in pieces]), whole.samples, atol=1e-5)


def test_streaming_ten_minutes_takes_the_memory_of_a_second(tmp_path: Path) -> None:
    minute = Audio(tone(16000, 60), 16000)
    path = write_wav(tmp_path / "long.wav", (minute for _ in range(10))).path
    tracemalloc.start()
    try:
        seconds = sum(piece.duration_s for piece in stream_audio(path))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert seconds == 600
    assert peak < 4 * 2**20  # the whole would be 37 MiB


def test_streaming_a_missing_file_fails_before_the_first_piece_is_asked_for(tmp_path: Path) -> None:
    with pytest.raises(MediaError, match="no such file"):
        stream_audio(tmp_path / "nowhere.wav")


@pytest.mark.parametrize("rate_hz", [1, 100, 3_999])
def test_a_rate_that_no_sound_is_recorded_at_is_refused_with_the_headers_value(
    tmp_path: Path, rate_hz: int
) -> None:
    path = save(tmp_path / "a.wav", tone(16_000), rate_hz)
    with pytest.raises(MediaError, match=rf"a\.wav.*header says {rate_hz} Hz"):
        read_audio(path)
