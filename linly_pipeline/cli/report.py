"""`linly report`: where the time of each request in a trace went."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from linly_pipeline.errors import MediaError

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]


def add_parser(subparsers: Subparsers) -> None:
    """Add `report`."""
    parser = subparsers.add_parser(
        "report",
        help="say where the time of a saved trace went",
        description="Time to first token, audio and frame, split into who owned each part, and a table of stages.",
        epilog="example: linly report answer.trace.json",
    )
    parser.add_argument(
        "trace", type=Path, metavar="JSON", help="a file saved with --trace, .json or .json.gz"
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    import json

    from linly_profiling import Report, TraceFileError, load

    try:
        reports = [Report.of(trace) for trace in load(args.trace)]
    except TraceFileError as error:
        raise MediaError(str(error)) from error
    except OSError as error:
        raise MediaError(f"cannot read '{args.trace}': {error.strerror or error}") from error
    if args.json:
        print(json.dumps([report.to_dict() for report in reports], indent=2, ensure_ascii=False))
    else:
        print("\n\n".join(map(str, reports)))
    return 0
