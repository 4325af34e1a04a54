"""The command line: help, one-sentence errors, exit codes, files."""

from __future__ import annotations

import io
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from linly_profiling import load

from linly_pipeline import Audio
from linly_pipeline.cli import main
from linly_pipeline.media.wav import WavWriter


def linly(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run the command as a user does, in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "linly_pipeline.cli", *map(str, arguments)],
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize(
    "command",
    [
        "ask",
        "say",
        "demo",
        "report",
        "trace",
        "trace repair",
        "trace convert",
        "trace merge",
        "engines",
        "doctor",
        "models list",
        "models pull",
    ],
)
def test_every_help_text_has_an_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main([*command.split(), "--help"])
    assert caught.value.code == 0
    assert f"example: linly {command}" in " ".join(capsys.readouterr().out.split())


def test_say_writes_a_video_subtitles_and_a_trace(tmp_path: Path) -> None:
    folder = tmp_path / "my talks 你好"
    folder.mkdir()
    script = folder / "my script.md"
    script.write_text("# Welcome\n\nThis is **one** sentence. This is another one.\n", encoding="utf-8")
    result = linly(
        "say", script, "-o", folder / "a.mp4", "--trace", folder / "a.json",
        "--subtitles", folder / "a.srt", "--size", 256,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert "real-time factor" in result.stdout
    assert "This is one sentence." in (folder / "a.srt").read_text(encoding="utf-8")
    assert json.loads((folder / "a.json").read_text(encoding="utf-8"))["traceEvents"]
    assert Audio.read(folder / "a.mp4").duration_s > 2
    report = linly("report", folder / "a.json")
    assert report.returncode == 0
    assert "hibari" in report.stdout
    assert json.loads(linly("report", "--json", folder / "a.json").stdout)[0]["outcome"] == "ok"


def test_ask_answers_in_writing_with_the_sound_alone(tmp_path: Path) -> None:
    config = tmp_path / "voice.toml"
    config.write_text('[[stage]]\nengine = "llama.cpp"\n[[stage]]\nengine = "hibari"\n', encoding="utf-8")
    result = linly("ask", "--text", "What is a rainbow?", "--config", config, "-o", tmp_path / "a.wav")
    assert result.returncode == 0, result.stderr
    assert "answer:" in result.stdout
    assert Audio.read(tmp_path / "a.wav").duration_s > 1


def test_a_recording_without_speech_is_one_sentence_and_no_file(tmp_path: Path) -> None:
    writer = WavWriter(tmp_path / "silence.wav", 16_000)
    writer.write(np.zeros((0, 0, 0, 3), np.uint8), np.zeros(32_000, np.float32))
    writer.close()
    result = linly("ask", tmp_path / "silence.wav", "-o", tmp_path / "a.mp4", "--quiet")
    assert result.returncode == 1
    assert "no speech was found" in result.stderr
    assert not (tmp_path / "a.mp4").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["ask", "nowhere.wav"], "nowhere.wav"),
        (["say", "nowhere.md"], "nowhere.md"),
        (["say", "Hi.", "--portrait", "nowhere.jpg"], "nowhere.jpg"),
        (["say", "Hi.", "-o", "no/such/folder/a.mp4"], "folder"),
        (["say", "Hi.", "-o", "a.avi"], ".mp4 or .wav"),
        (["say", "Hi.", "--trace", "no/such/folder/t.json"], "folder"),
        (["say", "Hi.", "--subtitles", "a.txt"], ".srt or .vtt"),
        (["say", "Hi.", "--config", "nowhere.toml"], "nowhere.toml"),
        (["say", "Hi.", "--torch-profile", "tts"], "needs --trace"),
        (["say", "Hi.", "--torch-profile", "tts", "--trace", "t.json"], "pip install torch"),
        (["models", "path", "no-such-model"], "no-such-model"),
        (["say", "😀"], "nothing that this voice can speak"),
        (["say", " "], "the text is empty"),
        (["ask", "--text", ""], "the question is empty"),
    ],
)
def test_a_mistake_is_one_sentence_and_exit_code_1(
    arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert main([*arguments, "--quiet"] if arguments[0] in ("ask", "say") else arguments) == 1
    error = capsys.readouterr().err
    assert error.startswith("linly: ")
    assert message in error
    assert "Traceback" not in error
    assert len(error.strip().splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGINT for one process")
def test_ctrl_c_leaves_no_half_file_and_keeps_the_trace(tmp_path: Path) -> None:
    trace = tmp_path / "a.json"
    with subprocess.Popen(
        [
            sys.executable, "-m", "linly_pipeline.cli", "say", "This is a sentence to be read aloud. " * 200,
            "-o", tmp_path / "a.mp4", "--trace", trace, "--size", "256",
        ],
        stderr=subprocess.PIPE,
        text=True,
    ) as process:  # fmt: skip
        while not list(tmp_path.glob(".linly-*")) and process.poll() is None:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=30)
    assert process.returncode == 130
    assert error.strip().splitlines()[-1] == "linly: interrupted; no unfinished file was left"
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]
    [loaded] = load(trace)
    assert loaded.outcome == "cancelled"


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGTERM")
def test_a_service_managers_stop_leaves_no_half_file_either(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "linly_pipeline.cli", "say", "A sentence to be read aloud. " * 200]
    with subprocess.Popen(
        [*command, "-o", tmp_path / "a.mp4", "--size", "256"], stderr=subprocess.PIPE
    ) as process:
        while not list(tmp_path.glob(".linly-*")) and process.poll() is None:
            time.sleep(0.02)
        process.terminate()
        process.communicate(timeout=30)
    assert process.returncode == 130
    assert list(tmp_path.iterdir()) == []


