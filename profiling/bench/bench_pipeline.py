"""The default pipeline's figures: delays, speed, memory, import time.

    python profiling/bench/bench_pipeline.py --json bench.json

Each part runs in a process of its own, so that memory is its own and nothing is warm by accident.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from linly_profiling import Report
from linly_profiling.attribution import Milestone

from linly_pipeline import Audio, Hibari, Mp4Sink, Pipeline, Session, Turn, WavSink
from linly_pipeline.config import embedded

QUESTIONS = [
    "Hello! Can you tell me, in simple words, how plants make their food?",
    "I have always wondered about this. What is a rainbow really made of?",
    "Good morning to you. Could you please explain why all of us need to sleep?",
    "Can you tell me, in simple words, what a volcano is and where to find one?",
    "What would you say is the best way to learn to swim when you are a child?",
    "Do you know what happens to the water in the sea when the sun is shining?",
    "Please tell me something interesting about the moon that I do not know yet.",
    "Why do the leaves of the trees change their color in the autumn every year?",
    "How do birds find their way home when they fly so far over the open sea?",
    "Could you tell me what it is that makes the bread rise in a warm oven?",
]

PARAGRAPH = (
    "Plants use sunlight to make their food. Their leaves take in carbon dioxide from the air, and their roots"
    " take up water from the soil. Inside the leaves, the light splits the water, and the plant builds sugar."
    " The oxygen that is left over goes back into the air, and we breathe it. "
)


@dataclass(frozen=True)
class Figure:
    """One line of the table. `target` is the most that is allowed; None where there is none."""

    name: str
    value: float
    unit: str
    target: float | None = None

    @property
    def verdict(self) -> str:
        if self.target is None:
            return ""
        return "ok" if self.value <= self.target else "MISSED"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path, help="write the figures to this file as well")
    parser.add_argument("--quick", action="store_true", help="three questions, and a minute instead of ten")
    args = parser.parse_args()
    figures = [import_time()]
    questions = QUESTIONS[:3] if args.quick else QUESTIONS
    figures += in_process(answers, questions)
    figures += memory_growth(minutes=1 if args.quick else 10)
    print_table(figures)
    if args.json:
        args.json.write_text(json.dumps(record(figures), indent=2) + "\n", encoding="utf-8")
    return any(figure.verdict == "MISSED" for figure in figures)


def import_time() -> Figure:
    """Wall time of the import alone, best of five: what is left is the interpreter's and the disk's."""
    code = "import time; t = time.perf_counter(); import linly_pipeline; print(time.perf_counter() - t)"
    times_s = [
        float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
        for _ in range(5)
    ]
    return Figure("import linly_pipeline", min(times_s) * 1000, "ms", 150)


def answers(questions: list[str]) -> list[Figure]:
    """Ten spoken questions to a warm pipeline, each answered with a whole 512x512 video."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        recordings = asyncio.run(record_questions(questions, folder))
        turns = asyncio.run(answer_all(recordings, folder))
    reports = [turn.report() for turn in turns]
    first_audio = [milestone(report, "first audio").total_ns / 1e6 for report in reports]
    first_frame = [milestone(report, "first frame").total_ns / 1e6 for report in reports]
    factors = [
        report.wall_ns / 1e9 / turn.played.media_s
        for report, turn in zip(reports, turns, strict=True)
        if turn.played
    ]
    lengths_s = [recording.duration_s for recording in recordings]
    return [
        Figure("questions, median length", statistics.median(lengths_s), "s"),
        Figure("first audio, p50", statistics.median(first_audio), "ms", 700),
        Figure("first audio, p95", percentile(first_audio, 95), "ms", 1000),
        Figure("first frame, p50", statistics.median(first_frame), "ms", 700),
        Figure("first frame, p95", percentile(first_frame, 95), "ms", 1000),
        *contributions(reports),
        Figure("whole answer, real-time factor p50", statistics.median(factors), "", 0.25),
        Figure("peak memory", peak_memory_bytes() / 1e6, "MB", 1200),
    ]


def milestone(report: Report, name: str) -> Milestone:
    return next(each for each in report.milestones if each.name == name)


def contributions(reports: list[Report]) -> list[Figure]:
    """The median of each named part of the time to the first frame."""
    parts: dict[str, list[float]] = {}
    for report in reports:
        for part in milestone(report, "first frame").contributions:
            parts.setdefault(part.label, []).append(part.duration_ns / 1e6)
    return [
        Figure(f"  of the first frame: {label}", statistics.median(each), "ms")
        for label, each in parts.items()
    ]


async def record_questions(questions: list[str], folder: Path) -> list[Audio]:
    async with Pipeline(Hibari()).session(WavSink(folder / "question.wav")) as session:
        turns = [await session.say(question) for question in questions]
    return [Audio.read(turn.played.path) for turn in turns if turn.played and turn.played.path]


async def answer_all(recordings: list[Audio], folder: Path) -> list[Turn]:
    """A conversation each, so that every question finds the same prompt; one turn before to warm everything."""
    pipeline = embedded()
    async with pipeline:
        async with pipeline.session(Mp4Sink(folder / "warm.mp4")) as session:
            await session.ask(recordings[0])
        return [
            await answer_one(pipeline.session(Mp4Sink(folder / f"{n}.mp4")), each)
            for n, each in enumerate(recordings)
        ]


async def answer_one(session: Session, recording: Audio) -> Turn:
    async with session:
        return await session.ask(recording)


def memory_growth(*, minutes: int) -> list[Figure]:
    """Peak memory of a ten-minute text over that of a ten-second one."""
    short = in_process(read_aloud, 0)
    long = in_process(read_aloud, minutes)
    return [
        Figure(f"memory of {minutes} min of speech over 10 s", long[0].value - short[0].value, "MB", 100),
        Figure(f"{minutes} min of speech, real-time factor", long[1].value, "", 0.25),
    ]


def read_aloud(minutes: int) -> list[Figure]:
    # The paragraph takes about a quarter of a minute.
    text = PARAGRAPH * max(1, minutes * 4)
    with tempfile.TemporaryDirectory() as name:
        start_s = time.perf_counter()
        turn = embedded().say(text, out=Path(name) / "speech.mp4")
        took_s = time.perf_counter() - start_s
    assert turn.played is not None
    return [
        Figure("peak", peak_memory_bytes() / 1e6, "MB"),
        Figure("real-time factor", took_s / turn.played.media_s, ""),
    ]


def peak_memory_bytes() -> int:
    """Peak resident set of this process; 0 where the system does not tell."""
    try:
        import resource
    except ImportError:
        return 0
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def in_process(function: Callable[..., list[Figure]], *arguments: Any) -> list[Figure]:
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


def percentile(values: list[float], percent: float) -> float:
    """Nearest rank."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, -(-len(ordered) * int(percent) // 100) - 1))]


def print_table(figures: list[Figure]) -> None:
    width = max(len(figure.name) for figure in figures)
    for figure in figures:
        target = f"(at most {figure.target:g})" if figure.target is not None else ""
        print(f"{figure.name:<{width}}  {figure.value:10.3f} {figure.unit:<3} {target:<15} {figure.verdict}")


def record(figures: list[Figure]) -> dict[str, Any]:
    return {
        "machine": {
            "cores": os.cpu_count(),
            "platform": platform.platform(),
            "python": platform.python_version(),
        },
        "figures": [asdict(figure) | {"verdict": figure.verdict} for figure in figures],
    }


if __name__ == "__main__":
    sys.exit(main())
