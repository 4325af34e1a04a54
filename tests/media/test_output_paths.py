"""Finding out before the long work whether a place takes output."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from sounds import POSIX_NAME

from linly_pipeline.errors import SinkError
from linly_pipeline.media.output import check_new_folder, check_writable

AS_ROOT = sys.platform != "win32" and os.geteuid() == 0


class Usage(NamedTuple):
    total: int
    used: int
    free: int


@pytest.mark.parametrize(
    "name", ["a.mp4", pytest.param("a b'\"c.mp4", marks=POSIX_NAME), "你好.mp4", "A.MP4"]
)
def test_a_good_place_comes_back_as_absolute_path_and_nothing_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)

    assert check_writable(name, (".mp4",)) == tmp_path / name
    assert list(tmp_path.iterdir()) == []


def test_an_existing_file_may_be_replaced_and_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "a.mp4").write_text("old")

    check_writable(tmp_path / "a.mp4", (".mp4",))

    assert (tmp_path / "a.mp4").read_text() == "old"


def test_a_missing_folder_is_named_with_a_remedy_and_not_made(tmp_path: Path) -> None:
    with pytest.raises(SinkError, match=r"a\.mp4.*new.*does not exist; create it"):
        check_writable(tmp_path / "new" / "a.mp4")

    assert not (tmp_path / "new").exists()


def test_a_file_in_place_of_the_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(SinkError, match=r"file' is not a folder"):
        check_writable(tmp_path / "file" / "a.mp4")


def test_a_folder_in_place_of_the_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.mp4").mkdir()

    with pytest.raises(SinkError, match=r"a\.mp4.*is a folder"):
        check_writable(tmp_path / "a.mp4")


@pytest.mark.parametrize("name", ["a.avi", "a", "mp4", ".mp4"])
def test_an_unknown_suffix_is_refused_with_the_known_ones(tmp_path: Path, name: str) -> None:
    with pytest.raises(SinkError, match=r"must end in \.mp4 or \.mov"):
        check_writable(tmp_path / name, (".mp4", ".mov"))


@pytest.mark.skipif(
    AS_ROOT or sys.platform == "win32", reason="root and Windows write into read-only folders"
)
def test_a_read_only_folder_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)

    with pytest.raises(SinkError, match=r"a\.mp4.*permission denied"):
        check_writable(tmp_path / "a.mp4")


def test_a_folder_that_denies_new_files_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(*_: Any, **__: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "touch", denied)

    with pytest.raises(SinkError, match=r"a\.mp4.*permission denied; choose another folder"):
        check_writable(tmp_path / "a.mp4")


@pytest.mark.skipif(
    not Path("/proc/self").exists(), reason="needs a file system that takes no files, even from root"
)
def test_a_file_system_that_takes_no_files_is_refused() -> None:
    with pytest.raises(SinkError, match="takes no files"):
        check_writable("/proc/a.mp4")


def test_a_nearly_full_disk_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(10**9, 10**9 - 2**20, 2**20))

    with pytest.raises(SinkError, match=r"a\.mp4.*nearly full: 1 MiB free"):
        check_writable(tmp_path / "a.mp4")


def test_a_new_folder_may_be_missing_or_empty(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()

    assert check_new_folder(tmp_path / "new") == tmp_path / "new"
    assert check_new_folder(tmp_path / "empty") == tmp_path / "empty"


def test_a_folder_that_holds_something_or_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "dear.txt").write_text("x")

    with pytest.raises(SinkError, match=r"letters.*holds something"):
        check_new_folder(tmp_path / "letters")
    with pytest.raises(SinkError, match=r"dear\.txt.*is a file"):
        check_new_folder(tmp_path / "letters" / "dear.txt")
    with pytest.raises(SinkError, match="does not exist; create it"):
        check_new_folder(tmp_path / "nowhere" / "frames")
