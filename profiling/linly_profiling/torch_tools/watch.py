"""Who is told that a span becomes, and stops being, the one that a `with` block runs in.

The one hook is `linly_profiling.span.watcher`, None as long as nobody watches: what it costs then is one look.
"""

from __future__ import annotations

import logging
from typing import Protocol

from linly_profiling import span as spans
from linly_profiling.span import Span

_log = logging.getLogger("linly_profiling")

_HOOK = "watcher"


class Watcher(Protocol):
    """Called in the thread that enters and leaves. `left` may get a span that `entered` never saw."""

    def entered(self, span: Span) -> None:
        """`with span:` begins."""

    def left(self, span: Span) -> None:
        """`with span:` is over, and the span has ended."""


class _All:
    """Tells several; one that raises is told nothing any more, with a line in the log."""

    def __init__(self, watchers: tuple[Watcher, ...]) -> None:
        self.watchers = watchers

    def entered(self, span: Span) -> None:
        for watcher in self.watchers:
            try:
                watcher.entered(span)
            except Exception as error:  # noqa: BLE001  watching must never break the program
                _switch_off(watcher, error)

    def left(self, span: Span) -> None:
        for watcher in reversed(self.watchers):
            try:
                watcher.left(span)
            except Exception as error:  # noqa: BLE001  see entered
                _switch_off(watcher, error)


def _switch_off(watcher: Watcher, error: Exception) -> None:
    remove(watcher)
    _log.warning("%s is switched off: %s: %s", type(watcher).__name__, type(error).__name__, error)


def watchers() -> tuple[Watcher, ...]:
    """Those who are told now, in the order in which they came."""
    told = getattr(spans, _HOOK, None)
    return told.watchers if isinstance(told, _All) else ()


def add(watcher: Watcher) -> None:
    """Tell it of all spans from now on. Once, however often it is added."""
    _tell((*(each for each in watchers() if each is not watcher), watcher))


def remove(watcher: Watcher) -> None:
    """Tell it nothing any more."""
    _tell(tuple(each for each in watchers() if each is not watcher))


def _tell(told: tuple[Watcher, ...]) -> None:
    setattr(spans, _HOOK, _All(told) if told else None)
