"""The rules of conftest.py themselves."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize("blocker", ["time.sleep(0.2)", "sum(i * i for i in range(6_000_000))"])
def test_a_blocked_event_loop_fails_its_test(blocker: str, tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text((Path(__file__).parent / "conftest.py").read_text(encoding="utf-8"))
    (tmp_path / "test_it.py").write_text(
        f"import asyncio, time\n\nasync def main():\n    {blocker}\n\ndef test_it():\n    asyncio.run(main())\n"
    )
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert result.returncode == 1
    assert "the event loop was blocked" in result.stdout
