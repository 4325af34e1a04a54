"""From the model's stream to what the voice reads."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from linly_pipeline.packets import Text
from linly_pipeline.text import Fragment, Splitter, ThinkFilter, fragments


def read(
    *pieces: str | Text, splitter: Splitter | None = None, thoughts: ThinkFilter | None = None
) -> list[Fragment]:
    async def stream() -> AsyncIterator[Text]:
        for piece in pieces:
            await asyncio.sleep(0)  # as a model does between two tokens
            yield piece if isinstance(piece, Text) else Text(piece)

    async def collect() -> list[Fragment]:
        return [each async for each in fragments(stream(), splitter=splitter, thoughts=thoughts)]

    return asyncio.run(collect())


def spoken(found: Iterable[Fragment]) -> list[str]:
    return [fragment.spoken for fragment in found]


def test_text_is_the_original_and_the_spoken_form_stands_beside_it() -> None:
    assert read("Pi is **3.14** as you know. Ok") == [
        Fragment("Pi is **3.14** as you know.", "Pi is three point one four as you know.", "en"),
        Fragment(" Ok", "Ok", "en"),
    ]


@pytest.mark.parametrize(
    "text", ["", " ", "......", "”", "😀", "<think>only thoughts</think>", "```\ncode\n```"]
)
def test_an_answer_with_nothing_to_say_gives_no_fragment(text: str) -> None:
    assert read(text) == []
    assert read(*text) == []


def test_thoughts_are_never_spoken_and_a_short_reply_is() -> None:
    assert spoken(read("<thi", "nk>plan. Hello</think>Hi")) == ["Hi"]
    assert spoken(read("<think>a</think>好的", "<think>b</think>。")) == ["好的。"]
    assert spoken(read("plan</think>Hi", thoughts=ThinkFilter(inside=True))) == ["Hi"]


def test_what_cannot_be_spoken_joins_the_next_fragment() -> None:
    found = read("Run this now:\n```sh\nls. Then\n```\nDone! 😀\n\nBye 🎉.")
    assert spoken(found) == ["Run this now:", "Done!", "Bye."]
    assert "".join(each.text for each in found) == "Run this now:\n```sh\nls. Then\n```\nDone! 😀\n\nBye 🎉."


def test_long_code_is_not_spoken_either() -> None:
    assert spoken(read("Look here: \n```\n" + "print('Hello.')\n" * 60 + "```\nDone.")) == [
        "Look here:",
        "Done.",
    ]
    assert spoken(read("~~~\n" + "never closed. " * 60)) == []


def test_each_fragment_knows_its_language() -> None:
    assert [each.language for each in read("Hello there. 你好，世界！日本語です。")] == ["en", "zh", "ja"]
    assert [each.language for each in read(Text("Das ist gut. 1984.", "de"))] == ["de", "de"]
    assert spoken(read(Text("3.14", "zh"))) == ["三点一四"]


def test_a_name_that_was_cut_too_early_is_still_read_as_a_name() -> None:
    assert spoken(read("Please visit foo.", "com today!")) == ["Please visit foo.", "dot com today!"]
    assert spoken(read(Text("去看 foo 的 bar。", "zh"), Text("com", "zh"))) == ["去看 foo 的 bar。", "com"]


def test_a_whole_piece_is_read_as_it_is() -> None:
    found = read("Before", Text("Hello there. How are you? I am well.", whole=True), "After")
    assert spoken(found) == ["Before", "Hello there. How are you? I am well.", "After"]
    assert spoken(read(Text("\n```\ncode\n```\nDone.", whole=True))) == ["Done."]


def test_the_first_fragment_comes_before_the_stream_goes_on() -> None:
    asked = 0

    async def stream() -> AsyncIterator[Text]:
        nonlocal asked
        for token in ("Hello", " there", ".", " More"):
            asked += 1
            yield Text(token)

    async def first() -> Fragment:
        found = fragments(stream())
        try:
            return await anext(found)
        finally:
            await found.aclose()  # type: ignore[attr-defined]

    assert asyncio.run(first()).spoken == "Hello there."
    assert asked == 3


def test_limits_can_be_chosen() -> None:
    assert spoken(read("Yes, I can.", splitter=Splitter(first_units=1))) == ["Yes,", "I can."]


@given(
    st.lists(
        st.sampled_from(
            ["Hi. ", "你好。", "3.14", "😀", "\n```\n", "<think>", "</think>", "foo", ".", "com", "\n\n"]
        )
    )
)
def test_the_result_never_depends_on_how_the_stream_was_cut(tokens: list[str]) -> None:
    text = "".join(tokens)
    assert read(*tokens) == read(text) == read(*text)
    assert all(fragment.spoken for fragment in read(text))
