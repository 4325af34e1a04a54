"""The command `linly`: a thin layer over the library.

An expected failure is one sentence on stderr and exit code 1 (2 for wrong usage and unusable traces, 130 after
Ctrl-C), never a traceback; `--debug` shows it.
"""

from __future__ import annotations

import argparse
import logging
import signal
import sys
import threading
from collections.abc import Sequence

from linly_profiling.cli import CommandError

from linly_pipeline.errors import LinlyError

FAILED = 1
INTERRUPTED = 130

_DESCRIPTION = (
    "Talking digital humans from speech or text and one photo, with a trace of where the time went."
)
_EPILOG = """examples:
  linly demo                                            answer a question with a talking portrait
  linly ask question.wav --portrait me.jpg -o answer.mp4 --trace answer.trace.json
  linly say "Welcome to our lab." --portrait me.jpg -o welcome.mp4 --subtitles welcome.srt
  linly report answer.trace.json                        where the time went, and what to do about it
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and give its exit code."""
    args = _parser().parse_args(arguments)
    quiet = getattr(args, "quiet", False)
    logging.basicConfig(format="linly: note: %(message)s", level=logging.ERROR if quiet else logging.WARNING)
    if threading.current_thread() is threading.main_thread():
        # A service manager's stop cleans up as Ctrl-C does, which asyncio turns into a cancellation.
        signal.signal(signal.SIGTERM, lambda number, frame: signal.raise_signal(signal.SIGINT))
    try:
        code: int = args.run(args)
    except (LinlyError, CommandError) as error:
        if args.debug:
            raise
        print(f"linly: {_sentence(error)}", file=sys.stderr)
        return getattr(error, "exit_code", FAILED)
    except KeyboardInterrupt:
        print("linly: interrupted; no unfinished file was left", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # the reader of a pipe, such as `head`, has seen enough
        sys.stderr.close()
        return FAILED
    return code


def _sentence(error: BaseException) -> str:
    notes = getattr(error, "__notes__", [])
    return "; ".join([str(error), *notes])


def _parser() -> argparse.ArgumentParser:
    from linly_pipeline import __version__
    from linly_pipeline.cli import demo, doctor, engines, models, report, speak

    parser = argparse.ArgumentParser(
        prog="linly",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"linly-pipeline {__version__}")
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    commands = parser.add_subparsers(title="commands", dest="command", metavar="COMMAND", required=True)
    for module in (demo, speak, report, models, engines, doctor):
        module.add_parser(commands)
    return parser
