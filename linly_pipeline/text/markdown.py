"""Markdown without its marks: the words that a reader of the rendered page would see."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING

from linly_pipeline.text.script import WIDE

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

_FENCE = re.compile(r"[ \t]*(?:```[^`\n]*|~~~[^\n]*)$", re.MULTILINE)
_TABLE_RULE = re.compile(r"^[ \t]*[|:-][ \t|:-]*\|[ \t|:-]*$", re.MULTILINE)
_TABLE_ROW = re.compile(r"^[ \t]*\|(.*?)\|?[ \t]*$", re.MULTILINE)
_TASK_BOX = re.compile(r"^\[[ xX]\] ")
_LINE_BREAK = re.compile(r"<br\s*/?>", re.IGNORECASE)
# CommonMark does not take the stars of "**重点：**内容" as marks (a known weakness between wide letters), nor
# those whose partner stands in another fragment. A star that multiplies has spaces or figures beside it.
_STRAY_MARKS = re.compile(r"\*{2,}|(?<!\d)(?<!\d )\*|`+|~{2,}|(?<![\w])__|__(?![\w])")
_FOOTNOTE = re.compile(r"\[\^?\d{1,3}\](?!\()")
_HARD_STOP = ".!?;:,。！？；：，、…—"
_WIDE_BREAK = re.compile(rf"(?<=[{WIDE}])[ \t]*\n\s*(?=[{WIDE}])")


def is_code(fragment: str, inside: bool = False) -> bool:
    """True if `fragment` is (part of) a fenced code block; `inside`: an earlier one opened the block."""
    return inside or _FENCE.match(fragment.lstrip().partition("\n")[0]) is not None


def fence_open_after(fragment: str, inside: bool = False) -> bool:
    """True if a fenced code block is still open at the end of `fragment`."""
    return inside ^ (len(_FENCE.findall(fragment)) % 2 == 1)


def plain(text: str) -> str:
    """`text` without Markdown: links are their text, a table row is its cells, fenced code is left out.

    Blocks and lines are separated by "\\n"; a paragraph's own line breaks become spaces. Text without marks
    comes back unchanged but for surrounding space.
    """
    lines: list[str] = []
    number = ""
    for token in _parser().parse(_without_tables(text)):
        if token.type == "list_item_open":
            number = f"{token.info}{token.markup} " if token.info else ""
        elif token.type == "list_item_close" and number:
            lines.append(number.strip())  # "1984." alone is a sentence, not an empty item
            number = ""
        elif token.type == "inline":
            line = _TASK_BOX.sub("", _inline(token.children or ()))
            lines.append(number + _join_lines(line))
            number = ""
    return "\n".join(line for line in lines if line.strip())


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    # Speech has no use for these, and each would swallow text: indented code (deep list items look like it),
    # underlined headings ("a\n---"), reference definitions and blocks of HTML.
    return MarkdownIt("commonmark").disable(["code", "lheading", "reference", "html_block"])


def _without_tables(text: str) -> str:
    """Rows as "cell, cell", one a line; the line under the head goes. A stream brings rows one by one."""
    if "|" not in text:
        return text
    return _TABLE_ROW.sub(_table_row, _TABLE_RULE.sub("", text))


def _table_row(match: re.Match[str]) -> str:
    cells = [cell.strip() for cell in match[1].split("|")]
    return "\n" + ", ".join(cell for cell in cells if cell) + "\n"


def _inline(children: Iterable[Token]) -> str:
    pieces = []
    for token in children:
        if token.type in ("softbreak", "hardbreak"):
            pieces.append("\n")
        elif token.type == "html_inline":
            pieces.append("\n" if _LINE_BREAK.fullmatch(token.content) else "")
        elif token.type == "text":
            pieces.append(_STRAY_MARKS.sub("", _FOOTNOTE.sub("", token.content)))
        else:  # code and the text of images; the ends of links and emphasis carry none
            pieces.append(token.content)
    return "".join(pieces).strip()


def _join_lines(text: str) -> str:
    """A line break within a paragraph is a space; between wide letters, where no space is due, a comma."""
    return re.sub(r"[ \t]*\n\s*", " ", _WIDE_BREAK.sub("，", text))
