"""The real engines of the default pipeline, loaded once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from linly_pipeline import Audio, Chat, Hibari, Packet, Stage, Turn, Whisper
from linly_pipeline.testing import fake_turn

RECORDINGS = Path(__file__).parents[2].parent / "shared" / "data"


class Engine:
    """A loaded stage and a loop to run it in."""

    def __init__(self, stage: Stage[Any, Any]) -> None:
        self.stage = stage
        self._runner = asyncio.Runner()
        self._runner.run(stage.load())

    def __call__(self, *items: Packet, turn: Turn | None = None) -> list[Any]:
        async def main() -> list[Any]:
            async def stream() -> Any:
                for item in items:
                    yield item

            return [item async for item in self.stage.run(stream(), turn or fake_turn())]

        return self._runner.run(main())

    def close(self) -> None:
        self._runner.run(self.stage.close())
        self._runner.close()


def _loaded(stage: Stage[Any, Any]) -> Iterator[Engine]:
    engine = Engine(stage)
    yield engine
    engine.close()


@pytest.fixture(scope="session")
def whisper() -> Iterator[Engine]:
    yield from _loaded(Whisper())


@pytest.fixture(scope="session")
def chat() -> Iterator[Engine]:
    yield from _loaded(Chat())


@pytest.fixture(scope="session")
def hibari() -> Iterator[Engine]:
    yield from _loaded(Hibari())


@pytest.fixture
def jfk() -> Audio:
    """Eleven seconds of a real speech."""
    path = RECORDINGS / "jfk.flac"
    if not path.exists():
        pytest.skip(f"the recording '{path.name}' is not part of this checkout")
    return Audio.read(path)
