"""Ends of sentences, clauses and blocks, seen from the newest character of a growing text.

Every function looks at the text so far, whose last character is the newest, and returns the length of the
fragment that is complete by it, or 0. None knows what comes next.
"""

from __future__ import annotations

import re
import unicodedata

from linly_pipeline.text.abbreviations import BEFORE_NAMES, BEFORE_NUMBERS, MAYBE_AT_END, NAMES_WITH_DOT
from linly_pipeline.text.script import WIDE, is_wide

WIDE_MARKS = "。！？"
MARKS = ".!?…" + WIDE_MARKS
CLOSERS = "\"'”’」』》）)]】*_`~"
_QUOTES = "\"'”’"
_WIDE_OPENERS = "“「『《（【"

_ENDING = re.compile(rf"([{MARKS}]+)([{re.escape(CLOSERS)}]*)$")
_LETTER = rf"[^\W\d_{WIDE}]"
_LAST_WORD = re.compile(rf"(?:^|(?<=[\s\"'“‘(*_—{WIDE}-])){_LETTER}+(?:['’]{_LETTER}+)?$")
_LAST_TOKEN = re.compile(rf"[^\s\"“”'()（），。！？{WIDE}]+$")
_ADDRESS = re.compile(r"[/@\\=&#<>{}|^+_]|www\.|\.\w", re.IGNORECASE)
_INITIALS = re.compile(rf"(?:{_LETTER}\.)*[A-Z]")
_LIST_NUMBER = re.compile(r"(?:^|\n)[ \t]*\d{1,3}$")

_BLOCK_LINE = re.compile(r"[ \t]*(?:(?:#{1,6}|[-*+•]|\d{1,3}[.)])[ \t]|\||\d{1,2}、)")
_BLOCK_START = re.compile(
    r"\n[ \t]*(?:(?:#{1,6}|[-*+•>]|\d{1,3}[.)])[ \t]|(?:\d{1,2}|[一二三四五六七八九十]{1,3})、|\||```|~~~)$"
)
_LONGEST_MARKER = 24

# Whole words, so only once the space behind has come.
_CONJUNCTION = re.compile(
    r" (?=(?:that|which|who|because|although|when|while|where|whether|if|but|and|or|so|as|than|since|until) )"
)


def block_end(text: str) -> int:
    """At a blank line, at the end of a heading, list item or table row, and before the next of these."""
    if text[-1] != "\n":
        start = _BLOCK_START.search(text[-_LONGEST_MARKER:])
        return len(text[: start.start() - min(len(text), _LONGEST_MARKER)].rstrip()) if start else 0
    before = text[:-1]
    line = before.rpartition("\n")[2]
    if not line.strip() or _BLOCK_LINE.match(line):
        return len(before.rstrip())
    return 0


def immediate_end(text: str) -> int:
    """The end of a sentence that does not wait for the next character; for the first fragment."""
    before, mark = text[:-1], text[-1]
    if mark not in MARKS or not before or _in_brackets_or_quotes(before):
        return 0
    if mark in WIDE_MARKS or is_wide(before[-1]):
        return len(text)
    if mark in "!?":
        return len(text) if before[-1].isalnum() and not _in_address(before) else 0
    return len(text) if mark == "." and _is_everyday_end(before) else 0


def clause_end(text: str) -> int:
    """The end of a clause; for the first fragment. A comma behind a figure waits for the space after it."""
    last, before = text[-1], text[:-1]
    if not before or _in_brackets(before):
        return 0
    if last.isspace():
        return len(before) if before[-1] in ",;:" else 0
    letter_before = before[-1].isalpha() or before[-1] in CLOSERS
    if last in ",;":
        return len(text) if letter_before and not _in_address(before) else 0
    if last in "，；：":
        return len(text) if letter_before or last != "：" else 0
    return len(text) if last == "—" or (last == "–" and before[-1].isspace()) else 0


