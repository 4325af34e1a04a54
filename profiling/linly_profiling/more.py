"""What only some spans have: attributes, marks, and the measurements of an exact span."""

from __future__ import annotations

from array import array
from collections.abc import Mapping

from linly_profiling.exact import Exact
from linly_profiling.values import MAX_ATTRS, MAX_NAME, Value, clean, clean_name

MAX_MARKS = 65_536  # of one name in one span: 20 minutes of audio at a mark every 20 ms


_NOTHING: Mapping[str, Value] = {}


class More:
    """Made when the first attribute or mark comes, so that a bare span does not pay for it.

    Attributes:
        attrs: cleaned attributes.
        marks: by name the times; by (name,) pairs of a value and its time.
        exact: the measurements of an exact span.
    """

    __slots__ = ("attrs", "exact", "marks")

    def __init__(self) -> None:
        self.attrs: Mapping[str, Value] = _NOTHING
        self.marks: dict[str | tuple[str], array[int]] = {}
        self.exact: Exact | None = None

    def set(self, attrs: Mapping[str, object]) -> int:
        """Keep attributes; gives how many had no room."""
        kept = dict(self.attrs)
        refused = 0
        for key, value in attrs.items():
            if len(kept) < MAX_ATTRS or key in kept:
                kept[key if len(key) <= MAX_NAME else clean_name(key)] = clean(value)
            else:
                refused += 1
        self.attrs = kept  # a new one: another thread may be reading
        return refused

    def first_mark(self, key: str | tuple[str]) -> array[int]:
        """The array for marks of one name; for the name "…" where there are too many names."""
        if len(self.marks) >= MAX_ATTRS:
            key = "…" if isinstance(key, str) else ("…",)
        key = (clean_name(key[0]),) if isinstance(key, tuple) else clean_name(key)
        return self.marks.setdefault(key, array("q"))

    def mark_count(self) -> int:
        return sum(
            len(numbers) if isinstance(key, str) else len(numbers) // 2 for key, numbers in self.marks.items()
        )


def whole(value: object) -> int | None:
    """A number as it fits into a mark; None for what is none."""
    try:
        number: int = round(value)  # type: ignore[call-overload]
        return max(-(2**63), min(2**63 - 1, number))
    except Exception:  # noqa: BLE001  the caller's object: a tensor on a broken GPU, for one
        return None
