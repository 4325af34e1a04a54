"""Numbers as words, in English (American) and Mandarin Chinese.

Own code for want of a better: the Python packages for it bring native grammars of 46 MB (wetext), a copyleft
licence (num2words) or one of the two languages only (cn2an, inflect), and plain cardinals are short.
"""

from __future__ import annotations

import re

# A number as people write it: "8,848.86", "1234", "3.14", and "22,1" with the comma for decimals.
NUMBER = r"(?:\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+,\d{1,2}(?![\d,])|\d+(?:\.\d+)?)"

_ONES = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
)  # fmt: skip
_TENS = ("", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_SCALES = ("", " thousand", " million", " billion", " trillion", " quadrillion")
_ORDINALS = {
    "one": "first",
    "two": "second",
    "three": "third",
    "five": "fifth",
    "eight": "eighth",
    "nine": "ninth",
    "twelve": "twelfth",
}

_HAN_DIGITS = "零一二三四五六七八九"
_HAN_SCALES = ((100_000_000, "亿"), (10_000, "万"), (1000, "千"), (100, "百"), (10, "十"))

# Beyond these nobody says the number as a whole; its digits are read one by one.
_MOST_DIGITS = {"en": 18, "zh": 16}


def value(number: str) -> str:
    """`NUMBER` in plain notation: "8,848.86" → "8848.86", "22,1" → "22.1"."""
    if re.fullmatch(r"\d+,\d{1,2}", number):
        return number.replace(",", ".")
    return number.replace(",", "")


def digits(number: str, language: str = "en") -> str:
    """The digits one by one: "305" → "three zero five" or "三零五"; anything else is left out."""
    figures = [int(char) for char in number if char.isdecimal()]
    if language == "zh":
        return "".join(_HAN_DIGITS[figure] for figure in figures)
    return " ".join(_ONES[figure] for figure in figures)


def cardinal(number: str, language: str = "en") -> str:
    """A number in plain notation ("12", "-0.5") in words; a leading zero or too many digits: one by one."""
    sign = {"en": "minus ", "zh": "负"}[language] if number.startswith("-") else ""
    whole, _, decimals = number.lstrip("-").partition(".")
    if len(whole) > _MOST_DIGITS[language] or (len(whole) > 1 and whole.startswith("0")):
        words = digits(whole, language)
    else:
        words = _english(int(whole)) if language == "en" else _chinese(int(whole))
    if decimals:
        point = {"en": " point ", "zh": "点"}[language]
        words += point + digits(decimals, language)
    return sign + words


def ordinal(number: int) -> str:
    """English: 21 → "twenty-first"."""
    words = _english(number)
    start = max(words.rfind(" "), words.rfind("-")) + 1
    last = words[start:]
    if last in _ORDINALS:
        last = _ORDINALS[last]
    elif last.endswith("y"):
        last = last[:-1] + "ieth"
    else:
        last += "th"
    return words[:start] + last


def year(number: int) -> str:
    """English: 1987 → "nineteen eighty-seven", 1905 → "nineteen oh five", 2007 → "two thousand seven"."""
    century, rest = divmod(number, 100)
    if number % 1000 < 10 or not 1000 <= number <= 9999:
        return _english(number)
    if rest == 0:
        return _english(century) + " hundred"
    return _english(century) + (" oh " if rest < 10 else " ") + _english(rest)


def _english(number: int) -> str:
    if number < 1000:
        return _english_hundreds(number)
    groups: list[str] = []
    for scale in _SCALES:
        number, group = divmod(number, 1000)
        if group:
            groups.append(_english_hundreds(group) + scale)
        if not number:
            break
    return " ".join(reversed(groups))


def _english_hundreds(number: int) -> str:
    if number < 20:
        return _ONES[number]
    if number < 100:
        tens, ones = divmod(number, 10)
        return _TENS[tens] + (f"-{_ONES[ones]}" if ones else "")
    hundreds, rest = divmod(number, 100)
    return f"{_ONES[hundreds]} hundred" + (f" {_english_hundreds(rest)}" if rest else "")


def _chinese(number: int) -> str:
    if number == 0:
        return "零"
    # 两千, 两万, 两亿, but 二十万 and 十二万.
    words = re.sub("(^|[万亿])二(?=[千万亿])", r"\1两", _chinese_above_zero(number))
    # 10 to 19 drop the one at the very start: 十二, but 一百一十二.
    return words[1:] if words.startswith("一十") else words


def _chinese_above_zero(number: int) -> str:
    for value, name in _HAN_SCALES:
        if number >= value:
            high, low = divmod(number, value)
            words = _chinese_above_zero(high) + name
            if not low:
                return words
            # One 零 stands for all the places that are skipped.
            return words + ("零" if low < value // 10 else "") + _chinese_above_zero(low)
    return _HAN_DIGITS[number]
