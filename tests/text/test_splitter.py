"""Where the stream is cut, and that it does not matter how it came."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from linly_pipeline.text import Splitter
from linly_pipeline.text.script import has_speech

ATOMS = [
    "3.14",
    "10:30",
    "v1.2.3",
    "8,848.86 meters (29,031.7 feet)",
    "98.6°F",
    "22,1 °C",
    "A100",
    "A1、A2、A3区",
    "4B",
    "10斤苹果5.5元",
    "1234567890",
    "J.K. Rowling",
    "Dr. Smith",
    "a@b.com",
    "https://a.b/c?d=1",
    "`code`",
    "`x. Y! z`",
    "**bold**",
    "**Be bold. Now!**",
    "[a link. Here](https://a.b)",
    "10 x 10",
    "No. 5",
    "Jan. 5",
    "e.g. this",
    "node.js",
    "main.py",
]
PIECES = [
    *ATOMS, "ab.", "Yes!", "Why?", "Hm…", "and,", "then;", "so:", "the", "—", "你好", "世界。", "真的吗？",
    "好！", "“", "”", '"', "(", ")", "。”", "😀", "é", "...", "……", "Mr.", "U.S.", "**", "`", "```", " ", "  ",
    "\n", "\n\n", "\n- ", "\n1. ", "\n# ", "\n| a | b |\n", "\n```\n",
]  # fmt: skip
MARKUP = st.lists(st.sampled_from(PIECES), max_size=40).map("".join)


def split(*pieces: str) -> list[str]:
    """All fragments of a stream of `pieces`."""
    splitter = Splitter()
    return [fragment for piece in pieces for fragment in splitter.feed(piece)] + splitter.flush()


@given(st.one_of(MARKUP, st.text()), st.data())
def test_the_result_never_depends_on_how_the_text_was_cut(text: str, data: st.DataObject) -> None:
    cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=12).map(sorted))
    pieces = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert split(*pieces) == split(text) == split(*text)


@given(st.one_of(MARKUP, st.text()))
def test_nothing_is_lost_or_added(text: str) -> None:
    assert "".join(split(text)) == text


@given(MARKUP)
def test_each_fragment_but_the_last_has_something_to_say(text: str) -> None:
    if "```" not in text:
        assert all(has_speech(fragment) for fragment in split(text)[:-1])


@pytest.mark.parametrize("atom", ATOMS)
@pytest.mark.parametrize(
    "around",
    [
        "{}",
        "{} is here. More follows.",
        "I have {} today. More follows.",
        "It is {}. More follows.",
        "Well, I think so. But it is {}, and more follows. Then the end.",
        "我有{}。然后，我们看看。还有{}吗？",
        "一二三四五六七八九十" * 9 + "{}" + "一二三四五六七八九十" * 2,
        "word and other " * 12 + "{} " + "word and other " * 12,
    ],
)
def test_what_belongs_together_is_never_split(atom: str, around: str) -> None:
    text = around.format(*[atom] * around.count("{}"))
    assert sum(fragment.count(atom) for fragment in split(text)) == text.count(atom), split(text)


@given(st.integers(0, 260), st.sampled_from(ATOMS), st.sampled_from(["word and other ", "天地玄黄宇宙洪荒"]))
def test_length_limits_do_not_split_what_belongs_together(position: int, atom: str, filler: str) -> None:
    before = (filler * 20)[:position]
    text = before + (" " if before[-1:].isascii() else "") + atom + " " + filler * 20
    assert any(atom in fragment for fragment in split(text))


@pytest.mark.parametrize(
    "sentence",
    [
        "Hello there.",
        "Paris is the capital of France.",
        "Yes, it is.",
        "Sure!",
        "Can you say that again?",
        "I really like this.",
        "你好！",
        "我是小明。",
        "真的吗？",
        "我想想…",
        "The price is $5!",
        "안녕하세요.",
    ],
)
def test_the_first_sentence_does_not_wait_for_what_comes_after(sentence: str) -> None:
    assert Splitter().feed(sentence) == [sentence]
    assert split(sentence, " And more.") == [sentence, " And more."]


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("I am happy to help, my friend. Bye", "I am happy to help,"),
        ("Here is the list: one and two", "Here is the list:"),
        ("Of course, I can do it, yes", "Of course, I can do it,"),
        ("It is big — really big", "It is big —"),
        ("好的，我来帮你看一下，请稍等", "好的，我来帮你看一下，"),
        ("当然可以啊，你说", "当然可以啊，"),
        ("In 2024, we met. Then", "In 2024, we met."),
        ("In May of 2024, we met", "In May of 2024,"),
    ],
)
def test_the_first_clause_leaves_early_once_it_is_worth_saying(text: str, first: str) -> None:
    assert split(text)[0] == first


@pytest.mark.parametrize(
    ("text", "fragments"),
    [
        (
            "One is here. Two, I think, is there. Three",
            ["One is here.", " Two, I think, is there.", " Three"],
        ),
        ("你好！我是小明。很高兴，真的。", ["你好！", "我是小明。", "很高兴，真的。"]),
        ('Hi! He said "Go!" and left. Ok', ["Hi!", ' He said "Go!" and left.', " Ok"]),
        ("好！他说：“走吧。”然后走了。", ["好！", "他说：“走吧。”", "然后走了。"]),
        ("Hi! Really?! Wow!!! Ok", ["Hi!", " Really?!", " Wow!!!", " Ok"]),
        ("Hi! Well... maybe. So... No", ["Hi!", " Well... maybe.", " So...", " No"]),
        ("Hi! The answer is no. But why", ["Hi!", " The answer is no.", " But why"]),
        ("Hi! At 5 p.m. we go. At 6 p.m. Bob goes", ["Hi!", " At 5 p.m. we go.", " At 6 p.m.", " Bob goes"]),
        ("Hi! It is 5. Then 6", ["Hi!", " It is 5.", " Then 6"]),
        ("Hi! See a.b/c?d=e! Ok", ["Hi!", " See a.b/c?d=e!", " Ok"]),
        ("# Title\n\nText\n- one\n- two\nEnd", ["# Title", "\n\nText", "\n- one", "\n- two", "\nEnd"]),
        ("Hi!\n1. One. Two\n2. Three", ["Hi!", "\n1. One.", " Two", "\n2. Three"]),
        ("Hi!\n1、苹果\n2、梨", ["Hi!", "\n1、苹果", "\n2、梨"]),
        ("A line\nthat goes on. End", ["A line\nthat goes on.", " End"]),
        ("| a | b |\n|---|---|\n| c | d |\nEnd", ["| a | b |", "\n|---|---|\n| c | d |", "\nEnd"]),
        ("Code\n```py\na. B! c\n\n# d\n```\nEnd", ["Code", "\n```py\na. B! c\n\n# d\n```", "\nEnd"]),
        ("Great! 😀 Next! 🎉", ["Great!", " 😀 Next!", " 🎉"]),
        ("no end mark", ["no end mark"]),
        ("Hi", ["Hi"]),
        ("", []),
    ],
)
def test_fragments(text: str, fragments: list[str]) -> None:
    assert split(text) == fragments


def test_a_common_name_is_waited_for_in_the_first_sentence() -> None:
    splitter = Splitter()
    assert splitter.feed("You can visit example.") == []
    assert splitter.feed("com now!") == ["You can visit example.com now!"]


@pytest.mark.parametrize(
    "text",
    ["这是一个没有标点的很长的句子" * 400, "many words without an end " * 200, "x" * 5000, "é" + "\u0301" * 5000,
     "`" + "code " * 1000, "**" + "bold " * 1000, "```\n" + "line\n" * 1000, " " * 5000, "😀" * 2500,
     "https://a.b/" + "c" * 5000, "A1、" * 1700, "[" * 5000],
)  # fmt: skip
def test_5000_characters_in_one_go_come_in_bounded_fragments(text: str) -> None:
    fragments = split(text)
    assert max(map(len, fragments)) <= 201
    assert "".join(fragments) == text


def test_long_text_is_cut_at_the_best_place() -> None:
    clauses = ("word " * 25).strip() + ", "
    assert all(fragment.endswith(",") for fragment in split("Hi! " + clauses * 6)[1:-1])
    assert all(fragment.endswith("，") for fragment in split("好！" + "天地玄黄宇宙洪荒，" * 40)[1:-1])


def test_an_accent_stays_with_its_letter_and_an_emoji_in_one_piece() -> None:
    family = "👨‍👩‍👧"
    for unit in (family, "e\u0301"):
        fragments = split("a" + unit * 300)
        assert len(fragments) > 1
        assert not any(fragment.startswith(("\u0301", "\u200d")) for fragment in fragments)


def test_limits_can_be_chosen() -> None:
    assert split("Yes, I can.") == ["Yes, I can."]
    eager = Splitter(first_units=1, max_width=20)
    assert eager.feed("Yes, I can.") == ["Yes,"]
    assert max(len(fragment) for fragment in eager.feed(" word" * 20)) <= 20


def test_a_flushed_splitter_starts_anew() -> None:
    splitter = Splitter()
    assert splitter.feed("```\ncode") == []
    assert splitter.flush() == ["```\ncode"]
    assert splitter.feed("Hello there.") == ["Hello there."]


def test_a_long_first_sentence_without_a_comma_is_cut_where_a_speaker_would_breathe() -> None:
    text = "A volcano is a mountain that erupts from the crust of the Earth through a process. It is hot."
    assert split(text) == [
        "A volcano is a mountain",
        " that erupts from the crust of the Earth through a process.",
        " It is hot.",
    ]


def test_only_the_first_sentence_is_cut_before_a_conjunction() -> None:
    text = "Hello. A volcano is a mountain that erupts from the crust of the Earth through a process. Yes."
    assert (
        split(text)[1]
        == " A volcano is a mountain that erupts from the crust of the Earth through a process."
    )


def test_a_conjunction_at_the_beginning_of_a_word_is_none() -> None:
    text = "The thatched roofs of the old houses in the village surprised her."
    assert split(text) == [text]
