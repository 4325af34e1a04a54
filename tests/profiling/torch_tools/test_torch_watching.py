"""Our span names in other profilers, and profiles of spans that other code opens; with stand-ins for both."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import subprocess
import sys
import threading
import types
from collections.abc import Iterator
from typing import Any

import pytest
from linly_profiling import Span, Trace
from linly_profiling import span as span_module
from linly_profiling.torch_tools import (
    TorchProfile,
    TorchProfiles,
    disable_ranges,
    enable_nvtx,
    enable_record_function,
    ranges_from_environment,
    watch,
)


@pytest.fixture(autouse=True)
def nobody_watches() -> Iterator[None]:
    yield
    for watcher in watch.watchers():
        watch.remove(watcher)


@contextlib.contextmanager
def inside(span: Span) -> Iterator[Span]:
    """`with span:`, and the hook called as `Span` does it."""
    if HOOKED:
        with span:
            yield span
        return
    with span:
        for watcher in told():
            watcher.entered(span)
        yield span
    for watcher in told():
        watcher.left(span)


def told() -> list[Any]:
    watcher = getattr(span_module, "watcher", None)
    return [] if watcher is None else [watcher]


HOOKED = "watcher" in vars(span_module)


class Nvtx(types.ModuleType):
    """Plays the package `nvtx`."""

    def __init__(self) -> None:
        super().__init__("nvtx")
        self.calls: list[str] = []
        self.depth: dict[int, int] = {}

    def push_range(self, name: str) -> None:
        self.calls.append(f"push {name}")
        self.depth[threading.get_ident()] = self.depth.get(threading.get_ident(), 0) + 1

    def pop_range(self) -> None:
        self.calls.append("pop")
        self.depth[threading.get_ident()] -= 1
        assert self.depth[threading.get_ident()] >= 0

    def start_range(self, name: str) -> str:
        self.calls.append(f"start {name}")
        return name

    def end_range(self, handle: str) -> None:
        self.calls.append(f"end {handle}")


@pytest.fixture
def nvtx(monkeypatch: pytest.MonkeyPatch) -> Nvtx:
    nvtx = Nvtx()
    monkeypatch.setitem(sys.modules, "nvtx", nvtx)
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    return nvtx


def test_spans_of_blocks_are_ranges_inside_each_other(nvtx: Nvtx) -> None:
    enable_nvtx()
    trace = Trace("r")
    with inside(trace.span("llm")), inside(trace.span("decode")):
        pass
    trace.start("no block").end()
    assert nvtx.calls == ["push llm", "push decode", "pop", "pop"]


def test_after_disabling_nothing_is_told(nvtx: Nvtx) -> None:
    enable_nvtx()
    enable_record_function()
    enable_nvtx()  # a second time changes nothing
    assert len(watch.watchers()) == 2
    trace = Trace("r")
    with inside(trace.span("open")):
        disable_ranges()
    with inside(trace.span("later")):
        pass
    assert nvtx.calls[0] == "push open"
    assert "push later" not in nvtx.calls
    assert watch.watchers() == ()


def test_a_span_that_was_entered_before_is_not_popped(nvtx: Nvtx) -> None:
    trace = Trace("r")
    with inside(trace.span("before")) as before:
        enable_nvtx()
    watch.watchers()[0].left(before)
    assert nvtx.calls == []


def test_ranges_close_in_order_when_a_stream_is_thrown_away(nvtx: Nvtx) -> None:
    enable_nvtx()
    (ranges,) = watch.watchers()
    trace = Trace("r")
    outer, abandoned = trace.start("outer"), trace.start("abandoned")
    ranges.entered(outer)
    ranges.entered(abandoned)
    ranges.left(outer)
    ranges.left(abandoned)
    assert nvtx.calls == ["push outer", "push abandoned", "pop", "pop"]


def test_in_an_event_loop_ranges_overlap_and_each_ends_its_own(nvtx: Nvtx) -> None:
    enable_nvtx()
    trace = Trace("r")

    async def stage(name: str, first: asyncio.Event, last: asyncio.Event) -> None:
        with inside(trace.span(name)):
            first.set()
            await last.wait()

    async def run() -> None:
        a, b = asyncio.Event(), asyncio.Event()
        await asyncio.gather(stage("one", a, b), stage("two", b, a))

    asyncio.run(run())
    assert sorted(nvtx.calls) == ["end one", "end two", "start one", "start two"]
    assert nvtx.calls[:2] == ["start one", "start two"]


def test_threads_do_not_mix(nvtx: Nvtx) -> None:
    enable_nvtx()
    trace = Trace("r")

    def work() -> None:
        for _ in range(50):
            with inside(trace.span("a")), inside(trace.span("b")):
                pass

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert nvtx.calls.count("pop") == 400
    assert set(nvtx.depth.values()) == {0}


def test_without_nvtx_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nvtx", None)
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    with pytest.raises(ImportError, match=r'pip install "linly-pipeline\[nvtx\]"'):
        enable_nvtx()


@pytest.mark.parametrize(("value", "calls"), [("1", 2), ("0", 0), ("", 0), ("off", 0)])
def test_the_environment_asks_for_nvtx(
    nvtx: Nvtx, monkeypatch: pytest.MonkeyPatch, value: str, calls: int
) -> None:
    monkeypatch.setenv("LINLY_NVTX", value)
    ranges_from_environment()
    with inside(Trace("r").span("s")):
        pass
    assert len(nvtx.calls) == calls


def test_a_cuda_build_of_torch_brings_its_own_nvtx(nvtx: Nvtx, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    torch: Any = types.ModuleType("torch")
    torch.version = types.SimpleNamespace(cuda="13.0")
    torch.cuda = types.SimpleNamespace(
        nvtx=types.SimpleNamespace(
            range_push=lambda name: calls.append(f"push {name}"),
            range_pop=lambda: calls.append("pop"),
            range_start=lambda name: calls.append(f"start {name}"),
            range_end=lambda handle: calls.append("end"),
        ),
        is_initialized=lambda: False,
    )
    monkeypatch.setitem(sys.modules, "torch", torch)
    enable_nvtx()
    with inside(Trace("r").span("s")):
        pass
    assert (calls, nvtx.calls) == (["push s", "pop"], [])


def test_a_watcher_that_raises_is_told_nothing_more_and_the_others_are(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Broken:
        def entered(self, span: Span) -> None:
            raise ValueError("no")

        def left(self, span: Span) -> None:
            raise AssertionError("told again")

    class Good:
        def __init__(self) -> None:
            self.told: list[str] = []

        def entered(self, span: Span) -> None:
            self.told.append("in")

        def left(self, span: Span) -> None:
            self.told.append("out")

    good = Good()
    watch.add(Broken())
    watch.add(good)
    with caplog.at_level(logging.WARNING), inside(Trace("r").span("s")):
        pass
    assert good.told == ["in", "out"]
    assert [record.message for record in caplog.records] == ["Broken is switched off: ValueError: no"]


@pytest.fixture
def profiled_spans(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the spans that were profiled, with a stand-in for the profiler."""
    names: list[str] = []

    @contextlib.contextmanager
    def profiled(span: Span, books: Span, **options: Any) -> Iterator[TorchProfile]:
        names.append(f"{span.request_id} {span.name}")
        yield TorchProfile("ok", spans=5)

    monkeypatch.setattr("linly_profiling.torch_tools.requests.profiled", profiled)
    monkeypatch.setattr("linly_profiling.torch_tools.requests.warm_up", lambda: None)
    return names


