"""A budget: the TOML file that says how slow, how large and how unreliable is too much."""

from __future__ import annotations

import math
import os
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Self

from linly_profiling.compare.metrics import OUTCOMES, REQUEST_METRICS, STAGE_METRICS

STATISTICS = ("p50", "p90", "p95", "p99", "max", "min")
_HEADLINES = (
    "wall_ms", "first_token_ms", "first_audio_ms", "first_frame_ms", "real_time_factor", "token_ms", "frame_ms",
    "rss_peak_mb", "gpu_peak_mb",
)  # fmt: skip


class BudgetError(ValueError):
    """A budget cannot be used; the message names the file, the key, what is wrong, and what was likely meant."""


@dataclass(frozen=True)
class Limit:
    """One bound.

    Attributes:
        metric: a name of `REQUEST_METRICS`, `STAGE_METRICS` or `OUTCOMES`.
        stage: of the stage, or None for the whole request.
        statistic: "p50", "p90", "p95", "p99" or "max": at most `bound`; "min": the least is at least `bound`;
            "max_ratio": share of all requests, at most; "reached": share of the ok ones that have the figure, at least.
        bound: in the metric's unit, or a share.
    """

    metric: str
    stage: str | None
    statistic: str
    bound: float


@dataclass(frozen=True)
class Baseline:
    """What to compare with.

    Attributes:
        file: with traces, as written in the budget; None where the caller gives the traces.
        slower: by what share a median may be worse.
        min_requests: how many requests each side needs.
        metrics: names of `REQUEST_METRICS`.
        named: `metrics` was given, so that one that is missing is a failure.
    """

    file: str | None
    slower: float
    min_requests: int
    metrics: tuple[str, ...]
    named: bool


@dataclass(frozen=True)
class Budget:
    """All bounds of one file.

    Attributes:
        limits: in the order of the file.
        baseline: None if it names none.
        folder: where `baseline.file` is looked for.
    """

    limits: tuple[Limit, ...]
    baseline: Baseline | None
    folder: Path

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a file.

        Raises:
            BudgetError: it cannot be read or used.
        """
        path = Path(path)
        try:
            text = path.read_text("utf-8")
        except OSError as error:
            raise BudgetError(f"cannot read '{path}': {error.strerror or error}") from error
        except UnicodeDecodeError as error:
            raise BudgetError(f"{path}: not UTF-8 text: {error}") from error
        return cls.parse(text, str(path), path.parent)

    @classmethod
    def parse(cls, text: str, source: str = "budget", folder: Path = Path()) -> Self:
        """Understand a text.

        Args:
            text: TOML.
            source: what messages call it.
            folder: where the file of a baseline is looked for.

        Raises:
            BudgetError: it is not TOML, has a key that nobody knows or a value that makes no sense, or sets no bound.
        """
        try:
            document = tomllib.loads(text)
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            raise BudgetError(f"{source}: not TOML: {error}") from error
        try:
            _known("", document, ("budget", "baseline"))
            limits = tuple(_limits(_table("budget", document.get("budget", {}))))
            baseline = _baseline(document["baseline"]) if "baseline" in document else None
        except BudgetError as error:
            raise BudgetError(f"{source}: {error}") from error
        if not limits and baseline is None:
            raise BudgetError(f"{source}: it sets no bound, so it can never fail")
        return cls(limits, baseline, folder)


def _limits(budget: Mapping[str, Any]) -> Iterator[Limit]:
    _known("budget", budget, (*REQUEST_METRICS, *OUTCOMES, "stage"))
    for metric, bounds in budget.items():
        if metric != "stage":
            yield from _bounds(f"budget.{metric}", metric, None, bounds)
    for stage, figures in _table("budget.stage", budget.get("stage", {})).items():
        key = f"budget.stage.{stage}"
        _known(key, _table(key, figures), STAGE_METRICS)
        for metric, bounds in figures.items():
            yield from _bounds(f"{key}.{metric}", metric, stage, bounds)


def _bounds(key: str, metric: str, stage: str | None, bounds: object) -> Iterator[Limit]:
    share = stage is None and metric in OUTCOMES
    example = "{ max_ratio = 0.0 }" if share else "{ p95 = 400 }"
    table = _table(key, bounds, example)
    if not table:
        raise BudgetError(f"{key} is empty; write for example {metric} = {example}")
    _known(key, table, ("max_ratio",) if share else (*STATISTICS, "reached"))
    for statistic, value in table.items():
        most = 1.0 if statistic in ("max_ratio", "reached") else math.inf
        yield Limit(metric, stage, statistic, _number(f"{key}.{statistic}", value, most))


def _baseline(value: object) -> Baseline:
    table = _table("baseline", value, '{ file = "baseline.json" }')
    _known("baseline", table, ("file", "slower", "min_requests", "metrics"))
    file = table.get("file")
    if file is not None and not (isinstance(file, str) and file):
        raise BudgetError(f"baseline.file is the path of a trace, not {file!r}")
    least = table.get("min_requests", 5)
    if not isinstance(least, int) or isinstance(least, bool) or least < 1:
        raise BudgetError(f"baseline.min_requests is a whole number of at least 1, not {least!r}")
    metrics = table.get("metrics", list(_HEADLINES))
    if not isinstance(metrics, list) or not metrics or not all(isinstance(name, str) for name in metrics):
        raise BudgetError(f"baseline.metrics is a list of names, not {metrics!r}")
    compared = [name for name in REQUEST_METRICS if REQUEST_METRICS[name].better != "neither"]
    _known("baseline.metrics", metrics, compared)
    slower = _number("baseline.slower", table.get("slower", 0.10))
    return Baseline(file, slower, least, tuple(dict.fromkeys(metrics)), "metrics" in table)


def _table(key: str, value: object, example: str = "[budget.stage.tts]") -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise BudgetError(f"{key} is {value!r}; it has to be a table, like {example}")
    return value


def _number(key: str, value: object, most: float = math.inf) -> float:
    """A bound; TOML knows nan and inf as well, which nothing could ever fail."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BudgetError(f"{key} is a number, not {value!r}")
    if not math.isfinite(value) or not 0 <= value <= most:
        bounds = "0 or more" if most == math.inf else f"0 to {most:g}"
        raise BudgetError(f"{key} is {value!r}; it has to be {bounds}")
    return float(value)


def _known(key: str, names: Iterable[str], known: Iterable[str]) -> None:
    known = list(known)
    for name in names:
        if name not in known:
            close = get_close_matches(name, known, 1)
            hint = f"did you mean {close[0]!r}?" if close else f"known are {', '.join(known)}"
            raise BudgetError(f"unknown {f'key {key}.{name}' if key else f'table [{name}]'}; {hint}")
