"""English: figures, units, money, times, dates and abbreviations in words, American style."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from linly_pipeline.text.numbers import NUMBER, cardinal, digits, ordinal, value, year

_Rule = tuple[re.Pattern[str], Callable[[re.Match[str]], str]]

ABBREVIATIONS = {
    "Mr.": "Mister", "Mrs.": "Missus", "Ms.": "Miz", "Dr.": "Doctor", "Prof.": "Professor", "Jr.": "Junior",
    "Sr.": "Senior", "Gen.": "General", "Gov.": "Governor", "Sen.": "Senator", "Rep.": "Representative",
    "Capt.": "Captain", "Lt.": "Lieutenant", "Col.": "Colonel", "Sgt.": "Sergeant", "Rev.": "Reverend",
    "Hon.": "Honorable", "Mt.": "Mount", "vs.": "versus", "etc.": "et cetera", "e.g.": "for example",
    "i.e.": "that is", "approx.": "approximately", "No.": "Number", "no.": "number", "Nos.": "Numbers",
    "Fig.": "Figure", "fig.": "figure", "Vol.": "Volume", "vol.": "volume", "Ch.": "Chapter",
    "Sec.": "Section", "p.": "page", "pp.": "pages", "Inc.": "Incorporated", "Ltd.": "Limited", "Corp.": "Corporation",
    "Co.": "Company", "Dept.": "Department", "Ave.": "Avenue", "Blvd.": "Boulevard", "Rd.": "Road",
    "a.m.": "AM", "p.m.": "PM", "Ph.D.": "PhD", "w/o": "without", "w/": "with",
}  # fmt: skip
_BEFORE_NUMBER_ONLY = {"No.", "no.", "Nos.", "Fig.", "fig.", "Vol.", "vol.", "Ch.", "Sec.", "p.", "pp."}

_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October",
    "November", "December",
)  # fmt: skip
_UNITS = {
    "km": "kilometer", "m": "meter", "cm": "centimeter", "mm": "millimeter", "nm": "nanometer",
    "µm": "micrometer", "mi": "mile", "ft": "foot/feet", "yd": "yard", "kg": "kilogram", "g": "gram",
    "mg": "milligram", "µg": "microgram", "lb": "pound", "lbs": "pound", "oz": "ounce", "L": "liter",
    "l": "liter", "ml": "milliliter", "mL": "milliliter", "km/h": "kilometer per hour/kilometers per hour",
    "m/s": "meter per second/meters per second", "mph": "mile per hour/miles per hour",
    "km²": "square kilometer", "m²": "square meter", "m³": "cubic meter", "cm²": "square centimeter",
    "cm³": "cubic centimeter", "Hz": "hertz/hertz", "kHz": "kilohertz/kilohertz",
    "MHz": "megahertz/megahertz", "GHz": "gigahertz/gigahertz", "KB": "kilobyte", "kB": "kilobyte",
    "MB": "megabyte", "GB": "gigabyte", "TB": "terabyte",
    "MB/s": "megabyte per second/megabytes per second", "GB/s": "gigabyte per second/gigabytes per second",
    "Mbps": "megabit per second/megabits per second", "Gbps": "gigabit per second/gigabits per second",
    "hr": "hour", "hrs": "hour", "h": "hour", "min": "minute", "mins": "minute", "s": "second",
    "sec": "second", "secs": "second", "ms": "millisecond", "W": "watt", "kW": "kilowatt", "MW": "megawatt",
    "kWh": "kilowatt hour", "V": "volt", "mAh": "milliamp hour",
    "fps": "frame per second/frames per second", "dB": "decibel", "kcal": "kilocalorie",
    "%": "percent/percent", "°C": "degree Celsius/degrees Celsius",
    "°F": "degree Fahrenheit/degrees Fahrenheit", "°": "degree", "k": "thousand/thousand", "¢": "cent",
}  # fmt: skip
_MONEY = {
    "$": ("dollar", "dollars", "cent/cents"), "US$": ("dollar", "dollars", "cent/cents"),
    "€": ("euro", "euros", "cent/cents"), "£": ("pound", "pounds", "penny/pence"), "¥": ("yen", "yen", ""),
    "₹": ("rupee", "rupees", ""), "₩": ("won", "won", ""), "USD": ("dollar", "dollars", "cent/cents"),
    "EUR": ("euro", "euros", "cent/cents"), "GBP": ("pound", "pounds", "penny/pence"),
    "RMB": ("yuan", "yuan", ""), "CNY": ("yuan", "yuan", ""),
}  # fmt: skip
_LARGE = {"k": "thousand", "m": "million", "bn": "billion", "b": "billion"}
_FRACTIONS = {2: "half", 4: "quarter"}
# Longer figures without separators are numbers of phones, orders or accounts, unless they are round.
_LONGEST_AMOUNT = 9

_SYMBOLS = {
    "&": "and", "+": "plus", "=": "equals", "×": "times", "÷": "divided by", "±": "plus or minus",
    "≈": "about", "≥": "at least", "≤": "at most", "≠": "is not", "→": "to", "%": "percent", "§": "section",
    "@": "at", "°": "degrees", "√": "root of", "²": "squared", "³": "cubed", "½": "one half",
    "¼": "one quarter", "¾": "three quarters", "$": "dollars", "€": "euros", "£": "pounds",
}  # fmt: skip


def read_english(text: str) -> str:
    """`text` with everything that is not a word spelt out; plain words and punctuation stay as they are."""
    for pattern, reading in _RULES:
        text = pattern.sub(reading, text)
    return text


def _either(words: Iterable[str]) -> str:
    return "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))


def _abbreviation(match: re.Match[str]) -> str:
    at_end = match.end() == len(match.string) and match[0].endswith(".")
    return ABBREVIATIONS[match[0]] + ("." if at_end else "")


def _initials(match: re.Match[str]) -> str:
    letters = " ".join(match[0].replace(".", ""))
    return letters + ("." if match.end() == len(match.string) else "")


def _date(year_number: str, month: str, day: str) -> str | None:
    if not (1 <= int(month) <= 12 and 1 <= int(day) <= 31):
        return None
    return f"{_MONTHS[int(month) - 1]} {ordinal(int(day))}, {year(int(year_number))}"


def _iso_date(match: re.Match[str]) -> str:
    return _date(*match.group(1, 2, 3)) or match[0]


def _us_date(match: re.Match[str]) -> str:
    month, day, year_number = match.group(1, 2, 3)
    return _date(year_number, month, day) or _date(year_number, day, month) or match[0]


def _month_day(match: re.Match[str]) -> str:
    month = next(name for name in _MONTHS if name.startswith(match[1][:3]))
    return f"{month} {ordinal(int(match[2]))}"


def _time(match: re.Match[str]) -> str:
    hour, minute, second, half = int(match[1]), int(match[2]), match[3], match[4]
    if hour > 24 or minute > 59 or int(second or 0) > 59:
        return match[0]
    words = cardinal(str(hour))
    if minute:
        words += (" oh " if minute < 10 else " ") + cardinal(str(minute))
    elif not half and not second:
        words += " o'clock"
    if second:
        words += f" and {_amount(second.lstrip('0') or '0', 'second')}"
    return words + (f" {half[0].upper()}M" if half else "")


def _money(match: re.Match[str]) -> str:
    number = match["number"] or match["amount"]
    one, many, part = _MONEY[match["symbol"] or match["code"]]
    amount = value(number)
    if large := match["large"]:
        large = _LARGE.get(large.strip().lower(), large.strip())
        return f"{cardinal(amount)} {large} {many}"
    whole, _, decimals = amount.partition(".")
    if len(decimals) != 2 or not part:
        return _amount(number, f"{one}/{many}")
    coins, notes = _amount(str(int(decimals)), part), _amount(whole, f"{one}/{many}")
    if int(decimals) == 0:
        return notes
    return coins if int(whole) == 0 else f"{notes} and {coins}"


def _amount(number: str, unit: str) -> str:
    """5 and "gram" → "five grams"; a unit with its own plural comes as "foot/feet"."""
    one, _, many = unit.partition("/")
    amount = value(number)
    return f"{cardinal(amount)} {one if amount == '1' else many or one + 's'}"


def _unit(match: re.Match[str]) -> str:
    return _amount(match[1], _UNITS[match[2].replace(" ", "")])


def _fraction(match: re.Match[str]) -> str:
    top, bottom = int(match[1]), int(match[2])
    if top <= bottom and bottom in (10, 100):
        return f"{cardinal(match[1])} out of {cardinal(match[2])}"
    if not (0 < top < bottom and (bottom < 10 or bottom in (12, 16, 32, 64))):
        return f"{cardinal(match[1])} {cardinal(match[2])}"  # "24/7", "50/50"
    name = _FRACTIONS.get(bottom, ordinal(bottom))
    plural = "halves" if name == "half" else name + "s"
    return f"{cardinal(match[1])} {name if top == 1 else plural}"


def _decade(match: re.Match[str]) -> str:
    number = match[1] or match[2]
    words = year(int(number)) if len(number) == 4 else cardinal(number)
    return words[:-1] + "ies" if words.endswith("y") else words + "s"


def _code(match: re.Match[str]) -> str:
    """A letter with a number: "A100" is "A-one hundred" (without the hyphen it reads as the article)."""
    return match[1] + ("-" if len(match[1]) == 1 and match[1].isupper() else " ")


def _version(match: re.Match[str]) -> str:
    words = " point ".join(cardinal(part) for part in match[0].lstrip("vV").split("."))
    return ("version " if match[0][0] in "vV" else "") + words


def _phone(match: re.Match[str]) -> str:
    groups = re.split(r"\D+", match[0].strip("+"))
    return ("plus " if match[0].startswith("+") else "") + ", ".join(digits(group) for group in groups)


def _number(match: re.Match[str]) -> str:
    number = value(match[0])
    if match[0].isdecimal():
        if len(number) > _LONGEST_AMOUNT and not number.endswith("000"):
            return digits(number)
        if len(number) == 4 and 1100 <= int(number) < 2100:
            return year(int(number))
    return cardinal(number)


def _symbol(match: re.Match[str]) -> str:
    return f" {_SYMBOLS[match[0]]} "


def _always(words: str) -> Callable[[re.Match[str]], str]:
    return lambda match: match.expand(words)


_MONTH = _either(_MONTHS) + r"|(?:Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec)\.?"
_FREE = _either(set(ABBREVIATIONS) - _BEFORE_NUMBER_ONLY)
_NUMBERED = _either(_BEFORE_NUMBER_ONLY)
_UNIT = _either(_UNITS)
_CODES = "USD|EUR|GBP|RMB|CNY"
_LARGE_WORD = r"\s?(?:hundred|thousand|million|billion|trillion|bn\b|[kKmMbB]\b)"

# In this order: what is longer or more special comes before its parts.
_RULES: tuple[_Rule, ...] = tuple(
    (re.compile(pattern), reading)
    for pattern, reading in (
        (rf"(?<![\w.])(?:{_FREE}|(?:{_NUMBERED})(?=\s?\d))(?!\w)", _abbreviation),
        (r"\bSt\. (?=[A-Z])", _always("Saint ")),
        (r"\bSt\.", _always("Street")),
        (r"/(?=(?:year|month|week|day|night|hour|minute|second|person|kg|lb)\b)", _always(" per ")),
        (r"(?<![\w.])(?:[A-Z]\.){2,}(?!\w)|(?<![\w.])[A-Z]\.(?= [A-Z])", _initials),
        (r"\bC#(?!\w)", _always("C sharp")),
        (r"(?<![\w-])(\d{4})-(\d{2})-(\d{2})(?![\w-])", _iso_date),
        (r"(?<![\w/])(\d{1,2})/(\d{1,2})/(\d{4})(?![\w/])", _us_date),
        (rf"\b({_MONTH}) (\d{{1,2}})(?:st|nd|rd|th)?(?![\w:%]|[.,]\d)", _month_day),
        (r"(?<![\w:.])(\d{1,2}):(\d{2})(?::(\d{2}))?(?:\s?([AaPp])[Mm]\b)?(?![\w:])", _time),
        (r"(?<![\w.-])(?:\+?\d{1,6}(?:-\d{1,6}){2,}|\d{3}-\d{4}|\+\d{7,})(?![\w-])", _phone),
        (rf"(?<![A-Za-z\d.,])({NUMBER})(?:\s?(?:%|°[CF]?))?\s?[-–~]\s?(?=[$€£]?-?\d)", _always(r"\1 to ")),
        (r"(?<=\w)\s?–\s?(?=[$€£]?\d)", _always(" to ")),
        (r"(?<![\w.)])[-−](?=[$€£¥]?\d)", _always("minus ")),
        (r"~\s?(?=[$€£¥]?\d)", _always("about ")),
        (r"#(?=\d)", _always("number ")),
        (
            rf"(?:(?P<symbol>US\$|[$€£¥₹₩])\s?(?P<number>{NUMBER})(?P<large>{_LARGE_WORD})?"
            rf"|(?P<amount>{NUMBER})\s?(?P<code>[€£]|(?:{_CODES})\b))",
            _money,
        ),
        (rf"(?<=\d)\s?[x×]\s?(?={NUMBER}\s?=)", _always(" times ")),
        (r"(?<=\d)\s?[x×]\s?(?=\d)", _always(" by ")),
        (r"(?<=[\w)]) ?\* ?(?=[\w(])", _always(" times ")),
        (r"(?<=\w) - (?=\d+ ?=)", _always(" minus ")),
        (r"\b(1\d\d0|20\d0)'?s\b|(?<=the )\b([2-9]0)'?s\b", _decade),
        (rf"(?<![\w.,])({NUMBER})[ -]?({_UNIT})(?!\w|²|³)", _unit),
        (r"(?<![\w.])\d+(?:\.\d+){2,}(?!\w)|\b[vV]\d+(?:\.\d+)*(?!\w)", _version),
        (r"(?<![\w/.])(\d{1,2})/(\d{1,3})(?![\w/])", _fraction),
        (r"(?<!\d)(\d{1,3}):(?=\d{1,3}(?!\d))", _always(r"\1 to ")),
        (r"(?<=\d):(?=\d)", _always(" ")),
        (r"(?<=\d)'(?=\d)", _always(" foot ")),
        (r"(?<!\w)(\d+)(?:st|nd|rd|th)\b", lambda m: ordinal(int(m[1]))),
        (r"\b([A-Za-z]+)-?(?=\d)", _code),
        (r"(?<=[A-Za-z])\.(?=\d)", _always(" ")),
        (r"(?<!\w)\.(?=\d)", _always("point ")),
        (r"(?<=\d)-?(?=[A-Za-z])", _always(" ")),
        (r"(?<=[A-Za-z])(?=\d)", _always(" ")),
        (NUMBER, _number),
        (r"(?<=\d)(?=[A-Za-z])", _always(" ")),
        (r"(?<=[\w)])\s?<\s?(?=[\w$(])", _always(" less than ")),
        (r"(?<=[\w)])\s?>\s?(?=[\w$(])", _always(" greater than ")),
        (r"(?<=\w)\^(?=[\w(])", _always(" to the power of ")),
        (rf"[{re.escape(''.join(_SYMBOLS))}]", _symbol),
        (r"(?<=\w)[/_](?=\w)", _always(" ")),
    )
)
