"""Faults at every boundary: sources, stages, sinks, callbacks. Nothing is mixed up, left behind or waited for."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
import weakref
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from helpers import fake_pipeline, stage_spans

from linly_pipeline import (
    Audio,
    ConfigError,
    Fallback,
    Limits,
    ModelError,
    Mp4Sink,
    NullSink,
    Packet,
    Pipeline,
    Played,
    Progress,
    SinkError,
    Speech,
    Stage,
    StageError,
    Text,
    Turn,
    TurnCancelled,
    WavSink,
)
from linly_pipeline.policies import _Timeline
from linly_pipeline.testing import FakeChat, FakeFace, FakeMotion, FakeVoice, fake_turn, run_virtual, tone
from linly_pipeline.workers import Worker


def now() -> float:
    return asyncio.get_running_loop().time()


class Choking(FakeVoice):
    """Raises at its fourth item, after the sink has had time to write the others."""

    async def run(self, stream: AsyncIterator[Text], turn: Turn) -> AsyncIterator[Speech]:
        count = 0
        async for speech in super().run(stream, turn):
            count += 1
            if count == 4:
                await asyncio.sleep(0.01)
                raise RuntimeError("choked")
            yield speech


@pytest.mark.parametrize("kind", ["wav", "mp4"])
def test_a_failed_turn_never_leaves_a_file_not_even_a_valid_one(kind: str, tmp_path: Path) -> None:
    async def main() -> None:
        for number in range(15):
            chat = FakeChat("One two three four five.")
            if kind == "wav":
                pipeline, sink = Pipeline(chat, Choking()), WavSink(tmp_path / f"{number}.wav")
            else:
                pipeline = Pipeline(chat, Choking(), FakeMotion(), FakeFace())
                sink = Mp4Sink(tmp_path / f"{number}.mp4")  # type: ignore[assignment]
            async with pipeline.session(sink) as session:
                turn = await session.start("Hello?")
                with pytest.raises(StageError, match="choked"):
                    await turn
            assert stage_spans(turn)["sink"].outcome == "cancelled"

    asyncio.run(main())
    assert list(tmp_path.iterdir()) == []


def test_a_slow_write_of_an_old_turn_never_mixes_with_the_next_turns_file(tmp_path: Path) -> None:
    class Slow(WavSink):
        def _write(self, packet: Packet) -> None:
            time.sleep(0.2)
            super()._write(packet)

    async def main() -> None:
        limits = Limits(clear_s=0.05)
        async with Pipeline(FakeChat("One."), FakeVoice(), limits=limits).session(
            Slow(tmp_path / "a.wav")
        ) as session:
            old = await session.start("First?")
            await asyncio.sleep(0.05)
            new = await session.start("Second?")
            with pytest.raises((TurnCancelled, SinkError)):
                await old
            await new
            assert new.played is not None
            assert new.played.path is not None
            written.append((new.played.path, new.utterances[-1].end_s))

    written: list[tuple[Path, float]] = []
    asyncio.run(main())
    [(path, end_s)] = written
    assert Audio.read(path).duration_s == pytest.approx(end_s, abs=0.01)
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("when", ["asr", "done"])
def test_a_progress_callback_that_raises_is_logged_and_harms_nothing(
    when: str, caplog: pytest.LogCaptureFixture
) -> None:
    def explode(progress: Progress) -> None:
        if progress.activity == when:
            raise ZeroDivisionError

    async def main() -> None:
        async with fake_pipeline().session() as session:
            assert (await session.ask(tone(0.5), on_progress=explode)).outcome == "ok"
            assert (await session.ask(tone(0.5))).outcome == "ok"

    run_virtual(main())
    assert "on_progress raised" in caplog.text


def test_a_source_that_fails_is_named_and_the_sink_is_cleared() -> None:
    cleared = []

    class Watching(NullSink):
        async def clear(self) -> Played:
            cleared.append(True)
            return await super().clear()

    async def microphone() -> AsyncIterator[Audio]:
        yield tone(0.1)
        raise OSError("unplugged")

    async def main() -> None:
        async with fake_pipeline().session(Watching()) as session:
            turn = await session.start(microphone())
            with pytest.raises(StageError, match="'source' failed: unplugged"):
                await turn
        assert turn.trace.outcome == "error"

    run_virtual(main())
    assert cleared


def test_a_sink_that_fails_to_clear_does_not_hide_why_the_turn_failed() -> None:
    class Gone(NullSink):
        async def clear(self) -> Played:
            raise OSError("device gone")

    async def main() -> None:
        async with Pipeline(FakeChat("a b c d"), Choking()).session(Gone()) as session:
            with pytest.raises(StageError, match="choked"):
                await session.ask("Hello?")
            turn = await session.start("Hello?")
            await asyncio.sleep(0)
            await turn.cancel()
            with pytest.raises(SinkError, match="device gone"):
                await turn

    run_virtual(main())


def test_a_sink_that_cancels_itself_has_failed_it_was_not_cancelled() -> None:
    class Suicidal(NullSink):
        async def write(self, packet: Packet) -> None:
            raise asyncio.CancelledError

    async def main() -> None:
        async with fake_pipeline().session(Suicidal()) as session:
            with pytest.raises(SinkError, match="CancelledError"):
                await session.ask(tone(0.5))

    run_virtual(main())


def test_a_turn_ends_when_a_stage_has_heard_enough_of_a_source_that_falls_silent() -> None:
    class First(Stage[Text, Text]):
        async def run(self, stream: AsyncIterator[Text], turn: Turn) -> AsyncIterator[Text]:
            async for piece in stream:
                yield piece
                return

    async def silent() -> AsyncIterator[Text]:
        yield Text("one")
        await asyncio.Event().wait()

    async def main() -> None:
        async with Pipeline(First(), FakeVoice()).session() as session:
            turn = await session.start(silent(), say=True)
            assert (await turn).outcome == "ok"
        assert now() < 1

    run_virtual(main())


def test_a_stage_that_reads_in_a_task_of_its_own_is_not_taken_for_stalled() -> None:
    class Background(Stage[Text, Text]):
        async def run(self, stream: AsyncIterator[Text], turn: Turn) -> AsyncIterator[Text]:
            heard: asyncio.Queue[Text | None] = asyncio.Queue()

            async def listen() -> None:
                async for piece in stream:
                    heard.put_nowait(piece)
                heard.put_nowait(None)

            listening = asyncio.create_task(listen())
            while (piece := await heard.get()) is not None:
                yield piece
            await listening

    async def slow() -> AsyncIterator[Text]:
        yield Text("one ")
        await asyncio.sleep(200)
        yield Text("two")

    async def main() -> None:
        async with Pipeline(Background(), FakeVoice()).session() as session:
            turn = await (await session.start(slow(), say=True))
        record = stage_spans(turn)["background"]
        parts = [record.attrs[name] for name in ("wait_in_ns", "busy_ns", "wait_out_ns")]
        assert sum(parts) == record.end_ns - record.start_ns
        assert record.attrs["wait_in_ns"] >= 200_000_000_000

    run_virtual(main())


def test_a_fallback_whose_engine_never_loaded_keeps_no_turn_alive() -> None:
    class Missing(FakeChat):
        async def load(self) -> None:
            raise ModelError("no weights")

    turns: list[weakref.ref[Turn]] = []

    async def main() -> None:
        async with Pipeline(Fallback(Missing(), FakeChat("Yes.")), FakeVoice()).session() as session:
            for _ in range(5):
                turns.append(weakref.ref(await session.ask("Hello?")))
            await asyncio.to_thread(gc.collect)
            assert sum(turn() is not None for turn in turns) <= 1

    run_virtual(main())


def test_a_turn_cannot_start_while_its_session_closes(tmp_path: Path) -> None:
    path = tmp_path / "q.wav"

    async def main() -> None:
        async with Pipeline(FakeVoice()).session(WavSink(path)) as writing:
            await writing.say("hello")
        session = fake_pipeline().session()
        async with session:
            starting = asyncio.create_task(session.start(path))
            await asyncio.sleep(0)
            await session.aclose()
            with pytest.raises(ConfigError, match="not open"):
                await starting

    asyncio.run(main())


def test_models_are_released_even_if_the_sink_fails_to_close() -> None:
    class Broken(NullSink):
        async def close(self) -> None:
            raise OSError("cannot close")

    async def main() -> None:
        pipeline = fake_pipeline()
        with pytest.raises(OSError, match="cannot close"):
            async with pipeline.session(Broken()):
                pass
        assert pipeline._users == 0

    run_virtual(main())


def test_a_sink_that_swallows_cancellation_in_clear_is_left_behind_at_the_deadline() -> None:
    class Stubborn(NullSink):
        async def clear(self) -> Played:
            for _ in range(2):
                try:
                    await asyncio.sleep(1000)
                except asyncio.CancelledError:
                    continue
            return Played(0.0)

    async def main() -> None:
        async with fake_pipeline(asr=100).session(Stubborn()) as session:
            turn = await session.start(tone(0.5))
            await asyncio.sleep(0.05)
            await turn.cancel()
            with pytest.raises(SinkError, match="did not acknowledge"):
                await turn
            assert now() < 3

    run_virtual(main())


def test_what_was_said_from_a_stream_stands_in_the_history() -> None:
    async def words() -> AsyncIterator[Text]:
        yield Text("Hello ")
        yield Text("there.")

    async def main() -> None:
        async with Pipeline(FakeChat(), FakeVoice()).session() as session:
            await (await session.start(words(), say=True))
            assert [message.text for message in session.history] == ["Hello there."]

    run_virtual(main())


def test_a_word_that_was_only_half_heard_is_not_in_the_history() -> None:
    class Player(NullSink):
        async def write(self, packet: Packet) -> None:
            await asyncio.sleep(10)

        async def clear(self) -> Played:
            return Played(0.2)

    async def main() -> None:
        async with Pipeline(FakeVoice()).session(Player()) as session:
            turn = await session.start("Unfortunately, not.", say=True)
            await asyncio.sleep(1)
            await turn.cancel()
            assert turn.heard() == ""

    run_virtual(main())


def test_a_producer_that_ignores_that_nobody_reads_does_not_block_its_worker() -> None:
    async def main() -> None:
        worker = Worker("w")

        def produce(emit: Callable[[int], bool]) -> None:
            for number in range(50):
                emit(number)

        stream = worker.stream(fake_turn(), produce, ahead=2)
        await anext(stream)
        await stream.aclose()  # type: ignore[attr-defined]
        assert await asyncio.wait_for(worker.call(None, lambda: "free"), 5) == "free"
        await worker.close()

    asyncio.run(main())


def test_two_threads_that_ask_at_once_share_one_load() -> None:
    pipeline = Pipeline(FakeChat("Yes."), FakeVoice())
    threads = [threading.Thread(target=pipeline.ask, args=("Hello?",)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert pipeline._users == 1
    pipeline.close()
    assert pipeline._users == 0


def test_a_takeover_between_voices_of_different_rates_leaves_no_gap() -> None:
    timeline = _Timeline()
    end = 0
    for rate_hz in (24_000, 22_050, 22_050, 22_050, 16_000):
        if rate_hz != 24_000:
            timeline.hand_over()
        speech = timeline.next(Speech(tone(0.1234, rate_hz)))
        assert isinstance(speech, Speech)
        assert speech.audio.rate_hz == 24_000
        assert speech.audio.start == end
        end = speech.audio.end


@pytest.mark.parametrize("limit", [0, -1, "30", None])
def test_a_limit_that_is_no_time_is_refused(limit: object) -> None:
    with pytest.raises(ConfigError, match="clear_s is a number of seconds"):
        Limits(clear_s=limit)  # type: ignore[arg-type]


def test_a_negative_seed_is_refused() -> None:
    async def main() -> None:
        async with fake_pipeline().session() as session:
            with pytest.raises(ConfigError, match="seed"):
                await session.ask("Hello?", seed=-1)

    run_virtual(main())


def test_a_long_text_that_ends_like_a_file_is_still_a_text() -> None:
    async def main() -> None:
        async with Pipeline(FakeVoice(second_per_character=0.001)).session() as session:
            for text in ("word " * 200 + "see README.md", "Now playing song.mp3"):
                turn = await session.say(text)
                assert "".join(each.text for each in turn.utterances) == text

    run_virtual(main())
