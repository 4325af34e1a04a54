"""The check that runs on real GPUs, as far as it can be tested without one."""

from __future__ import annotations

import importlib.util
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from linly_profiling.cuda import CudaProbe
from test_cuda import Gpu as StandIn

_FILE = Path(__file__).parents[2] / "profiling" / "gpu_check.py"


@pytest.fixture
def check() -> Any:
    spec = importlib.util.spec_from_file_location("gpu_check", _FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Working(StandIn):
    """A GPU that is as fast as it says."""

    slowness = 1.0

    def _sleep(self, cycles: int) -> None:
        self.clock_ms += cycles / 1e6 * self.slowness

    def synchronize(self) -> None:
        self.finish()

    def is_available(self) -> bool:
        return True

    def get_device_name(self) -> str:
        return "stand-in"

    def device_count(self) -> int:
        return 1

    def set_sync_debug_mode(self, mode: str) -> None:
        pass


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Working:
    gpu = Working()
    torch: Any = types.ModuleType("torch")
    torch.cuda, torch.__version__, torch.version = gpu, "2.13", types.SimpleNamespace(cuda="13.0")
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.delenv("CUDA_LAUNCH_BLOCKING", raising=False)
    probe = CudaProbe()
    monkeypatch.setattr("linly_profiling.exact.PROBE", probe)
    monkeypatch.setattr("linly_profiling.cuda.PROBE", probe)
    monkeypatch.setattr("linly_profiling.cuda._capture_mode_exchange", lambda: None)
    return gpu


def finish_while_polling(gpu: Working, monkeypatch: pytest.MonkeyPatch, check: Any) -> None:
    monkeypatch.setattr(check.time, "sleep", lambda s: gpu.finish())


def test_without_torch_or_a_gpu_nothing_is_checked_and_that_is_no_failure(
    check: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    no_gpu: Any = types.ModuleType("torch")
    no_gpu.cuda = types.SimpleNamespace(is_available=lambda: False)
    for torch in (None, no_gpu):
        monkeypatch.setitem(sys.modules, "torch", torch)
        assert check.main() == 0
        assert capsys.readouterr().out == "no GPU found: nothing was checked\n"


def test_every_check_is_made_and_a_failed_one_decides(check: Any, capsys: pytest.CaptureFixture[str]) -> None:
    def good(gpu: object) -> str:
        """All is well."""
        return "found it"

    def wrong(gpu: object) -> str:
        """It holds."""
        raise check.Wrong("it does not")

    def broken(gpu: object) -> str:
        raise RuntimeError("CUDA error")

    assert check.run(None, [good]) == 0
    assert check.run(None, [wrong, broken, good]) == 2
    printed = capsys.readouterr().out
    for line in (
        "ok     All is well.",
        "WRONG  It holds.",
        "Wrong: it does not",
        "WRONG  broken",
        "CUDA error",
    ):
        assert line in printed


@pytest.mark.parametrize(
    "name", ["check_facts", "check_time", "check_no_synchronise", "check_events", "check_overhead"]
)
def test_a_good_gpu_passes(check: Any, gpu: Working, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    finish_while_polling(gpu, monkeypatch, check)
    monkeypatch.setattr(check, "PROBE", sys.modules["linly_profiling.exact"].PROBE)  # type: ignore[attr-defined]
    monkeypatch.setattr(check, "_MAX_SPAN_US", 10_000)  # the stand-in's speed is not what is checked
    worker = check.Gpu(sys.modules["torch"])
    assert isinstance(getattr(check, name)(worker), str)


def test_a_wrong_time_is_seen(check: Any, gpu: Working, monkeypatch: pytest.MonkeyPatch) -> None:
    finish_while_polling(gpu, monkeypatch, check)
    worker = check.Gpu(sys.modules["torch"])
    gpu.slowness = 2
    with pytest.raises(check.Wrong, match=r"80 ms of work were measured as 160\.0 ms"):
        check.check_time(worker)


def test_waiting_for_the_gpu_is_seen(check: Any, gpu: Working, monkeypatch: pytest.MonkeyPatch) -> None:
    finish_while_polling(gpu, monkeypatch, check)
    worker = check.Gpu(sys.modules["torch"])
    real: Callable[[], int] = gpu.current_device

    def slow() -> int:
        gpu.finish()
        return real()

    monkeypatch.setattr(gpu, "current_device", slow)
    with pytest.raises(check.Wrong, match="a time was known before the GPU can have been done"):
        check.check_time(worker)


def test_a_time_that_never_comes_is_seen(check: Any, gpu: Working, monkeypatch: pytest.MonkeyPatch) -> None:
    worker = check.Gpu(sys.modules["torch"])
    monkeypatch.setattr(check, "_DEADLINE_S", 0.01)
    with pytest.raises(check.Wrong, match="has no GPU time"):
        check.check_time(worker)


def test_blocking_launches_are_refused(
    check: Any, gpu: Working, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", "1")
    assert check.main() == 1
    assert "CUDA_LAUNCH_BLOCKING is set" in capsys.readouterr().out
