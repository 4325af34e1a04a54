"""`linly doctor`: everything that a run needs, checked before one is started."""

from __future__ import annotations

import argparse
import platform
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from linly_pipeline.errors import LinlyError
from linly_pipeline.machine import usable_cores

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

# The default models, their temporary copies, and some minutes of video.
ENOUGH_DISK_BYTES = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the examination. `ok` is None for what is only told."""

    what: str
    ok: bool | None
    said: str


def add_parser(subparsers: Subparsers) -> None:
    """Add `doctor`."""
    parser = subparsers.add_parser(
        "doctor",
        help="check that everything a run needs is there and whole",
        description="Check engines, weights (read whole and hashed), encoder, device, disk and permissions.",
        epilog="example: linly doctor --output-folder out",
    )
    parser.add_argument(
        "--output-folder", type=Path, default=Path(), metavar="FOLDER", help="where results will go"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from rich.console import Console
    from rich.markup import escape

    console = Console()
    sick = 0
    for finding in examine(args.output_folder):
        sick += finding.ok is False
        mark = {True: "[green]ok  [/green]", False: "[red]FAIL[/red]", None: "    "}[finding.ok]
        console.print(f"{mark}  {escape(f'{finding.what:<22}')} {escape(finding.said)}", soft_wrap=True)
    console.print("everything is there" if not sick else f"{sick} to mend: the remedy stands in each line")
    return 1 if sick else 0


def examine(folder: Path) -> Iterator[Finding]:
    """All findings, as they are made."""
    yield Finding("python", None, f"{platform.python_version()} on {platform.platform()}")
    yield _device()
    yield from _engines()
    yield from _weights()
    yield _checked("encoder", _encode, "H.264 and AAC")
    yield _checked("output folder", lambda: _write_to(folder), f"'{folder.resolve()}' can be written")
    yield _disk(folder)


def _device() -> Finding:
    torch = sys.modules.get("torch")
    gpu = "a CUDA device" if torch is not None and torch.cuda.is_available() else "no GPU is needed"
    return Finding("device", None, f"{usable_cores()} CPU cores; {gpu}")


def _engines() -> Iterator[Finding]:
    from linly_pipeline.registry import about, engine_class, engine_names

    for name in engine_names():
        known = about(engine_class(name))
        missing = known.missing_modules()
        if known.modules:
            remedy = f"pip install 'linly-pipeline[{known.extra}]' (missing: {', '.join(missing)})"
            yield Finding(f"engine {name}", not missing, remedy if missing else known.summary)


def _weights() -> Iterator[Finding]:
    from linly_pipeline.models import EMBEDDED, verify

    for name in EMBEDDED:
        yield _checked(f"model {name}", lambda name=name: verify(name), "whole")  # type: ignore[misc]


def _encode() -> None:
    import numpy as np

    from linly_pipeline.media.video import Mp4Writer

    with tempfile.TemporaryDirectory() as folder:
        writer = Mp4Writer(Path(folder) / "test.mp4", width=64, height=64, fps=25, rate_hz=24_000)
        writer.write(np.zeros((25, 64, 64, 3), np.uint8), np.zeros(24_000, np.float32))
        writer.close()


def _write_to(folder: Path) -> None:
    from linly_pipeline.media.output import check_writable

    check_writable(folder / "answer.mp4")


def _disk(folder: Path) -> Finding:
    place = folder if folder.is_dir() else Path()
    free = shutil.disk_usage(place).free
    said = f"{free / 1e9:.1f} GB free"
    if free < ENOUGH_DISK_BYTES:
        return Finding(
            "disk", False, f"only {said}: the models and a video need {ENOUGH_DISK_BYTES / 1e9:.0f} GB"
        )
    return Finding("disk", True, said)


def _checked(what: str, check: Callable[[], object], said: str) -> Finding:
    try:
        check()
    except LinlyError as error:
        return Finding(what, False, str(error))
    return Finding(what, True, said)
