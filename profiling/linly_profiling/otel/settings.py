"""Where spans go: what the caller says, else the environment variables of OpenTelemetry, else this machine.

The variables are those of https://opentelemetry.io/docs/specs/otel/protocol/exporter/ and of
https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

_log = logging.getLogger("linly_profiling")

TRACES_PATH = "/v1/traces"
_HERE = "http://127.0.0.1:4318"


class Target(NamedTuple):
    """A receiver of spans. `url` is for messages."""

    url: str
    secure: bool
    host: str
    port: int
    path: str


def target(endpoint: str | None) -> Target:
    """Read an address.

    Args:
        endpoint: a whole URL; one without a path gets `/v1/traces`. None: `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT` as it
            is, or `OTEL_EXPORTER_OTLP_ENDPOINT` and `/v1/traces`, or port 4318 of this machine.

    Raises:
        ValueError: it is not the URL of a web server.
    """
    if endpoint is not None:
        return _parsed(endpoint, "the endpoint", TRACES_PATH)
    exact = os.environ.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "").strip()
    if exact:
        return _parsed(exact, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "/")
    base = os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT", "").strip() or _HERE
    return _parsed(base.rstrip("/") + TRACES_PATH, "OTEL_EXPORTER_OTLP_ENDPOINT", "/")


def _parsed(url: str, source: str, default_path: str) -> Target:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise ValueError(f"{source} is not a URL: {error}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f'{source} is no URL of a web server, like "http://127.0.0.1:4318": {_shown(url)}')
    if parts.username or parts.password:
        raise ValueError(f"{source} holds a user name or password; send them as a header instead")
    secure = parts.scheme == "https"
    path = (parts.path if parts.path != "/" else "") or default_path
    if parts.query:
        path += f"?{parts.query}"
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    default_port = 443 if secure else 80
    shown = f"{parts.scheme}://{host}{'' if port is None else f':{port}'}{path.partition('?')[0]}"
    return Target(shown, secure, parts.hostname, default_port if port is None else port, path)


def _shown(url: str) -> str:
    """Without what may be a password."""
    return repr(url.rpartition("@")[2][:200])


def headers(given: Mapping[str, str] | None) -> dict[str, str]:
    """The caller's headers over those of `OTEL_EXPORTER_OTLP_TRACES_HEADERS` or `OTEL_EXPORTER_OTLP_HEADERS`.

    Raises:
        ValueError: the caller's cannot stand in a request.
    """
    for name, value in (given or {}).items():
        if not _can_be_sent(name, value):
            raise ValueError(
                f"header {name!r} cannot be sent: it holds a line break, or a character beyond Latin-1"
            )
    text = (
        os.environ.get("OTEL_EXPORTER_OTLP_TRACES_HEADERS")
        or os.environ.get("OTEL_EXPORTER_OTLP_HEADERS")
        or ""
    )
    found = {name: value for name, value in _pairs(text).items() if _can_be_sent(name, value)}
    return {name.lower(): value for name, value in {**found, **(given or {})}.items()}


def _can_be_sent(name: str, value: str) -> bool:
    return (
        name.isascii()
        and name.replace("-", "").replace("_", "").replace(".", "").isalnum()
        and (value.isprintable() and all(char <= "\xff" for char in value))
    )


def resource(given: Mapping[str, str] | None) -> dict[str, str]:
    """The caller's resource attributes over those of `OTEL_RESOURCE_ATTRIBUTES`."""
    return {**_pairs(os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "")), **(given or {})}


def service_name(given: str | None, resource_attributes: Mapping[str, str]) -> str:
    """The caller's word, else `OTEL_SERVICE_NAME`, else the resource's `service.name`, else "linly"."""
    return (
        given
        or os.environ.get("OTEL_SERVICE_NAME", "").strip()
        or resource_attributes.get("service.name")
        or "linly"
    )


def certificate() -> str | None:
    """A file of certificates to trust, beside no other."""
    names = ("OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE", "OTEL_EXPORTER_OTLP_CERTIFICATE")
    return next((os.environ[name] for name in names if os.environ.get(name)), None)


def _pairs(text: str) -> dict[str, str]:
    """`name=value,name=value` with percent signs before what is special; what is malformed is left out."""
    found = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = item.partition("=")
        if equals and name.strip():
            found[unquote(name.strip())] = unquote(value.strip())
        else:  # not shown: it may be a secret
            _log.warning("an entry of an OTEL_… environment variable is no name=value, and is left out")
    return found
