"""The rules that every stage keeps, as one check: `await check_stage(MyStage, [Text("Hello.")])`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing
from typing import Any

from linly_pipeline.packets import Audio, Motion, Packet, Speech, Video
from linly_pipeline.stage import Stage
from linly_pipeline.testing.fakes import fake_turn
from linly_pipeline.turn import Turn

AnyStage = Stage[Any, Any]


async def check_stage(
    make: Callable[[], AnyStage], items: Sequence[Packet], *, cancel_steps: int = 8, end_s: float = 5.0
) -> list[Packet]:
    """Run a stage through everything that a pipeline may do to it, and give its output for `items`.

    Args:
        make: makes a fresh stage.
        items: one turn's input that gives at least one item.
        cancel_steps: cancel at each of the first so many steps of the event loop.
        end_s: how long a cancelled run may take to end.

    Raises:
        AssertionError: names the rule that is broken.
    """
    stage = make()
    _check_declaration(stage)
    await stage.load()
    await stage.load()
    try:
        expected = await _collect(stage, items)
        _check_output(stage, items, expected)
        await _check_empty(stage)
        await _check_concurrent(stage, items, expected)
        await _check_early_exit(stage, items)
        for step in range(1, cancel_steps + 1):
            await _check_cancel(stage, items, step, end_s)
        again = await _collect(stage, items)
        assert _shape(again) == _shape(expected), (
            f"{stage.name}: a turn after cancelled ones gives other output"
        )
    finally:
        await stage.close()
        await stage.close()
    return expected


async def _stream(items: Sequence[Packet]) -> AsyncIterator[Packet]:
    for item in items:
        await asyncio.sleep(0)
        yield item


async def _collect(stage: AnyStage, items: Sequence[Packet], turn: Turn | None = None) -> list[Packet]:
    return [item async for item in stage.run(_stream(items), turn or fake_turn())]


def _check_declaration(stage: AnyStage) -> None:
    assert stage.name, f"{stage!r}: a stage has a name"
    for what in ("accepts", "gives"):
        kind = getattr(stage, what, None)
        is_packet = isinstance(kind, type) and issubclass(kind, Packet)
        assert is_packet, f"{stage.name}: {what} is no packet type"
    assert stage.lookahead_ms >= 0, f"{stage.name}: lookahead_ms is negative"


def _check_output(stage: AnyStage, items: Sequence[Packet], output: Sequence[Packet]) -> None:
    assert output, f"{stage.name}: gave nothing for the sample input"
    for item in output:
        assert isinstance(item, stage.gives), (
            f"{stage.name}: gave {type(item).__name__}, not {stage.gives.__name__}"
        )
    _check_media_time(stage.name, output)
    if all(isinstance(item, Speech | Motion) for item in items):
        before, after = _samples(items), _samples(output)
        assert before == after, (
            f"{stage.name}: {before} samples went in, {after} came out: audio must not be lost"
        )


def _check_media_time(name: str, output: Sequence[Packet]) -> None:
    """Audio and frames follow each other without gap or overlap, from 0."""
    sample = frame = 0
    for item in output:
        audio = _audio(item)
        if audio is not None:
            assert audio.start == sample, f"{name}: audio starts at sample {audio.start}, expected {sample}"
            sample = audio.end
        if isinstance(item, Motion | Video):
            assert item.first_frame == frame, f"{name}: frames start at {item.first_frame}, expected {frame}"
            frame += len(item.pose if isinstance(item, Motion) else item.frames)


async def _check_empty(stage: AnyStage) -> None:
    output = await _collect(stage, [])
    assert not output, f"{stage.name}: gave {len(output)} items for an empty stream"


async def _check_concurrent(stage: AnyStage, items: Sequence[Packet], expected: Sequence[Packet]) -> None:
    """One instance serves several turns at once."""
    both = await asyncio.gather(
        _collect(stage, items, fake_turn("one")), _collect(stage, items, fake_turn("two"))
    )
    for output in both:
        assert _shape(output) == _shape(expected), f"{stage.name}: turns at the same time disturb each other"


async def _check_early_exit(stage: AnyStage, items: Sequence[Packet]) -> None:
    stream: Any = stage.run(_stream(items), fake_turn())
    async with aclosing(stream):
        await anext(stream)


async def _check_cancel(stage: AnyStage, items: Sequence[Packet], step: int, end_s: float) -> None:
    task = asyncio.create_task(_collect(stage, items, fake_turn(f"cancelled at step {step}")))
    for _ in range(step):
        await asyncio.sleep(0)
    task.cancel()
    done, _ = await asyncio.wait([task], timeout=end_s)
    assert done, f"{stage.name}: still runs {end_s:g} s after it was cancelled at step {step}"
    if not task.cancelled():
        error = task.exception()
        assert error is None, f"{stage.name}: cancelled at step {step} it raised {error!r}"


def _audio(item: Packet) -> Audio | None:
    if isinstance(item, Audio):
        return item
    return item.audio if isinstance(item, Speech | Motion | Video) else None


def _samples(items: Sequence[Packet]) -> int:
    return sum(len(audio.samples) for item in items if (audio := _audio(item)))


def _shape(items: Sequence[Packet]) -> tuple[int, int]:
    return len(items), _samples(items)
