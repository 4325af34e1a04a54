"""A small HTTP server for scrapes, for programs that have none of their own."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

_JOIN_S = 5.0


class MetricsServer:
    """Serves a registry until it is closed; also as a context manager.

    Attributes:
        host: the address it listens on.
        port: its port.
        url: where to scrape.
    """

    def __init__(self, registry: CollectorRegistry, port: int, host: str) -> None:
        """See `Prometheus.serve`."""
        from prometheus_client import start_http_server

        try:
            self._server, self._thread = start_http_server(port, host, registry)
        except OSError as error:
            reason = f"metrics cannot be served at {host}:{port}: {error.strerror or error}"
            raise OSError(error.errno, reason) from error
        self.host, self.port = host, int(self._server.server_port)
        shown = f"[{host}]" if ":" in host else host
        self.url = f"http://{shown}:{self.port}/metrics"

    def close(self) -> None:
        """Stop listening, and wait until the server's thread has ended. Safe to call again."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(_JOIN_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
