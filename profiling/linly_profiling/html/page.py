"""The document: markup, style and script of `assets/`, and the data, in one file.

Texts of a trace may be anything, so none of them is markup. They stand in `<script type="application/json">` blocks,
in which every `<` is escaped, and the script shows them as text nodes only. A Content-Security-Policy allows nothing
but the two blocks whose hashes it names: no network, no `eval`, no handler in an attribute. Trusted Types forbid
`innerHTML` and the like. Where scripts do not run, the reports are there as preformatted text.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from linly_profiling.chrome.text import display
from linly_profiling.files import check_folder, write_whole
from linly_profiling.html.pack import origin, pack, plain
from linly_profiling.record import LoadedTrace
from linly_profiling.report import Report

if TYPE_CHECKING:
    from linly_profiling.trace import Trace

# In this order they make one script; each may use what stands above it when it is loaded, and all when it runs.
SCRIPTS = (
    "format.js",
    "dom.js",
    "data.js",
    "theme.js",
    "table.js",
    "timeline.js",
    "draw.js",
    "tracks.js",
    "bars.js",
    "waterfall.js",
    "counters.js",
    "minimap.js",
    "header.js",
    "advice.js",
    "milestones.js",
    "path.js",
    "analysis.js",
    "details.js",
    "flame.js",
    "tables.js",
    "requests.js",
    "app.js",
)
STYLES = ("style.css", "timeline.css", "print.css")

_ESCAPES = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})
_MOST_AS_TEXT = 20  # reports repeated as text, for a page without scripts


def save_html(
    path: str | os.PathLike[str], traces: Trace | LoadedTrace | Iterable[Trace | LoadedTrace]
) -> Path:
    """Write one HTML file that shows one or several requests, in their order; with several, one chooses.

    The file appears whole or not at all. It works offline, in any browser of 2024 or later.

    Returns:
        The path written.

    Raises:
        OSError: the folder is missing or cannot be written.
    """
    path = Path(path)
    check_folder(path)
    data = document(_snapshots(traces)).encode("utf-8")
    write_whole(path, data)
    return path


def _snapshots(traces: Trace | LoadedTrace | Iterable[Trace | LoadedTrace]) -> list[LoadedTrace]:
    if isinstance(traces, Iterable):
        return [trace.snapshot() for trace in traces]
    return [traces.snapshot()]


def document(traces: Sequence[LoadedTrace]) -> str:
    """The page as text. It holds no character that UTF-8 cannot encode."""
    reports = [Report.of(trace) for trace in traces]
    style, script = _joined(STYLES), _script()
    filled = {
        "policy": _policy(style, script),
        "title": html.escape(display(_title(traces))),
        "style": style,
        "text": "\n\n\n".join(html.escape(str(report)) for report in reports[:_MOST_AS_TEXT]),
        "data": "\n".join(_blocks(traces, reports)),
        "script": script,
    }
    return "".join(_fill(_asset("page.html"), filled))


def _title(traces: Sequence[LoadedTrace]) -> str:
    return f"Request {traces[0].request_id}" if len(traces) == 1 else f"{len(traces)} requests"


def _fill(template: str, parts: dict[str, str]) -> Iterator[str]:
    """The template with `%%name%%` replaced. What is put in is not searched again: it may contain anything."""
    for place, piece in enumerate(template.split("%%")):
        yield parts[piece] if place % 2 else piece


def _blocks(traces: Sequence[LoadedTrace], reports: Sequence[Report]) -> Iterator[str]:
    """One block that lists the requests, and one for each: the page parses only what is looked at."""
    pairs = list(zip(traces, reports, strict=True))
    yield _block("requests", [_overview(trace, report) for trace, report in pairs])
    for number, (trace, report) in enumerate(pairs):
        yield _block(f"request-{number}", pack(trace, report))


def _block(name: str, data: Any) -> str:
    # ASCII: a lone surrogate, legal in JSON and in Python, cannot stand in a UTF-8 file.
    text = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":")).translate(_ESCAPES)
    return f'<script type="application/json" id="{name}">{text}</script>'


def _overview(trace: LoadedTrace, report: Report) -> dict[str, Any]:
    """A row of the table of requests."""
    rss = report.memory.rss if report.memory is not None else None
    row = {
        "request_id": trace.request_id,
        "outcome": trace.outcome,
        "started_unix_ms": trace.epoch.wall_of(origin(trace)) / 1e6,
        "wall_ns": report.wall_ns,
        "media_s": report.media_s,
        "real_time_factor": report.real_time_factor,
        "av_offset_ms": report.av_offset_ms,
        "milestones": {milestone.name: milestone.total_ns for milestone in report.milestones},
        "rss_peak_bytes": rss.peak_bytes if rss is not None else None,
        "spans": len(trace.spans),
    }
    shown: dict[str, Any] = plain(row, 0)
    return shown


def _script() -> str:
    """One strict scope around everything, so that nothing is global."""
    return f'(() => {{\n"use strict";\n{_joined(SCRIPTS)}\nstart();\n}})();\n'


def _joined(names: Iterable[str]) -> str:
    return "\n".join(_asset(name) for name in names)


def _asset(name: str) -> str:
    return resources.files(__package__).joinpath("assets", name).read_text(encoding="utf-8")


def _policy(style: str, script: str) -> str:
    rules = {
        "default-src": "'none'",
        "script-src": f"'{_hash(script)}'",
        "style-src": f"'{_hash(style)}'",
        "img-src": "data:",  # the empty icon, so that a browser asks for none
        "base-uri": "'none'",
        "form-action": "'none'",
        "require-trusted-types-for": "'script'",
        "trusted-types": "'none'",
    }
    return "; ".join(f"{name} {value}" for name, value in rules.items())


def _hash(text: str) -> str:
    """As browsers compute it: over exactly what stands between the tags."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")
