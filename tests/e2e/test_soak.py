"""Two hundred turns of the real pipeline, a quarter of them cancelled: everything stays flat."""

from __future__ import annotations

import asyncio
import gc
import os
import random
import threading
from pathlib import Path

import pytest

from linly_pipeline import Chat, Hibari, Mp4Sink, Pipeline, Portrait, TurnCancelled, Visemes
from linly_pipeline.models import locate

TURNS = 200
CANCELLED = 50
# The history fills the prompt to its bound in the first turns, and memory with it; from turn 100 on it is flat
# (measured over 400 turns).
WARM = 100
SLACK_BYTES = 20_000_000


def test_two_hundred_turns_with_fifty_cancelled_leave_nothing_behind(tmp_path: Path) -> None:
    asyncio.run(_soak(tmp_path))
    assert not [path.name for path in tmp_path.iterdir() if path.name.startswith(".")]


async def _soak(folder: Path) -> None:
    chance = random.Random(7)
    cancelled = set(chance.sample(range(TURNS), CANCELLED))
    portrait = Portrait(locate("portrait-astronaut"), size=128)
    pipeline = Pipeline(Chat(max_tokens=6), Hibari(), Visemes(), portrait)
    async with pipeline.session(Mp4Sink(folder / "a.mp4")) as session:
        before: tuple[int, int, int, int] | None = None
        for number in range(TURNS):
            turn = await session.start("Say hi.", request_id=f"turn-{number}")
            if number in cancelled:
                await asyncio.sleep(chance.uniform(0, 0.15))
                await turn.cancel()
            try:
                await turn
            except TurnCancelled:
                assert number in cancelled
            if number == WARM:
                before = await _census()
        assert before is not None
        after = await _census()
    tasks, threads, handles, resident = (now - then for now, then in zip(after, before, strict=True))
    assert tasks == 0
    assert threads <= 0
    assert handles <= 0
    assert resident < SLACK_BYTES


async def _census() -> tuple[int, int, int, int]:
    """Tasks, threads, open files, and resident bytes."""
    await asyncio.to_thread(
        gc.collect
    )  # in a process full of tests this takes longer than a loop may be blocked
    handles = Path("/proc/self/fd")
    if not handles.is_dir():
        pytest.skip("counts handles and memory through /proc")
    resident = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return len(asyncio.all_tasks()), threading.active_count(), len(list(handles.iterdir())), resident


def test_the_trace_of_a_finished_turn_goes_with_the_turn() -> None:
    from linly_profiling import Trace

    async def main() -> None:
        async with Pipeline(Hibari()).session() as session:
            for _ in range(3):
                await session.say("Hi.")

    def traces() -> list[Trace]:
        gc.collect()
        return [thing for thing in gc.get_objects() if isinstance(thing, Trace)]

    others = {id(trace) for trace in traces()}  # that fixtures of other tests hold
    asyncio.run(main())
    assert not [trace for trace in traces() if id(trace) not in others]
