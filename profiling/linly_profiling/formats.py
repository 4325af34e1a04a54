"""The one place that knows which suffix means which format."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from linly_profiling import chrome, flat, perfetto, plain
from linly_profiling.chrome.read import TraceFileError, text_of
from linly_profiling.chrome.write import document as chrome_document
from linly_profiling.files import write_whole
from linly_profiling.record import LoadedTrace

if TYPE_CHECKING:
    from linly_profiling.trace import Trace

_Write = Callable[[Sequence[LoadedTrace]], bytes]


def _chrome(traces: Sequence[LoadedTrace]) -> bytes:
    return chrome_document(traces).encode("utf-8")


# The first suffix that fits counts.
_WRITERS: dict[str, _Write] = {
    ".spans.json": plain.json_of,
    ".json": _chrome,
    ".pftrace": perfetto.document,
    ".perfetto-trace": perfetto.document,
    ".csv": flat.csv_of,
}
SUFFIXES = tuple(_WRITERS)


def save(
    path: str | os.PathLike[str], traces: Iterable[Trace | LoadedTrace], format: str | None = None
) -> Path:
    """Write traces into one file, in the format that its name asks for; it appears whole or not at all.

    `.json` is a Chrome trace, `.pftrace` or `.perfetto-trace` Perfetto's own format, `.spans.json` plain JSON and
    `.csv` a table of spans; with `.gz` behind it, compressed. docs/trace-format.md describes each.

    Args:
        path: the file; its folder must exist.
        traces: of the same process or of several, running or ended.
        format: a suffix to go by instead of the file's own.

    Returns:
        The path written.

    Raises:
        ValueError: the suffix is unknown.
        OSError: the folder is missing or cannot be written.
    """
    path = Path(path)
    suffix = _suffix(path.name if format is None else format, path)
    data = _WRITERS[suffix.removesuffix(".gz")]([trace.snapshot() for trace in traces])
    write_whole(path, gzip.compress(data, compresslevel=6, mtime=0) if suffix.endswith(".gz") else data)
    return path


def _suffix(name: str, path: Path) -> str:
    """The known suffix that a name ends with."""
    name = name.lower()
    compressed = ".gz" if name.endswith(".gz") else ""
    for suffix in SUFFIXES:
        if name.removesuffix(".gz").endswith(suffix):
            return suffix + compressed
    raise ValueError(
        f"'{path}': a trace is saved as {', '.join(SUFFIXES)}, or one of these with .gz;"
        f" not '{Path(name).suffix or name}'"
    )


def load(path: str | os.PathLike[str]) -> list[LoadedTrace]:
    """Read a Chrome trace or plain JSON that this library wrote, compressed or not.

    Raises:
        OSError: the file cannot be read.
        TraceFileError: it is broken, was written by something else, or is of a format that is only written.
    """
    path = Path(path)
    name = path.name.lower().removesuffix(".gz")
    if name.endswith((".csv", ".pftrace", ".perfetto-trace")):
        raise TraceFileError(
            f"{path}: this format is only written; keep the .json beside it to read it again"
        )
    if not name.endswith(".spans.json"):
        return chrome.load(path)
    try:
        return plain.traces_of(text_of(path))
    except TraceFileError:
        raise
    except (ValueError, RecursionError) as error:
        raise TraceFileError(f"{path}: not written by linly_profiling, or damaged: {error}") from error
