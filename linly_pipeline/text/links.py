"""Web and mail addresses as one would tell them to somebody."""

from __future__ import annotations

import re

from linly_pipeline.text.script import WIDE

# Endings that make "name.ending" an address or a file, where a missing space after a full stop is unlikely.
ENDINGS = (
    "com|org|net|edu|gov|io|ai|dev|app|info|cn|uk|de|fr|jp|eu|co|me|tv|js|ts|py|rs|go|cpp|java|sh|md|txt|pdf|csv"
    "|json|xml|html|css|png|jpg|jpeg|gif|mp3|mp4|wav|zip|exe|toml|yaml|yml|onnx|docx|xlsx"
)
_STOP = rf"\s<>\"'`“”’」』（）()【】《》，。！？；、{WIDE}"
_MAIL = re.compile(r"[A-Za-z0-9._%+-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+")
_URL = re.compile(rf"(?:\b(?:https?|ftp)://|\bwww\.)[^{_STOP}]+[^{_STOP}.,;:!?]", re.IGNORECASE)
_NAME = re.compile(
    rf"(?<![\w./@-])(?:[A-Za-z0-9][\w.-]*/)*[A-Za-z0-9][\w-]*(?:\.[\w-]+)*\.(?:{ENDINGS})(?![\w@]|\.\w|\()(?:/[^{_STOP}]*[\w/])?",
    re.ASCII,
)
_WORDS = {
    "en": {".": " dot ", "@": " at ", "/": " slash ", "_": " underscore ", "-": " dash ", "+": " plus "},
    "zh": {".": "点", "@": " at ", "/": "斜杠", "_": "下划线", "-": "杠", "+": "加"},
}
# A path is worth telling while somebody could still remember it.
_MOST_SEGMENTS = 2
_SEGMENT = re.compile(r"[A-Za-z0-9_.-]{1,24}")


def read_links(text: str, language: str) -> str:
    """Mail addresses in full, web addresses without scheme, query and long paths: "a dot b slash c"."""
    words = _WORDS.get(language)
    if words is None:
        return text
    text = _MAIL.sub(lambda match: _spell(match[0], words), text)
    text = _URL.sub(lambda match: _spell(_short(match[0]), words), text)
    return _NAME.sub(lambda match: _spell(_short(match[0]), words), text)


def _spell(address: str, words: dict[str, str]) -> str:
    return "".join(words.get(char, char) for char in address)


def _short(url: str) -> str:
    address = re.sub(r"^(?:\w+://)?(?:www\.)?", "", url, flags=re.IGNORECASE)
    host, _, path = re.split(r"[?#]", address, maxsplit=1)[0].partition("/")
    segments = [segment for segment in path.split("/") if segment]
    host = host.partition(":")[0].rpartition("@")[2]
    if len(segments) > _MOST_SEGMENTS or not all(_SEGMENT.fullmatch(segment) for segment in segments):
        return host
    return "/".join([host, *(re.sub(r"[-_]+", " ", segment) for segment in segments)])
