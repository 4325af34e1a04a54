"""For tests of pipelines and stages: virtual time, fakes with known timing, faults, and a conformance kit."""

from __future__ import annotations

from linly_pipeline.testing.clock import VirtualTimeLoop, run_virtual
from linly_pipeline.testing.conformance import check_stage
from linly_pipeline.testing.fakes import (
    FakeChat,
    FakeFace,
    FakeMotion,
    FakeRecogniser,
    FakeVoice,
    FaultyStage,
    fake_turn,
    tone,
)

__all__ = [
    "FakeChat",
    "FakeFace",
    "FakeMotion",
    "FakeRecogniser",
    "FakeVoice",
    "FaultyStage",
    "VirtualTimeLoop",
    "check_stage",
    "fake_turn",
    "run_virtual",
    "tone",
]
