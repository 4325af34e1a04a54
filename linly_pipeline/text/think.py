"""Takes a language model's thoughts out of its answer while it streams."""

from __future__ import annotations

import re

_NAMES = ("think", "thinking", "thought")
_TAG = re.compile(rf"<(/?)(?:{'|'.join(_NAMES)})>", re.IGNORECASE)
_TAGS = tuple(f"<{slash}{name}>" for name in _NAMES for slash in ("", "/"))


class ThinkFilter:
    """Removes `<think>…</think>` (also thinking, thought), however the stream cuts the tags.

    A block that is never closed hides everything to the end. A closing tag without an opening one is removed
    alone. A tag in back quotes is part of the answer. The joined output does not depend on the cutting.

    Args:
        inside: the stream starts within a thought, as with models whose prompt ends in `<think>`.
    """

    def __init__(self, *, inside: bool = False) -> None:
        self._inside = inside
        self._held = ""
        self._before = ""  # the last character that went out

    def feed(self, piece: str) -> str:
        """The part of the answer that `piece` made certain; often `piece` itself, sometimes ""."""
        self._held += piece
        shown = []
        while match := _TAG.search(self._held):
            shown.append(self._out(self._held[: match.start()]))
            if self._before == "`":
                shown.append(self._out(match[0]))
            else:
                self._inside = not match[1]
            self._held = self._held[match.end() :]
        certain = len(self._held) - _length_of_start(self._held)
        shown.append(self._out(self._held[:certain]))
        self._held = self._held[certain:]
        return "".join(shown)

    def flush(self) -> str:
        """What was held back because it might have become a tag; call once at the end of the stream."""
        rest, self._held = self._out(self._held), ""
        return rest

    def _out(self, text: str) -> str:
        if self._inside:
            return ""
        self._before = text[-1:] or self._before
        return text


def _length_of_start(text: str) -> int:
    """How many characters at the end of `text` may be the start of a tag."""
    start = text.rfind("<")
    tail = text[start:].lower() if start >= 0 else "-"
    return len(text) - start if any(tag.startswith(tail) for tag in _TAGS) else 0
