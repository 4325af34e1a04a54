"""The spoken form of a piece of text: what a reader would say aloud."""

from __future__ import annotations

import re
import unicodedata

from linly_pipeline.text.chinese import read_chinese
from linly_pipeline.text.english import read_english
from linly_pipeline.text.links import read_links
from linly_pipeline.text.markdown import plain
from linly_pipeline.text.script import HAN, WIDE, detect_language, has_other_letters, has_speech

# Full-width letters and figures, units in one character (℃, ㎏, ㎡) and circled figures read like plain ones.
_COMPATIBLE = re.compile(
    "[\uff10-\uff19\uff21-\uff3a\uff41-\uff5a\uff05\uff0b\uff1d\u3371-\u33df\u2100-\u2121\u2123-\u214f\u2460-\u2473]"
)
_SAME = {"<=": "≤", ">=": "≥", "!=": "≠", "==": "=", "->": "→", "=>": "→", "μ": "µ"}
_SAME |= {"’": "'", "‘": "'", "\xa0": " "}
_VARIANT = re.compile("|".join(re.escape(sign) for sign in _SAME))
_LOWERED = str.maketrans("₀₁₂₃₄₅₆₇₈₉", "0123456789", "⁺⁻₊₋")
_RAISED = re.compile("[⁰¹²³⁴⁵⁶⁷⁸⁹]{2,}|[⁰¹⁴⁵⁶⁷⁸⁹]")
_EMOTICON = re.compile(r"(?<!\S)[:;=]-?[)(DPp/|](?!\S)")
# Signs that are read ("20 °C", "→"); all others of these categories are pictures or invisible.
_READ = frozenset("°→±×÷√≈≠≤≥+<=>|~$€£¥￥₩₹¢^`")
_SILENT_CATEGORIES = frozenset(("So", "Sk", "Sc", "Cc", "Cf", "Cs", "Co", "Cn", "Me"))
# Where the language may change: at marks with a wide letter on one side. "J.K. Rowling" stays whole.
_CLAUSE_END = re.compile(rf"([。！？；，\n]+\s*|(?<=[{WIDE}])[.,!?;:]+\s*|[.,!?;:]+\s+(?=[{WIDE}]))")

_WIDE_LIST_NUMBER = re.compile(rf"(?<=^\d)[.)] (?=[{WIDE}])|(?<=^\d\d)[.)] (?=[{WIDE}])", re.MULTILINE)
_LATIN = re.compile("[A-Za-z]+")

_QUOTES = re.compile(r"[(（]\s*[)）]|[\"“”„«»「」『』《》〈〉`]|(?<!\w)'|'(?!\w)")
_BRACKET_AT_EDGE = re.compile(r"^[\s(（\[【{]+|[\s)）\]】}]+$")
_BRACKETS = re.compile(r"\s*[(（\[【{)）\]】}]\s*")
_DASHES = re.compile(r"\s*(?:[—–―]+|--+|(?<=\s)-(?=\s))\s*")
_DROPPED = re.compile(r"[*#\\|~<>_^]+")
_DOTS = re.compile(r"\.{2,}|…+|。{2,}")
_COMMA_BEFORE_MARK = re.compile(r"[\s,，、]+(?=[.;:!?。；：！？…,，])")
_COMMA_AFTER_MARK = re.compile(r"(?<=[.;:!?。；：！？…])\s*[,，]")
_REPEATED = re.compile(r"([!?！？])[!?！？]*(?=[!?！？])|([,，；：;:、])\s*(?=\2)")
_SPACE_BEFORE_MARK = re.compile(r"\s+(?=[.,;:!?。，、；：！？…])")
_LINE_END = re.compile(r"(\S)[ \t]*\n\s*")
_WIDE_COMMA = re.compile(rf"(?<=[{WIDE}]), ?|, ?(?=[{WIDE}])")
_FIGURES = "零一二三四五六七八九十百千万亿"
_WIDE_SPACE = re.compile(rf"(?<=[{_FIGURES}])\s+(?=[{HAN}])|(?<=[{HAN}])\s+(?=[{_FIGURES}])")
_LEAD = re.compile(r"^[\W_]+")


def speakable(text: str, language: str = "") -> str:
    """`text` as it is read aloud; "" where there is nothing to say.

    Markdown goes (a link is its text, fenced code is left out), addresses are read in short, emoji and
    quotation marks are dropped, brackets and dashes become commas. In English and Chinese, figures with their
    units, money, dates and times become words. Other languages keep their figures: their engines know better.

    Args:
        text: a fragment as written; see `Splitter`.
        language: ISO 639-1. "" lets the script of each clause decide, and English where only figures stand.
    """
    text = _fold(re.sub(r"[ \t]+", " ", plain(text)))
    if not has_speech(text):
        return ""
    whole = detect_language(text, language) or ("" if has_other_letters(text) else "en")
    text = _WIDE_LIST_NUMBER.sub("、", text)
    clauses = _CLAUSE_END.split(read_links(text, whole))
    spoken = _tidy("".join(_read(clause, _language_of(clause, language, whole)) for clause in clauses))
    return spoken if has_speech(spoken) else ""


def _fold(text: str) -> str:
    text = _COMPATIBLE.sub(lambda match: unicodedata.normalize("NFKC", match[0]), text)
    text = _RAISED.sub(lambda match: "^" + unicodedata.normalize("NFKC", match[0]), text.translate(_LOWERED))
    text = _EMOTICON.sub("", _VARIANT.sub(lambda match: _SAME[match[0]], text))
    return "".join(char for char in text if char in "\n\t" or char in _READ or not _is_silent(char))


def _is_silent(char: str) -> bool:
    return unicodedata.category(char) in _SILENT_CATEGORIES or "\ufe00" <= char <= "\ufe0f"


def _language_of(clause: str, given: str, whole: str) -> str:
    """A name in Latin letters does not turn a clause of a Chinese text into English; three words do."""
    if whole == "zh" and len(_LATIN.findall(clause)) < 3:
        return whole
    return detect_language(clause, given) or whole


def _read(clause: str, language: str) -> str:
    if language == "en":
        return read_english(clause)
    if language == "zh":
        return read_chinese(clause)
    return clause


def _tidy(text: str) -> str:
    """Only punctuation that a voice can make heard, once, without gaps."""
    text = _BRACKET_AT_EDGE.sub("", _QUOTES.sub("", text))
    text = _DROPPED.sub(" ", _DASHES.sub(", ", _BRACKETS.sub(", ", text)))
    text = _LINE_END.sub(_end_line, text.strip())
    text = _DOTS.sub("…", text)
    text = _COMMA_AFTER_MARK.sub("", _COMMA_BEFORE_MARK.sub("", text))
    text = _SPACE_BEFORE_MARK.sub("", _REPEATED.sub("", text))
    text = _WIDE_SPACE.sub("", _WIDE_COMMA.sub("，", text))
    return _LEAD.sub("", re.sub(r"\s+", " ", text)).strip()


def _end_line(match: re.Match[str]) -> str:
    """Lines of a list or a table are sentences of their own."""
    last = match[1]
    if last in ".!?。！？…,，;；:：、":
        return last + " "
    return last + ("。" if re.match(f"[{WIDE}]", last) else ". ")
