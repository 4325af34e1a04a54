"""The language model with the real weights, and what all chat stages share."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from linly_pipeline import Chat, Message, ModelError, StageError, Text
from linly_pipeline.stages.llm.chat import conversation, whole_sentences
from linly_pipeline.stages.llm.kv_cache import kv_bytes_per_token
from linly_pipeline.testing import check_stage, fake_turn, run_virtual


def test_a_question_is_answered_in_tokens(chat: Any) -> None:
    tokens = chat(Text("How do plants make food?"))
    answer = "".join(token.text for token in tokens)
    assert len(tokens) > 10
    assert "photosynthesis" in answer
    assert answer.rstrip()[-1] in ".!?"


def test_the_same_question_gives_the_same_answer(chat: Any) -> None:
    once, again = (chat(Text("What is a rainbow?")) for _ in range(2))
    assert once == again


def test_only_the_new_part_of_a_prompt_is_evaluated(chat: Any) -> None:
    first = fake_turn()
    answer = "".join(token.text for token in chat(Text("What is a rainbow?"), turn=first))
    history = [Message("user", "What is a rainbow?"), Message("assistant", answer)]
    second = fake_turn(history=history)
    chat(Text("Thank you."), turn=second)
    [cold, warm] = [_generation(turn) for turn in (first, second)]
    assert cold["cached_tokens"] > 10, "the system prompt was evaluated when the model was loaded"
    assert warm["prompt_tokens"] - warm["cached_tokens"] < 20
    assert warm["cached_tokens"] > cold["prompt_tokens"]


def test_each_token_is_marked_with_the_size_of_the_kv_cache(chat: Any) -> None:
    turn = fake_turn()
    tokens = chat(Text("What is a rainbow?"), turn=turn)
    [span] = [record for record in turn.trace.records() if record.name == "llm.generate"]
    sizes = [mark.value for mark in span.marks if mark.name == "token"]
    assert len(sizes) >= len(tokens)
    a_token = (
        30 * 3 * (64 + 64) * 2
    )  # layers, KV heads, key and value length, bytes: SmolLM2-135M's config.json
    assert sizes[0] == a_token * (_generation(turn)["prompt_tokens"] + 1)
    assert {after - before for before, after in zip(sizes, sizes[1:], strict=False)} <= {a_token, 2 * a_token}


def test_a_file_that_is_no_gguf_has_no_known_kv_cache(tmp_path: Path) -> None:
    path = tmp_path / "x.gguf"
    for content in (b"", b"GGUF", b"GGUF" + bytes(40), b"GGUF" + b"\xff" * 40):
        path.write_bytes(content)
        assert kv_bytes_per_token(path) is None


def test_the_trace_counts_tokens_and_holds_no_text(chat: Any) -> None:
    turn = fake_turn()
    tokens = chat(Text("What is a rainbow?"), turn=turn)
    assert _generation(turn)["tokens"] >= len(tokens)
    assert "rainbow" not in str(turn.trace.records())


def test_a_long_answer_ends_with_a_whole_sentence() -> None:
    async def main() -> str:
        stage = Chat(max_tokens=64)
        await stage.load()
        try:
            stream = stage.run(_texts("Tell me a long story about the sea."), fake_turn())
            return "".join([token.text async for token in stream])
        finally:
            await stage.close()

    answer = asyncio.run(main())
    assert answer.rstrip()[-1] in ".!?"


def test_leaving_early_frees_the_model_for_the_next_question(chat: Any) -> None:
    async def main() -> None:
        stage = Chat()
        await stage.load()
        try:
            stream: Any = stage.run(_texts("Tell me a story."), fake_turn())
            await anext(stream)
            await stream.aclose()
            rest = [token async for token in stage.run(_texts("What is a rainbow?"), fake_turn())]
            assert len(rest) > 5
        finally:
            assert await asyncio.wait_for(_closed(stage), 5)

    asyncio.run(main())


def test_a_prompt_that_does_not_fit_is_a_sentence(chat: Any) -> None:
    with pytest.raises(StageError, match="context size"):
        chat(Text("word " * 3000))


def test_no_question_gives_no_answer(chat: Any) -> None:
    assert chat() == []
    assert chat(Text(" ")) == []


def test_the_stage_keeps_the_rules() -> None:
    asyncio.run(check_stage(lambda: Chat(max_tokens=16), [Text("What is a rainbow?")], cancel_steps=3))


@pytest.mark.parametrize(
    "content",
    [b"", b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n", b"not a model" * 99],
)
def test_broken_weights_are_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "my model.gguf"
    path.write_bytes(content)

    async def main() -> None:
        with pytest.raises(ModelError, match="my model.gguf"):
            await Chat(path).load()

    run_virtual(main())


def test_a_missing_file_is_named() -> None:
    async def main() -> None:
        with pytest.raises(ModelError, match=r"nowhere\.gguf"):
            await Chat("nowhere.gguf").load()

    run_virtual(main())


# What all chat stages share


def test_history_that_does_not_fit_goes_oldest_first_in_blocks() -> None:
    history = [Message("user" if n % 2 == 0 else "assistant", f"{n:02d}") for n in range(40)]
    kept = [conversation("", history[:length], "now?", 44)[0]["content"] for length in range(20, 40, 2)]
    starts = [int(first) for first in kept]
    assert starts == sorted(starts)
    assert all(start % 8 == 0 for start in starts)
    assert len(set(starts)) <= 4, "the beginning of the prompt stays the same for several turns"


def test_history_never_starts_with_an_answer() -> None:
    history = [
        Message("user", "a" * 50),
        Message("assistant", "b" * 50),
        Message("user", "c"),
        Message("assistant", "d"),
    ]
    messages = conversation("sys", history[1:], "now?", 700)
    assert [message["role"] for message in messages] == ["system", "user", "assistant", "user"]
    assert [message["content"] for message in messages] == ["sys", "c", "d", "now?"]


@given(
    history=st.lists(
        st.builds(Message, st.sampled_from(["user", "assistant"]), st.text(min_size=1, max_size=9)),
        max_size=8,
    ),
    budget=st.integers(0, 80),
)
def test_roles_always_alternate_and_end_with_the_question(history: list[Message], budget: int) -> None:
    messages = conversation("", history, "now?", budget)
    roles = [message["role"] for message in messages]
    assert all(before != after for before, after in zip(roles, roles[1:], strict=False))
    assert roles[0] == roles[-1] == "user"
    assert messages[-1]["content"].endswith("now?")


@given(st.lists(st.sampled_from([" a", " b.", " c!", "."]), max_size=30), st.integers(1, 40), st.booleans())
def test_tokens_pass_unchanged_unless_the_limit_cut_a_sentence(
    tokens: list[str], max_tokens: int, cut: bool
) -> None:
    async def main() -> str:
        async def stream() -> AsyncIterator[str | None]:
            for token in tokens:
                yield token
            if cut:
                yield None

        return "".join([piece async for piece in whole_sentences(stream(), max_tokens)])

    got, whole = run_virtual(main()), "".join(tokens)
    if not cut:
        assert got == whole
        return
    assert whole.startswith(got)
    assert "." not in whole[len(got) :]
    assert "!" not in whole[len(got) :]
    assert len(got) >= len("".join(tokens[: max_tokens // 2]))


async def _texts(*texts: str) -> AsyncIterator[Text]:
    for text in texts:
        yield Text(text)


async def _closed(stage: Chat) -> bool:
    await stage.close()
    return True


def _generation(turn: Any) -> dict[str, Any]:
    [record] = [record for record in turn.trace.records() if record.name == "llm.generate"]
    return dict(record.attrs)
