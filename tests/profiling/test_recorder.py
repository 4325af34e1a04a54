"""What a recorder hands to exporters, and what it never does to the program."""

from __future__ import annotations

import gc
import logging
import os
import threading
import time
from collections.abc import Sequence

import pytest
from linly_profiling import Epoch, Exporter, LoadedTrace, Recorder, Sampling, Trace, enable
from linly_profiling.feed import Item
from trace_tools import MS, Clock, until

SAMPLED = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Keeper(Exporter):
    """Keeps all that it is given."""

    def __init__(self, live: bool = False) -> None:
        self.live = live
        self.begun: list[str] = []
        self.streamed: list[str] = []
        self.ended: list[tuple[LoadedTrace, bool]] = []
        self.finished: list[str] = []
        self.dropped: dict[str, int] = {}
        self.lost: list[str] = []
        self.closed = 0
        self.threads: set[str] = set()

    def begin(self, trace: Trace) -> None:
        self.begun.append(trace.request_id)
        self.threads.add(threading.current_thread().name)

    def spans(self, trace: Trace, batch: Sequence[Item]) -> None:
        self.streamed += [item[2] for item in batch if type(item) is tuple]

    def end(self, trace: LoadedTrace, kept: bool) -> None:
        self.ended.append((trace, kept))

    def finish(self, trace: Trace, dropped: int) -> None:
        self.finished.append(trace.request_id)
        self.dropped[trace.request_id] = dropped

    def lose(self, request_id: str, epoch: Epoch) -> None:
        self.lost.append(request_id)

    def close(self) -> None:
        self.closed += 1

    def outcomes(self) -> dict[str, str]:
        return {trace.request_id: trace.outcome for trace, _ in self.ended}

    def kept(self) -> dict[str, bool]:
        return {trace.request_id: kept for trace, kept in self.ended}


class Broken(Keeper):
    """Raises at one of its methods."""

    def __init__(self, method: str) -> None:
        super().__init__(live=True)
        setattr(self, method, self._fail)

    def _fail(self, *_: object) -> None:
        raise OSError(28, "No space left on device")


def test_every_trace_that_begins_while_a_recorder_is_open_reaches_its_exporters() -> None:
    Trace("before").close()
    keeper = Keeper()
    with Recorder(keeper):
        for number in range(3):
            with Trace(f"r{number}") as trace, trace.span("work"):
                pass
    Trace("after").close()
    assert keeper.begun == ["r0", "r1", "r2"]
    assert keeper.outcomes() == {"r0": "ok", "r1": "ok", "r2": "ok"}
    assert [len(trace) for trace, _ in keeper.ended] == [2, 2, 2]
    assert keeper.closed == 1
    assert keeper.threads <= {"linly-recorder", "MainThread"}


def test_spans_are_handed_over_while_their_request_still_runs() -> None:
    keeper = Keeper(live=True)
    with Recorder(keeper), Trace("long") as trace:
        with trace.span("first"):
            pass
        until(lambda: keeper.streamed == ["first"])
        trace.counter("depth", 1)
        with trace.span("second"):
            pass
        until(lambda: keeper.streamed == ["first", "second"])
    assert keeper.streamed == ["first", "second", "linly.request"]
    assert (keeper.finished, keeper.ended) == (["long"], [])


def test_a_request_that_runs_when_the_recorder_closes_is_handed_over_as_it_is() -> None:
    keeper = Keeper()
    with Recorder(keeper):
        trace = Trace("running")
        trace.start("unfinished")
    assert keeper.outcomes() == {"running": "open"}
    trace.close()


def test_a_trace_that_nobody_closes_and_nobody_holds_is_let_go() -> None:
    keeper = Keeper()
    with Recorder(keeper) as recorder:
        Trace("forgotten")
        until(lambda: keeper.begun)
        gc.collect()
        until(lambda: keeper.ended)
        assert recorder.statistics().running == 0
    assert keeper.outcomes() == {"forgotten": "abandoned"}


def test_two_recorders_see_the_same_spans() -> None:
    one, other = Keeper(live=True), Keeper(live=True)
    with Recorder(one), Recorder(other), Trace("r") as trace, trace.span("work"):
        pass
    assert one.streamed == other.streamed == ["work", "linly.request"]


