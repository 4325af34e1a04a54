"""Text on its way to speech: thoughts out, sentences apart, numbers and marks into words; and subtitles."""

from __future__ import annotations

from linly_pipeline.text.fragments import Fragment, fragments
from linly_pipeline.text.markdown import plain
from linly_pipeline.text.speakable import speakable
from linly_pipeline.text.splitter import Splitter
from linly_pipeline.text.subtitles import Cue, cues, write_subtitles
from linly_pipeline.text.think import ThinkFilter

__all__ = [
    "Cue",
    "Fragment",
    "Splitter",
    "ThinkFilter",
    "cues",
    "fragments",
    "plain",
    "speakable",
    "write_subtitles",
]
