"""Telling good weights from bad ones by looking at the file."""

from __future__ import annotations

import io
import os
import re
import struct
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from linly_pipeline.errors import ModelError
from linly_pipeline.models import CATALOGUE, check_file
from linly_pipeline.models.formats import FORMATS
from linly_pipeline.models.store import folder_of

QUICK = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


def string(text: str) -> bytes:
    return struct.pack("<Q", len(text)) + text.encode()


OFFSETS = (("x", 0), ("y", 32))


def gguf() -> bytes:
    """Two values, one of them an array of strings, and two tensors, the second at byte 32 of the data."""
    tokens = struct.pack("<IIQ", 9, 8, 2) + string("a") + string("b")
    tensors = [string(name) + struct.pack("<IQIQ", 1, 8, 0, offset) for name, offset in OFFSETS]
    head = b"GGUF" + struct.pack("<IQQ", 3, 2, 2) + string("general.alignment") + struct.pack("<II", 4, 32)
    head += string("tokenizer.ggml.tokens") + tokens + b"".join(tensors)
    return head + bytes(-len(head) % 32) + bytes(64)


def ctranslate2() -> bytes:
    def name(text: str) -> bytes:
        return struct.pack("<H", len(text) + 1) + text.encode() + b"\0"

    variable = name("encoder/weight") + struct.pack("<BIIBI", 2, 2, 4, 0, 32) + bytes(32)
    aliases = struct.pack("<I", 1) + name("decoder/weight") + name("encoder/weight")
    return struct.pack("<I", 6) + name("WhisperSpec") + struct.pack("<II", 3, 1) + variable + aliases


def onnx() -> bytes:
    """IR version 8, a producer, and a graph of 300 bytes."""
    return b"\x08\x08" + b"\x12\x04test" + b"\x3a\xac\x02" + bytes(300)


def task() -> bytes:
    content = io.BytesIO(b"\0\0")
    content.seek(2)
    with zipfile.ZipFile(content, "a") as archive:
        archive.writestr("face.tflite", tflite())
    return content.getvalue()


def tflite() -> bytes:
    return b"\x1c\0\0\0TFL3" + bytes(64)


SAMPLES = {"gguf": gguf(), "ctranslate2": ctranslate2(), "onnx": onnx(), "task": task(), "tflite": tflite()}
# How many bytes at the end may be lost unseen: GGUF's last tensor, all of TensorFlow Lite's.
UNSEEN = {"gguf": 31, "ctranslate2": 0, "onnx": 0, "task": 0, "tflite": 64}
KINDS = pytest.mark.parametrize("kind", SAMPLES)


def write(folder: Path, content: bytes, name: str = "weights") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def fault(path: Path, kind: str | None) -> str:
    with pytest.raises(ModelError) as caught:
        check_file(path, kind=kind)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert "\n" not in message
    return message


def verdict(path: Path, kind: str) -> str:
    try:
        check_file(path, kind=kind)
    except ModelError as error:
        return str(error)
    return ""


def test_there_is_a_sample_of_every_format() -> None:
    assert SAMPLES.keys() == FORMATS.keys()


@KINDS
def test_good_weights_pass(kind: str, tmp_path: Path) -> None:
    path = write(tmp_path, SAMPLES[kind])
    assert check_file(str(path), kind=kind) == path


@KINDS
def test_weights_that_are_cut_short_do_not_pass(kind: str, tmp_path: Path) -> None:
    content = SAMPLES[kind]
    for size in range(1, len(content) - UNSEEN[kind]):
        path = write(tmp_path, content[:size])
        message = fault(path, kind)
        assert "was cut short; download it again" in message or "is no " in message


@KINDS
@pytest.mark.parametrize("other", SAMPLES)
def test_weights_of_another_format_do_not_pass(kind: str, other: str, tmp_path: Path) -> None:
    if kind != other:
        assert f"is no {FORMATS[kind][0]} file" in fault(write(tmp_path, SAMPLES[other]), kind)


