"""A spoken question in, a talking answer out, and where the time went.

    python examples/question_to_answer.py question.wav
    python examples/question_to_answer.py            # asks a question that the default voice speaks

Look at answer.mp4, then open answer.trace.json in https://ui.perfetto.dev: the request is one group, each stage a row.
"""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

from linly_pipeline import (
    Audio,
    Chat,
    Hibari,
    LinlyError,
    Mp4Sink,
    Pipeline,
    Portrait,
    Visemes,
    WavSink,
    Whisper,
)


async def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("question", type=Path, nargs="?", help="a sound file")
    args = parser.parse_args()
    question = args.question or await spoken("Good morning! Why is sleep good for us?", Path("question.wav"))

    pipeline = Pipeline(Whisper(), Chat(), Hibari(), Visemes(), Portrait("portrait-astronaut"))
    async with pipeline.session(sink=Mp4Sink("answer.mp4")) as session:
        turn = await session.ask(Audio.read(question))

    print(f"heard:    {turn.question}\nanswered: {turn.reply}\n\n{turn.report()}")
    turn.trace.save("answer.trace.json")


async def spoken(text: str, path: Path) -> Path:
    """Record a question with the default voice."""
    async with Pipeline(Hibari()).session(WavSink(path)) as session:
        await session.say(text)
    return path


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except LinlyError as error:
        raise SystemExit(f"question_to_answer: {error}") from error
