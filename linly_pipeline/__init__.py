"""Talking digital humans as a stream: ASR, LLM, TTS, audio to motion and face, with one trace per request.

from linly_pipeline import Chat, Hibari, Pipeline, Portrait, Visemes, Whisper

pipeline = Pipeline(Whisper(), Chat(), Hibari(), Visemes(), Portrait("me.jpg"))
turn = pipeline.ask("question.wav", out="answer.mp4")
print(turn.report())
turn.trace.save("answer.trace.json")
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from linly_pipeline.errors import (
    ConfigError,
    LinlyError,
    MediaError,
    ModelError,
    SinkError,
    StageError,
    StageTimeout,
    StageUnavailable,
    TurnCancelled,
)
from linly_pipeline.packets import Audio, Motion, Packet, Phoneme, Speech, Text, Video
from linly_pipeline.pipeline import Pipeline
from linly_pipeline.policies import Deadline, Fallback, Retry
from linly_pipeline.runner import Limits
from linly_pipeline.session import Session
from linly_pipeline.sinks import CallbackSink, FramesSink, Mp4Sink, NullSink, Played, Sink, WavSink
from linly_pipeline.stage import Stage, stage
from linly_pipeline.turn import Message, Progress, Turn

if TYPE_CHECKING:
    from linly_pipeline.stages.asr.faster_whisper import Whisper
    from linly_pipeline.stages.face.photo import Portrait
    from linly_pipeline.stages.llm.llama_cpp import Chat
    from linly_pipeline.stages.motion.energy import Energy
    from linly_pipeline.stages.motion.visemes import Visemes
    from linly_pipeline.stages.tts.hibari import Hibari

__version__ = "0.1.0"

# Engines are imported when they are first named.
_ENGINES = {
    "Chat": "linly_pipeline.stages.llm.llama_cpp",
    "Energy": "linly_pipeline.stages.motion.energy",
    "Hibari": "linly_pipeline.stages.tts.hibari",
    "Portrait": "linly_pipeline.stages.face.photo",
    "Visemes": "linly_pipeline.stages.motion.visemes",
    "Whisper": "linly_pipeline.stages.asr.faster_whisper",
}

__all__ = [
    "Audio",
    "CallbackSink",
    "Chat",
    "ConfigError",
    "Deadline",
    "Energy",
    "Fallback",
    "FramesSink",
    "Hibari",
    "Limits",
    "LinlyError",
    "MediaError",
    "Message",
    "ModelError",
    "Motion",
    "Mp4Sink",
    "NullSink",
    "Packet",
    "Phoneme",
    "Pipeline",
    "Played",
    "Portrait",
    "Progress",
    "Retry",
    "Session",
    "Sink",
    "SinkError",
    "Speech",
    "Stage",
    "StageError",
    "StageTimeout",
    "StageUnavailable",
    "Text",
    "Turn",
    "TurnCancelled",
    "Video",
    "Visemes",
    "WavSink",
    "Whisper",
    "stage",
]


def __getattr__(name: str) -> Any:
    if name in _ENGINES:
        return getattr(import_module(_ENGINES[name]), name)
    raise AttributeError(f"module 'linly_pipeline' has no attribute {name!r}")
