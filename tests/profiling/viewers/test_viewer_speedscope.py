"""speedscope, in a real browser, makes a profile of every row of every request, with the slices in their order."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from linly_profiling import Trace, save
from trace_tools import MS, Clock
from viewer_browser import chromium_executable
from viewer_traces import ROWS, answers

HERE = Path(__file__).parent
WEB_PAGE = HERE / "node_modules" / "speedscope" / "dist" / "release"

pytestmark = [
    pytest.mark.skipif(
        find_spec("playwright") is None,
        reason='playwright is not installed: pip install "linly-pipeline[viewers]"',
    ),
    pytest.mark.skipif(chromium_executable() is None, reason="no Chromium is installed"),
    pytest.mark.skipif(
        not WEB_PAGE.is_dir(),
        reason=f"speedscope is not installed: npm install --prefix {HERE.relative_to(Path(__file__).parents[3])}",
    ),
]


def hostile() -> Trace:
    """Text and times that are hard to show."""
    clock = Clock()
    trace = Trace('a"\n\\\ud800😀', clock_ns=clock)
    spans = [trace.start('s"\n\\\ud800😀', row="tts") for _ in range(3)]
    clock.tick(MS)
    trace.start("at once").end()  # speedscope has no slices without length
    for span in spans:
        clock.tick(MS)
        span.end()
    trace.close("cancelled")
    return trace


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """What speedscope shows of each file; one browser opens them all."""
    folder = tmp_path_factory.mktemp("speedscope")
    paths = [save(folder / "three.json", answers(3)), hostile().save(folder / "hostile.json")]
    paths.append(_cut_short(folder, paths[0]))
    command = [sys.executable, str(HERE / "viewer_browser.py"), "speedscope", str(WEB_PAGE), *map(str, paths)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return {path.stem: document for path, document in zip(paths, json.loads(done.stdout), strict=True)}


def _cut_short(folder: Path, path: Path) -> Path:
    """The same events as an array, one a line, without an end."""
    lines = [line.rstrip(",") for line in path.read_text("utf-8").splitlines() if line.startswith('{"ph":')]
    cut = folder / "cut.json"
    cut.write_text("[\n" + ",\n".join(lines[:-200]), "utf-8")
    return cut


def stacks(document: dict[str, Any], profile: dict[str, Any]) -> list[tuple[str, ...]]:
    """The names from the outside in, for every slice."""
    names = [frame["name"].split(" {")[0] for frame in document["shared"]["frames"]]
    stack: list[str] = []
    found = []
    for event in profile["events"]:
        if event["type"] == "O":
            stack.append(names[event["frame"]])
            found.append(tuple(stack))
        else:
            assert stack.pop() == names[event["frame"]]
    assert not stack
    return found


def test_every_row_of_every_request_is_a_profile_with_its_name(shown: dict[str, dict[str, Any]]) -> None:
    names = [profile["name"] for profile in shown["three"]["profiles"]]
    assert names == [
        f"request turn {i + 1} (pid {2**30 + i}), {row} (tid {tid})"
        for i in range(3)
        for tid, row in enumerate(("request", *ROWS), start=1)
    ]


def test_slices_lie_in_their_parents_and_none_is_missing(shown: dict[str, dict[str, Any]]) -> None:
    document = shown["three"]
    found = Counter(stack for profile in document["profiles"] for stack in stacks(document, profile))
    assert found == {
        ("linly.request",): 3,
        **{(f"linly.stage {row}",): 3 for row in ROWS},
        ("linly.stage asr", "linly.queue.wait"): 2,
        ("linly.stage asr", "whisper.transcribe"): 3,
        ("linly.stage llm", "llm.generate"): 3,
        ("linly.stage tts", "tts.synthesise"): 9,
        ("linly.stage tts", "tts.synthesise", "tts.mel"): 9,
        ("linly.stage tts", "tts.synthesise", "tts.vocoder"): 9,
        ("linly.stage face", "face.render"): 9,
        ("linly.stage sink", "mp4.write"): 9,
    }


def test_times_are_right(shown: dict[str, dict[str, Any]]) -> None:
    document = shown["three"]
    (asr,) = [
        p for p in document["profiles"] if p["name"].startswith("request turn 1") and " asr " in p["name"]
    ]
    assert asr["unit"] == "microseconds"
    times = [event["at"] - asr["events"][0]["at"] for event in asr["events"]]
    assert times == pytest.approx([0, 0, 120_000, 120_000], abs=0.01)


def test_hostile_text_and_lanes_lose_nothing(shown: dict[str, dict[str, Any]]) -> None:
    document = shown["hostile"]
    rows = [profile["name"].partition("), ")[2] for profile in document["profiles"]]
    assert rows == ["request (tid 1)", "tts (tid 2)", "tts (2) (tid 3)", "tts (3) (tid 4)"]
    found = [stack for profile in document["profiles"] for stack in stacks(document, profile)]
    assert Counter(stack[-1] for stack in found) == {"linly.request": 1, 's"␊⧵�😀': 3}


def test_what_a_killed_process_leaves_is_shown(shown: dict[str, dict[str, Any]]) -> None:
    document = shown["cut"]
    found = [stack for profile in document["profiles"] for stack in stacks(document, profile)]
    assert ("linly.stage llm", "llm.generate") in found
    assert len(document["profiles"]) >= 14
