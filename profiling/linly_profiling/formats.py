"""The one place that knows which suffix means which format."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from linly_profiling import chrome, flat, perfetto
from linly_profiling.chrome.read import TraceFileError, text_of
from linly_profiling.chrome.write import document as chrome_document
from linly_profiling.files import write_whole
from linly_profiling.record import LoadedTrace

if TYPE_CHECKING:
    from linly_profiling.trace import Trace

_Write = Callable[[Sequence[LoadedTrace]], bytes]


def _chrome(traces: Sequence[LoadedTrace]) -> bytes:
    return chrome_document(traces).encode("utf-8")


def _csv(traces: Sequence[LoadedTrace]) -> bytes:
    return flat.csv_of(traces).encode("utf-8")


def _json(traces: Sequence[LoadedTrace]) -> bytes:
    return flat.json_of(traces).encode("ascii")


# The first suffix that fits counts.
_WRITERS: dict[str, _Write] = {
    ".spans.json": _json,
    ".json": _chrome,
    ".pftrace": perfetto.document,
    ".perfetto-trace": perfetto.document,
    ".csv": _csv,
}
SUFFIXES = tuple(_WRITERS)


def save(path: str | os.PathLike[str], traces: Iterable[Trace | LoadedTrace]) -> Path:
    """Write traces into one file, in the format that its name asks for; it appears whole or not at all.

    `.json` is a Chrome trace, `.pftrace` or `.perfetto-trace` Perfetto's own format, `.spans.json` plain JSON and
    `.csv` a table of spans; with `.gz` behind it, compressed.

    Returns:
        The path written.

    Raises:
        ValueError: the suffix is unknown.
        OSError: the folder is missing or cannot be written.
    """
    path = Path(path)
    write = _WRITERS[_suffix(path)]
    data = write([trace.snapshot() for trace in traces])
    write_whole(path, gzip.compress(data, compresslevel=6, mtime=0) if path.suffix == ".gz" else data)
    return path


def _suffix(path: Path) -> str:
    name = path.name.lower().removesuffix(".gz")
    for suffix in SUFFIXES:
        if name.endswith(suffix):
            return suffix
    raise ValueError(
        f"'{path}': a trace is saved as {', '.join(SUFFIXES)}, or one of these with .gz; not '{path.suffix}'"
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
        return flat.traces_of(json.loads(text_of(path)))
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise TraceFileError(f"{path}: not written by linly_profiling, or damaged: {error}") from error
