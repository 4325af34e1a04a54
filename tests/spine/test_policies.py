"""Deadline, Retry and Fallback, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from helpers import stage_spans

from linly_pipeline import (
    ConfigError,
    Deadline,
    Fallback,
    ModelError,
    Pipeline,
    Retry,
    Speech,
    Stage,
    StageError,
    StageTimeout,
    StageUnavailable,
    Text,
    Turn,
)
from linly_pipeline.testing import FakeChat, FakeMotion, FakeVoice, check_stage, run_virtual


class Broken(FakeChat):
    """Fails `failures` times before its first token, then works."""

    name = "broken"

    def __init__(self, failures: int) -> None:
        super().__init__("Back again.")
        self.failures = failures

    async def run(self, stream: AsyncIterator[Text], turn: Turn) -> AsyncIterator[Text]:
        question = [piece async for piece in stream]
        assert question == [Text("Hello?")], "the whole input is there again"
        if self.failures:
            self.failures -= 1
            raise ConnectionError("no line")
        yield Text("Back again.")


def ask(llm: Stage[Text, Text], voice: Stage[Text, Speech] | None = None) -> Turn:
    async def main() -> Turn:
        async with Pipeline(llm, voice or FakeVoice()).session() as session:
            return await session.ask("Hello?")

    return run_virtual(main())


def test_a_deadline_lets_a_stage_in_time_pass() -> None:
    assert ask(Deadline(FakeChat("Hi.", first_ms=900), first_item_s=1)).reply == "Hi."


def test_a_deadline_for_the_first_item_is_a_timeout_that_names_the_stage() -> None:
    with pytest.raises(StageTimeout, match="'fake-llm' gave no first item within 1 s"):
        ask(Deadline(FakeChat("Hi.", first_ms=1100), first_item_s=1))


def test_a_deadline_for_progress_counts_between_items() -> None:
    slow = FakeChat("One two.", per_item_ms=600)
    assert ask(Deadline(slow, progress_s=1)).outcome == "ok"
    with pytest.raises(StageTimeout, match="no progress within 0.5 s"):
        ask(Deadline(slow, progress_s=0.5))


def test_time_spent_waiting_for_input_does_not_count() -> None:
    turn = ask(FakeChat("Hi.", first_ms=5000), Deadline(FakeVoice(first_ms=500), first_item_s=1))
    assert turn.outcome == "ok"


def test_a_stages_own_timeout_error_is_not_taken_for_the_deadline() -> None:
    class Own(FakeChat):
        async def run(self, stream: AsyncIterator[Text], turn: Turn) -> AsyncIterator[Text]:
            async for _ in stream:
                raise TimeoutError("the server's")
            yield Text("")

    with pytest.raises(StageError, match="the server's") as caught:
        ask(Deadline(Own(), first_item_s=5))
    assert not isinstance(caught.value, StageTimeout)


def test_retry_tries_again_with_the_same_input_and_says_so() -> None:
    turn = ask(Retry(Broken(failures=1), attempts=2))
    assert turn.reply == "Back again."
    [takeover] = turn.takeovers
    assert "no line" in takeover.error
    assert stage_spans(turn)["llm"].attrs["fallbacks"][0]["error"] == takeover.error_type, (
        "no message in the trace"
    )


def test_retry_gives_up_with_the_last_error() -> None:
    with pytest.raises(StageError, match="no line"):
        ask(Retry(Broken(failures=2), attempts=2))


def test_retry_does_not_repeat_what_was_said() -> None:
    class Late(FakeChat):
        async def run(self, stream: AsyncIterator[Text], turn: Turn) -> AsyncIterator[Text]:
            async for _ in stream:
                pass
            yield Text("One")
            raise ConnectionError("cut off")

    with pytest.raises(StageError, match="cut off"):
        ask(Retry(Late(), attempts=3))


def test_an_engine_that_raises_is_replaced_within_the_turn() -> None:
    turn = ask(Fallback(Broken(failures=9), FakeChat("Second choice.")))
    assert turn.reply == "Second choice."
    assert [(each.engine, each.successor) for each in turn.takeovers] == [("broken", "fake-llm")]
    assert "fake-llm" in str(turn.report())


def test_an_engine_that_is_late_is_replaced_within_the_turn() -> None:
    slow = FakeChat("Too late.", first_ms=3000)
    slow.name = "slow"
    turn = ask(Fallback(slow, FakeChat("In time."), first_item_s=1))
    assert turn.reply == "In time."
    assert "StageTimeout" in turn.takeovers[0].error or "no first item" in turn.takeovers[0].error


def test_when_all_engines_fail_each_is_named() -> None:
    with pytest.raises(StageUnavailable, match="broken.*no line") as caught:
        ask(Fallback(Broken(failures=9), Broken(failures=9)))
    assert [name for name, _ in caught.value.attempts] == ["broken", "broken"]


def test_an_engine_that_cannot_load_is_skipped() -> None:
    class Missing(FakeChat):
        async def load(self) -> None:
            raise ModelError("weights missing")

    assert ask(Fallback(Missing(), FakeChat("Here."))).reply == "Here."
    with pytest.raises(StageUnavailable, match="weights missing"):
        ask(Fallback(Missing(), Missing()))


def test_a_voice_that_fails_in_the_middle_is_replaced_from_the_next_unspoken_sentence() -> None:
    class Hoarse(FakeVoice):
        name = "hoarse"

        async def run(self, stream: AsyncIterator[Text], turn: Turn) -> AsyncIterator[Speech]:
            count = 0
            async for speech in super().run(stream, turn):
                count += 1
                if count == 3:
                    raise RuntimeError("voice lost")
                yield speech

    async def main() -> Turn:
        async def words() -> AsyncIterator[Text]:
            for word in ("one ", "two ", "three ", "four "):
                yield Text(word)

        source = FakeChat("one two three four")
        async with Pipeline(source, Fallback(Hoarse(), FakeVoice())).session() as session:
            return await session.ask("Count.")

    turn = run_virtual(main())
    assert "".join(each.text for each in turn.utterances) == "one two three four"


def test_media_time_goes_on_after_a_takeover() -> None:
    class Hoarse(FakeVoice):
        name = "hoarse"

        async def run(self, stream: AsyncIterator[Text], turn: Turn) -> AsyncIterator[Speech]:
            async for speech in super().run(stream, turn):
                if speech.audio.start:
                    raise RuntimeError("voice lost")
                yield speech

    async def main() -> Turn:
        async with Pipeline(Fallback(Hoarse(), FakeVoice()), FakeMotion()).session() as session:

            async def words() -> AsyncIterator[Text]:
                for word in ("one ", "two ", "three "):
                    yield Text(word)

            return await session.start(_Words(), say=True)

    turn = run_virtual(_ended(main()))
    ends = [each.end_s for each in turn.utterances]
    starts = [each.start_s for each in turn.utterances]
    assert starts == [0.0, *ends[:-1]]


class _Words:
    """A stream of text to say."""

    def __aiter__(self) -> AsyncIterator[Text]:
        async def words() -> AsyncIterator[Text]:
            for word in ("one ", "two ", "three "):
                await asyncio.sleep(0)
                yield Text(word)

        return words()


async def _ended(starting: object) -> Turn:
    turn: Turn = await starting  # type: ignore[misc]
    await turn.ended()
    return turn


def test_policies_refuse_what_cannot_work() -> None:
    with pytest.raises(ConfigError, match="at least two"):
        Fallback(FakeChat())
    with pytest.raises(ConfigError, match="fake-tts.*Text → Speech"):
        Fallback(FakeChat(), FakeVoice())
    with pytest.raises(ConfigError, match="at least one attempt"):
        Retry(FakeChat(), attempts=0)


def test_the_repr_of_a_policy_reads_like_its_construction() -> None:
    policy = Deadline(Retry(FakeChat(), attempts=3), first_item_s=1.5)
    assert repr(policy).startswith("Deadline(Retry(")
    assert "attempts=3" in repr(policy)
    assert "first_item_s=1.5" in repr(policy)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Deadline(FakeChat(), first_item_s=1),
        lambda: Retry(FakeChat()),
        lambda: Fallback(FakeChat(), FakeChat()),
        lambda: Fallback(Deadline(Retry(FakeChat()), first_item_s=2), FakeChat(), first_item_s=1),
    ],
)
def test_a_policy_is_itself_a_stage_that_keeps_the_rules(make: object) -> None:
    run_virtual(check_stage(make, [Text("Hello?")]))  # type: ignore[arg-type]