@pytest.mark.parametrize("method", ["begin", "spans", "finish", "flush", "close"])
def test_an_exporter_that_fails_is_switched_off_and_named_once_and_the_others_go_on(
    method: str, caplog: pytest.LogCaptureFixture
) -> None:
    broken, keeper = Broken(method), Keeper()
    with caplog.at_level(logging.WARNING, "linly_profiling"), Recorder(broken, keeper) as recorder:
        for number in range(3):
            Trace(f"r{number}").close()
    assert keeper.outcomes() == {"r0": "ok", "r1": "ok", "r2": "ok"}
    assert recorder.statistics().failed_exporters == ("Broken",)
    assert [record.message for record in caplog.records] == [
        "Broken is switched off: OSError: [Errno 28] No space left on device"
    ]


def test_what_does_not_fit_because_the_thread_is_behind_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("linly_profiling.recorder._PENDING", 10)
    keeper = Keeper(live=True)
    with Recorder(keeper, period_s=0.5) as recorder, Trace("busy") as trace:
        until(lambda: keeper.begun)
        for _ in range(100):
            trace.start("work").end()
    counted = recorder.statistics().dropped
    assert counted >= 80
    assert len(keeper.streamed) + counted >= 101  # more, if a garbage collection was noted meanwhile


def test_a_recorder_can_be_opened_again_and_closed_twice() -> None:
    keeper = Keeper()
    recorder = Recorder(keeper)
    for _ in range(2):
        with recorder:
            Trace("r").close()
        recorder.close()
    assert len(keeper.ended) == 2


def test_no_thread_is_left_when_a_recorder_has_been_closed() -> None:
    with Recorder(Keeper()):
        Trace("r").close()
    assert "linly-recorder" not in {thread.name for thread in threading.enumerate()}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_process_hands_over_its_own_requests_and_none_of_its_parents() -> None:
    keeper = Keeper()
    reader, writer = os.pipe()
    with Recorder(keeper) as recorder:
        parents = Trace("parent's")
        until(lambda: keeper.begun)
        child = os.fork()
        if child == 0:
            try:
                keeper.ended.clear()
                Trace("child's").close()
                recorder.close()
                os.write(writer, repr(keeper.outcomes()).encode())
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        parents.close()
    assert os.read(reader, 1000).decode() == "{\"child's\": 'ok'}"
    assert keeper.outcomes() == {"parent's": "ok"}
    os.close(reader)
    os.close(writer)


def test_a_streamed_trace_that_everybody_forgets_is_let_go_too() -> None:
    keeper = Keeper(live=True)
    with Recorder(keeper) as recorder:
        for number in range(5):
            Trace(f"r{number}").start("work")
        until(lambda: gc.collect() >= 0 and recorder.statistics().running == 0)
    assert sorted(keeper.lost) == [f"r{number}" for number in range(5)]


def test_an_exporter_that_fails_twice_in_a_row_does_not_stop_the_others() -> None:
    broken, keeper = Broken("spans"), Keeper()
    broken.flush = broken._fail  # type: ignore[method-assign]
    with Recorder(broken, keeper):
        with Trace("first") as trace:
            trace.start("work").end()
            until(lambda: keeper.begun)
        until(lambda: keeper.outcomes() == {"first": "ok"})
        Trace("second").close()
        until(lambda: "second" in keeper.outcomes())
    assert broken.closed == 1, "it may have a file to close"


def test_a_busy_request_does_not_keep_the_others_waiting() -> None:
    keeper, stop = Keeper(live=True), threading.Event()

    def hammer() -> None:
        with Trace("busy") as trace:
            while not stop.is_set():
                trace.start("work").end()

    with Recorder(keeper):
        thread = threading.Thread(target=hammer)
        thread.start()
        try:
            for number in range(5):
                Trace(f"r{number}").close()
            until(lambda: len(keeper.finished) == 5)
        finally:
            stop.set()
            thread.join()


def test_what_a_full_trace_trims_is_not_missing_where_it_was_handed_over() -> None:
    keeper = Keeper(live=True)
    with Recorder(keeper) as recorder, Trace("long", max_records=10) as trace:
        for _ in range(50):
            trace.start("work").end()
    assert trace.dropped > 0
    assert keeper.dropped == {"long": 0}
    assert recorder.statistics().spans >= 51


def test_a_recorder_that_was_opened_again_hands_over_at_once() -> None:
    keeper = Keeper()
    recorder = Recorder(keeper)
    with recorder:
        Trace("first").close()
    with recorder:
        Trace("second").close()
        until(lambda: "second" in keeper.outcomes())


