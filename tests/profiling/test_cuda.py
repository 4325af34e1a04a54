"""The GPU, with a scripted stand-in for torch: what is measured, and that nothing ever waits or breaks."""

from __future__ import annotations

import asyncio
import logging
import sys
import types
from typing import Any

import pytest
from linly_profiling import CudaUse, Trace
from linly_profiling.cuda import CudaProbe
from trace_tools import only


class Gpu:
    """Plays `torch.cuda`. Kernels finish when the test says so."""

    def __init__(self) -> None:
        self.initialized = True
        self.capturing = False
        self.device = 0
        self.allocated = 100
        self.reserved = 1000
        self.top = 500
        self.clock_ms = 0.0
        self.done = False
        self.fail: str | None = None

    def is_initialized(self) -> bool:
        self._may_fail("is_initialized")
        return self.initialized

    def current_device(self) -> int:
        return self.device

    def memory_allocated(self, device: int) -> int:
        self._may_fail("memory_allocated")
        return self.allocated

    def memory_reserved(self, device: int) -> int:
        return self.reserved

    def max_memory_allocated(self, device: int) -> int:
        return self.top

    def is_current_stream_capturing(self) -> bool:
        return self.capturing

    def synchronize(self) -> None:
        raise AssertionError("nothing may wait for the GPU")

    def Event(self, enable_timing: bool) -> Event:
        assert enable_timing
        return Event(self)

    def _may_fail(self, call: str) -> None:
        if self.fail == call:
            raise RuntimeError("CUDA error: device-side assert triggered")


class Event:
    def __init__(self, gpu: Gpu) -> None:
        self.gpu = gpu

    def record(self) -> None:
        assert not self.gpu.capturing, "timing events break the capture of a graph"
        self.at_ms = self.gpu.clock_ms

    def query(self) -> bool:
        self.gpu._may_fail("query")
        return self.gpu.done

    def elapsed_time(self, end: Event) -> float:
        assert self.gpu.done, "device not ready"
        return end.at_ms - self.at_ms

    def synchronize(self) -> None:
        raise AssertionError("nothing may wait for the GPU")


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Gpu:
    gpu = Gpu()
    torch: Any = types.ModuleType("torch")
    torch.cuda = gpu
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setattr("linly_profiling.exact.PROBE", CudaProbe())
    return gpu


def measured(gpu: Gpu, **changes: Any) -> Trace:
    trace = Trace("r")
    with trace.span("model", exact=True):
        gpu.clock_ms += 12.5
        for name, value in changes.items():
            setattr(gpu, name, value)
    return trace


def test_time_is_known_once_the_gpu_is_done_and_nothing_waits_for_it(gpu: Gpu) -> None:
    trace = measured(gpu)
    assert only(trace, "model").cuda == CudaUse(0, None, 0, 0, 100)
    gpu.done = True
    assert only(trace, "model").cuda == CudaUse(0, 12_500_000, 0, 0, 100)


def test_memory_is_the_change_over_the_span(gpu: Gpu) -> None:
    cuda = only(measured(gpu, allocated=160, reserved=900), "model").cuda
    assert cuda is not None
    assert (cuda.allocated_bytes, cuda.reserved_bytes, cuda.peak_bytes) == (60, -100, 160)


def test_a_new_peak_of_the_process_is_a_peak_of_the_span(gpu: Gpu) -> None:
    cuda = only(measured(gpu, top=900), "model").cuda
    assert cuda is not None
    assert cuda.peak_bytes == 900


def test_an_ordinary_span_asks_the_gpu_nothing(gpu: Gpu) -> None:
    gpu.fail = "is_initialized"
    trace = Trace("r")
    with trace.span("s"):
        pass
    assert only(trace, "s").cuda is None


@pytest.mark.parametrize("changes", [{"initialized": False}])
def test_without_cuda_everything_is_null(gpu: Gpu, changes: dict[str, Any]) -> None:
    gpu.initialized = False
    assert only(measured(gpu), "model").cuda is None


def test_without_torch_or_with_half_of_it_everything_is_null(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", types.ModuleType("torch"))
    assert only(measured(Gpu()), "model").cuda is None
    monkeypatch.delitem(sys.modules, "torch")
    assert only(measured(Gpu()), "model").cuda is None


@pytest.mark.parametrize("when", ["before", "inside"])
def test_no_event_is_recorded_while_a_graph_is_captured(gpu: Gpu, when: str) -> None:
    gpu.done = True
    gpu.capturing = when == "before"
    cuda = only(measured(gpu, capturing=True), "model").cuda
    assert cuda is not None
    assert (cuda.time_ns, cuda.allocated_bytes) == (None, 0)


def test_time_between_two_devices_is_null(gpu: Gpu) -> None:
    gpu.done = True
    cuda = only(measured(gpu, device=1), "model").cuda
    assert cuda is not None
    assert cuda.time_ns is None


def test_in_a_task_the_stream_is_shared_and_time_is_null(gpu: Gpu) -> None:
    gpu.done = True

    async def stage() -> Trace:
        return measured(gpu, allocated=150)

    cuda = only(asyncio.run(stage()), "model").cuda
    assert cuda is not None
    assert (cuda.time_ns, cuda.allocated_bytes) == (None, 50)


@pytest.mark.parametrize("call", ["is_initialized", "memory_allocated"])
def test_a_probe_that_raises_is_switched_off_and_logged_once(
    gpu: Gpu, call: str, caplog: pytest.LogCaptureFixture
) -> None:
    gpu.fail = call
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert only(measured(gpu), "model").cuda is None
    gpu.fail = None
    assert only(measured(gpu), "model").cuda is None
    assert ["device-side assert" in record.message for record in caplog.records] == [True]


def test_a_failure_at_the_end_or_later_breaks_nothing(gpu: Gpu, caplog: pytest.LogCaptureFixture) -> None:
    kept = measured(gpu)
    assert only(measured(gpu, fail="memory_allocated"), "model").cuda is None
    gpu.done, gpu.fail = True, "query"
    cuda = only(kept, "model").cuda
    assert cuda is not None
    assert cuda.time_ns is None
    assert len(caplog.records) == 1
