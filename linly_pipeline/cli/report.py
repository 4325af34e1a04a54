"""`linly report` and `linly trace`: the commands of `linly_profiling`, with this program's errors and exit codes."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]


def add_parser(subparsers: Subparsers) -> None:
    """Add `report` and `trace`."""
    from linly_profiling.cli import add_commands

    add_commands(subparsers)
