"""Which script a piece of text is written in, and from that which language its numbers are read in."""

from __future__ import annotations

import re
import unicodedata

# Han, Hiragana and Katakana, Hangul: the blocks in everyday use, with the Han extension that names need.
HAN = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002fa1f"
_KANA = "\u3041-\u30ff\u31f0-\u31ff"
_HANGUL = "\u1100-\u11ff\u3131-\u318e\uac00-\ud7a3"
WIDE = HAN + _KANA + _HANGUL

_HAN = re.compile(f"[{HAN}]")
_KANA_CHAR = re.compile(f"[{_KANA}]")
_HANGUL_CHAR = re.compile(f"[{_HANGUL}]")
_WIDE_CHAR = re.compile(f"[{WIDE}]")
_CJK_PUNCTUATION = re.compile("[。，、；：！？「」『』《》【】（）]")
# A single letter ("A100", "4B") is part of a name and says nothing of the language.
_LATIN_WORD = re.compile(r"[A-Za-z\u00c0-\u024f]{2,}")


def is_wide(char: str) -> bool:
    """True for Han, kana and Hangul, which are as wide as they are high and need no spaces between words."""
    return _WIDE_CHAR.match(char) is not None


def count_wide(text: str) -> int:
    return len(_WIDE_CHAR.findall(text))


def has_speech(text: str) -> bool:
    """True if there is anything to say: a letter or a digit of any script."""
    return any(char.isalnum() for char in text)


def detect_language(text: str, default: str = "") -> str:
    """The language of `text` as its script tells it: "zh", "ja", "ko", "en", or `default`.

    A Latin word stands against one Han character, so "我用 PyTorch 训练" is Chinese and "The Tao (道) is" is
    English. `default` wins over "en" for Latin text: the script cannot tell German from English.
    """
    if _KANA_CHAR.search(text):
        return "ja"
    if _HANGUL_CHAR.search(text):
        return "ko"
    han, latin = len(_HAN.findall(text)), len(_LATIN_WORD.findall(text))
    if han and han >= latin:
        return "zh"
    if latin:
        return default if default and default not in ("zh", "ja", "ko") else "en"
    if has_other_letters(text):
        return default
    return default or ("zh" if _CJK_PUNCTUATION.search(text) else "")


def has_other_letters(text: str) -> bool:
    """True if there are letters of a script that is not Latin."""
    return any(char.isalpha() and not unicodedata.name(char, "").startswith("LATIN") for char in text)
