"""The marker of the tests that need torch."""

from __future__ import annotations

import pytest


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "torch: needs torch itself; skipped where it is not installed")
