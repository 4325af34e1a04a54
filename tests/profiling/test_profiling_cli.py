"""`python -m linly_profiling`, and what it needs: nothing but Python."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from linly_profiling import LoadedTrace, Recorder, Trace, TraceFile, load, save
from linly_profiling.cli import main
from trace_tools import MS, Clock

ROOT = Path(__file__).parents[2]


def answer(name: str, llm_ms: int = 100) -> LoadedTrace:
    """A request with a language model and a voice."""
    clock = Clock()
    with Trace(name, clock_ns=clock) as trace:
        for order, (row, milliseconds) in enumerate((("llm", llm_ms), ("tts", 50))):
            with trace.span(f"linly.stage {row}", stage=row, row=row, order=order) as span:
                clock.tick(milliseconds * MS)
                span.set(first_out_ns=clock.now_ns, busy_ns=milliseconds * MS, items_in=1, items_out=1)
    return trace.snapshot()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Traces of a good and of a slow day, in a folder with a space in its name."""
    for day, llm_ms in (("good day", 100), ("slow day", 300)):
        (tmp_path / day).mkdir()
        for number in range(6):
            save(tmp_path / day / f"{number}.json", [answer(f"{day} {number}", llm_ms + number)])
    return tmp_path


def run(*arguments: str | Path) -> int:
    return main([str(argument) for argument in arguments])


def test_one_request_is_shown_in_full(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("report", folder / "good day" / "0.json") == 0
    out = capsys.readouterr().out
    assert "request good day 0: ok" in out
    assert "first token after 100 ms" in out


def test_several_requests_are_summed_up_and_one_can_be_chosen(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("report", folder / "good day") == 0
    assert "6 requests" in capsys.readouterr().out
    assert run("report", folder / "good day", "--request", "good day 3") == 0
    assert "request good day 3: ok" in capsys.readouterr().out
    assert run("report", folder / "good day", "--request", "other") == 2
    assert "good day 3" in capsys.readouterr().err


def test_what_is_no_trace_in_a_folder_is_left_out_with_a_note(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "good day" / "package.json").write_text("{}", "utf-8")
    assert run("report", folder / "good day") == 0
    said = capsys.readouterr()
    assert "6 requests" in said.out
    assert said.err.startswith("note: left out: ")
    assert "package.json" in said.err


def test_json_for_programs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("report", folder / "good day", "--json") == 0
    assert [each["request_id"] for each in json.loads(capsys.readouterr().out)] == [
        f"good day {number}" for number in range(6)
    ]


def test_a_page_is_written(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("report", folder / "good day", "--html", folder / "x.html") == 0
    assert "good day 5" in (folder / "x.html").read_text("utf-8")
    assert run("report", folder / "good day", "--html", folder / "no" / "x.html") == 2


def test_two_folders_are_compared(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("report", "--diff", folder / "good day", folder / "slow day") == 0
    out = capsys.readouterr().out
    assert "slower" in out
    assert "first token" in out


@pytest.mark.parametrize(("most_ms", "code"), [(200, 0), (101, 1)])
def test_a_gate_passes_or_fails_by_its_exit_code(
    folder: Path, capsys: pytest.CaptureFixture[str], most_ms: int, code: int
) -> None:
    (folder / "budget.toml").write_text(f"[budget]\nfirst_token_ms = {{ p50 = {most_ms} }}\n", "utf-8")
    assert run("report", "--gate", folder / "budget.toml", folder / "good day") == code
    assert ("FAILED" in capsys.readouterr().out) == bool(code)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["report"], "name a trace file"),
        (["report", "nowhere.json"], "nowhere.json"),
        (["report", "empty"], "holds no .json file"),
        (["report", "broken.json"], "broken.json"),
        (["report", "--gate", "broken.json", "good day"], "broken.json"),
        (["report", "--diff", "good day", "nowhere.json"], "nowhere.json"),
        (["trace", "repair", "broken.json"], "broken.json"),
        (["trace", "repair", "nowhere.json"], "nowhere.json"),
        (["trace", "convert", "good day/0.json", "x.txt"], ".pftrace"),
        (["trace", "convert", "good day/0.json", "no/x.csv"], "no such folder"),
        (["trace", "merge", "nowhere.json", "-o", "x.json"], "nowhere.json"),
    ],
)
def test_a_mistake_is_one_sentence_and_exit_code_2(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    arguments: list[str], words: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(folder)
    (folder / "empty").mkdir()
    (folder / "broken.json").write_text('{"traceEvents": [', "utf-8")
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert words in error.replace("\\", "/")
    assert error.count("\n") == 1


def test_a_killed_programs_trace_is_repaired_beside_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "run.json"
    with Recorder(TraceFile(path)), Trace("r") as trace, trace.span("work"):
        pass
    whole = path.read_bytes()
    path.write_bytes(b"[" + whole[whole.index(b"\n{") :][: -len(b"\n]}\n") - 40])
    assert run("trace", "repair", path) == 0
    out = capsys.readouterr().out
    assert out.startswith("1 request with 2 spans; left out as damaged: 1 line")
    assert len(load(tmp_path / "run.repaired.json")[0]) == 2


def test_files_are_merged_on_one_time_axis(folder: Path) -> None:
    one, other = folder / "good day" / "0.json", folder / "slow day" / "0.json"
    assert run("trace", "merge", one, other, "-o", folder / "both.json.gz") == 0
    assert {trace.request_id for trace in load(folder / "both.json.gz")} == {"good day 0", "slow day 0"}


def test_a_trace_is_converted(folder: Path) -> None:
    assert run("trace", "convert", folder / "good day" / "0.json", folder / "t.csv") == 0
    assert (folder / "t.csv").read_text("utf-8").count("\n") == 4


def test_the_profiler_alone_needs_nothing_but_python(folder: Path) -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT / 'profiling')!r})\n"
        "import importlib, pkgutil, linly_profiling\n"
        "for module in pkgutil.walk_packages(linly_profiling.__path__, 'linly_profiling.'):\n"
        "    module.name.endswith('__main__') or importlib.import_module(module.name)\n"
        "from linly_profiling.cli import main\n"
        f"sys.exit(main(['report', {str(folder / 'good day')!r}, '--html', {str(folder / 'x.html')!r}]))"
    )
    # -I -S: no site-packages at all.
    result = subprocess.run(
        [sys.executable, "-I", "-S", "-W", "error", "-c", code], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    assert (folder / "x.html").exists()


def test_its_own_package_asks_for_no_other() -> None:
    project = tomllib.loads((ROOT / "profiling" / "pyproject.toml").read_text("utf-8"))["project"]
    assert project.get("dependencies", []) == []
