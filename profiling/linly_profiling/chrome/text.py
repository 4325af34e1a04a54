"""Text that every viewer shows and loads, and a way back to the text as it was.

Perfetto's and Chrome's JSON readers stumble over backslash escapes, control characters and lone surrogates; each
is replaced by a visible sign. Where that changes anything, the exact data stands beside it, percent-encoded.
"""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.parse import quote, unquote

_UNSAFE = re.compile(r"[\x00-\x1f\x7f\\\ud800-\udfff]")
_BACKSLASH, _DELETE, _UNKNOWN = "⧵", "␡", "�"

EXACT = "exact"  # key of the percent-encoded original


def display(text: str) -> str:
    """The text with a visible sign for every character that a viewer, or a terminal, would trip over."""
    return _UNSAFE.sub(_sign, text)


def _sign(match: re.Match[str]) -> str:
    code = ord(match.group())
    if code < 0x20:
        return chr(0x2400 + code)  # the control pictures of Unicode
    if code == 0x7F:
        return _DELETE
    return _BACKSLASH if code == 0x5C else _UNKNOWN


def display_tree(value: Any) -> Any:
    """`display` for all texts and keys of plain JSON data."""
    if isinstance(value, str):
        return display(value)
    if isinstance(value, dict):
        return {display(key): display_tree(item) for key, item in value.items()}
    if isinstance(value, list):
        return [display_tree(item) for item in value]
    return value


def dumps(value: Any) -> str:
    """One line of JSON, in UTF-8 as it is."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def encode(tree: Any) -> str:
    """Plain data as ASCII without a single quote or backslash; lone surrogates stay what they are."""
    return quote(dumps(tree), errors="surrogatepass")


def decode(text: str) -> Any:
    """What `encode` was given.

    Raises:
        ValueError: it was not written by `encode`.
    """
    return json.loads(unquote(text, errors="surrogatepass"))


def pack(tree: dict[str, Any]) -> dict[str, Any]:
    """Plain data as viewers can take it, with the original under "exact" where something had to change."""
    shown: dict[str, Any] = display_tree(tree)
    return tree if shown == tree else {**shown, EXACT: encode(tree)}


def unpack(packed: dict[str, Any]) -> dict[str, Any]:
    """What `pack` was given.

    Raises:
        ValueError: it was not written by `pack`.
    """
    tree = decode(packed[EXACT]) if EXACT in packed else packed
    if not isinstance(tree, dict):
        raise ValueError(f"{EXACT!r} is no object")
    return tree