def test_say_reads_any_text_file_and_standard_input_and_draws_no_face_for_sound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "notes.rst").write_text("Good morning.", encoding="utf-8")
    assert main(["say", str(tmp_path / "notes.rst"), "-o", str(tmp_path / "a.wav")]) == 0
    out = capsys.readouterr().out
    assert "hibari" in out
    assert "portrait" not in out
    monkeypatch.setattr("sys.stdin", io.StringIO("Good evening."))
    assert main(["say", "-", "-o", str(tmp_path / "b.wav"), "--quiet"]) == 0
    assert Audio.read(tmp_path / "b.wav").duration_s > 0.5
    (tmp_path / "picture.dat").write_bytes(b"\xff\xfe\x00\x80")
    assert main(["say", str(tmp_path / "picture.dat"), "-o", str(tmp_path / "c.wav")]) == 1
    assert "not UTF-8 text" in capsys.readouterr().err


def test_a_portrait_of_the_store_is_named_on_the_command_line(tmp_path: Path) -> None:
    arguments = ["say", "Hi.", "--portrait", "portrait-grace-hopper", "--size", "128", "--quiet"]
    assert main([*arguments, "-o", str(tmp_path / "a.mp4")]) == 0


def test_debug_shows_the_traceback() -> None:
    result = linly("--debug", "report", "nowhere.json")
    assert result.returncode == 1
    assert "Traceback" in result.stderr


def test_engines_and_doctor_tell_what_is_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["engines"]) == 0
    out = capsys.readouterr().out
    for engine in ("whisper", "llama.cpp", "hibari", "visemes", "portrait"):
        assert engine in out
    assert main(["doctor"]) == 0
    assert "everything is there" in capsys.readouterr().out


def test_doctor_fails_where_it_cannot_write(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--output-folder", str(tmp_path / "missing")]) == 1
    assert "FAIL" in capsys.readouterr().out


def test_a_missing_extra_names_its_install_command(monkeypatch: pytest.MonkeyPatch) -> None:
    from linly_pipeline import ConfigError, Hibari
    from linly_pipeline.cli.engines import state
    from linly_pipeline.registry import About, about
    from linly_pipeline.testing import run_virtual

    assert "linly-pipeline\\[hibari]" in state(About("x", modules=("no_such_module",), extra="hibari"))
    assert about(Hibari).missing_modules() == []
    monkeypatch.setitem(sys.modules, "hibari", None)
    with pytest.raises(ConfigError, match=r"pip install 'linly-pipeline\[hibari\]'"):
        run_virtual(Hibari().load())
