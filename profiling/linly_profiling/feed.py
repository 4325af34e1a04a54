"""What a recorder reads of a running trace: everything new since it last looked."""

from __future__ import annotations

import threading
from collections import deque
from typing import Any, TypeAlias

from linly_profiling.record import Flow, Sample

RawSpan: TypeAlias = tuple[Any, ...]  # what an ended span leaves; `collect.record_of` makes a `Record` of it
Item: TypeAlias = "RawSpan | Sample | Flow"


class Feed:
    """A bounded queue from the program's threads to one reader. What finds no room is counted.

    Attributes:
        dropped: items that were lost because the reader is behind.
    """

    __slots__ = ("_items", "_limit", "_lock", "also", "dropped")

    def __init__(self, limit: int, also: Feed | None = None) -> None:
        """`also` is another reader's feed, which gets the same items."""
        self._items: deque[Item] = deque()
        self._limit = limit
        self._lock = threading.RLock()  # a garbage collection may end a span at any point
        self.also = also
        self.dropped = 0

    def put(self, item: Item) -> None:
        if self.also is not None:
            self.also.put(item)
        if len(self._items) < self._limit:
            self._items.append(item)
        else:
            with self._lock:
                self.dropped += 1

    def drop(self, feed: Feed) -> None:
        """Give another reader's feed nothing any more."""
        if self.also is feed:
            self.also = feed.also
        elif self.also is not None:
            self.also.drop(feed)

    def __len__(self) -> int:
        return len(self._items)

    def take(self, most: int) -> list[Item]:
        """What has waited longest, up to so many items. One reader only."""
        items = self._items
        return [items.popleft() for _ in range(min(most, len(items)))]