def confirmed_end(text: str) -> int:
    """The end of a sentence that the newest character confirms; the fragment ends before it and its space."""
    newest, before = text[-1], text[:-1]
    body = before.rstrip()
    if not body or (body[-1] not in MARKS and body[-1] not in CLOSERS):
        return 0
    ending = _ENDING.search(body)
    spaced = len(body) < len(before)
    if not ending or (not spaced and _goes_on(text)):
        return 0
    return len(body) if _confirms(newest, spaced, body[: ending.start()], ending[1], ending[2]) else 0


def is_protected(text: str) -> bool:
    """True if `text` ends within inline code, bold text or a link."""
    if text.count("`") % 2 or text.count("**") % 2:
        return True
    link, address = text.rfind("["), text.rfind("](")
    return text.find("]", link) < link or (address >= 0 and text.find(")", address) < 0)


def _goes_on(text: str) -> bool:
    """True if the newest character is one more mark or closing quotation mark."""
    newest = text[-1]
    if newest == '"':
        return text.count('"') % 2 == 0
    return newest in MARKS or newest in CLOSERS


def _confirms(newest: str, spaced: bool, body: str, marks: str, closers: str) -> bool:
    """Does `newest` prove that `body` + `marks` + `closers` is a sentence?"""
    if marks[-1] in WIDE_MARKS or (marks[-1] == "…" and is_wide(body[-1:])):
        return True
    quoted = any(char in _QUOTES for char in closers)
    if newest.isspace():
        return not quoted and (marks[-1] in "!?" or (marks == "." and _is_plain_end(body)))
    if spaced:
        return _starts_sentence(newest) and (quoted or not _may_be_abbreviation(body, marks, newest))
    if marks[-1] in "!?" and newest.isupper():
        return not _in_address(body)
    joined = is_wide(newest) or newest in _WIDE_OPENERS or unicodedata.category(newest) == "So"
    return joined and not (marks == "." and body[-1:].isdigit())


def _starts_sentence(char: str) -> bool:
    return not char.islower() and char not in ",;:)]}，；：、" and char not in MARKS


def _may_be_abbreviation(body: str, marks: str, newest: str) -> bool:
    """True for "Dr" before a name, "No" before a number, "J" and "J.K" before anything, and list numbers."""
    if marks != ".":
        return False
    if _LIST_NUMBER.search(body):
        return True
    token = _token(body)
    if _INITIALS.fullmatch(token):
        return True
    word = token.casefold()
    return word in BEFORE_NAMES or (word in BEFORE_NUMBERS and newest.isdigit())


def _is_plain_end(body: str) -> bool:
    """True if a full stop and a space after `body` leave no doubt: a word, and no abbreviation."""
    if is_wide(body[-1:]):
        return True
    word = _LAST_WORD.search(body)
    if not word or len(word[0]) < 2:
        return False
    return word[0].casefold() not in BEFORE_NAMES | BEFORE_NUMBERS | MAYBE_AT_END


def _is_everyday_end(body: str) -> bool:
    """True if a full stop after `body` ends a sentence as far as one can tell without what follows."""
    if is_wide(body[-1:]):
        return True
    word = _LAST_WORD.search(body)
    if not word or not _is_plain_end(body) or not body[: word.start()].strip():
        return False
    if body[word.start() - 1] == "-" or word[0].casefold() in NAMES_WITH_DOT:
        return False
    return word[0].islower() or (word[0].istitle() and len(word[0]) > 3)


def _token(body: str) -> str:
    token = _LAST_TOKEN.search(body)
    return token[0] if token else ""


def _in_address(body: str) -> bool:
    return _ADDRESS.search(_token(body)) is not None


def _in_brackets(text: str) -> bool:
    return any(text.count(opening) > text.count(closing) for opening, closing in ("()", "（）", "[]", "【】"))


def _in_brackets_or_quotes(text: str) -> bool:
    return (
        _in_brackets(text)
        or text.count('"') % 2 == 1
        or any(text.count(opening) > text.count(closing) for opening, closing in ("“”", "「」", "『』"))
    )


def breath_end(text: str) -> int:
    """The end of the words before the last conjunction, where a long English clause can be cut; 0: nowhere."""
    breaths = [match.start() for match in _CONJUNCTION.finditer(text)]
    return breaths[-1] if breaths else 0
