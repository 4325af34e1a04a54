"""What a user may hand to `ask` and `say`, and what it becomes."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterable, AsyncIterator
from os import PathLike
from pathlib import Path

from linly_pipeline.errors import ConfigError
from linly_pipeline.packets import Audio, Packet, Text

Source = Packet | str | PathLike[str] | AsyncIterable[Packet]

AUDIO_SUFFIXES = frozenset(
    {
        ".wav",
        ".flac",
        ".mp3",
        ".m4a",
        ".aac",
        ".ogg",
        ".opus",
        ".webm",
        ".mp4",
        ".mov",
        ".mkv",
        ".aiff",
        ".wma",
    }
)
TEXT_SUFFIXES = frozenset({".txt", ".md"})


async def as_packets(source: Source, *, speak: bool = False) -> Packet | AsyncIterator[Packet]:
    """Read a path into `Audio` or `Text`, take a string as `Text`, leave packets as they are.

    A string counts as a path if it ends like a sound file; with `speak`, if it is an existing .txt or .md.

    Raises:
        MediaError: the file cannot be read.
        ConfigError: the object is none of these.
    """
    if isinstance(source, Packet):
        return source
    if isinstance(source, str | PathLike):
        if _is_path(source, speak):
            return await asyncio.to_thread(read, Path(source))
        return Text(str(source))
    if isinstance(source, AsyncIterable):
        return aiter(source)
    raise ConfigError(f"cannot ask with {type(source).__name__}: give a text, a sound file or Audio, Text")


def read(path: Path) -> Audio | Text:
    """A sound file as `Audio`; .txt and .md as `Text`.

    Raises:
        MediaError: the file cannot be read.
    """
    if path.suffix.lower() not in TEXT_SUFFIXES:
        return Audio.read(path)
    from linly_pipeline.media.text import read_text

    return Text(read_text(path))


def packet_type(source: Packet | AsyncIterator[Packet], *, speak: bool = False) -> type[Packet]:
    """The type that enters the pipeline. A stream is sound, as from a microphone; with `speak` it is text."""
    if isinstance(source, Packet):
        return type(source)
    return Text if speak else Audio


def _is_path(source: str | PathLike[str], speak: bool) -> bool:
    if not isinstance(source, str):
        return True
    if "\n" in source or len(source) > 1024:
        return False
    suffix = Path(source).suffix.lower()
    if speak:  # a text to say may well end in "song.mp3"
        return suffix in TEXT_SUFFIXES and os.path.isfile(source)
    return suffix in AUDIO_SUFFIXES