def test_all_spans_of_the_name_are_profiled_in_the_next_requests_only(profiled_spans: list[str]) -> None:
    profiles = TorchProfiles("llm", count=2).install()
    for request in "abc":
        trace = Trace(request)
        for name in ("llm.generate", "llmx", "tts", "llm"):
            with inside(trace.span(name)):
                pass
    assert profiled_spans == ["a llm.generate", "a llm", "b llm.generate", "b llm"]
    assert watch.watchers() == (), "when all are done, nobody watches any more"
    assert profiles.summary() == "torch profiled 4 span(s) of 'llm': 20 events."


def test_a_span_inside_of_a_profiled_one_is_part_of_that_profile(profiled_spans: list[str]) -> None:
    TorchProfiles("llm").install()
    trace = Trace("a")
    with inside(trace.span("llm.generate")), inside(trace.span("x")), inside(trace.span("llm.decode")):
        pass
    assert profiled_spans == ["a llm.generate"]


def test_spans_of_an_event_loop_are_not_profiled_and_the_summary_says_so(profiled_spans: list[str]) -> None:
    profiles = TorchProfiles("llm").install()

    async def stage() -> None:
        with inside(Trace("a").span("llm")):
            pass

    asyncio.run(stage())
    assert profiled_spans == []
    assert "ran in an event loop" in profiles.summary()
    with inside(Trace("b").span("llm")):
        pass
    assert profiled_spans == ["b llm"]


def test_a_span_begins_after_its_profiler(profiled_spans: list[str]) -> None:
    TorchProfiles("llm").install()
    now_ns = [1_000]
    trace = Trace("a", clock_ns=lambda: now_ns[0])
    span = trace.start("llm")
    now_ns[0] = 5_000
    with inside(span):
        pass
    assert span.start_ns == 5_000


def test_the_summary_says_when_there_was_nothing() -> None:
    assert TorchProfiles("llm").summary() == "torch profiled nothing: no span named 'llm' was made."


@pytest.mark.parametrize(("match", "count"), [("", 1), ("llm", 0)])
def test_profiles_of_nothing_are_refused(match: str, count: int) -> None:
    with pytest.raises(ValueError, match="a name and a count from 1"):
        TorchProfiles(match, count)


def test_importing_these_tools_imports_neither_torch_nor_nvtx_nor_nvml() -> None:
    code = "import sys, linly_profiling.torch_tools; print({'torch', 'nvtx', 'pynvml'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
