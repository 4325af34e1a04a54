"""Spans: their place in the tree, their outcome, and what they hold, whoever opens and ends them."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import linly_profiling
import pytest
from linly_profiling import Mark, Trace, attach, current_span
from trace_tools import MS, Clock, in_event_loop, only, parent_name


def test_a_trace_starts_with_the_span_of_the_request() -> None:
    trace = Trace("r")
    (root,) = trace.records()
    assert (root.name, root.parent_id, root.request_id, root.outcome) == ("linly.request", None, "r", "open")


def test_spans_nest_by_being_current() -> None:
    trace = Trace("r")
    with trace.span("outer") as outer, trace.span("inner"):
        assert current_span() is not outer
    assert parent_name(trace, "inner") == "outer"
    assert parent_name(trace, "outer") == "linly.request"
    assert current_span() is None


def test_a_parent_can_be_named() -> None:
    trace = Trace("r")
    first = trace.start("first")
    with trace.span("second"):
        trace.start("child", parent=first).end()
    assert parent_name(trace, "child") == "first"


def test_a_started_span_is_not_current() -> None:
    trace = Trace("r")
    trace.start("started")
    assert current_span() is None
    trace.start("next")
    assert parent_name(trace, "next") == "linly.request"


def test_a_current_span_of_another_request_is_no_parent() -> None:
    one, other = Trace("one"), Trace("other")
    with one.span("foreign") as foreign:
        other.start("default")
        other.start("named", parent=foreign)
    assert parent_name(other, "default") == parent_name(other, "named") == "linly.request"


def test_times_are_those_of_the_clock() -> None:
    clock = Clock()
    trace = Trace("r", clock_ns=clock)
    clock.tick()
    with trace.span("s"):
        clock.tick(3)
    record = only(trace, "s")
    assert (record.start_ns, record.end_ns, record.duration_ns) == (1_001 * MS, 1_001 * MS + 3, 3)


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (ValueError, "error"),
        (asyncio.CancelledError, "cancelled"),
        (GeneratorExit, "cancelled"),
        (KeyboardInterrupt, "error"),
        (TimeoutError, "error"),
    ],
)
def test_an_exception_gives_the_outcome_and_passes_through(error: type[BaseException], outcome: str) -> None:
    trace = Trace("r")
    with pytest.raises(error), trace.span("s"):
        raise error("secret")
    record = only(trace, "s")
    assert (record.outcome, record.error_type) == (outcome, error.__name__)
    assert "secret" not in repr(record)
    assert current_span() is None


def test_only_the_first_end_counts() -> None:
    clock = Clock()
    trace = Trace("r", clock_ns=clock)
    span = trace.start("s")
    clock.tick()
    span.end("cancelled")
    clock.tick()
    span.end(error=ValueError())
    with span:
        pass
    record = only(trace, "s")
    assert (record.outcome, record.error_type, record.duration_ns) == ("cancelled", None, MS)


def test_a_clock_that_goes_back_gives_no_negative_time() -> None:
    clock = Clock()
    trace = Trace("r", clock_ns=clock)
    span = trace.start("s")
    clock.tick(-5)
    span.end()
    assert only(trace, "s").duration_ns == 0


def test_closing_gives_every_open_span_its_outcome_at_one_instant() -> None:
    clock = Clock()
    trace = Trace("r", clock_ns=clock)
    open_span = trace.start("open")
    trace.start("child", parent=open_span)
    trace.start("done").end()
    clock.tick()
    trace.close("cancelled")
    trace.close("ok")
    assert [r.outcome for r in trace.records()] == ["cancelled", "cancelled", "cancelled", "ok"]
    assert {r.end_ns for r in trace.records() if r.outcome == "cancelled"} == {clock.now_ns}
    assert trace.outcome == "cancelled"


def test_a_failed_request_names_the_error_on_its_root_alone() -> None:
    with pytest.raises(OSError, match="gone"), Trace("r") as trace:
        trace.start("stage")
        raise OSError("gone")
    root, stage = trace.records()
    assert (root.outcome, root.error_type, stage.outcome, stage.error_type) == (
        "error",
        "OSError",
        "error",
        None,
    )


def test_inside_with_trace_the_root_is_current() -> None:
    with Trace("r") as trace:
        assert current_span() is trace.root
    assert current_span() is None
    assert trace.outcome == "ok"


def test_a_closed_trace_counts_what_comes_too_late() -> None:
    trace = Trace("r")
    late = trace.start("late")
    trace.close()
    late.mark("token")
    late.set(tokens=1)
    late.end()
    with trace.span("after") as after:
        assert current_span() is after
    trace.counter("depth", 1)
    assert [r.name for r in trace.records()] == ["linly.request", "late"]
    assert only(trace, "late").attrs == {}
    assert only(trace, "late").marks == ()
    assert trace.dropped == 1


def test_open_spans_are_shown_as_of_now() -> None:
    clock = Clock()
    trace = Trace("r", clock_ns=clock)
    span = trace.start("s", model="a")
    span.mark("token")
    clock.tick()
    before = only(trace, "s")
    span.set(model="b")
    assert (before.outcome, before.duration_ns, before.attrs) == ("open", MS, {"model": "a"})
    assert before.marks == (Mark("token", 1_000 * MS),)


def test_the_oldest_spans_are_dropped_and_counted() -> None:
    trace = Trace("r", max_records=10)
    for number in range(25):
        trace.start(f"s{number}").end()
    trace.close()
    assert [r.name for r in trace.records()][1:] == [f"s{n}" for n in range(16, 25)]
    assert trace.records()[0].name == "linly.request"
    assert (trace.dropped, len(trace)) == (16, 10)


def test_too_many_open_spans_are_dropped_and_counted() -> None:
    trace = Trace("r", max_records=10)
    spans = [trace.start("s") for _ in range(15)]
    for span in spans:
        span.end()
    assert len(trace) == 10
    assert trace.dropped == 6


def test_no_drop_is_missed_by_threads() -> None:
    trace = Trace("r", max_records=50, observed=False)

    def work() -> None:
        for _ in range(500):
            with trace.span("s"):
                pass

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert trace.dropped + len(trace) == 2001


def test_a_trace_needs_room_for_one_span() -> None:
    with pytest.raises(ValueError, match="max_records is 0"):
        Trace("r", max_records=0)


def test_attach_carries_the_span_into_a_thread_that_knows_nothing() -> None:
    trace = Trace("r")

    def work() -> None:
        assert current_span() is None
        with attach(stage), trace.span("model"):
            pass
        assert current_span() is None

    with trace.span("stage") as stage, ThreadPoolExecutor(1, thread_name_prefix="tts") as pool:
        pool.submit(work).result()
    model = only(trace, "model")
    assert parent_name(trace, "model") == "stage"
    assert model.thread_name == "tts_0"
    assert model.thread_id != only(trace, "stage").thread_id


def test_attach_nothing_hides_the_current_span() -> None:
    trace = Trace("r")
    with trace.span("s") as span:
        with attach(None):
            assert current_span() is None
        assert current_span() is span


def test_a_span_may_end_in_another_thread() -> None:
    trace = Trace("r")
    span = trace.start("s", exact=True)
    thread = threading.Thread(target=span.end)
    thread.start()
    thread.join()
    record = only(trace, "s")
    assert (record.outcome, record.cpu_ns) == ("ok", None)


@in_event_loop
async def test_tasks_do_not_see_each_others_spans() -> None:
    traces = [Trace(f"r{n}") for n in range(5)]

    async def request(trace: Trace) -> None:
        with trace.span("stage"):
            await asyncio.sleep(0)
            with trace.span("model"):
                await asyncio.sleep(0)

    await asyncio.gather(*map(request, traces))
    for trace in traces:
        assert parent_name(trace, "model") == "stage"
        assert {record.request_id for record in trace.records()} == {trace.request_id}


@in_event_loop
async def test_a_task_that_outlives_its_span_belongs_to_what_is_still_open() -> None:
    trace = Trace("r")
    go = asyncio.Event()

    async def straggler() -> None:
        await go.wait()
        trace.start("late").end()

    with trace.span("stage"), trace.span("model"):
        task = asyncio.create_task(straggler())
        await asyncio.sleep(0)
    go.set()
    await task
    assert parent_name(trace, "late") == "linly.request"


@in_event_loop
async def test_a_cancelled_task_leaves_a_cancelled_span() -> None:
    trace = Trace("r")

    async def stage() -> None:
        with trace.span("stage"):
            await asyncio.Event().wait()

    task = asyncio.create_task(stage())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert only(trace, "stage").outcome == "cancelled"


@in_event_loop
async def test_an_exact_span_names_its_task_and_charges_no_cpu_of_others() -> None:
    trace = Trace("r")

    async def stage() -> None:
        with trace.span("stage", exact=True):
            await asyncio.sleep(0)

    await asyncio.create_task(stage(), name="llm of turn 3")
    record = only(trace, "stage")
    assert (record.task, record.cpu_ns) == ("llm of turn 3", None)


def test_an_exact_span_outside_tasks_has_cpu_time() -> None:
    trace = Trace("r")
    with trace.span("s", exact=True):
        sum(range(100_000))
    cpu_ns = only(trace, "s").cpu_ns
    assert cpu_ns is not None
    assert cpu_ns > 0


def test_an_ordinary_span_measures_no_cpu() -> None:
    trace = Trace("r")
    with trace.span("s"):
        pass
    record = only(trace, "s")
    assert (record.cpu_ns, record.task, record.cuda) == (None, None, None)


def test_marks_keep_their_order_and_values() -> None:
    clock = Clock(0)
    trace = Trace("r", clock_ns=clock)
    with trace.span("s") as span:
        for number in range(3):
            clock.tick(1)
            span.mark("token")
            clock.tick(1)
            span.mark("kv_bytes", number * 10)
    assert only(trace, "s").marks == (
        Mark("token", 1),
        Mark("kv_bytes", 2, 0),
        Mark("token", 3),
        Mark("kv_bytes", 4, 10),
        Mark("token", 5),
        Mark("kv_bytes", 6, 20),
    )


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (2.6, 3),
        (float("nan"), None),
        (float("inf"), None),
        ("7", None),
        (2**70, 2**63 - 1),
        (-(2**70), -(2**63)),
    ],
)
def test_a_mark_with_an_odd_value_is_kept(given: int, kept: int | None) -> None:
    trace = Trace("r")
    with trace.span("s") as span:
        span.mark("m", given)
    assert [mark.value for mark in only(trace, "s").marks] == [kept]


def test_marks_are_bounded() -> None:
    trace = Trace("r")
    with trace.span("s") as span:
        for _ in range(65_540):
            span.mark("token")
        for number in range(100):
            span.mark(f"name {number}")
    marks = only(trace, "s").marks
    assert sum(mark.name == "token" for mark in marks) == 65_536
    assert len({mark.name for mark in marks}) == 65
    assert trace.dropped == 4


def test_marks_of_all_spans_together_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("linly_profiling.trace._MAX_MARKS", 10)
    trace = Trace("r", max_records=3)
    for _ in range(5):
        with trace.span("s") as span:
            for number in range(2):
                span.mark("token")
                span.mark("kv_bytes", number)
    kept = [len(record.marks) for record in trace.records()]
    assert kept == [0, 0, 0, 4]  # the last span has the room of the first, which is gone
    assert trace.dropped == 2 + 4 + 4


def test_attributes_are_bounded() -> None:
    trace = Trace("r")
    with trace.span("s", None, False, **{f"a{n}": n for n in range(70)}) as span:
        span.set(a0="still", **{"k" * 200: "x" * 5000})
    attrs = only(trace, "s").attrs
    assert (len(attrs), attrs["a0"]) == (64, "still")
    assert trace.dropped == 7


def test_any_attribute_name_will_do() -> None:
    trace = Trace("r")
    with trace.span("s", name="n", self="s") as span:
        span.set(self="t")
    assert only(trace, "s").attrs == {"name": "n", "self": "t"}


def test_counters_leave_out_what_is_no_number() -> None:
    clock = Clock()
    trace = Trace("r", clock_ns=clock)
    for value in (1, 2.5, float("nan"), float("inf"), True, 2**80):
        trace.counter("depth", value, track="llm")
    values = [sample.value for sample in trace.snapshot().samples if sample.name == "depth"]
    assert values == [1, 2.5, 1, float(2**80)]
    assert {sample.track for sample in trace.snapshot().samples} >= {"llm"}


def test_arrows_join_the_end_of_one_span_to_the_start_of_the_next() -> None:
    clock = Clock(0)
    trace = Trace("r", clock_ns=clock)
    text = trace.start("text")
    clock.tick(5)
    text.end()
    clock.tick(5)
    sound = trace.start("sound")
    trace.flow(text, sound, "sentence")
    trace.flow(text, sound, "sentence", from_ns=3, to_ns=11)
    trace.flow(text, Trace("other").root, "nowhere")
    ends = [(flow.from_id, flow.from_ns, flow.to_id, flow.to_ns) for flow in trace.snapshot().flows]
    assert ends == [(2, 5, 3, 10), (2, 3, 3, 11)]


def test_counters_and_arrows_are_bounded() -> None:
    trace = Trace("r", max_records=5)
    for number in range(9):
        trace.counter("depth", number)
        trace.flow(trace.root, trace.root)
    snapshot = trace.snapshot()
    assert [s.value for s in snapshot.samples if s.name == "depth"] == [4, 5, 6, 7, 8]
    assert len(snapshot.flows) == 5
    assert trace.dropped == 8


def test_long_names_are_cut() -> None:
    trace = Trace("x" * 5000)
    trace.start("n" * 500).end()
    assert len(trace.request_id) == 1024
    assert len(trace.records()[1].name) == 128


def test_public_names_are_sorted_and_exist() -> None:
    assert linly_profiling.__all__ == sorted(linly_profiling.__all__)
    assert all(hasattr(linly_profiling, name) for name in linly_profiling.__all__)
