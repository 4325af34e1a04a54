"""What the tests of the spine share."""

from __future__ import annotations

from typing import Any

from linly_pipeline import Pipeline
from linly_pipeline.testing import FakeChat, FakeFace, FakeMotion, FakeRecogniser, FakeVoice


def fake_pipeline(**first_ms: float) -> Pipeline:
    """The whole chain from fakes; `asr=300` sets a stage's `first_ms`."""
    return Pipeline(
        FakeRecogniser(first_ms=first_ms.get("asr", 0)),
        FakeChat(first_ms=first_ms.get("llm", 0), per_item_ms=10),
        FakeVoice(first_ms=first_ms.get("tts", 0), per_item_ms=5),
        FakeMotion(first_ms=first_ms.get("motion", 0)),
        FakeFace(first_ms=first_ms.get("face", 0), per_item_ms=5),
    )


def stage_spans(turn: Any) -> dict[str, Any]:
    """Records of the turn's stages by their row."""
    return {
        record.attrs["row"]: record
        for record in turn.trace.records()
        if record.name.startswith("linly.stage ")
    }
