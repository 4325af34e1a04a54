"""Rules that hold in every test."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import pytest

BLOCKED_S = 0.1


@pytest.fixture(autouse=True)
def _event_loop_is_never_blocked(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fails a test in which one callback or one step of a task kept an event loop for more than 100 ms."""
    slow: list[str] = []
    run = asyncio.Handle._run

    def timed(handle: Any) -> None:
        start_s = time.perf_counter()
        run(handle)
        took_s = time.perf_counter() - start_s
        if took_s > BLOCKED_S:
            slow.append(f"{took_s * 1000:.0f} ms in {handle!r}")

    monkeypatch.setattr(asyncio.Handle, "_run", timed)
    yield
    assert not slow, f"the event loop was blocked: {slow}"
