"""Whole turns over fakes, in virtual time: streaming, accounting, barge-in, faults, shutdown."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from helpers import fake_pipeline, stage_spans
from hypothesis import given, settings
from hypothesis import strategies as st

from linly_pipeline import (
    Audio,
    CallbackSink,
    Limits,
    Message,
    NullSink,
    Packet,
    Pipeline,
    Played,
    Sink,
    SinkError,
    Speech,
    Stage,
    StageError,
    StageTimeout,
    Text,
    Turn,
    TurnCancelled,
    Video,
    stage,
)
from linly_pipeline.testing import FakeChat, FakeRecogniser, FakeVoice, FaultyStage, run_virtual, tone


def now() -> float:
    return asyncio.get_running_loop().time()


class Recorder(CallbackSink):
    """Keeps packets and the virtual time they came at."""

    def __init__(self) -> None:
        self.packets: list[Packet] = []
        self.times_s: list[float] = []
        super().__init__(self.take)

    def take(self, packet: Packet) -> None:
        self.packets.append(packet)
        self.times_s.append(now())


def test_a_question_becomes_speech_and_frames_and_the_turn_knows_both_texts() -> None:
    async def main() -> None:
        sink = Recorder()
        async with fake_pipeline().session(sink) as session:
            turn = await session.ask(tone(1.0))
        assert turn.outcome == "ok"
        assert turn.question == "How are you?"
        assert turn.reply == "I am fine, thank you. And you?"
        videos = [packet for packet in sink.packets if isinstance(packet, Video)]
        assert sum(len(video.frames) for video in videos) == turn.played.frames  # type: ignore[union-attr]
        spoken_s = videos[-1].audio.end_s
        assert abs(turn.played.frames / 25 - spoken_s) <= 1 / 25  # type: ignore[union-attr]

    run_virtual(main())


def test_the_first_frame_leaves_while_the_language_model_still_writes() -> None:
    async def main() -> None:
        sink = Recorder()
        async with fake_pipeline(llm=100).session(sink) as session:
            turn = await session.ask(tone(1.0))
        llm_end_s = stage_spans(turn)["llm"].end_ns / 1e9
        assert sink.times_s[0] < llm_end_s

    run_virtual(main())


def test_wait_in_busy_and_wait_out_of_every_stage_sum_to_its_wall_time() -> None:
    async def main() -> None:
        async with fake_pipeline(asr=300, llm=120, tts=50, face=40).session() as session:
            turn = await session.ask(tone(1.0))
        for row, record in stage_spans(turn).items():
            parts = [record.attrs[name] for name in ("wait_in_ns", "busy_ns", "wait_out_ns")]
            assert sum(parts) == record.end_ns - record.start_ns, row
        spans = stage_spans(turn)
        assert spans["asr"].attrs["busy_ns"] == 300_000_000
        assert spans["llm"].attrs["wait_in_ns"] == 300_000_000

    run_virtual(main())


def test_the_contributions_to_the_first_frame_sum_to_the_total() -> None:
    async def main() -> None:
        async with fake_pipeline(asr=300, llm=120, tts=50, face=40).session() as session:
            turn = await session.ask(tone(1.0))
        [first_frame] = [each for each in turn.report().milestones if each.name == "first frame"]
        parts = [part.duration_ns for part in first_frame.contributions]
        assert sum(parts) == first_frame.total_ns == 510_000_000

    run_virtual(main())


def test_writing_the_first_sentence_is_charged_to_the_writer_not_to_the_voice() -> None:
    async def main() -> None:
        pipeline = Pipeline(
            FakeChat("One two three.", first_ms=100, per_item_ms=50), _Joined(), FakeVoice(first_ms=30)
        )
        async with pipeline.session() as session:
            turn = await session.ask("Count.")
        [first_audio] = [each for each in turn.report().milestones if each.name == "first audio"]
        owners = {part.label: part.duration_ns // 1_000_000 for part in first_audio.contributions}
        assert owners == {
            "fake-llm: work": 100,
            "fake-llm: goes on until _joined can begin": 100,
            "fake-tts: work": 30,
        }

    run_virtual(main())


def test_a_written_question_skips_speech_recognition() -> None:
    async def main() -> None:
        async with fake_pipeline().session() as session:
            turn = await session.ask("What now?")
        assert turn.question == "What now?"
        assert "asr" not in stage_spans(turn)

    run_virtual(main())


def test_say_skips_the_language_model() -> None:
    async def main() -> None:
        async with fake_pipeline().session() as session:
            turn = await session.say("Welcome.")
        assert [each.text for each in turn.utterances] == ["Welcome."]
        assert "llm" not in stage_spans(turn)
        assert session.history == [Message("assistant", "Welcome.")]

    run_virtual(main())


def test_two_finals_for_one_utterance_give_one_reply() -> None:
    class Twice(FakeRecogniser):
        async def run(self, stream: AsyncIterator[Audio], turn: Turn) -> AsyncIterator[Text]:
            async for _ in stream:
                pass
            yield Text("Turn left.")
            yield Text(" Turn left.")

    async def main() -> None:
        async with Pipeline(Twice(), FakeChat("Yes.")).session() as session:
            turn = await session.ask(tone(0.5))
        assert turn.reply == "Yes."
        assert [message.role for message in session.history] == ["user", "assistant"]

    run_virtual(main())


def test_an_empty_transcript_completes_the_turn_without_a_reply() -> None:
    async def main() -> None:
        async with Pipeline(FakeRecogniser(""), FakeChat(), FakeVoice()).session() as session:
            turn = await session.ask(tone(0.5))
        assert (turn.outcome, turn.question, turn.reply) == ("ok", "", "")
        assert session.history == []

    run_virtual(main())


def test_history_reaches_the_next_turn() -> None:
    seen: list[tuple[Message, ...]] = []

    class Noting(FakeChat):
        async def run(self, stream: AsyncIterator[Text], turn: Turn) -> AsyncIterator[Text]:
            seen.append(turn.history)
            async for token in super().run(stream, turn):
                yield token

    async def main() -> None:
        async with Pipeline(Noting("Fine."), FakeVoice()).session() as session:
            await session.ask("One?")
            await session.ask("Two?")

    run_virtual(main())
    assert seen == [(), (Message("user", "One?"), Message("assistant", "Fine."))]


def test_a_long_history_is_halved_at_once_not_shifted_every_turn() -> None:
    async def main() -> None:
        lengths = []
        async with Pipeline(FakeChat("Yes."), FakeVoice()).session() as session:
            for _ in range(70):
                await session.ask("And?")
                lengths.append(len(session.history))
        assert max(lengths) == 64
        assert [now - before for before, now in zip(lengths, lengths[1:], strict=False)].count(2) >= 66

    run_virtual(main())


def test_a_book_reaches_the_stages_in_pieces_and_nothing_of_it_is_lost() -> None:
    book = "A sentence of the book. " * 1000
    lengths = []

    @stage
    def measure(piece: Text) -> Text:
        lengths.append(len(piece.text))
        return piece

    async def main() -> None:
        async with Pipeline(measure, FakeVoice(second_per_character=0.001)).session() as session:
            turn = await session.say(book)
        assert "".join(each.text for each in turn.utterances) == book

    run_virtual(main())
    assert 1500 < max(lengths) <= 2000


# Barge-in


@given(after_ms=st.integers(0, 700))
@settings(max_examples=60, deadline=None)
def test_whenever_a_turn_is_superseded_nothing_of_it_reaches_the_next(after_ms: int) -> None:
    async def main() -> None:
        sink = Recorder()
        async with fake_pipeline(asr=200, llm=100, tts=30, face=20).session(sink) as session:
            old = await session.start(tone(1.0))
            await asyncio.sleep(after_ms / 1000)
            new = await session.start(tone(1.0))
            seen = len(sink.packets)
            await new
        if old.outcome == "cancelled":
            with pytest.raises(TurnCancelled):
                await old
        fresh = sink.packets[seen:]
        assert isinstance(fresh[0], Video)
        assert fresh[0].audio.start == 0
        assert fresh[0].first_frame == 0
        assert new.outcome == "ok"
        assert all(record.outcome != "open" for record in old.trace.records())

    run_virtual(main())


def test_five_barge_ins_in_a_row_leave_no_task_behind() -> None:
    async def main() -> None:
        async with fake_pipeline(asr=100).session() as session:
            before = len(asyncio.all_tasks())
            turns = []
            for _ in range(5):
                turns.append(await session.start(tone(1.0)))
                await asyncio.sleep(0.05)
            assert (await session.ask("Still there?")).outcome == "ok"
            assert [turn.outcome for turn in turns] == ["cancelled"] * 5
            assert len(asyncio.all_tasks()) == before

    run_virtual(main())


def test_history_after_barge_in_holds_the_words_that_were_heard() -> None:
    class Player(NullSink):
        """Plays in real time, and has played 0.6 s when it is cleared."""

        async def write(self, packet: Packet) -> None:
            await super().write(packet)
            await asyncio.sleep(10)

        async def clear(self) -> Played:
            return Played(0.6)

    async def main() -> None:
        chat = FakeChat("One two three four five six seven eight nine ten.")
        whole = _Joined()
        async with Pipeline(chat, whole, FakeVoice()).session(Player()) as session:
            turn = await session.start("Count.")
            await asyncio.sleep(1)
            await turn.cancel()
            assert turn.heard() == "One two"
            assert session.history == [Message("user", "Count."), Message("assistant", "One two")]

    run_virtual(main())


class _Joined(Stage[Text, Text]):
    async def run(self, stream: AsyncIterator[Text], turn: Turn) -> AsyncIterator[Text]:
        yield Text("".join([piece.text async for piece in stream]))


def test_cancelling_whoever_asks_cancels_the_turn() -> None:
    async def main() -> None:
        async with fake_pipeline(asr=1000).session() as session:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.5):
                    await session.ask(tone(1.0))
            assert session._turn is not None
            assert session._turn.outcome == "cancelled"

    run_virtual(main())


def test_a_sink_that_does_not_clear_in_time_is_an_error_and_closing_still_returns() -> None:
    class Deaf(NullSink):
        async def clear(self) -> Played:
            await asyncio.Event().wait()
            raise AssertionError

        async def close(self) -> None:
            await asyncio.Event().wait()

    async def main() -> None:
        async with fake_pipeline(asr=100).session(Deaf()) as session:
            turn = await session.start(tone(1.0))
            await asyncio.sleep(0.05)
            await turn.cancel()
            with pytest.raises(SinkError, match="did not acknowledge"):
                await turn
        assert now() < 5

    run_virtual(main())


def test_a_sink_that_blocks_for_ever_does_not_keep_the_session_open() -> None:
    class Stuck(NullSink):
        async def write(self, packet: Packet) -> None:
            await asyncio.Event().wait()

    async def main() -> None:
        session = fake_pipeline().session(Stuck())
        async with session:
            await session.start(tone(1.0))
            await asyncio.sleep(1)
            await session.aclose(drain=False)
        assert now() < 5

    run_virtual(main())


def test_a_sink_that_fails_ends_the_turn_with_a_sink_error() -> None:
    class Full(Sink):
        async def write(self, packet: Packet) -> None:
            raise OSError("disk full")

    async def main() -> None:
        async with fake_pipeline().session(Full()) as session:
            with pytest.raises(SinkError, match="disk full"):
                await session.ask(tone(1.0))

    run_virtual(main())


# Shutdown


def test_closing_right_after_asking_drains() -> None:
    async def main() -> None:
        async with fake_pipeline(asr=500).session() as session:
            turn = await session.start(tone(1.0))
        assert turn.outcome == "ok"

    run_virtual(main())


def test_closing_without_ever_asking_returns() -> None:
    async def main() -> None:
        async with fake_pipeline().session():
            pass

    run_virtual(main())


def test_an_exception_in_the_block_cancels_the_turn() -> None:
    async def main() -> None:
        with pytest.raises(KeyError):
            async with fake_pipeline(asr=500).session() as session:
                turn = await session.start(tone(1.0))
                raise KeyError
        assert turn.outcome == "cancelled"
        assert now() < 0.5

    run_virtual(main())


# Faults


def test_a_stage_that_raises_is_named_with_its_cause_and_the_session_goes_on() -> None:
    async def main() -> None:
        pipeline = Pipeline(FakeChat("One two three."), FaultyStage("raises-at-second"), FakeVoice())
        async with pipeline.session() as session:
            with pytest.raises(StageError, match="faulty.*item 2") as caught:
                await session.ask("Hello?", request_id="r1")
            assert caught.value.stage == "faulty"
            assert caught.value.request_id == "r1"
            assert isinstance(caught.value.__cause__, RuntimeError)
            with pytest.raises(StageError):
                await session.ask("Again?")

    run_virtual(main())


def test_every_span_of_a_failed_turn_has_an_outcome() -> None:
    async def main() -> None:
        async with Pipeline(FakeChat(), FaultyStage("raises"), FakeVoice()).session() as session:
            turn = await session.start("Hello?")
            with pytest.raises(StageError):
                await turn
        outcomes = {row: record.outcome for row, record in stage_spans(turn).items()}
        assert outcomes["faulty"] == "error"
        assert set(outcomes.values()) <= {"ok", "error", "cancelled"}
        assert turn.trace.outcome == "error"

    run_virtual(main())


def test_a_stage_that_never_yields_is_a_timeout_that_names_it() -> None:
    async def main() -> None:
        pipeline = Pipeline(FaultyStage("never-yields"), FakeVoice(), limits=Limits(stall_s=7))
        async with pipeline.session() as session:
            with pytest.raises(StageTimeout, match="'faulty' made no progress for 7 s"):
                await session.ask("Hello?")
        assert now() == pytest.approx(7, abs=0.1)

    run_virtual(main())


def test_waiting_for_input_is_no_stall() -> None:
    async def main() -> None:
        pipeline = Pipeline(FakeChat(first_ms=50_000), FakeVoice(), limits=Limits(stall_s=60))
        async with pipeline.session() as session:
            assert (await session.ask("Hello?")).outcome == "ok"

    run_virtual(main())


def test_a_stage_that_swallows_its_cancellation_is_named_and_left_behind() -> None:
    async def main() -> None:
        async with Pipeline(FaultyStage("swallows-cancel"), FakeVoice()).session() as session:
            turn = await session.start("Hello?")
            await asyncio.sleep(0.1)
            await turn.cancel()
            with pytest.raises(StageTimeout, match="'faulty' did not end"):
                await turn
        assert now() < 5

    run_virtual(main())


def test_a_stage_that_yields_in_finally_does_not_hold_up_a_cancel() -> None:
    async def main() -> None:
        pipeline = Pipeline(FakeChat(per_item_ms=100), FaultyStage("yields-in-finally"), FakeVoice())
        async with pipeline.session() as session:
            turn = await session.start("Hello?")
            await asyncio.sleep(0.15)
            await turn.cancel()
            assert turn.outcome == "cancelled"
        assert now() < 3

    run_virtual(main())


def test_a_stage_that_cancels_itself_is_a_failure_not_a_cancelled_turn() -> None:
    @stage
    async def suicidal(piece: Text) -> Text:
        raise asyncio.CancelledError

    async def main() -> None:
        async with Pipeline(suicidal, FakeVoice()).session() as session:
            with pytest.raises(StageError, match="suicidal"):
                await session.ask("Hello?")

    run_virtual(main())


def test_a_stage_that_gives_the_wrong_type_is_named() -> None:
    class Liar(Stage[Text, Text]):
        async def run(self, stream: AsyncIterator[Text], turn: Turn) -> AsyncIterator[Text]:
            yield tone(1.0)  # type: ignore[misc]

    async def main() -> None:
        async with Pipeline(Liar(), FakeVoice()).session() as session:
            with pytest.raises(StageError, match="'liar' gave Audio, but it declares Text"):
                await session.ask("Hello?")

    run_virtual(main())


def test_a_stage_that_stops_early_ends_the_stages_before_it() -> None:
    class First(Stage[Speech, Speech]):
        async def run(self, stream: AsyncIterator[Speech], turn: Turn) -> AsyncIterator[Speech]:
            async for piece in stream:
                yield piece
                return

    async def main() -> None:
        async def endless() -> AsyncIterator[Packet]:
            while True:
                yield Text("again ")

        async with Pipeline(_echo(), FakeVoice(), First()).session() as session:
            turn = await session.ask(endless())
        assert turn.outcome == "ok"

    def _echo() -> Stage[Audio, Text]:
        class Echo(Stage[Audio, Text]):
            async def run(self, stream: AsyncIterator[Audio], turn: Turn) -> AsyncIterator[Text]:
                async for _ in stream:
                    yield Text("again ")

        return Echo()

    run_virtual(main())


def test_progress_rises_and_ends_at_one() -> None:
    async def main() -> None:
        seen: list[float | None] = []
        async with fake_pipeline().session() as session:
            await session.ask(tone(1.0), on_progress=lambda progress: seen.append(progress.fraction))
        known = [fraction for fraction in seen if fraction is not None]
        assert known == sorted(known)
        assert seen[-1] == 1.0

    run_virtual(main())


def test_two_sessions_of_one_pipeline_do_not_mix() -> None:
    async def main() -> None:
        pipeline = Pipeline(FakeChat("{question} again", per_item_ms=3), FakeVoice(per_item_ms=2))
        async with pipeline.session() as one, pipeline.session() as two:
            first, second = await asyncio.gather(one.ask("Alpha"), two.ask("Beta"))
        assert (first.reply, second.reply) == ("Alpha again", "Beta again")
        for turn in (first, second):
            assert {record.request_id for record in turn.trace.records()} == {turn.id}

    run_virtual(main())
