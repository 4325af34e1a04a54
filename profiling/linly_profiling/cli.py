"""The commands `report` and `trace`: for `python -m linly_profiling`, and for programs that take them into their own.

parser = argparse.ArgumentParser()
add_commands(parser.add_subparsers(required=True))
args = parser.parse_args()
return args.run(args)     # raises CommandError, with a sentence for the user
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from linly_profiling.record import LoadedTrace

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

PASSED, FAILED, UNUSABLE = 0, 1, 2
_SUFFIXES = (".json", ".json.gz")


class CommandError(Exception):
    """A command cannot be carried out; the message says why, and what to do.

    Attributes:
        exit_code: 2, so that a gate that cannot be used is told from one that failed.
    """

    exit_code = UNUSABLE


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and give its exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m linly_profiling", description="Reads traces and says where the time and memory went."
    )
    add_commands(parser.add_subparsers(title="commands", metavar="COMMAND", required=True))
    args = parser.parse_args(arguments)
    try:
        code: int = args.run(args)
    except CommandError as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return error.exit_code
    except BrokenPipeError:  # the reader of a pipe, such as `head`, has seen enough
        sys.stderr.close()
        return FAILED
    return code


def add_commands(subparsers: Subparsers) -> None:
    """Add `report` and `trace`."""
    _add_report(subparsers)
    trace = subparsers.add_parser(
        "trace",
        help="repair, convert and merge trace files",
        description="Repair, convert and merge trace files.",
        epilog="example: %(prog)s convert answer.trace.json answer.pftrace",
    )
    actions = trace.add_subparsers(title="actions", metavar="ACTION", required=True)
    _add_repair(actions)
    _add_convert(actions)
    _add_merge(actions)


def _add_report(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "report",
        help="say where the time of saved traces went, and what to do about it",
        description="One request: the time to first token, audio and frame, split into who owned each part; the"
        " critical path, a table of stages, and advice. Several requests: percentiles.",
        epilog="example: %(prog)s answer.trace.json\n"
        "         %(prog)s answer.trace.json --html answer.html\n"
        "         %(prog)s --diff before.json after.json\n"
        "         %(prog)s --gate budget.toml traces/      (exit code 1: over budget, 2: cannot tell)\n",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "traces", nargs="*", type=Path, metavar="TRACE", help="a .json or .json.gz file, or a folder of them"
    )
    parser.add_argument("--request", metavar="ID", help="only this request of the files")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write one HTML page that works offline")
    parser.add_argument(
        "--diff", nargs=2, type=Path, metavar=("BEFORE", "AFTER"), help="compare two files, or two folders"
    )
    parser.add_argument("--gate", type=Path, metavar="TOML", help="hold the traces against a budget, for CI")
    parser.add_argument(
        "--baseline", type=Path, metavar="TRACE", help="with --gate: compare with this, not the budget's own"
    )
    parser.set_defaults(run=_report)


def _add_repair(actions: Subparsers) -> None:
    parser = actions.add_parser(
        "repair",
        help="make a whole trace of one whose program was killed",
        description="Reads what is whole of a trace file whose program was killed, and writes it anew.",
        epilog="example: %(prog)s traces/run.json",
    )
    parser.add_argument("trace", type=Path, metavar="TRACE")
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="default: NAME.repaired.json, beside it"
    )
    parser.set_defaults(run=_repair)


def _add_convert(actions: Subparsers) -> None:
    from linly_profiling.formats import SUFFIXES

    parser = actions.add_parser(
        "convert",
        help="write a trace in another format",
        description=f"Writes a trace in the format that the suffix names: {', '.join(SUFFIXES)}, each also with .gz.",
        epilog="example: %(prog)s answer.trace.json answer.pftrace",
    )
    parser.add_argument("trace", type=Path, metavar="TRACE")
    parser.add_argument("output", type=Path, metavar="FILE")
    parser.set_defaults(run=_convert)


def _add_merge(actions: Subparsers) -> None:
    parser = actions.add_parser(
        "merge",
        help="put several trace files into one",
        description="Puts the requests of several files into one file, on one time axis. The parts of a request that"
        " a long run left in several files are joined.",
        epilog="example: %(prog)s traces/run.1.json traces/run.json -o day.json",
    )
    parser.add_argument("traces", nargs="+", type=Path, metavar="TRACE")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE")
    parser.set_defaults(run=_merge)


def read(paths: Sequence[Path]) -> list[LoadedTrace]:
    """The requests of files and folders; the parts of one request joined.

    In a folder, a file that is no trace is left out, with a note on stderr.

    Raises:
        CommandError: a file that was named cannot be read, or a folder holds no trace.
    """
    from linly_profiling.chrome.repair import joined

    found: list[LoadedTrace] = []
    for path in paths:
        found += _folder(path) if path.is_dir() else _file(path)
    return joined(found)


def _file(path: Path) -> list[LoadedTrace]:
    from linly_profiling.formats import load

    try:
        return load(path)
    except ValueError as error:  # TraceFileError, or an unknown suffix
        raise CommandError(str(error)) from error
    except OSError as error:
        raise CommandError(f"cannot read '{path}': {error.strerror or error}") from error


def _folder(folder: Path) -> list[LoadedTrace]:
    inside = sorted(each for each in folder.iterdir() if each.name.endswith(_SUFFIXES))
    if not inside:
        raise CommandError(f"there is no trace in '{folder}': it holds no .json file")
    found: list[LoadedTrace] = []
    for path in inside:
        try:
            found += _file(path)
        except CommandError as error:
            print(f"note: left out: {error}", file=sys.stderr)
    if not found:
        raise CommandError(f"there is no trace in '{folder}' that can be read")
    return found


def _report(args: argparse.Namespace) -> int:
    if args.diff is not None:
        return _diff(args)
    if not args.traces:
        raise CommandError("name a trace file, as in: report answer.trace.json")
    if args.gate is not None:
        return _gate(args)
    traces = read(args.traces)
    if args.request is not None:
        traces = _chosen(traces, args.request)
    if args.html is not None:
        return _html(traces, args.html)
    _print_reports(traces, as_json=args.json)
    return PASSED


def _chosen(traces: list[LoadedTrace], request_id: str) -> list[LoadedTrace]:
    found = [trace for trace in traces if trace.request_id == request_id]
    if not found:
        known = ", ".join(trace.request_id for trace in traces[:10])
        raise CommandError(f"there is no request {request_id!r}; there are: {known}")
    return found


def _print_reports(traces: list[LoadedTrace], *, as_json: bool) -> None:
    from linly_profiling.compare import Summary
    from linly_profiling.report import Report

    reports = [Report.of(trace) for trace in traces]
    if as_json:
        print(_dumps([report.to_dict() for report in reports]))
    elif len(reports) == 1:
        print(reports[0])
    else:
        print(Summary.of(traces))
        print("\n--request ID shows one of them in full")


def _html(traces: list[LoadedTrace], path: Path) -> int:
    from linly_profiling.html import save_html

    try:
        print(f"wrote {save_html(path, traces)}")
    except OSError as error:
        raise CommandError(f"cannot write '{path}': {error.strerror or error}") from error
    return PASSED


def _diff(args: argparse.Namespace) -> int:
    from linly_profiling.compare import Diff

    before, after = (read([path]) for path in args.diff)
    diff = Diff.of(before, after)
    print(_dumps(diff.to_dict()) if args.json else diff)
    return PASSED


def _gate(args: argparse.Namespace) -> int:
    from linly_profiling.compare import Budget, BudgetError, check

    try:
        baseline = None if args.baseline is None else read([args.baseline])
        result = check(Budget.load(args.gate), read(args.traces), baseline)
    except BudgetError as error:
        raise CommandError(str(error)) from error
    print(_dumps(result.to_dict()) if args.json else result)
    return result.exit_code


def _repair(args: argparse.Namespace) -> int:
    from linly_profiling.chrome.repair import salvage

    path: Path = args.trace
    name = path.name.removesuffix(".gz").removesuffix(".json")
    output: Path = args.output or path.with_name(f"{name}.repaired.json")
    try:
        found = salvage(path)
    except ValueError as error:
        raise CommandError(f"nothing can be repaired: {error}") from error
    except OSError as error:
        raise CommandError(f"cannot read '{path}': {error.strerror or error}") from error
    spans = sum(len(trace) for trace in found.traces)
    lost = f"; left out as damaged: {_count(found.lost_lines, 'line')}" if found.lost_lines else ""
    print(f"{_count(len(found.traces), 'request')} with {_count(spans, 'span')}{lost}")
    return _save(found.traces, output)


def _convert(args: argparse.Namespace) -> int:
    return _save(read([args.trace]), args.output)


def _merge(args: argparse.Namespace) -> int:
    return _save(read(args.traces), args.output)


def _save(traces: list[LoadedTrace], path: Path) -> int:
    from linly_profiling.formats import save

    try:
        print(f"wrote {save(path, traces)}")
    except ValueError as error:
        raise CommandError(str(error)) from error
    except OSError as error:
        raise CommandError(f"cannot write '{path}': {error.strerror or error}") from error
    return PASSED


def _count(number: int, thing: str) -> str:
    return f"{number:,} {thing}" + ("" if number == 1 else "s")


def _dumps(data: object) -> str:
    return json.dumps(data, indent=2, ensure_ascii=False)
