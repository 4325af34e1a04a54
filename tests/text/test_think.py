"""Thoughts never reach the voice."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from linly_pipeline.text import ThinkFilter


def shown(*pieces: str, inside: bool = False) -> str:
    thoughts = ThinkFilter(inside=inside)
    return "".join([thoughts.feed(piece) for piece in pieces] + [thoughts.flush()])


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("<think>plan</think>Hello", "Hello"),
        ("<think>a</think>Hello <think>b</think>you", "Hello you"),
        ("Hello <think>never closed", "Hello "),
        ("<THINKING>a</Thinking>Hi", "Hi"),
        ("<think></think>Hi", "Hi"),
        ("<think>a < b <thi</think>Hi", "Hi"),
        ("Hello</think> you", "Hello you"),
        ("a <b>bold</b> < c <think", "a <b>bold</b> < c <think"),
        ("a <<think>x</think>b", "a <b"),
        ("write `<think>` and `</think>` so", "write `<think>` and `</think>` so"),
        ("", ""),
    ],
)
def test_only_the_answer_is_shown_however_it_is_cut(text: str, answer: str) -> None:
    assert shown(text) == answer
    assert shown(*text) == answer


def test_a_tag_over_token_boundaries() -> None:
    assert shown("<thi", "nk>plan</think>Hello") == "Hello"


def test_a_model_may_start_inside_its_thoughts() -> None:
    assert shown("plan</think>Hello", inside=True) == "Hello"


def test_text_that_cannot_be_a_tag_is_not_held_back() -> None:
    thoughts = ThinkFilter()
    assert thoughts.feed("a <b") == "a <b"
    assert thoughts.feed(" x <") == " x "
    assert thoughts.feed("3") == "<3"


@given(
    st.lists(st.sampled_from(["<", "think", ">", "</think>", "<think>", "/", "a", "`", "<thin", " "])),
    st.data(),
)
def test_the_answer_never_depends_on_how_the_stream_was_cut(tokens: list[str], data: st.DataObject) -> None:
    text = "".join(tokens)
    cut = data.draw(st.integers(0, len(text)))
    assert shown(text) == shown(*text) == shown(text[:cut], text[cut:])
