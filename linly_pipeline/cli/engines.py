"""`linly engines`: what can be used, what is missing and how to get it."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from linly_pipeline.registry import About, about, engine_class, engine_names

if TYPE_CHECKING:
    from linly_pipeline.stage import Stage

    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

_ORDER = ["asr", "llm", "tts", "motion", "face", "custom", "policy"]


def add_parser(subparsers: Subparsers) -> None:
    """Add `engines`."""
    parser = subparsers.add_parser(
        "engines",
        help="list the engines: installed or not, how to get them, licences",
        description="Engines by role. Any package can add its own by an entry point of 'linly_pipeline.stages'.",
        epilog="example: linly engines",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from rich.console import Console
    from rich.table import Table

    table = Table()
    for heading in ("role", "engine", "what it is", "languages", "licence"):
        table.add_column(heading)
    table.add_column("state", overflow="fold")
    engines = [(name, engine_class(name)) for name in engine_names()]
    for name, engine in sorted(engines, key=lambda each: (_ORDER.index(_kind(each[1])), each[0])):
        known = about(engine)
        table.add_row(
            _kind(engine),
            name,
            known.summary,
            " ".join(known.languages) or "any",
            known.licence,
            state(known),
        )
    Console().print(table)
    return 0


def state(known: About) -> str:
    """Ready, or the command that is missing."""
    if known.missing_modules():
        return f"pip install 'linly-pipeline\\[{known.extra}]'"
    missing = [name for name in known.models if _missing(name)]
    return f"linly models pull {' '.join(missing)}" if missing else "ready"


def _missing(model: str) -> bool:
    from linly_pipeline.errors import ModelError
    from linly_pipeline.models import installed

    try:
        return installed(model) is None
    except ModelError:
        return True


def _kind(engine: type[Stage[Any, Any]]) -> str:
    return engine.kind if engine.kind in _ORDER else "custom"
