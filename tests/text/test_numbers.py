"""Numbers in words, checked by reading the words back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from linly_pipeline.text.numbers import cardinal, digits, ordinal, value, year

SMALL = [
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
]  # fmt: skip
TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
SCALES = {"thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12, "quadrillion": 10**15}


def number_of_english(words: str) -> int:
    total = group = 0
    for word in words.replace("-", " ").split():
        if word in SMALL:
            group += SMALL.index(word)
        elif word in TENS:
            group += 10 * (TENS.index(word) + 2)
        elif word == "hundred":
            group *= 100
        else:
            total, group = total + group * SCALES[word], 0
    return total + group


def number_of_chinese(words: str) -> int:
    words = words.replace("两", "二")
    for char, scale in (("亿", 10**8), ("万", 10**4), ("千", 1000), ("百", 100), ("十", 10)):
        high, found, low = words.rpartition(char) if scale > 10**4 else words.partition(char)
        if found:
            return (number_of_chinese(high) if high else 1) * scale + number_of_chinese(low)
    return int("0" + "".join(str("零一二三四五六七八九".index(char)) for char in words))


@given(st.integers(0, 10**18 - 1))
def test_english_words_mean_the_number(number: int) -> None:
    assert number_of_english(cardinal(str(number))) == number


@given(st.integers(0, 10**16 - 1))
def test_chinese_words_mean_the_number(number: int) -> None:
    assert number_of_chinese(cardinal(str(number), "zh")) == number


@given(st.integers(0, 10**16 - 1))
def test_chinese_has_no_zero_twice_in_a_row_nor_at_the_end(number: int) -> None:
    words = cardinal(str(number), "zh")
    assert "零零" not in words
    assert words == "零" or not words.endswith("零")


@pytest.mark.parametrize(
    ("number", "words"),
    [("10", "十"), ("12", "十二"), ("112", "一百一十二"), ("1001", "一千零一"), ("10010", "一万零一十"),
     ("100000000", "一亿"), ("1000000001", "十亿零一"), ("-0.50", "负零点五零"), ("1100", "一千一百"),
     ("22022", "两万两千零二十二"), ("220000", "二十二万")],
)  # fmt: skip
def test_chinese_as_a_speaker_says_it(number: str, words: str) -> None:
    assert cardinal(number, "zh") == words


@pytest.mark.parametrize(
    ("number", "words"),
    [("0", "zero"), ("21", "twenty-one"), ("100", "one hundred"), ("-1.05", "minus one point zero five"),
     ("007", "zero zero seven"), ("1" * 19, " ".join(["one"] * 19))],
)  # fmt: skip
def test_english_as_a_speaker_says_it(number: str, words: str) -> None:
    assert cardinal(number) == words


@pytest.mark.parametrize(
    ("number", "words"),
    [(1, "first"), (12, "twelfth"), (20, "twentieth"), (21, "twenty-first"), (103, "one hundred third")],
)
def test_ordinals(number: int, words: str) -> None:
    assert ordinal(number) == words


@pytest.mark.parametrize(
    ("number", "words"),
    [(1066, "ten sixty-six"), (1900, "nineteen hundred"), (1905, "nineteen oh five"), (2000, "two thousand"),
     (2009, "two thousand nine"), (2010, "twenty ten"), (476, "four hundred seventy-six")],
)  # fmt: skip
def test_years(number: int, words: str) -> None:
    assert year(number) == words


def test_digits_and_values() -> None:
    assert digits("3-05") == "three zero five"
    assert digits("305", "zh") == "三零五"
    assert [value(text) for text in ("8,848.86", "22,1", "1,234", "7")] == ["8848.86", "22.1", "1234", "7"]
