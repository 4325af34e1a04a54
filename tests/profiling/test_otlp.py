"""Sending spans to a receiver that works, is slow, refuses, redirects, hangs up, or is not there."""

from __future__ import annotations

import dataclasses
import os
import re
import socket
import threading
import time
from collections.abc import Iterator
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest
from linly_profiling import LoadedTrace, Trace
from linly_profiling.context import otel_span_id, span_salt
from linly_profiling.otel import Otlp, sender
from linly_profiling.otel import names as names_module
from linly_profiling.otel import settings as env
from linly_profiling.otel.http import Connection, Verdict, wait_of
from linly_profiling.otel.sender import Counts, Sender
from linly_profiling.recorder import Recorder
from linly_profiling.sampling import Sampling
from otlp_receiver import Answer, Receiver, eventually, partial_success, plain, receiver

GUIDE = Path(__file__).parents[2] / "docs" / "opentelemetry.md"
QUICK_S = 5.0  # nobody waited: the limits that would apply else are longer
CALLER = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
VARIABLES = ("ENDPOINT", "TRACES_ENDPOINT", "HEADERS", "TRACES_HEADERS", "CERTIFICATE", "TRACES_CERTIFICATE")


@pytest.fixture(autouse=True)
def _environment_of_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    names = (
        "OTEL_SERVICE_NAME",
        "OTEL_RESOURCE_ATTRIBUTES",
        *(f"OTEL_EXPORTER_OTLP_{each}" for each in VARIABLES),
    )
    for name in names:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(name="server")
def _server() -> Iterator[tuple[Receiver, str]]:
    with receiver() as found:
        yield found


@pytest.fixture
def quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sender, "_FIRST_WAIT_S", 0.001)


def request(name: str = "r1", spans: int = 3) -> LoadedTrace:
    """A request of so many spans."""
    trace = Trace(name)
    for number in range(spans - 1):
        trace.start("work", number=number).end()
    trace.close()
    snapshot = trace.snapshot()
    # A garbage collection may have come in between.
    return dataclasses.replace(
        snapshot, spans=tuple(each for each in snapshot.spans if each.name in ("linly.request", "work"))
    )


def closed_port() -> str:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{held.getsockname()[1]}"


def otlp(url: str | None, **options: Any) -> Otlp:
    return Otlp(url, **{"delay_s": 0.0, **options})


def logged(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "linly_profiling"]


def senders() -> int:
    """Threads that send."""
    return sum(thread.name == "linly-otlp" for thread in threading.enumerate())


# The guide


def test_the_guides_code_works_and_its_service_hangs_below_its_caller(server: tuple[Receiver, str]) -> None:
    got, url = server
    switch_on, headers = re.findall(r"```python\n(.*?)```", GUIDE.read_text("utf-8"), re.DOTALL)
    names: dict[str, Any] = {}
    exec(switch_on.replace("http://127.0.0.1:4318", url), names)
    exec(headers, names)
    sent_on = names["serve"]({"traceparent": CALLER, "tracestate": "a=1"})
    names["recorder"].close()
    (request_span,) = [span for span in got.taken if span.name == "linly.request"]
    (call,) = [span for span in got.taken if span.name == "call the translator"]
    assert request_span.parent_span_id.hex() == CALLER[36:52]
    assert sent_on == {"traceparent": f"00-{CALLER[3:35]}-{call.span_id.hex()}-01", "tracestate": "a=1"}


def test_the_guide_knows_every_name_that_is_sent() -> None:
    guide = GUIDE.read_text("utf-8")
    source = Path(names_module.__file__).read_text("utf-8")
    names = set(re.findall(r'"((?:linly|gen_ai)\.[a-z_]+(?:\.[a-z_]+)*)"', source))
    never_sent = {"linly.request", "linly.stage", "llm.generate"} | names_module._CONTENT
    request_settings = {name for name in names if name.startswith("gen_ai.request.")}
    unknown = {
        name
        for name in names - never_sent - request_settings
        if f"`{name}`" not in guide and f"`.{name.rpartition('.')[2]}`" not in guide
    }
    assert unknown == set()


# A receiver that works


