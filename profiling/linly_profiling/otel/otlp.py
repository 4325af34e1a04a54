"""Sends requests to an OpenTelemetry collector, or to anything else that takes OTLP over HTTP."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version

from linly_profiling.otel import settings
from linly_profiling.otel.http import Connection
from linly_profiling.otel.names import Attributes, resource_attributes
from linly_profiling.otel.sender import Counts, Sender, Settings
from linly_profiling.record import LoadedTrace
from linly_profiling.recorder import Exporter


@dataclass(frozen=True)
class OtlpStatistics:
    """Spans, by what became of them.

    Attributes:
        sent: the receiver took them.
        rejected: the receiver took the request, but not these.
        dropped: there was no room, no receiver, or no hope.
        queued: they wait, or are being sent.
    """

    sent: int
    rejected: int
    dropped: int
    queued: int


class Otlp(Exporter):
    """For a `Recorder`: sends each request that is kept when it has ended, as protobuf, compressed.

    It has a thread of its own from the first request to `close`, so a receiver that is slow, hangs or is down
    slows nothing. What cannot be sent is tried again as the protocol says, then dropped and counted; the log has
    one line for each kind of trouble.
    """

    def __init__(
        self,
        endpoint: str | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        service_name: str | None = None,
        resource: Mapping[str, str] | None = None,
        host: bool = False,
        content: bool = False,
        timeout_s: float = 10.0,
        max_queue: int = 16_384,
        delay_s: float = 1.0,
        retry_s: float = 60.0,
        close_s: float = 3.0,
    ) -> None:
        """Nothing is sent, and nobody is asked, before the first request has ended.

        Args:
            endpoint: the whole URL; one without a path gets `/v1/traces`. By default what the environment variables
                `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT` and `OTEL_EXPORTER_OTLP_ENDPOINT` say, else this machine.
            headers: to send along, over those of `OTEL_EXPORTER_OTLP_HEADERS`.
            service_name: by default `OTEL_SERVICE_NAME`, else "linly".
            resource: attributes of all spans, over those of `OTEL_RESOURCE_ATTRIBUTES`.
            host: also tell the name of this machine.
            content: also send what was said, where the program has recorded it, as attributes `linly.pii.…`.
            timeout_s: how long to wait for an answer.
            max_queue: most spans that wait, at about 1 kB each.
            delay_s: how long to wait for more requests to send together.
            retry_s: how long to try before spans are dropped.
            close_s: most seconds that `close` takes.

        Raises:
            ValueError: the endpoint is no URL of a web server, or a header cannot be sent.
        """
        self._target = settings.target(endpoint)
        self._headers = {
            "user-agent": "linly_profiling",
            **settings.headers(headers),
            "content-type": "application/x-protobuf",
            "content-encoding": "gzip",
        }
        self._resource = settings.resource(resource)
        self._service_name = settings.service_name(service_name, self._resource)
        self._resource.pop("service.name", None)
        if host:
            self._resource.setdefault("host.name", socket.gethostname())
        self._version = _version()
        self._close_s = close_s
        self._settings = Settings(
            connect=lambda: Connection(self._target, self._headers),
            resource=self._common,
            version=self._version,
            content=content,
            timeout_s=timeout_s,
            max_queue=max_queue,
            delay_s=delay_s,
            retry_s=retry_s,
        )
        self._counts = Counts()
        self._sender: Sender | None = None
        self._pid = os.getpid()

    def end(self, trace: LoadedTrace, kept: bool) -> None:
        """Queue a request. Never waits."""
        if os.getpid() != self._pid:
            self.forked()
        if not kept or not trace.spans:
            return
        if self._sender is None:
            self._sender = Sender(self._settings, self._counts)
        self._sender.put(replace(trace, samples=()))  # counters are not sent: they need not wait in memory

    def close(self) -> None:
        """Send what waits, for at most `close_s`. A request that ends afterwards starts anew."""
        sender, self._sender = self._sender, None
        if sender is not None and os.getpid() == self._pid:
            sender.close(self._close_s)

    def forked(self) -> None:
        """In a child process: what waits is the parent's to send, and so is the connection."""
        self._pid = os.getpid()
        self._sender = None
        self._counts = Counts()

    def statistics(self) -> OtlpStatistics:
        counts, sender = self._counts, self._sender
        return OtlpStatistics(
            sent=counts.sent,
            rejected=counts.rejected,
            dropped=counts.dropped,
            queued=0 if sender is None else sender.queued,
        )

    def __repr__(self) -> str:
        return f"Otlp({self._target.url!r})"

    def _common(self) -> Attributes:
        return resource_attributes(self._service_name, self._version, os.getpid(), self._resource)


def _version() -> str:
    try:
        return version("linly-pipeline")
    except PackageNotFoundError:  # used from a source tree
        return ""
