"""A receiver of OTLP over HTTP that shares no code with the sender: it reads with OpenTelemetry's own classes."""

from __future__ import annotations

import gzip
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

PATIENCE_S = 20.0


class Answer(NamedTuple):
    """What to answer; without a status the connection is closed instead."""

    status: int | None = 200
    body: bytes = b""
    kind: str = "application/x-protobuf"
    headers: tuple[tuple[str, str], ...] = ()


class Request(NamedTuple):
    path: str
    headers: dict[str, str]
    message: ExportTraceServiceRequest
    size: int


def partial_success(rejected: int, message: str) -> Answer:
    response = ExportTraceServiceResponse()
    response.partial_success.rejected_spans = rejected
    response.partial_success.error_message = message
    return Answer(body=response.SerializeToString())


class Receiver:
    """Answers in the order of `answers`, then with success. `hold` keeps all answers back while it is not set."""

    def __init__(self) -> None:
        self.answers: list[Answer] = []
        self.requests: list[Request] = []
        self.taken: list[Any] = []
        self.connections = 0
        self.hold = threading.Event()
        self.hold.set()
        self._changed = threading.Condition()

    def note(self, request: Request) -> Answer:
        with self._changed:
            self.requests.append(request)
            answer = self.answers.pop(0) if self.answers else Answer()
            if answer.status is not None and 200 <= answer.status < 300:
                self.taken += spans_of(request)
            self._changed.notify_all()
        self.hold.wait(PATIENCE_S)
        return answer

    def wait(self, ready: Callable[[Receiver], bool]) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: ready(self), PATIENCE_S), (
                f"after {PATIENCE_S} s: {len(self.requests)} requests, {len(self.taken)} spans"
            )


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    receiver: Receiver


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def setup(self) -> None:
        super().setup()
        self.server.receiver.connections += 1

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        message = ExportTraceServiceRequest()
        message.ParseFromString(gzip.decompress(body))
        headers = {name.lower(): value for name, value in self.headers.items()}
        answer = self.server.receiver.note(Request(self.path, headers, message, len(body)))
        if answer.status is None:
            self.close_connection = True
            return
        self.send_response(answer.status)
        self.send_header("content-type", answer.kind)
        self.send_header("content-length", str(len(answer.body)))
        for name, value in answer.headers:
            self.send_header(name, value)
        with suppress(ConnectionError):  # the sender did not wait for it
            self.end_headers()
            self.wfile.write(answer.body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def receiver() -> Iterator[tuple[Receiver, str]]:
    """A receiver on a free port of this machine, and its URL."""
    with _Server(("127.0.0.1", 0), _Handler) as server:
        server.receiver = Receiver()
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server.receiver, f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.receiver.hold.set()
            server.shutdown()
            thread.join()


def spans_of(request: Request) -> list[Any]:
    (resource_spans,) = request.message.resource_spans
    (scope_spans,) = resource_spans.scope_spans
    return list(scope_spans.spans)


def plain(pairs: Any) -> dict[str, Any]:
    """Attributes as a dictionary; a name that comes twice is an error."""
    found: dict[str, Any] = {}
    for pair in pairs:
        assert isinstance(pair, KeyValue)
        assert pair.key not in found
        found[pair.key] = _value(pair.value)
    return found


def _value(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    assert kind is not None
    if kind == "array_value":
        return [_value(item) for item in value.array_value.values]
    return getattr(value, kind)


def eventually(ready: Callable[[], bool]) -> None:
    """Wait for what another thread does."""
    deadline_s = time.monotonic() + PATIENCE_S
    while not ready():
        assert time.monotonic() < deadline_s
        time.sleep(0.002)
