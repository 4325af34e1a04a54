from __future__ import annotations

import pytest

from linly_pipeline.media.image import load_portrait
from linly_pipeline.models import locate
from linly_pipeline.packets import UInt8Array
from linly_pipeline.stages.face.landmarks import Landmarker
from linly_pipeline.stages.face.portrait import prepare
from linly_pipeline.stages.face.warp import Warp


@pytest.fixture(scope="session")
def landmarker() -> Landmarker:
    return Landmarker(locate("face-landmarker"))


@pytest.fixture(scope="session")
def astronaut() -> UInt8Array:
    """512 x 512, a small face with a wide smile that shows teeth."""
    return load_portrait(locate("portrait-astronaut"))


@pytest.fixture(scope="session")
def hopper() -> UInt8Array:
    """512 x 600, glasses, mouth closed."""
    return load_portrait(locate("portrait-grace-hopper"))


@pytest.fixture(scope="session", params=["astronaut", "hopper"])
def warp(request: pytest.FixtureRequest, landmarker: Landmarker) -> Warp:
    """Both portraits, ready to render."""
    return Warp(prepare(request.getfixturevalue(request.param), landmarker))
