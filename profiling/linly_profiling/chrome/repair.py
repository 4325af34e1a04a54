"""What is left of a trace whose writer was killed."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from linly_profiling.chrome.names import HEAD
from linly_profiling.chrome.read import TraceFileError, check_event, load, text_of, traces_of
from linly_profiling.clock import Epoch
from linly_profiling.record import OPEN, LoadedTrace, Record


class Salvage(NamedTuple):
    """What `salvage` found.

    Attributes:
        traces: as far as they were written. A span that was open for 0.1 s or more ends with the last thing known.
        lost_lines: lines that were cut or damaged.
    """

    traces: list[LoadedTrace]
    lost_lines: int


def salvage(path: str | os.PathLike[str]) -> Salvage:
    """Read a file of `TraceFile` that was not closed; of one that was closed, all of it.

    Raises:
        OSError: the file cannot be read.
        TraceFileError: there is no trace in it.
    """
    path = Path(path)
    try:
        return Salvage(load(path), 0)
    except TraceFileError as error:
        first = error
    try:
        events, lost = _whole_lines(_text(path))
        traces = traces_of(events)
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
        raise first from None
    if not any(event["name"] == HEAD for event in events):
        raise first
    return Salvage(traces, lost)


def _text(path: Path) -> str:
    try:
        return text_of(path)
    except TraceFileError:
        return path.read_bytes().decode("utf-8", "replace")  # cut inside a character


def _whole_lines(text: str) -> tuple[list[dict[str, Any]], int]:
    """The events that can be read, and how many lines cannot."""
    events: list[dict[str, Any]] = []
    lost = 0
    for line in text.split("\n"):
        line = line.strip().rstrip(",").removeprefix("[")
        if not line.startswith("{"):
            continue
        try:
            event = json.loads(line)
            check_event(event)
            events.append(event)
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
            lost += 1
    return events, lost


def joined(traces: Iterable[LoadedTrace]) -> list[LoadedTrace]:
    """Parts of one request, from the several files of a long run, as one."""
    parts: dict[tuple[str, Epoch], list[LoadedTrace]] = {}
    for trace in traces:
        parts.setdefault((trace.request_id, trace.epoch), []).append(trace)
    return [_join(each) if len(each) > 1 else each[0] for each in parts.values()]


def _join(parts: list[LoadedTrace]) -> LoadedTrace:
    ended = [part for part in parts if part.outcome != OPEN]
    spans: dict[int, Record] = {}
    for part in parts:
        for span in part.spans:
            if span.span_id not in spans or spans[span.span_id].outcome == OPEN:
                spans[span.span_id] = span
    samples = {(sample.at_ns, sample.track, sample.name): sample for part in parts for sample in part.samples}
    last = (ended or parts)[-1]
    return LoadedTrace(
        last.request_id,
        last.outcome,
        last.dropped,
        last.epoch,
        tuple(spans[number] for number in sorted(spans)),
        tuple(samples[key] for key in sorted(samples)),
        tuple(dict.fromkeys(flow for part in parts for flow in part.flows)),
        last.trace_id,
        last.remote_parent_id,
    )
