"""Reading the files of torch's profiler, which is called Kineto.

The format is Chrome's Trace Event Format. `ts` and `dur` are microseconds with three decimals, and `ts` counts from
`baseTimeNanoseconds` (since 1970; absent before torch 2.4, then `ts` itself does). A launch and the kernel that it
starts have the same `correlation`; both have the `External id` of the operator that they belong to, if that ran in
a profiled thread.
"""

from __future__ import annotations

import json
import os
import re
import sys
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

_MAX_BYTES = (
    512 * 2**20
)  # of JSON text: about two million events, and four times that much memory to read them
_GZIP_MAGIC = b"\x1f\x8b"
_BASE = re.compile(r'"baseTimeNanoseconds"\s*:\s*(\d+)')
_EVENTS = re.compile(r'"traceEvents"\s*:\s*\[')
_BETWEEN = re.compile(r"[\s,]*")
_ADDRESS = re.compile(r" (?:object )?at 0x[0-9a-f]+")  # names must be few: the object is not part of one

OPERATORS = frozenset({"cpu_op", "user_annotation"})  # of profiled threads only
PYTHON = "python_function"  # of all threads of the process, like launches
LAUNCHES = frozenset({"cuda_runtime", "cuda_driver"})  # of all threads of the process
GPU = frozenset({"kernel", "gpu_memcpy", "gpu_memset"})
_KNOWN = OPERATORS | {PYTHON} | LAUNCHES | GPU
_COPIES = {"HtoD": "cuda.memcpy.h2d", "DtoH": "cuda.memcpy.d2h"}


class KinetoError(ValueError):
    """A file is not one that torch's profiler wrote, or not all of it; the message says which file and why."""


class Event(NamedTuple):
    """Something that took time, on the CPU or on the GPU.

    Attributes:
        name: of the operator, the function or the kernel.
        category: Kineto's word: PYTHON, or a member of OPERATORS, LAUNCHES or GPU.
        thread: ID that the system gave the thread; for GPU events the stream.
        start_ns: nanoseconds since 1970.
        dur_ns: how long it took.
        correlation: joins a kernel and its launch; None where there is none.
        external: joins what was launched to an operator; None where there is none.
        device: of GPU events.
        details: what may be shown of its arguments.
    """

    name: str
    category: str
    thread: int
    start_ns: int
    dur_ns: int
    correlation: int | None = None
    external: int | None = None
    device: int | None = None
    details: dict[str, Any] | None = None

    @property
    def end_ns(self) -> int:
        return self.start_ns + self.dur_ns


@dataclass(frozen=True)
class Profile:
    """Everything in one file that took time.

    Attributes:
        events: in the order of the file.
        skipped: lines that had no meaning for this reader, or were damaged.
    """

    events: tuple[Event, ...]
    skipped: int = 0


def read_kineto(path: str | os.PathLike[str]) -> Profile:
    """Read what `torch.profiler`'s `export_chrome_trace` wrote, plain or as ".gz".

    Raises:
        OSError: the file cannot be read.
        KinetoError: it is broken, larger than 512 MiB of text, or was written by something else.
    """
    path = Path(path)
    text = _text(path)
    head = _EVENTS.search(text)
    if head is None:
        raise KinetoError(f"{path}: not written by torch's profiler: it has no list 'traceEvents'")
    try:
        events, skipped, end = _read(text, head.end(), _base_ns(text, head.start()))
    except (ValueError, RecursionError) as error:
        raise KinetoError(f"{path}: damaged, or cut short: {error}") from error
    if "]" not in text[end : end + 1]:
        raise KinetoError(f"{path}: cut short: its list of events has no end")
    return Profile(tuple(events), skipped)


def _text(path: Path) -> str:
    data = path.read_bytes()
    try:
        if data.startswith(_GZIP_MAGIC):
            unpacked = zlib.decompressobj(wbits=31)
            data = unpacked.decompress(data, _MAX_BYTES + 1)
            if not unpacked.eof and len(data) <= _MAX_BYTES:
                raise EOFError("the stream has no end")
    except (EOFError, zlib.error) as error:
        raise KinetoError(f"{path}: the compressed data is cut short or damaged: {error}") from error
    if len(data) > _MAX_BYTES:
        raise KinetoError(f"{path}: more than {_MAX_BYTES >> 20} MiB of text; profile a shorter stretch")
    return data.decode("utf-8", "replace")  # names of kernels are cut by bytes


def _base_ns(text: str, events_at: int) -> int:
    """It stands before the events, and they may be long."""
    found = _BASE.search(text, 0, events_at) or _BASE.search(text, max(events_at, len(text) - 10_000))
    return int(found[1]) if found else 0


def _read(text: str, at: int, base_ns: int) -> tuple[list[Event], int, int]:
    """The events, how many lines were skipped, and where the list ends. One event is in memory as JSON at a time."""
    decoder = json.JSONDecoder()
    events, skipped = [], 0
    at = _past(text, at)
    while at < len(text) and text[at] != "]":
        line, at = decoder.raw_decode(text, at)
        event = _event(line, base_ns)
        if event is None:
            skipped += 1
        else:
            events.append(event)
        at = _past(text, at)
    return events, skipped, at


def _past(text: str, at: int) -> int:
    found = _BETWEEN.match(text, at)
    return found.end() if found else at


def _event(line: Any, base_ns: int) -> Event | None:
    try:
        category = sys.intern(str(line.get("cat", "")).lower())
        if line.get("ph") != "X" or category not in _KNOWN:
            return None
        args = line.get("args") or {}
        on_gpu = category in GPU
        return Event(
            name=sys.intern(_name(str(line["name"]), category)),
            category=category,
            thread=_whole(args.get("stream", line["tid"]) if on_gpu else line["tid"]) or 0,
            start_ns=base_ns + round(line["ts"] * 1000),
            dur_ns=max(0, round(line.get("dur", 0) * 1000)),
            correlation=_whole(args.get("correlation")),
            external=_whole(args.get("External id", args.get("external id"))),
            device=_whole(args.get("device", line.get("pid"))) if on_gpu else None,
            details=dict(_details(args, category)) or None,
        )
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        return None


def _name(name: str, category: str) -> str:
    if category == "gpu_memcpy":
        return next((ours for direction, ours in _COPIES.items() if direction in name), "cuda.memcpy.copy")
    return _ADDRESS.sub("", name) if category == PYTHON else name


def _details(args: dict[str, Any], category: str) -> Iterator[tuple[str, Any]]:
    if category in GPU:
        for key in ("bytes", "grid", "block"):
            if key in args:
                yield key, args[key]
    elif "Input Dims" in args:
        yield "shapes", args["Input Dims"]


def _whole(value: Any) -> int | None:
    """A number, also as the digits in "stream 7"."""
    if isinstance(value, str):
        digits = re.search(r"-?\d+", value)
        return int(digits[0]) if digits else None
    return int(value) if isinstance(value, int | float) else None
