"""One connection to a receiver of spans, and what its answers mean."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import NamedTuple

from linly_profiling.otel.encode import Answer, answer_of, status_message
from linly_profiling.otel.settings import Target, certificate

_MAX_ANSWER = 65_536
_LONGEST_WAIT_S = 300.0  # whatever a receiver asks for
_TRY_AGAIN = (429, 502, 503, 504)  # and no other, says https://opentelemetry.io/docs/specs/otlp/
_PROTOBUF = "application/x-protobuf"
_GRPC_PORT = 4317


class Verdict(NamedTuple):
    """What became of one request.

    Attributes:
        delivered: the receiver took it.
        again: worth another try.
        wait_s: how long the receiver wants to be left alone; None: it does not say.
        rejected: spans that it took, but threw away.
        answered: somebody is there.
        topic: what kind of trouble it is.
        trouble: a sentence about it, or "".
    """

    delivered: bool = False
    again: bool = False
    wait_s: float | None = None
    rejected: int = 0
    answered: bool = True
    topic: str = ""
    trouble: str = ""


class Connection:
    """Sends requests one after the other, over one connection where the receiver allows it."""

    def __init__(self, target: Target, headers: Mapping[str, str]) -> None:
        self._target = target
        self._headers = dict(headers)
        self._open: http.client.HTTPConnection | None = None

    def post(self, body: bytes, timeout_s: float) -> Verdict:
        """Send one request. Never raises for what the network or the receiver does."""
        try:
            return self._answer(body, timeout_s)
        except (
            OSError,
            http.client.HTTPException,
            UnicodeError,
        ) as error:  # the last: no host can be called so
            self.close()
            return Verdict(again=True, answered=False, topic="unreachable", trouble=self._unreachable(error))

    def _answer(self, body: bytes, timeout_s: float) -> Verdict:
        if self._open is not None and self._open.sock is not None:
            self._open.sock.settimeout(timeout_s)
            # The receiver may have closed a connection that was idle; that says nothing about this request.
            with contextlib.suppress(ConnectionError, http.client.HTTPException):
                return self._exchange(self._open, body)
        self.close()
        self._open = self._connect(timeout_s)
        return self._exchange(self._open, body)

    def _connect(self, timeout_s: float) -> http.client.HTTPConnection:
        host, port = self._target.host, self._target.port
        if not self._target.secure:
            return http.client.HTTPConnection(host, port, timeout=timeout_s)
        import ssl

        trusted = ssl.create_default_context(cafile=certificate())
        return http.client.HTTPSConnection(host, port, timeout=timeout_s, context=trusted)

    def _exchange(self, connection: http.client.HTTPConnection, body: bytes) -> Verdict:
        connection.request("POST", self._target.path, body, self._headers)
        response = connection.getresponse()
        answer = response.read(_MAX_ANSWER)
        if not response.isclosed():  # more than anybody has to say
            self.close()
        headers = {name.lower(): value for name, value in response.getheaders()}
        return verdict(self._target, response.status, headers, answer)

    def _unreachable(self, error: Exception) -> str:
        reason = str(error) or type(error).__name__
        hint = f"; port {_GRPC_PORT} speaks gRPC, HTTP is on 4318" if self._target.port == _GRPC_PORT else ""
        return f"{self._target.url} does not answer: {reason}{hint}"

    def interrupt(self) -> None:
        """From another thread: have a `post` that waits for the receiver fail at once."""
        held = self._open.sock if self._open is not None else None
        if held is not None:
            with contextlib.suppress(OSError):
                held.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None


def verdict(target: Target, status: int, headers: Mapping[str, str], body: bytes) -> Verdict:
    """What an answer means; the names of its headers are in lower case."""
    kind = (headers.get("content-type") or "").partition(";")[0].strip().lower()
    again = status in _TRY_AGAIN
    wait_s = wait_of(headers.get("retry-after")) if again else None
    if 300 <= status < 400:
        where = f" to {headers.get('location')}" if headers.get("location") else ""
        trouble = f"{target.url} redirects{where}: set the endpoint to where spans are taken"
    elif kind == "text/html":
        trouble = f"{target.url} answers with a web page ({status}): it is no receiver of OTLP over HTTP"
    elif 200 <= status < 300:
        return _taken(target, kind, body)
    else:
        said = status_message(body) if kind == _PROTOBUF else body[:200].decode("utf-8", "replace")
        trouble = f"{target.url} refuses spans ({status}): {_line(said)}"
    return Verdict(again=again, wait_s=wait_s, topic=f"{status} {kind}", trouble=trouble)


def _taken(target: Target, kind: str, body: bytes) -> Verdict:
    try:
        answer = _json_answer(body) if kind == "application/json" else answer_of(body)
    except (ValueError, TypeError, RecursionError):
        trouble = (
            f"{target.url} answers with {kind or 'something'} that is not OTLP: is it a receiver of spans?"
        )
        return Verdict(topic="not OTLP", trouble=trouble)
    if not answer.rejected and not answer.message:
        return Verdict(delivered=True)
    trouble = f"{target.url} threw {answer.rejected} spans away: {_line(answer.message)}"
    return Verdict(delivered=True, rejected=answer.rejected, topic="rejected", trouble=trouble)


def _line(said: str) -> str:
    return " ".join(said.split())[:200] or "it does not say why"


def _json_answer(body: bytes) -> Answer:
    data = json.loads(body or b"{}")
    said = data.get("partialSuccess") if isinstance(data, dict) else None
    if not isinstance(said, dict):
        return Answer(0, "")
    return Answer(int(said.get("rejectedSpans") or 0), str(said.get("errorMessage") or ""))


def wait_of(retry_after: str | None) -> float | None:
    """The header `Retry-After`: seconds, or a date. 0 to 300 s; None if there is none that can be read."""
    if not retry_after:
        return None
    text = retry_after.strip()
    if text.isdecimal():
        return min(float(text), _LONGEST_WAIT_S)
    try:
        left_s = parsedate_to_datetime(text).timestamp() - time.time()
    except (ValueError, TypeError):
        return None
    return min(max(0.0, left_s), _LONGEST_WAIT_S)
