"""The GPU's memory for the sampler, with stand-ins for torch and NVML."""

from __future__ import annotations

import sys
import types
from typing import Any

import pytest
from linly_profiling.torch_tools import gpu_memory_reader, memory


class Torch(types.ModuleType):
    """Two GPUs, of which the program uses the first."""

    def __init__(self) -> None:
        super().__init__("torch")
        self.initialized = True
        self.held = [(100, 200), (0, 0)]
        self.cuda = types.SimpleNamespace(
            is_initialized=lambda: self.initialized,
            current_device=lambda: 0,
            device_count=lambda: 2,
            memory_stats_as_nested_dict=self._stats,
        )

    def _stats(self, device: int) -> dict[str, Any]:
        assert self.initialized, "this would initialise CUDA"
        allocated, reserved = self.held[device]
        return {
            "allocated_bytes": {"all": {"current": allocated}},
            "reserved_bytes": {"all": {"current": reserved}},
        }


class Nvml(types.ModuleType):
    """Plays `pynvml`."""

    def __init__(self, count: int) -> None:
        super().__init__("pynvml")
        self.count = count
        self.fail = ""

    def nvmlInit(self) -> None:
        self._may_fail("init")

    def nvmlDeviceGetCount(self) -> int:
        self._may_fail("count")
        return self.count

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        return index

    def nvmlDeviceGetMemoryInfo(self, handle: int) -> Any:
        self._may_fail("memory")
        return types.SimpleNamespace(used=1000 + handle)

    def _may_fail(self, call: str) -> None:
        if self.fail == call:
            raise OSError("NVML Shared Library Not Found")


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither torch nor NVML, and no wishes in the environment."""
    monkeypatch.setattr(memory, "_nvml_state", [])
    monkeypatch.setitem(sys.modules, "pynvml", None)
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    for name in ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> Torch:
    torch = Torch()
    monkeypatch.setitem(sys.modules, "torch", torch)
    return torch


def readings() -> list[tuple[str, str, int]]:
    read = gpu_memory_reader()
    assert read is not None
    return read()


def test_without_torch_and_nvml_there_is_no_reader() -> None:
    assert gpu_memory_reader() is None


def test_torch_tells_what_it_holds_on_each_gpu_that_it_uses(torch: Torch) -> None:
    assert readings() == [("memory.gpu.allocated", "cuda:0", 100), ("memory.gpu.reserved", "cuda:0", 200)]
    torch.held[1] = (5, 6)
    assert readings()[2:] == [("memory.gpu.allocated", "cuda:1", 5), ("memory.gpu.reserved", "cuda:1", 6)]


def test_reading_never_initialises_cuda_and_sees_when_the_program_does(torch: Torch) -> None:
    torch.initialized = False
    read = gpu_memory_reader()
    assert read is not None
    assert read() == []
    torch.initialized = True
    assert len(read()) == 2


def test_nvml_tells_what_the_device_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", Nvml(1))
    assert readings() == [("memory.gpu.used", "cuda:0", 1000)]


@pytest.mark.parametrize(
    ("visible", "tracks"),
    [
        ("2,0", [("cuda:0", 1002), ("cuda:1", 1000)]),
        ("1", [("cuda:0", 1001)]),
        ("1,-1,0", [("cuda:0", 1001)]),
        ("1,9,0", [("cuda:0", 1001)]),
    ],
)
def test_gpus_are_numbered_as_the_program_sees_them(
    monkeypatch: pytest.MonkeyPatch, visible: str, tracks: list[tuple[str, int]]
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", Nvml(3))
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert [reading[1:] for reading in readings()] == tracks


@pytest.mark.parametrize("hidden", ["", "-1"])
def test_gpus_that_are_hidden_from_the_program_are_not_read(
    monkeypatch: pytest.MonkeyPatch, hidden: str
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", Nvml(1))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", hidden)
    assert gpu_memory_reader() is None


def test_where_the_order_is_not_sure_the_track_does_not_pretend(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", Nvml(2))
    assert [reading[1] for reading in readings()] == ["nvml:0", "nvml:1"]


def test_nvml_is_tried_once_where_there_is_no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    nvml = Nvml(1)
    nvml.fail = "init"
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    assert gpu_memory_reader() is None
    nvml.fail = ""
    assert gpu_memory_reader() is None


def test_a_source_that_fails_is_left_out_and_the_other_goes_on(
    torch: Torch, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    nvml = Nvml(1)
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    read = gpu_memory_reader()
    assert read is not None
    assert len(read()) == 3
    nvml.fail = "memory"
    assert [len(read()), len(read())] == [2, 2]
    nvml.fail = ""
    assert len(read()) == 2
    assert len(caplog.records) == 1


def test_an_nvml_that_cannot_count_is_no_source(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    nvml = Nvml(1)
    nvml.fail = "count"
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    assert gpu_memory_reader() is None
    assert "NVML Shared Library Not Found" in caplog.text
