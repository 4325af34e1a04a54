"""`linly ask` and `linly say`: one turn, from the command line."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from linly_pipeline.errors import ConfigError, MediaError
from linly_pipeline.packets import Audio, Text
from linly_pipeline.pipeline import Pipeline

TRACE_SUFFIXES = (".json", ".pftrace", ".perfetto-trace", ".csv", ".gz")

if TYPE_CHECKING:
    from linly_pipeline.turn import Turn

    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]


def add_parser(subparsers: Subparsers) -> None:
    """Add `ask` and `say`."""
    ask = subparsers.add_parser(
        "ask",
        help="answer a spoken or written question with a talking portrait",
        description="Answer a question: speech recognition, language model, voice, moving face.",
        epilog="example: linly ask question.wav --portrait me.jpg -o answer.mp4 --trace answer.trace.json",
    )
    question = ask.add_mutually_exclusive_group(required=True)
    question.add_argument("question", nargs="?", type=Path, metavar="SOUND", help="a sound file of any kind")
    question.add_argument("--text", metavar="QUESTION", help="ask in writing")
    _add_common(ask, "answer.mp4")
    ask.set_defaults(run=run_ask)

    say = subparsers.add_parser(
        "say",
        help="read a text aloud with a talking portrait",
        description="Read a text, or the text file at a path, aloud. No language model is involved.",
        epilog="example: linly say script.md --portrait me.jpg -o lecture.mp4 --subtitles lecture.srt",
    )
    say.add_argument("text", metavar="TEXT", help="what to say, a text file, or - for standard input")
    _add_common(say, "speech.mp4")
    say.set_defaults(run=run_say)


def run_ask(args: argparse.Namespace) -> int:
    if args.text is None:
        return _run(args, Audio.read(args.question), say=False)
    if not args.text.strip():
        raise MediaError("the question is empty")
    return _run(args, Text(args.text), say=False)


def run_say(args: argparse.Namespace) -> int:
    text = _text_to_say(args.text)
    if not text.strip():
        raise MediaError("there is nothing to say: the text is empty")
    return _run(args, Text(text), say=True)


def _text_to_say(given: str) -> str:
    """The text itself; the content of a file; or, for "-", what comes from standard input."""
    from linly_pipeline.media.text import read_text
    from linly_pipeline.source import TEXT_SUFFIXES

    if given == "-":
        return sys.stdin.read()
    named_like_a_file = "\n" not in given and Path(given).suffix.lower() in TEXT_SUFFIXES
    return read_text(Path(given)) if named_like_a_file or os.path.isfile(given) else given


def run_turn(pipeline: Pipeline, source: Audio | Text, args: argparse.Namespace, *, say: bool) -> Turn:
    """Run one turn with a progress bar. The trace is saved however it ends."""
    from linly_pipeline.media.output import check_writable

    for path, suffixes in ((args.trace, TRACE_SUFFIXES), (args.subtitles, (".srt", ".vtt"))):
        if path is not None:
            check_writable(path, suffixes)  # not after minutes of work
    profiled = getattr(args, "torch_profile", None)
    if profiled is not None and args.trace is None:
        raise ConfigError("--torch-profile needs --trace: what it finds goes into the trace")
    with torch_profiles(profiled, getattr(args, "torch_stacks", False)):
        return asyncio.run(_turn(pipeline, source, args, say=say))


def show_result(turn: Turn, args: argparse.Namespace) -> int:
    """Say what was understood, answered and written, and where the time went."""
    if turn.played is None or turn.played.path is None:
        raise MediaError(_why_nothing(turn, args))
    if not args.quiet:
        if turn.question:
            print(f"question: {turn.question.strip()}")
        if turn.reply and turn.question:
            print(f"answer:   {turn.reply.strip()}")
        print(f"\n{turn.report()}\n")
    if args.subtitles:
        from linly_pipeline.text import cues, write_subtitles

        spoken = [(each.text, each.start_s, each.end_s) for each in turn.utterances]
        write_subtitles(args.subtitles, cues(spoken))
    for path in (turn.played.path, args.trace, args.subtitles):
        if path is not None:
            print(f"wrote {path}")
    return 0


def _add_common(parser: argparse.ArgumentParser, output: str) -> None:
    parser.add_argument(
        "--portrait",
        metavar="PHOTO",
        help="a photo, or a portrait of 'linly models list' (default: portrait-astronaut)",
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        default=Path(output),
        metavar="FILE",
        help="an .mp4 or .wav file, or a folder for frames (default: %(default)s)",
    )
    parser.add_argument(
        "--trace",
        type=Path,
        metavar="JSON",
        help="save a trace for Perfetto and 'linly report'; see 'linly trace convert' for other suffixes",
    )
    parser.add_argument(
        "--torch-profile",
        metavar="SPANS",
        help="with --trace: have torch's profiler look into spans such as llm, tts or face",
    )
    parser.add_argument("--torch-stacks", action="store_true", help="with the Python code of each operation")
    parser.add_argument("--subtitles", type=Path, metavar="SRT", help="save subtitles, .srt or .vtt")
    parser.add_argument("--config", type=Path, metavar="TOML", help="a pipeline of your own")
    parser.add_argument("--size", type=int, metavar="PIXELS", help="height of the picture (default: 512)")
    parser.add_argument(
        "--face", type=int, metavar="N", help="which face of the photo, the largest is 0 (default: 0)"
    )
    parser.add_argument("--seed", type=int, default=0, help="repeats a run exactly (default: %(default)s)")
    parser.add_argument("--quiet", action="store_true", help="no progress, no report, no notes")


def _run(args: argparse.Namespace, source: Audio | Text, *, say: bool) -> int:
    pipeline = _pipeline(args)
    # One turn, so only what it runs through need be loaded; and sound alone needs no face.
    stages = pipeline.stages_for(type(source), say=say)
    if args.output.suffix.lower() == ".wav":
        stages = tuple(stage for stage in stages if stage.kind not in ("motion", "face"))
    needed = Pipeline(*stages, limits=pipeline.limits)
    return show_result(run_turn(needed, source, args, say=say), args)


def _pipeline(args: argparse.Namespace) -> Pipeline:
    from linly_pipeline.config import embedded

    given = {name: value for name in ("size", "face") if (value := getattr(args, name)) is not None}
    if args.config is None:
        return embedded(args.portrait, **given)
    if args.portrait is not None or given:
        raise ConfigError("with --config, set --portrait, --size and --face in the file, at its face stage")
    return Pipeline.from_config(args.config)


async def _turn(pipeline: Pipeline, source: Audio | Text, args: argparse.Namespace, *, say: bool) -> Turn:
    from linly_pipeline.cli.progress import TurnDisplay
    from linly_pipeline.sinks import sink_for

    with growing_trace(args.trace) as save, TurnDisplay(quiet=args.quiet) as display:
        async with pipeline.session(sink_for(args.output)) as session:
            turn = await session.start(source, say=say, seed=args.seed, on_progress=display.show)
            try:
                return await turn.wait()
            finally:
                await turn.cancel()
                save(turn)


@contextmanager
def torch_profiles(stage: str | None, stacks: bool) -> Iterator[None]:
    """Have torch's profiler look into the spans of a stage, and say what it found."""
    if stage is None:
        yield
        return
    os.environ.setdefault("KINETO_LOG_LEVEL", "6")  # it would write into the progress bar
    from linly_profiling.torch_tools import TorchProfiles

    try:
        profiles = TorchProfiles(stage, with_stack=stacks).install()
    except ImportError as error:
        raise ConfigError("--torch-profile needs torch: pip install torch") from error
    try:
        yield
    finally:
        profiles.remove()
    print(profiles.summary(), file=sys.stderr)


@contextmanager
def growing_trace(path: Path | None) -> Iterator[Callable[[Turn], None]]:
    """Write what is traced inside into "NAME.running.json", which stays if the program is killed.

    Yields what saves a turn's whole trace in its place.
    """
    if path is None:
        yield lambda turn: None
        return
    from linly_profiling import Recorder, TraceFile

    saved: list[Path] = []
    name = path.name.removesuffix(".gz").removesuffix(".json")
    file = TraceFile(path.with_name(f"{name}.running.json"))
    try:
        with Recorder(file):
            yield lambda turn: saved.append(turn.trace.save(path))
    finally:
        for each in file.paths if saved else ():
            each.unlink(missing_ok=True)


def _why_nothing(turn: Turn, args: argparse.Namespace) -> str:
    if getattr(args, "question", None) is not None and not turn.question.strip():
        return f"no speech was found in '{args.question}', so nothing was written"
    if not turn.reply.strip():
        return "the language model gave no answer, so nothing was written"
    return "there was nothing that this voice can speak in the text, so nothing was written"
