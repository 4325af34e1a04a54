"""Copies of what other threads keep changing."""

from __future__ import annotations

from collections.abc import Collection
from typing import TypeVar

Item = TypeVar("Item")


def frozen(items: Collection[Item]) -> list[Item]:
    """The items by now, though other threads keep adding."""
    while True:
        try:
            return list(items)
        except RuntimeError:  # it changed its size meanwhile
            continue
