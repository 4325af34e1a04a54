"""A pipeline from a TOML file: engines by name with their settings, in order.

    [[stage]]
    engine = "whisper"

    [[stage]]
    engine = "fallback"
    first_item_s = 1.5
    stages = [{ engine = "my-cloud-llm" }, { engine = "llama.cpp", max_tokens = 64 }]

    [[stage]]
    engine = "hibari"
    speed = 1.1

    [[stage]]
    engine = "visemes"

    [[stage]]
    engine = "portrait"
    image = "anchor.png"

    [limits]
    stall_s = 30

A setting is a parameter of the engine's class. A relative path is looked up beside the file first.
"""

from __future__ import annotations

import dataclasses
import inspect
import os
import tomllib
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any, get_type_hints

from linly_pipeline.errors import ConfigError
from linly_pipeline.pipeline import Pipeline
from linly_pipeline.registry import engine_class, suggestion
from linly_pipeline.runner import Limits
from linly_pipeline.stage import Stage

AnyStage = Stage[Any, Any]

# What a setting of these types may be in TOML, and what to call it.
PLAIN_TYPES: dict[Any, tuple[Any, str]] = {
    int: (int, "a whole number"),
    float: (int | float, "a number"),
    str: (str, "a text"),
    bool: (bool, "true or false"),
}


def load_pipeline(path: str | PathLike[str]) -> Pipeline:
    """Build the pipeline that a TOML file describes.

    Raises:
        ConfigError: the file is missing or no TOML, or it names an unknown engine, key or setting.
    """
    path = Path(path)
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read '{path}': {error.strerror or error}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"'{path}' is not valid TOML: {error}") from error
    try:
        return pipeline_from(table, path.parent)
    except ConfigError as error:
        raise ConfigError(f"'{path}': {error}") from error


def pipeline_from(table: Mapping[str, Any], folder: Path = Path()) -> Pipeline:
    """Build a pipeline from the content of such a file. `folder` is where its relative paths begin.

    Raises:
        ConfigError: unknown engine, key or setting.
    """
    _refuse_unknown(table, ["stage", "limits"], "key")
    entries = table.get("stage", [])
    if not isinstance(entries, list) or not entries:
        raise ConfigError("no [[stage]] in the file: a pipeline needs at least one")
    stages = [_stage(entry, folder) for entry in entries]
    return Pipeline(*stages, limits=_limits(table.get("limits", {})))


def embedded(portrait: str | PathLike[str] | None = None, **portrait_settings: Any) -> Pipeline:
    """The default pipeline, which runs on a laptop's CPU from packages alone.

    Args:
        portrait: a photo; the demo's astronaut if None.
        **portrait_settings: settings of the face stage, such as `size`.
    """
    from linly_pipeline.stages.asr.faster_whisper import Whisper
    from linly_pipeline.stages.face.photo import Portrait
    from linly_pipeline.stages.llm.llama_cpp import Chat
    from linly_pipeline.stages.motion.visemes import Visemes
    from linly_pipeline.stages.tts.hibari import Hibari

    image = "portrait-astronaut" if portrait is None else portrait
    return Pipeline(Whisper(), Chat(), Hibari(), Visemes(), Portrait(image, **portrait_settings))


def _limits(table: object) -> Limits:
    if not isinstance(table, dict):
        raise ConfigError(f"limits is a table, [limits], not {table!r}")
    _refuse_unknown(table, [field.name for field in dataclasses.fields(Limits)], "limit")
    return Limits(**table)


def _stage(entry: object, folder: Path) -> AnyStage:
    if not isinstance(entry, dict) or not isinstance(entry.get("engine"), str):
        raise ConfigError(f'a stage needs an engine: {{ engine = "…" }}, not {entry!r}')
    name = entry["engine"]
    engine = engine_class(name)
    settings = {key: _value(value, folder) for key, value in entry.items() if key not in ("engine", "name")}
    parameters = inspect.signature(engine).parameters
    _refuse_unknown(settings, list(parameters), f"setting of {name!r}")
    _check_settings(name, settings, parameters, engine)
    positional = [settings.pop(key) for key in list(settings) if _is_variadic(parameters[key])]
    try:
        stage = engine(*(each for group in positional for each in group), **settings)
    except TypeError as error:
        raise ConfigError(f"engine {name!r}: {error}") from error
    if "name" in entry:
        stage.name = str(entry["name"])
    return stage


def _check_settings(
    name: str,
    settings: Mapping[str, Any],
    parameters: Mapping[str, inspect.Parameter],
    engine: type[AnyStage],
) -> None:
    """Refuse what is missing, or is no number or text where the engine wants one."""
    for key, parameter in parameters.items():
        if key not in settings and parameter.default is parameter.empty and not _is_variadic(parameter):
            raise ConfigError(f"{name!r} needs the setting {key!r}")
    hints = get_type_hints(engine.__init__)
    for key, value in settings.items():
        wanted = PLAIN_TYPES.get(hints.get(key))
        if wanted is not None and not isinstance(value, wanted[0]):
            raise ConfigError(f"setting {key!r} of {name!r} must be {wanted[1]}, not {value!r}")


def _value(value: Any, folder: Path) -> Any:
    """A setting, with nested stages built and relative paths resolved."""
    if isinstance(value, dict) and "engine" in value:
        return _stage(value, folder)
    if isinstance(value, list):
        return [_value(each, folder) for each in value]
    if (
        isinstance(value, str) and value and os.path.isfile(folder / value)
    ):  # also for text too long for a name
        return folder / value
    return value


def _is_variadic(parameter: inspect.Parameter) -> bool:
    return parameter.kind is inspect.Parameter.VAR_POSITIONAL


def _refuse_unknown(table: Mapping[str, Any], known: list[str], what: str) -> None:
    for key in table:
        if key not in known:
            raise ConfigError(f"unknown {what}: {key!r}{suggestion(key, known)}")