def test_closing_keeps_its_deadline_and_a_slow_exporter_is_finished_in_the_background() -> None:
    release = threading.Event()
    keeper = Keeper()
    end = keeper.end

    def slow(trace: LoadedTrace, kept: bool) -> None:
        release.wait(10)
        end(trace, kept)

    keeper.end = slow  # type: ignore[method-assign]
    recorder = Recorder(keeper).open()
    Trace("r").close()
    start_s = time.monotonic()
    recorder.close(deadline_s=0.05)
    assert time.monotonic() - start_s < 5
    release.set()
    until(lambda: keeper.closed == 1)
    assert keeper.outcomes() == {"r": "ok"}


def test_after_closing_a_trace_that_goes_on_feeds_nobody() -> None:
    with Recorder(Keeper(live=True)):
        trace = Trace("r")
        trace.start("work").end()
    assert trace._feed is None
    trace.close()


def test_what_watches_a_trace_may_fail_without_harm(caplog: pytest.LogCaptureFixture) -> None:
    called: list[str] = []

    def explode(trace: Trace) -> None:
        raise ZeroDivisionError

    with Trace("r") as trace:
        trace.on_close(explode)
        trace.on_close(lambda trace: called.append(trace.request_id))
    assert called == ["r"]
    assert trace.outcome == "ok"


# Sampling


def fill(recorder_sampling: Sampling, outcomes: dict[str, BaseException | None]) -> dict[str, bool]:
    keeper = Keeper()
    with Recorder(keeper, sampling=recorder_sampling):
        for name, error in outcomes.items():
            Trace(name).close(error=error)
    return keeper.kept()


def test_a_failed_request_is_kept_although_chance_did_not_choose_it() -> None:
    kept = fill(Sampling(rate=0), {"good": None, "bad": ValueError("x")})
    assert kept == {"good": False, "bad": True}
    assert fill(Sampling(rate=0, failed=False), {"bad": ValueError("x")}) == {"bad": False}


def test_a_slow_request_is_kept_although_chance_did_not_choose_it() -> None:
    clock, keeper = Clock(), Keeper()
    with Recorder(keeper, sampling=Sampling(rate=0, slow_s=2)):
        for name, milliseconds in (("quick", 2_000), ("slow", 2_001)):
            trace = Trace(name, clock_ns=clock)
            clock.tick(milliseconds * MS)
            trace.close()
    assert keeper.kept() == {"quick": False, "slow": True}


def test_about_the_asked_share_of_requests_is_kept() -> None:
    kept = fill(Sampling(rate=0.25), {f"r{number}": None for number in range(400)})
    assert 60 <= sum(kept.values()) <= 140  # more than four standard deviations on both sides


def test_what_the_caller_records_is_kept_here_as_well() -> None:
    keeper = Keeper()
    with Recorder(keeper, sampling=Sampling(rate=0)):
        Trace("r", traceparent=SAMPLED).close()
    assert keeper.kept() == {"r": True}


def test_sampling_can_be_changed_while_the_recorder_is_open() -> None:
    keeper = Keeper()
    with Recorder(keeper, sampling=Sampling(rate=0)) as recorder:
        Trace("dropped").close()
        recorder.sampling = Sampling(rate=1)
        Trace("kept").close()
    assert keeper.kept() == {"dropped": False, "kept": True}


@pytest.mark.parametrize("wrong", [{"rate": 1.5}, {"rate": -0.1}, {"rate": float("nan")}, {"slow_s": -1}])
def test_sampling_that_makes_no_sense_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"rate|slow_s"):
        Sampling(**wrong)  # type: ignore[arg-type]


# Off


def test_a_trace_that_is_off_records_its_root_and_nothing_else() -> None:
    keeper = Keeper()
    with Recorder(keeper), Trace("off", enabled=False) as trace:
        with trace.span("work", row="x") as span:
            span.mark("token")
            span.set(answer=42)
            trace.counter("depth", 3)
            trace.flow(span, trace.root)
        trace.start("more").end()
    assert [record.name for record in trace.records()] == ["linly.request"]
    assert trace.outcome == "ok"
    assert trace.snapshot().samples == trace.snapshot().flows == ()
    assert keeper.begun == []


def test_recording_can_be_switched_off_for_the_whole_program() -> None:
    enable(False)
    try:
        assert not Trace("r").enabled
        assert Trace("s", enabled=True).enabled
    finally:
        enable()
    assert Trace("t").enabled
