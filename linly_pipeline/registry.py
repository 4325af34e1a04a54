"""Engines by name, found through the entry points of the group `linly_pipeline.stages`.

Anyone's package can add one: `my-voice = "my_package:MyVoice"` in its `pyproject.toml`.
"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from typing import Any

from linly_pipeline.errors import ConfigError
from linly_pipeline.stage import Stage

GROUP = "linly_pipeline.stages"


@dataclass(frozen=True, slots=True)
class About:
    """What `linly engines` says of an engine; a stage class has it as `about`.

    Attributes:
        summary: one line.
        modules: import names that it needs.
        extra: the extra of this package that installs them; "" for none.
        models: names in the model store that it uses by default.
        licence: of the engine's code and, if other, of its weights.
        languages: ISO 639-1 codes; empty where language does not matter.
        streaming: what it gives piece by piece: "token", "clause", "utterance", "frame".
        devices: where it can run.
    """

    summary: str
    modules: tuple[str, ...] = ()
    extra: str = ""
    models: tuple[str, ...] = ()
    licence: str = ""
    languages: tuple[str, ...] = ()
    streaming: str = ""
    devices: tuple[str, ...] = ("cpu",)

    def missing_modules(self) -> list[str]:
        """Import names that are not installed."""
        return [module for module in self.modules if not _is_installed(module)]


def engine_names() -> list[str]:
    """Names of all engines, sorted."""
    return sorted(_entries())


def engine_class(name: str) -> type[Stage[Any, Any]]:
    """The stage class of an engine. Its own libraries are not imported by this.

    Raises:
        ConfigError: no such engine (with a suggestion), or its module does not import.
    """
    entry = _entries().get(name)
    if entry is None:
        raise ConfigError(f"unknown engine {name!r}{suggestion(name, engine_names())}")
    try:
        loaded = entry.load()
    except ImportError as error:
        raise ConfigError(f"engine {name!r} does not import: {error}") from error
    if not (isinstance(loaded, type) and issubclass(loaded, Stage)):
        raise ConfigError(f"engine {name!r}: {entry.value} is not a Stage")
    return loaded


def about(engine: type[Stage[Any, Any]]) -> About:
    """What is known of an engine."""
    known = getattr(engine, "about", None)
    if isinstance(known, About):
        return known
    return About((engine.__doc__ or "").strip().split("\n")[0])


def suggestion(name: str, known: list[str]) -> str:
    """The end of a sentence about an unknown name: a close match, or all there are."""
    close = get_close_matches(name, known, n=1)
    return f": did you mean {close[0]!r}?" if close else f": there are {', '.join(known)}"


@cache
def _entries() -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=GROUP)}


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except (ImportError, ValueError):
        return False
