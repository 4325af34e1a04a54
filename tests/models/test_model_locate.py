"""Finding models: override, cache, installed package; and what is checked when."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest
import toy_models
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from linly_pipeline.errors import ModelError
from linly_pipeline.models import WeightFile, checks, installed, locate, stamps, store, variable, verify
from linly_pipeline.models import home as home_folder

LFS_POINTER = (
    b"version https://git-lfs.github.com/spec/v1\n"
    b"oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 132735373\n"
)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The package of the toy, installed; importing it would fail."""
    site = tmp_path / "site"
    toy_models.build_wheel(tmp_path, "toy-weights", "1.2.0", toy_models.CONTENTS["toy-weights"])
    toy_models.unpack(tmp_path / "toy_weights-1.2.0-py3-none-any.whl", site)
    (site / "toy_weights" / "__init__.py").write_text("raise AssertionError('the package was imported')")
    monkeypatch.syspath_prepend(site)
    return site / "toy_weights" / "data" / "toy.bin"


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Every file that is read as a whole."""
    paths: list[Path] = []

    def spy(path: Path, file: WeightFile) -> str:
        paths.append(path)
        return checks.hash_fault(path, file)

    monkeypatch.setattr(store, "hash_fault", spy)
    return paths


def test_a_missing_model_is_told_with_the_command_that_gets_it(home: Path) -> None:
    with pytest.raises(
        ModelError, match=r"^model 'toy' \(a toy\) is not on this machine; run: linly models pull toy$"
    ):
        locate("toy")
    assert installed("toy") is None
    assert not home.exists()


def test_an_unknown_name_is_told_with_the_names_there_are() -> None:
    with pytest.raises(
        ModelError, match=r"no model is called 'tyo'; the store knows: .*toy, twins, whisper-base"
    ):
        locate("tyo")


def test_a_model_of_one_file_is_that_file_and_other_models_are_a_folder(cached: Path, home: Path) -> None:
    assert locate("toy") == cached
    assert locate("twins") == home / "models" / "twins"


def test_a_file_of_a_folder_that_is_missing_is_named(cached: Path, home: Path) -> None:
    (home / "models" / "twins" / "notes.txt").unlink()
    with pytest.raises(ModelError, match=r"notes\.txt: is missing; .*linly models pull twins"):
        locate("twins")


# Where it is looked for.


def test_the_variable_is_the_name_in_capitals() -> None:
    assert variable("whisper-tiny.en") == "LINLY_MODEL_WHISPER_TINY_EN"


def test_an_override_comes_first_and_may_hold_other_weights(
    cached: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = tmp_path / "my own.bin"
    mine.write_bytes(b"other weights")
    monkeypatch.setenv("LINLY_MODEL_TOY", str(mine))
    assert locate("toy") == mine


def test_an_override_that_is_bad_is_told_with_its_variable(
    cached: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pointer.bin").write_bytes(LFS_POINTER)
    monkeypatch.setenv("LINLY_MODEL_TOY", str(tmp_path / "pointer.bin"))
    with pytest.raises(ModelError, match=r"pointer\.bin: is a Git-LFS pointer.* \(set by LINLY_MODEL_TOY\)"):
        locate("toy")


def test_the_installed_package_is_used_without_importing_it(site: Path) -> None:
    assert locate("toy") == site
    assert "toy_weights" not in sys.modules


def test_the_cache_comes_before_the_installed_package(site: Path, cached: Path) -> None:
    assert locate("toy") == cached


def test_an_installed_package_with_other_weights_does_not_count(site: Path) -> None:
    site.write_bytes(toy_models.WEIGHTS[::-1])
    assert installed("toy") is None


def test_a_model_in_parts_is_not_looked_for_in_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    toy_models.build_all(tmp_path)
    for wheel in list(tmp_path.glob("twins*.whl")):
        toy_models.unpack(wheel, tmp_path / "site")
    monkeypatch.syspath_prepend(tmp_path / "site")
    assert installed("twins") is None


def test_the_cache_is_where_linly_home_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LINLY_HOME", "~/models of mine")
    assert home_folder() == Path.home() / "models of mine"


@pytest.mark.parametrize(
    ("platform", "variables", "expected"),
    [
        ("linux", {}, Path.home() / ".cache" / "linly"),
        ("linux", {"XDG_CACHE_HOME": os.path.abspath("/var/x")}, Path(os.path.abspath("/var/x")) / "linly"),
        ("linux", {"XDG_CACHE_HOME": "relative"}, Path.home() / ".cache" / "linly"),
        ("darwin", {}, Path.home() / "Library" / "Caches" / "linly"),
        ("win32", {"LOCALAPPDATA": "local"}, Path("local") / "linly"),
        ("win32", {}, Path.home() / "AppData" / "Local" / "linly"),
    ],
)
def test_the_cache_is_where_the_system_keeps_caches(
    platform: str, variables: dict[str, str], expected: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("LINLY_HOME", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "platform", platform)
    assert home_folder() == expected


# What is checked.

LONGER = toy_models.WEIGHTS + b"?"
OTHER = toy_models.WEIGHTS[:-1] + bytes([toy_models.WEIGHTS[-1] ^ 1])


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (LFS_POINTER, "is a Git-LFS pointer"),
        (b"", "is empty"),
        (b"<!DOCTYPE html><title>Sign in</title>", "is a web page, not weights"),
        (toy_models.WEIGHTS[:-1], "is cut short: 699,999 of 700,000 bytes"),
        (LONGER, "is another file: 700,001 bytes where 700,000 are right"),
        (OTHER, "has the wrong content"),
    ],
    ids=["lfs pointer", "empty", "web page", "truncated", "longer", "corrupt"],
)
@pytest.mark.parametrize("check", [locate, verify])
def test_a_bad_file_is_told_with_its_path_the_cause_and_the_remedy(
    cached: Path, content: bytes, fault: str, check: object
) -> None:
    cached.write_bytes(content)
    sentence = f"^{re.escape(str(cached))}: {fault}.*; to get it right, run: linly models pull toy$"
    with pytest.raises(ModelError, match=sentence):
        locate("toy") if check is locate else verify("toy")


def test_a_folder_in_place_of_a_file_is_told(home: Path) -> None:
    (home / "models" / "toy" / "toy.bin").mkdir(parents=True)
    with pytest.raises(ModelError, match=r"toy\.bin: cannot be read"):
        locate("toy")


def test_a_file_is_hashed_once(cached: Path, hashed: list[Path]) -> None:
    assert [locate("toy"), locate("toy"), locate("toy")] == [cached] * 3
    assert hashed == [cached]


def test_a_file_that_changed_is_hashed_again(cached: Path, hashed: list[Path]) -> None:
    locate("toy")
    os.utime(cached, ns=(1, 1))
    locate("toy")
    assert hashed == [cached, cached]


def test_a_bad_file_is_hashed_at_every_call(cached: Path, hashed: list[Path]) -> None:
    cached.write_bytes(OTHER)
    for _ in range(2):
        with pytest.raises(ModelError, match="wrong content"):
            locate("toy")
    assert hashed == [cached, cached]


def test_verify_finds_what_size_and_time_do_not_show(cached: Path) -> None:
    locate("toy")
    before = cached.stat()
    cached.write_bytes(OTHER)
    os.utime(cached, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert locate("toy") == cached
    with pytest.raises(ModelError, match="wrong content"):
        verify("toy")
    with pytest.raises(ModelError, match="wrong content"):  # and from now on locate knows too
        locate("toy")


def test_a_cache_that_cannot_be_written_serves_all_the_same(cached: Path, home: Path) -> None:
    (home / "stamps").write_text("a file where the folder of the stamps belongs")
    assert locate("toy") == locate("toy") == cached


@example(content=b"[" * 100_000)
@example(content=b'{"x": 1}')
@example(content=b"null")
@given(content=st.binary(max_size=60))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_damaged_stamps_are_forgotten(cached: Path, home: Path, content: bytes) -> None:
    (home / "stamps").mkdir(exist_ok=True)
    (home / "stamps" / "toy.json").write_bytes(content)
    assert locate("toy") == cached


def test_a_small_file_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "stamps.json"
    target.write_bytes(b"old")

    def full(source: str, target: Path) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="the disk is full"):
        stamps.write_whole(target, b"new")
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("stamps.json", b"old")]
