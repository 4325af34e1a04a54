"""What an attribute may hold: plain JSON values of bounded size, so that a trace keeps no foreign object alive.

A foreign object is never asked for its `repr`, which for a tensor on a GPU would wait for the GPU.
"""

from __future__ import annotations

import enum
import math
import os
from collections.abc import Mapping
from typing import TypeAlias

Value: TypeAlias = "bool | int | float | str | list[Value] | dict[str, Value] | None"

MAX_NAME = 128  # span, mark, counter and attribute names: low cardinality by intent
MAX_TEXT = 1024  # text values and request IDs
MAX_ITEMS = 256  # items of a list or a mapping
MAX_DEPTH = 4  # lists and mappings inside each other
MAX_ATTRS = 64  # attributes of one span

_INT64 = 2**63


def cut(text: str, limit: int) -> str:
    """The text, or its beginning and "…" where it is longer than `limit`."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def clean_name(name: object) -> str:
    """A name as plain `str` of bounded length."""
    return cut(str.__str__(name) if isinstance(name, str) else _foreign_text(name), MAX_NAME)


def clean(value: object, depth: int = MAX_DEPTH) -> Value:
    """The value as plain JSON data.

    Long texts and lists are cut; NaN and infinity are null; integers beyond 64 bits become text, tuples and sets
    lists, paths and enumerations what they stand for; any other object is the name of its type in angle brackets.
    """
    if type(value) is str:
        return value if len(value) <= MAX_TEXT else cut(value, MAX_TEXT)
    if type(value) is int:
        return value if -_INT64 <= value < _INT64 else _clean_int(value)
    if value is None or type(value) is bool:
        return value
    if type(value) is float:
        return value if math.isfinite(value) else None
    return _clean_other(value, depth)


def _clean_int(value: int) -> int | str:
    if -_INT64 <= value < _INT64:
        return value
    return str(value) if value.bit_length() <= 512 else "<int>"


def _clean_other(value: object, depth: int) -> Value:
    """Only the simplest methods of a foreign object are called, and it may fail at each of them."""
    try:
        return _plain(value, depth)
    except Exception:  # noqa: BLE001  an attribute must never break the program that sets it
        return f"<{type(value).__name__}>"


def _plain(value: object, depth: int) -> Value:
    if isinstance(value, enum.Enum):
        return clean(value.value, depth)
    if isinstance(value, str):
        return cut(str.__str__(value), MAX_TEXT)
    if isinstance(value, int):
        return _clean_int(int(value))
    if isinstance(value, float):
        return clean(float(value), depth)
    if isinstance(value, Mapping):
        return _clean_mapping(value, depth)
    if isinstance(value, list | tuple | set | frozenset):
        items = list(value)[:MAX_ITEMS]
        return [clean(item, depth - 1) for item in items] if depth > 0 else _foreign_text(value)
    if type(value).__module__ == "numpy" and getattr(value, "ndim", 1) == 0:
        return clean(value.item(), depth - 1) if depth > 0 else None  # type: ignore[attr-defined]
    if isinstance(value, os.PathLike):
        return cut(os.fsdecode(value), MAX_TEXT)
    return _foreign_text(value)


def _clean_mapping(value: Mapping[object, object], depth: int) -> Value:
    if depth <= 0:
        return _foreign_text(value)
    return {clean_name(key): clean(item, depth - 1) for key, item in list(value.items())[:MAX_ITEMS]}


def _foreign_text(value: object) -> str:
    if value is None or isinstance(value, bool | int | float):
        return str(_clean_int(value)) if type(value) is int else str(value)
    return f"<{type(value).__name__}>"


def finite(value: object) -> int | float | None:
    """The value as a plain number; None if it is not one, or not finite. A huge integer becomes a float."""
    try:
        return _finite(value)
    except Exception:  # noqa: BLE001  see `clean`
        return None


def _finite(value: object) -> int | float | None:
    if not isinstance(value, int | float):
        value = clean(value)
        if not isinstance(value, int | float):
            return None
    if isinstance(value, int):
        number = int(value)
        if -_INT64 <= number < _INT64:
            return number
    return float(value) if math.isfinite(value) else None