@KINDS
@QUICK
@given(content=st.binary(min_size=1, max_size=400))
def test_rubbish_passes_or_fails_with_a_sentence(kind: str, content: bytes, tmp_path: Path) -> None:
    path = write(tmp_path, content)
    assert re.match(f"{re.escape(str(path))}: is |$", verdict(path, kind))


NESTED = (
    b"GGUF"
    + struct.pack("<IQQ", 3, 0, 1)
    + string("a")
    + struct.pack("<I", 9)
    + struct.pack("<IQ", 9, 1) * 5000
)


@KINDS
@QUICK
@example(content=NESTED, at=0)
@given(content=st.binary(max_size=60), at=st.integers(min_value=4, max_value=200))
def test_good_weights_with_rubbish_written_into_them_never_crash_the_check(
    kind: str, content: bytes, at: int, tmp_path: Path
) -> None:
    damaged = bytearray(SAMPLES[kind])
    damaged[at : at + len(content)] = content
    path = write(tmp_path, bytes(damaged))
    assert re.match(f"{re.escape(str(path))}: is |$", verdict(path, kind))


@pytest.mark.parametrize("kind", [None, *SAMPLES])
@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"", "is empty; download it again"),
        (
            b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n",
            "is a Git-LFS pointer",
        ),
        (b"\n<html><body>404</body></html>", "is a web page, not weights"),
    ],
    ids=["empty", "lfs pointer", "web page"],
)
def test_what_is_no_weights_of_any_format(
    kind: str | None, content: bytes, what: str, tmp_path: Path
) -> None:
    assert what in fault(write(tmp_path, content), kind)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    assert "there is no such file; check the path" in fault(tmp_path / "nowhere.gguf", None)


def test_a_folder_where_a_file_is_needed(tmp_path: Path) -> None:
    assert "is a folder, but a file of weights is needed" in fault(tmp_path, "gguf")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_named_pipe_does_not_make_the_check_wait(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert "is no regular file" in fault(tmp_path / "pipe", "gguf")


def test_a_folder_of_ctranslate2_is_judged_by_its_model(tmp_path: Path) -> None:
    path = write(tmp_path, ctranslate2(), "model.bin")
    assert check_file(tmp_path, kind="ctranslate2") == tmp_path
    path.unlink()
    with pytest.raises(ModelError, match=r"model\.bin: there is no such file"):
        check_file(tmp_path, kind="ctranslate2")


def test_the_format_is_taken_from_the_suffix(tmp_path: Path) -> None:
    assert "is no GGUF file" in fault(write(tmp_path, tflite(), "Model.GGUF"), None)
    assert check_file(write(tmp_path, tflite(), "model.pt"))


def test_the_home_folder_may_be_written_as_a_tilde(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    path = write(tmp_path, gguf(), "你好 model.gguf")
    assert check_file("~/你好 model.gguf") == path


def test_an_unknown_kind_is_a_mistake_in_the_program(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="unknown kind 'pickle'; known are: gguf"):
        check_file(write(tmp_path, b"x"), kind="pickle")


def test_real_onnx_files_pass() -> None:
    files = [
        Path(str(file.locate()))
        for package in ("onnxruntime", "hibari-tts", "faster-whisper")
        for file in _files_of(package)
        if file.suffix == ".onnx"
    ]
    if not files:
        pytest.skip("no package with ONNX files is installed")
    for file in files:
        assert check_file(file) == file


def _files_of(package: str) -> list[metadata.PackagePath]:
    try:
        return metadata.files(package) or []
    except metadata.PackageNotFoundError:
        return []


@pytest.mark.parametrize("name", [name for name, model in CATALOGUE.items() if model.kind])
def test_real_weights_of_the_catalogue_pass(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LINLY_HOME")
    model = CATALOGUE[name]
    path = folder_of(model) if model.is_folder else folder_of(model) / model.files[0].name
    if not path.exists():
        pytest.skip(f"{name} was not pulled")
    assert check_file(path, kind=model.kind) == path
