"""`linly models`: list, pull, path, verify."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from linly_pipeline import models
from linly_pipeline.errors import ModelError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as Bars

    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

# What a shell reports for a program that was ended by Ctrl-C.
_INTERRUPTED = 130

_ABSENT = "not installed"
_PHASES = {"download": "downloading", "check": "checking", "install": "ready"}


def add_parser(subparsers: Subparsers) -> None:
    """Add `models` and its commands; each sets `run`, which takes the parsed arguments to the exit code."""
    parser = subparsers.add_parser(
        "models",
        help="list, download and check models",
        description="Models by name: listed, downloaded, found and checked.",
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    command = _add(commands, "list", "what there is, how big, under which licence, and where it lies", "")
    command.set_defaults(run=run_list)

    command = _add(commands, "pull", "download models into the cache", "whisper-tiny.en")
    command.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help=f"default: what the demo needs ({', '.join(models.EMBEDDED)})",
    )
    command.set_defaults(run=run_pull)

    command = _add(commands, "path", "print where a model lies", "smollm2-135m-instruct")
    command.add_argument("name", metavar="NAME")
    command.set_defaults(run=run_path)

    command = _add(commands, "verify", "read and hash the files of models again", "face-landmarker")
    command.add_argument("names", nargs="*", metavar="NAME", help="default: every model on this machine")
    command.set_defaults(run=run_verify)


def _add(commands: Subparsers, name: str, what: str, example: str) -> argparse.ArgumentParser:
    return commands.add_parser(
        name,
        help=what,
        description=f"{what[0].upper()}{what[1:]}.",
        epilog=f"example: linly models {name} {example}".rstrip(),
    )


def run_list(args: argparse.Namespace) -> int:
    """Show the catalogue."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table()
    table.add_column("name", no_wrap=True)
    table.add_column("role", no_wrap=True)
    table.add_column("size", justify="right", no_wrap=True)
    table.add_column("licence")
    table.add_column("where", overflow="fold")
    for model in models.CATALOGUE.values():
        star = " *" if model.name in models.EMBEDDED else ""
        size = f"{model.size_bytes / 1e6:,.1f} MB"
        table.add_row(model.name + star, model.role, size, model.licence, escape(_where(model.name)))
    Console().print(table)
    print(f"* needed by the demo\nthe cache: {models.home()}")
    return 0


def _where(name: str) -> str:
    try:
        found = models.installed(name)
    except ModelError as error:
        return f"broken: {error}"
    if found is None:
        return _ABSENT
    return "in the cache" if found.is_relative_to(models.home()) else str(found)


def run_pull(args: argparse.Namespace) -> int:
    """Download with a progress bar a model, then say where each lies and under which licence it comes."""
    from rich.console import Console

    names = list(dict.fromkeys(args.names or models.EMBEDDED))
    for name in names:
        models.find(name)
    try:
        paths = _pull(names, Console(stderr=True))
    except KeyboardInterrupt:
        print("interrupted; nothing was left half installed: pull again", file=sys.stderr)
        return _INTERRUPTED
    for name, path in zip(names, paths, strict=True):
        model = models.find(name)
        print(f"{name}: {path}\n  {model.licence}: {model.licence_note}; {model.origin}")
    return 0


def pull_missing(names: Iterable[str]) -> None:
    """Download what is not on this machine yet, with a progress bar; say nothing if all is."""
    from rich.console import Console

    missing = [name for name in names if _where(name) == _ABSENT]
    if missing:
        _pull(missing, Console(stderr=True))


def _pull(names: list[str], console: Console) -> list[Path]:
    with _bars(console) as bars:
        tasks = {name: bars.add_task(name, total=None, phase="waiting", start=False) for name in names}

        def show(progress: models.Progress) -> None:
            task = tasks[progress.model]
            bars.start_task(task)
            bars.update(
                task,
                completed=progress.done_bytes,
                total=progress.total_bytes,
                phase=_PHASES[progress.phase],
            )

        return models.pull(names, show)


def _bars(console: Console) -> Bars:
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeElapsedColumn

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[phase]}"),
        console=console,
    )


def run_path(args: argparse.Namespace) -> int:
    """Print the path alone, for use in scripts."""
    print(models.locate(args.name))
    return 0


def run_verify(args: argparse.Namespace) -> int:
    """Check every model asked for, also after one was found bad; exit code 1 if any was."""
    names = args.names or [name for name in models.CATALOGUE if _where(name) != _ABSENT]
    bad = 0
    for name in names:
        try:
            print(f"{name}: good ({models.verify(name)})")
        except ModelError as error:
            print(f"{name}: BAD: {error}")
            bad += 1
    if not names:
        print("no model is on this machine; run: linly models pull")
    return 1 if bad else 0
