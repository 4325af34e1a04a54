"""`linly models …` as a person types it."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path
from typing import Any

import pytest

from linly_pipeline import models
from linly_pipeline.cli.models import add_parser
from linly_pipeline.errors import ModelError
from linly_pipeline.models import CATALOGUE, locate


def linly(*words: str) -> int:
    parser = argparse.ArgumentParser(prog="linly")
    add_parser(parser.add_subparsers())
    args = parser.parse_args(["models", *words])
    code = args.run(args)
    assert isinstance(code, int)
    return code


@pytest.fixture(autouse=True)
def _wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "250")


def test_pull_shows_progress_and_says_where_the_model_lies_and_its_licence(
    wheels: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert linly("pull", "toy", "twins", "toy") == 0
    output, progress = capsys.readouterr()
    assert output.count("toy: ") == 1
    assert f"toy: {locate('toy')}" in output
    assert "MIT: made for tests; https://example.org" in output
    assert "twins" in progress
    assert "ready" in progress


def test_pull_without_names_gets_what_the_demo_needs(
    wheels: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(models, "EMBEDDED", ("toy",))
    assert linly("pull") == 0
    assert capsys.readouterr().out.startswith(f"toy: {locate('toy')}")


def test_pull_of_an_unknown_name_downloads_nothing(home: Path) -> None:
    with pytest.raises(ModelError, match="no model is called 'tyo'"):
        linly("pull", "toy", "tyo")
    assert not home.exists()


def test_pull_that_is_interrupted_ends_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*args: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(models, "pull", interrupted)
    assert linly("pull", "toy") == 130
    assert "nothing was left half installed" in capsys.readouterr().err


def test_list_shows_every_model_and_where_it_lies(
    cached: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(locate("twins"))
    assert linly("list") == 0
    output = capsys.readouterr().out
    assert all(name in output for name in CATALOGUE)
    rows = {line.split()[1]: line for line in output.splitlines() if line.startswith("│")}
    assert "in the cache" in rows["toy"]
    assert f"the cache: {home}" in output
    assert "0.7 MB" in rows["toy"]
    assert "not installed" in rows["twins"]
    assert "whisper-tiny.en *" in rows["whisper-tiny.en"]
    assert "Apache-2.0" in rows["smollm2-135m-instruct"]


def test_list_shows_the_path_of_a_model_that_lies_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.bin").write_bytes(b"my own")
    monkeypatch.setenv("LINLY_MODEL_TOY", str(tmp_path / "mine.bin"))
    assert linly("list") == 0
    assert str(tmp_path / "mine.bin") in capsys.readouterr().out


def test_list_shows_what_is_broken(cached: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cached.write_bytes(b"[red]")
    assert linly("list") == 0
    assert "is cut short: 5 of 700,000 bytes" in " ".join(capsys.readouterr().out.split())


def test_path_prints_the_path_alone(cached: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert linly("path", "toy") == 0
    assert capsys.readouterr() == (f"{cached}\n", "")


def test_path_of_a_missing_model_says_how_to_get_it() -> None:
    with pytest.raises(ModelError, match="run: linly models pull toy"):
        linly("path", "toy")


def test_verify_checks_everything_on_the_machine(cached: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert linly("verify") == 0
    output = capsys.readouterr().out
    assert f"toy: good ({locate('toy')})" in output
    assert f"twins: good ({locate('twins')})" in output


def test_verify_goes_on_after_a_bad_model_and_reports_it(
    cached: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cached.write_bytes(b"bad")
    assert linly("verify", "toy", "twins") == 1
    output = capsys.readouterr().out
    assert "toy: BAD: " in output
    assert "twins: good" in output


def test_verify_on_a_machine_without_models_says_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    assert linly("verify") == 0
    assert "run: linly models pull" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["list", "pull", "path", "verify"])
def test_every_command_has_help_and_an_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        linly(command, "--help")
    assert ended.value.code == 0
    assert f"example: linly models {command}" in capsys.readouterr().out


def test_models_without_a_command_shows_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        linly()
    assert ended.value.code == 2
    assert "COMMAND" in capsys.readouterr().err