def test_five_thousand_spans_of_many_requests_arrive_and_none_is_lost(server: tuple[Receiver, str]) -> None:
    got, url = server
    exporter = otlp(url)
    made: list[Trace] = []

    def serve(worker: int) -> None:
        for number in range(25):
            trace = Trace(f"w{worker}-{number}", traceparent=CALLER if number == 7 else None)
            stage = trace.start("linly.stage llm", row="llm", stage="x")
            for piece in range(48):
                trace.start("work", stage, number=piece).end()
            stage.end()
            trace.close()
            made.append(trace)

    with Recorder(exporter):
        threads = [threading.Thread(target=serve, args=(worker,)) for worker in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    by_id = {(span.trace_id.hex(), int.from_bytes(span.span_id, "big")): span for span in got.taken}
    expected = [(trace, record) for trace in made for record in trace.records()]
    assert len(expected) >= 5_000  # with garbage collections in between
    assert len(got.taken) == len(by_id) == len(expected)
    for trace, record in expected:
        salt = span_salt(trace)
        span = by_id[trace.trace_id, otel_span_id(trace.trace_id, record.span_id, salt)]
        if record.parent_id is None:
            assert span.parent_span_id.hex() == (trace.remote_parent_id or "")
        else:
            parent = otel_span_id(trace.trace_id, record.parent_id, salt)
            assert int.from_bytes(span.parent_span_id, "big") == parent
        assert span.start_time_unix_nano == trace.epoch.wall_of(record.start_ns)
        assert span.end_time_unix_nano == trace.epoch.wall_of(record.end_ns)
        assert plain(span.attributes).get("linly.number") == record.attrs.get("number")
    assert sum(span.parent_span_id.hex() == CALLER[36:52] for span in got.taken) == 4
    assert dataclasses.astuple(exporter.statistics()) == (len(expected), 0, 0, 0)


def test_what_a_request_looks_like(server: tuple[Receiver, str], monkeypatch: pytest.MonkeyPatch) -> None:
    got, url = server
    monkeypatch.setenv(
        "OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=test,service.name=lost,city=K%C3%B6ln"
    )
    exporter = otlp(url, headers={"Authorization": "Bearer x"}, service_name="avatar", resource={"a": "b"})
    exporter.end(request(), kept=True)
    exporter.close()
    (sent,) = got.requests
    assert sent.path == "/v1/traces"
    assert sent.headers["content-type"] == "application/x-protobuf"
    assert sent.headers["authorization"] == "Bearer x"
    found = plain(sent.message.resource_spans[0].resource.attributes)
    assert found.pop("telemetry.sdk.version") is not None
    assert found == {
        "service.name": "avatar",
        "telemetry.sdk.name": "linly_profiling",
        "telemetry.sdk.language": "python",
        "process.pid": os.getpid(),
        "deployment.environment": "test",
        "city": "Köln",
        "a": "b",
    }


def test_the_name_of_the_machine_is_only_told_if_asked_for(server: tuple[Receiver, str]) -> None:
    got, url = server
    exporter = otlp(url, host=True)
    exporter.end(request(), kept=True)
    exporter.close()
    found = plain(got.requests[0].message.resource_spans[0].resource.attributes)
    assert found["host.name"] == socket.gethostname()


def test_requests_that_are_not_kept_are_not_sent(server: tuple[Receiver, str]) -> None:
    got, url = server
    exporter = otlp(url)
    with Recorder(exporter, sampling=Sampling(rate=0.0)):
        Trace("r1").close()
        Trace("r2").close("error")  # failed ones always are
    assert [plain(span.attributes)["linly.request.id"] for span in got.taken] == ["r2"]


def test_requests_that_end_together_are_sent_together(server: tuple[Receiver, str]) -> None:
    got, url = server
    exporter = otlp(url, delay_s=60.0)
    for number in range(50):
        exporter.end(request(f"r{number}"), kept=True)
    exporter.close()
    assert (len(got.requests), len(got.taken)) == (1, 150)


def test_a_large_request_is_sent_in_pieces_over_one_connection(server: tuple[Receiver, str]) -> None:
    got, url = server
    exporter = otlp(url)
    exporter.end(request(spans=5_000), kept=True)
    exporter.close()
    assert len(got.taken) == 5_000
    assert [sum(map(len, _spans(each))) for each in got.requests] == [2_000, 2_000, 1_000]
    assert got.connections == 1


def _spans(sent: Any) -> Iterator[Any]:
    return (scope.spans for resource in sent.message.resource_spans for scope in resource.scope_spans)


def test_a_span_takes_less_than_a_hundred_bytes_on_the_wire(server: tuple[Receiver, str]) -> None:
    got, url = server
    exporter = otlp(url)
    exporter.end(request(spans=1_000), kept=True)
    exporter.close()
    assert got.requests[0].size < 100 * 1_000


def test_after_a_close_the_next_request_starts_anew(server: tuple[Receiver, str]) -> None:
    got, url = server
    exporter = otlp(url)
    for name in ("r1", "r2"):
        exporter.end(request(name), kept=True)
        exporter.close()
    exporter.close()
    assert (len(got.taken), exporter.statistics().sent) == (6, 6)


def test_no_thread_is_started_before_there_is_something_to_send_nor_left_behind(
    server: tuple[Receiver, str],
) -> None:
    exporter = otlp(server[1])
    exporter.end(request(), kept=False)
    assert senders() == 0
    exporter.end(request(), kept=True)
    assert senders() == 1
    exporter.close()
    assert senders() == 0


class NoThread:
    """As at the end of the program."""

    def __init__(self, **options: Any) -> None: ...

    def start(self) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")


def test_where_no_thread_can_start_close_sends(
    server: tuple[Receiver, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    got, url = server
    exporter = otlp(url)
    with monkeypatch.context() as patched:
        patched.setattr(sender.threading, "Thread", NoThread)
        exporter.end(request(), kept=True)
    exporter.close()
    assert len(got.taken) == 3


def test_where_no_thread_can_start_a_receiver_that_hangs_holds_close_up_for_its_time_only(
    server: tuple[Receiver, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    got, url = server
    got.hold.clear()
    exporter = otlp(url, close_s=0.1, timeout_s=60.0)
    with monkeypatch.context() as patched:
        patched.setattr(sender.threading, "Thread", NoThread)
        exporter.end(request(), kept=True)
    start_s = time.monotonic()
    exporter.close()
    assert time.monotonic() - start_s < QUICK_S
    assert exporter.statistics().dropped == 3


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_sends_its_own_requests_and_not_its_parents(server: tuple[Receiver, str]) -> None:
    got, url = server
    got.hold.clear()  # so that the parent's request is on its way when it forks
    exporter = otlp(url)
    exporter.end(request("parent"), kept=True)
    got.wait(lambda it: len(it.requests) == 1)
    child = os.fork()
    if child == 0:
        exporter.end(request("child"), kept=True)
        exporter.close()
        os._exit(0 if exporter.statistics().sent == 3 else 1)
    got.wait(lambda it: len(it.requests) == 2)
    got.hold.set()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    exporter.close()
    assert exporter.statistics().sent == 3
    names = [plain(span.attributes).get("linly.request.id") for span in got.taken]
    assert sorted(filter(None, names)) == ["child", "parent"]
    pids = {plain(each.message.resource_spans[0].resource.attributes)["process.pid"] for each in got.requests}
    assert pids == {os.getpid(), child}


def test_encoding_takes_breaks_for_others_to_run(
    server: tuple[Receiver, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    breaks: list[float] = []
    monkeypatch.setattr(sender.time, "sleep", breaks.append)
    exporter = otlp(server[1])
    exporter.end(request(spans=800), kept=True)
    exporter.close()
    assert breaks.count(0) == 100


# A receiver in trouble


def test_nobody_there_slows_nothing_and_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    url = closed_port()
    exporter = otlp(url)
    slowest_s = 0.0
    for number in range(20):
        snapshot = request(f"r{number}")
        before_s = time.thread_time()
        exporter.end(snapshot, kept=True)
        slowest_s = max(slowest_s, time.thread_time() - before_s)
    start_s = time.monotonic()
    exporter.close()
    assert time.monotonic() - start_s < QUICK_S
    assert slowest_s < 0.02
    statistics = exporter.statistics()
    assert (statistics.sent, statistics.dropped, statistics.queued) == (0, 60, 0)
    (line,) = [line for line in logged(caplog) if "does not answer" in line]
    assert line.startswith(f"{url}/v1/traces does not answer: ")


def test_a_receiver_that_hangs_slows_neither_the_program_nor_its_end(
    server: tuple[Receiver, str], caplog: pytest.LogCaptureFixture
) -> None:
    got, url = server
    got.hold.clear()
    exporter = otlp(url, close_s=0.05, timeout_s=60.0)
    exporter.end(request("r1"), kept=True)
    got.wait(lambda it: len(it.requests) == 1)
    exporter.end(request("r2"), kept=True)
    assert exporter.statistics().queued == 6
    start_s = time.monotonic()
    exporter.close()
    assert time.monotonic() - start_s < QUICK_S
    statistics = exporter.statistics()
    assert (statistics.sent, statistics.dropped, statistics.queued) == (0, 6, 0)
    assert any("6 spans could not be sent before the end" in line for line in logged(caplog))
    assert senders() == 0


@pytest.mark.usefixtures("quick_retries")
def test_a_receiver_that_does_not_answer_in_time_is_asked_again(server: tuple[Receiver, str]) -> None:
    got, url = server
    got.hold.clear()
    exporter = otlp(url, timeout_s=0.05)
    exporter.end(request(), kept=True)
    got.wait(lambda it: len(it.requests) == 2)
    got.hold.set()
    eventually(lambda: exporter.statistics().sent == 3)
    exporter.close()


def test_a_full_queue_drops_whole_requests_counts_them_and_says_so_once(
    server: tuple[Receiver, str], caplog: pytest.LogCaptureFixture
) -> None:
    got, url = server
    got.hold.clear()
    exporter = otlp(url, max_queue=10)
    exporter.end(request("large", spans=50), kept=True)  # larger than the queue, but it is empty
    got.wait(lambda it: len(it.requests) == 1)
    for number in range(5):
        exporter.end(request(f"r{number}"), kept=True)
    assert exporter.statistics().dropped == 15
    got.hold.set()
    exporter.close()
    assert (len(got.taken), exporter.statistics().sent) == (50, 50)
    assert len([line for line in logged(caplog) if "spans are dropped" in line]) == 1


@pytest.mark.parametrize("status", [429, 502, 503, 504])
@pytest.mark.usefixtures("quick_retries")
def test_a_receiver_that_is_busy_gets_the_spans_later(server: tuple[Receiver, str], status: int) -> None:
    got, url = server
    got.answers = [Answer(status), Answer(status)]
    exporter = otlp(url)
    exporter.end(request(), kept=True)
    eventually(lambda: exporter.statistics().sent == 3)
    exporter.close()
    assert (len(got.requests), len(got.taken)) == (3, 3)


def test_a_receiver_is_left_alone_for_as_long_as_it_asks(
    server: tuple[Receiver, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    got, url = server
    got.answers = [Answer(503, headers=(("Retry-After", "17"),)), Answer(429)]
    asked: list[float | None] = []

    def pause(self: Sender, tries: int, verdict: Verdict) -> bool:
        asked.append(verdict.wait_s)
        return True

    monkeypatch.setattr(Sender, "_pause", pause)
    exporter = otlp(url)
    exporter.end(request(), kept=True)
    exporter.close()
    assert asked == [17.0, None]
    assert len(got.taken) == 3


def test_a_wait_beyond_the_end_is_not_waited_for(server: tuple[Receiver, str]) -> None:
    got, url = server
    got.answers = [Answer(503, headers=(("Retry-After", "60"),))]
    exporter = otlp(url)
    exporter.end(request(), kept=True)
    got.wait(lambda it: len(it.requests) == 1)
    start_s = time.monotonic()
    exporter.close()
    assert time.monotonic() - start_s < QUICK_S
    assert (len(got.requests), exporter.statistics().dropped) == (1, 3)


def test_a_busy_receiver_is_not_hammered_at_the_end(
    server: tuple[Receiver, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sender, "_FIRST_WAIT_S", 0.02)
    got, url = server
    got.answers = [Answer(503)] * 1_000
    exporter = otlp(url, close_s=0.2)
    exporter.end(request(), kept=True)
    exporter.close()
    assert 1 <= len(got.requests) <= 8
    assert exporter.statistics().dropped == 3


class Ending(threading.Event):
    """The end comes while somebody waits for it."""

    def wait(self, timeout: float | None = None) -> bool:
        self.set()
        return True


class Lasting(threading.Event):
    """The end never comes; how long it was waited for is noted."""

    def __init__(self) -> None:
        super().__init__()
        self.waited: list[float] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.waited.append(timeout or 0.0)
        return False


def idle_sender(closing: threading.Event) -> Sender:
    exporter = otlp(closed_port())
    held = Sender(exporter._settings, Counts())
    held._closing = closing
    held._deadline_s = time.monotonic() + 3.0
    return held


def test_the_end_cuts_a_wait_short_that_the_receiver_did_not_ask_for() -> None:
    assert idle_sender(Ending())._pause(8, Verdict(again=True))
    assert not idle_sender(Ending())._pause(8, Verdict(again=True, wait_s=1_000.0))


def test_waits_grow_and_have_an_end() -> None:
    closing = Lasting()
    held = idle_sender(closing)
    for tries in range(10):
        assert held._pause(tries, Verdict(again=True))
    for tries, wait_s in enumerate(closing.waited):
        assert min(2**tries, 30) / 2 <= wait_s <= min(2**tries, 30)


@pytest.mark.usefixtures("quick_retries")
def test_spans_that_nobody_takes_for_long_are_given_up(server: tuple[Receiver, str]) -> None:
    got, url = server
    got.answers = [Answer(503)] * 1_000
    exporter = otlp(url, retry_s=0.01)
    exporter.end(request(), kept=True)
    eventually(lambda: exporter.statistics().dropped == 3)
    got.answers = []
    exporter.end(request(), kept=True)
    exporter.close()
    assert exporter.statistics().sent == 3


@pytest.mark.parametrize("status", [400, 401, 404, 413, 500, 501])
def test_a_refusal_is_final_and_the_next_request_is_sent_all_the_same(
    server: tuple[Receiver, str], status: int, caplog: pytest.LogCaptureFixture
) -> None:
    got, url = server
    got.answers = [Answer(status, b"\x12\x0bbad\nspans 1", "application/x-protobuf")]
    exporter = otlp(url)
    for name in ("r1", "r2"):
        exporter.end(request(name), kept=True)
        eventually(lambda: exporter.statistics().queued == 0)
    exporter.close()
    statistics = exporter.statistics()
    assert (len(got.requests), statistics.dropped, statistics.sent) == (2, 3, 3)
    assert logged(caplog) == [f"{url}/v1/traces refuses spans ({status}): bad spans 1"]


@pytest.mark.usefixtures("quick_retries")
def test_a_connection_that_is_closed_without_an_answer_is_opened_again(
    server: tuple[Receiver, str], caplog: pytest.LogCaptureFixture
) -> None:
    got, url = server
    got.answers = [Answer(None), Answer(None)]
    exporter = otlp(url)
    exporter.end(request(), kept=True)
    eventually(lambda: exporter.statistics().sent == 3)
    exporter.close()
    assert len(got.requests) == 3
    assert len(logged(caplog)) == 1


def test_a_connection_that_the_receiver_closed_while_it_was_idle_is_no_trouble(
    server: tuple[Receiver, str], caplog: pytest.LogCaptureFixture
) -> None:
    got, url = server
    got.answers = [Answer(headers=(("x-odd", "1"),)), Answer(None)]
    exporter = otlp(url)
    for name in ("r1", "r2"):
        exporter.end(request(name), kept=True)
        eventually(lambda: exporter.statistics().queued == 0)
    exporter.close()
    assert exporter.statistics().sent == 6
    assert got.connections == 2
    assert logged(caplog) == []


def test_spans_that_the_receiver_threw_away_are_counted_and_not_sent_again(
    server: tuple[Receiver, str], caplog: pytest.LogCaptureFixture
) -> None:
    got, url = server
    got.answers = [
        partial_success(2, "too old"),
        Answer(body=b'{"partialSuccess":{"rejectedSpans":"1"}}', kind="application/json"),
    ]
    exporter = otlp(url)
    for name in ("r1", "r2"):
        exporter.end(request(name), kept=True)
        eventually(lambda: exporter.statistics().queued == 0)
    exporter.close()
    statistics = exporter.statistics()
    assert (len(got.requests), statistics.sent, statistics.rejected, statistics.dropped) == (2, 3, 3, 0)
    assert logged(caplog) == [f"{url}/v1/traces threw 2 spans away: too old"]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (Answer(301, headers=(("location", "https://x/y"),)), "redirects to https://x/y: set the endpoint"),
        (Answer(307), "redirects: set the endpoint"),
        (
            Answer(200, b"<html>", "text/html; charset=utf-8"),
            "answers with a web page (200): it is no receiver",
        ),
        (Answer(404, b"<html>", "text/html"), "answers with a web page (404)"),
        (Answer(200, b"hello", "text/plain"), "answers with text/plain that is not OTLP"),
        (Answer(200, b"[", "application/json"), "answers with application/json that is not OTLP"),
        (Answer(200, b'{"partialSuccess":{"rejectedSpans":"x"}}', "application/json"), "not OTLP"),
        (Answer(200, b'{"partialSuccess":{"rejectedSpans":[1]}}', "application/json"), "not OTLP"),
        (Answer(200, b"[" * 50_000, "application/json"), "not OTLP"),
        (Answer(403, b"no\xff key", "text/plain"), "refuses spans (403): no\ufffd key"),
        (Answer(500, b"", "text/plain"), "refuses spans (500): it does not say why"),
    ],
)
def test_a_wrong_address_is_said_clearly_and_once(
    server: tuple[Receiver, str], caplog: pytest.LogCaptureFixture, answer: Answer, said: str
) -> None:
    got, url = server
    got.answers = [answer, answer]
    exporter = otlp(url)
    for name in ("r1", "r2"):
        exporter.end(request(name), kept=True)
        eventually(lambda: exporter.statistics().queued == 0)
    exporter.close()
    assert exporter.statistics().dropped == 6
    (line,) = logged(caplog)
    assert said in line


def test_a_receiver_that_speaks_something_else_does_no_harm(caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            peer, _ = listener.accept()
            with peer:
                peer.recv(1_000_000)
                peer.sendall(
                    b"\x00\x00\x06\x04\x00\x00\x00\x00\x00\x00\x05\x00\x00\x40\x00"
                )  # HTTP/2 settings

        thread = threading.Thread(target=answer)
        thread.start()
        exporter = otlp(f"http://127.0.0.1:{listener.getsockname()[1]}")
        exporter.end(request(), kept=True)
        thread.join()
        exporter.close()
    assert exporter.statistics().dropped == 3
    assert "does not answer" in logged(caplog)[0]


def test_a_host_that_cannot_be_is_unreachable_like_any_other() -> None:
    verdict = Connection(env.target(f"http://{'a' * 70}:1"), {}).post(b"", 1.0)
    assert (verdict.answered, verdict.topic) == (False, "unreachable")


def test_the_port_of_grpc_is_recognised() -> None:
    verdict = Connection(env.target("http://127.0.0.1:4317"), {}).post(b"", 1.0)
    assert "port 4317 speaks gRPC, HTTP is on 4318" in verdict.trouble


def test_a_trace_that_cannot_be_mapped_does_not_keep_the_others(
    server: tuple[Receiver, str], caplog: pytest.LogCaptureFixture
) -> None:
    got, url = server
    broken = request("broken")
    broken = LoadedTrace(**{**vars(broken), "trace_id": "no hexadecimal digits"})
    exporter = otlp(url, delay_s=60.0)
    exporter.end(broken, kept=True)
    exporter.end(request("r2"), kept=True)
    exporter.close()
    statistics = exporter.statistics()
    assert (statistics.sent, statistics.dropped, len(got.taken)) == (3, 3, 3)
    assert "a trace cannot be sent: ValueError" in logged(caplog)[0]


# Settings


@pytest.mark.parametrize(
    ("given", "variables", "url"),
    [
        (None, {}, "http://127.0.0.1:4318/v1/traces"),
        ("http://c:4318", {}, "http://c:4318/v1/traces"),
        ("http://c:4318/", {}, "http://c:4318/v1/traces"),
        ("https://c/otlp/traces", {}, "https://c/otlp/traces"),
        ("http://[::1]:4318", {}, "http://[::1]:4318/v1/traces"),
        (None, {"ENDPOINT": "http://c:4318"}, "http://c:4318/v1/traces"),
        (None, {"ENDPOINT": "https://c/base/"}, "https://c/base/v1/traces"),
        (None, {"ENDPOINT": "http://c", "TRACES_ENDPOINT": "http://d/x"}, "http://d/x"),
        (None, {"TRACES_ENDPOINT": "http://d"}, "http://d/"),
        (None, {"TRACES_ENDPOINT": " "}, "http://127.0.0.1:4318/v1/traces"),
        ("http://a", {"ENDPOINT": "http://c"}, "http://a/v1/traces"),
    ],
)
def test_where_spans_go(
    given: str | None, variables: dict[str, str], url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(f"OTEL_EXPORTER_OTLP_{name}", value)
    assert env.target(given).url == url
    assert repr(Otlp(given)) == f"Otlp({url!r})"


@pytest.mark.parametrize(
    "endpoint", ["", "collector:4318", "ftp://c", "http://", "http://c:x", "http://[c", "grpc://c"]
)
def test_an_endpoint_that_is_no_web_server_is_refused_at_once(endpoint: str) -> None:
    with pytest.raises(ValueError, match="the endpoint is no"):
        Otlp(endpoint)


def test_a_password_in_an_endpoint_is_refused_and_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    for url in ("http://me:hunter2@c", "me:hunter2@c"):
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
        with pytest.raises(ValueError, match="OTEL_EXPORTER_OTLP_ENDPOINT") as caught:
            Otlp()
        assert "hunter2" not in str(caught.value)


def test_headers_come_from_the_environment_and_the_caller_has_the_last_word(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "api-key=a%20b%3D, X-Team = c ,sesame,=x,bad=a%0Ab")
    assert env.headers({"x-team": "d"}) == {"api-key": "a b=", "x-team": "d"}
    assert "sesame" not in caplog.text  # it may be a secret
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "only=this")
    assert env.headers(None) == {"only": "this"}


@pytest.mark.parametrize("header", [("a", "b\r\nc: d"), ("a b", "c"), ("", "c"), ("a", "你"), ("a:", "b")])
def test_a_header_that_cannot_be_sent_is_refused_at_once(header: tuple[str, str]) -> None:
    with pytest.raises(ValueError, match="cannot be sent"):
        Otlp(headers=dict([header]))


@pytest.mark.parametrize(
    ("given", "variables", "name"),
    [
        (None, {}, "linly"),
        (None, {"OTEL_RESOURCE_ATTRIBUTES": "service.name=a"}, "a"),
        (None, {"OTEL_RESOURCE_ATTRIBUTES": "service.name=a", "OTEL_SERVICE_NAME": "b"}, "b"),
        ("c", {"OTEL_SERVICE_NAME": "b"}, "c"),
    ],
)
def test_who_names_the_service(
    given: str | None,
    variables: dict[str, str],
    name: str,
    monkeypatch: pytest.MonkeyPatch,
    server: tuple[Receiver, str],
) -> None:
    for variable, value in variables.items():
        monkeypatch.setenv(variable, value)
    exporter = otlp(server[1], service_name=given)
    exporter.end(request(), kept=True)
    exporter.close()
    found = plain(server[0].requests[0].message.resource_spans[0].resource.attributes)
    assert found["service.name"] == name


def test_how_long_a_receiver_wants_to_be_left_alone() -> None:
    assert wait_of(None) is None
    assert wait_of("soon") is None
    assert wait_of("-1") is None
    assert wait_of(" 7 ") == 7.0
    assert wait_of("99999999") == 300.0
    assert wait_of(formatdate(time.time() - 3_600, usegmt=True)) == 0.0
    in_a_minute = wait_of(formatdate(time.time() + 60, usegmt=True))
    assert in_a_minute is not None
    assert 50 < in_a_minute <= 60


def test_an_encrypted_receiver_needs_a_certificate_that_can_be_trusted(
    server: tuple[Receiver, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    target = env.target(server[1].replace("http:", "https:"))
    refused = Connection(target, {}).post(b"", 2.0)
    assert (refused.answered, refused.again) == (False, True)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", "/nowhere/ca.pem")
    assert "No such file" in Connection(target, {}).post(b"", 2.0).trouble
