"""What kind of call blocks, judged by the innermost frame of a stack.

A function written in C has no frame of its own, so only what goes through Python's own library is recognised.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_FRAME = re.compile(r"(?P<file>.*):(?P<line>\d+) (?P<function>.+)")


class Blocking(NamedTuple):
    """A kind of call that blocks.

    Attributes:
        what: in a few words.
        files: of Python's library, by their last part.
        functions: names that hardly anything else has.
        remedy: what usually helps.
    """

    what: str
    files: frozenset[str]
    functions: frozenset[str]
    remedy: str


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_KINDS = (
    Blocking(
        "blocking file I/O",
        _words(
            "pathlib.py _local.py shutil.py _pyio.py gzip.py bz2.py lzma.py zipfile.py tarfile.py tempfile.py"
            " codecs.py fileinput.py genericpath.py posixpath.py ntpath.py glob.py"
        ),
        _words(
            "open read_text read_bytes write_text write_bytes readline readlines readinto writelines fsync copyfile"
            " copyfileobj copytree rmtree listdir scandir"
        ),
        "Move the file access off the event loop: `await asyncio.to_thread(…)`, or the stage's worker.",
    ),
    Blocking(
        "a blocking network call",
        _words("socket.py ssl.py urllib3 connectionpool.py"),
        _words("getaddrinfo recv recv_into sendall urlopen do_handshake"),
        "Use an asynchronous client, or `await asyncio.to_thread(…)`.",
    ),
    Blocking(
        "waiting for another program",
        _words("subprocess.py"),
        _words("waitpid communicate"),
        "Use `asyncio.create_subprocess_exec`, or `await asyncio.to_thread(…)`.",
    ),
    Blocking(
        "waiting for another thread",
        _words("threading.py queue.py"),
        frozenset(),
        "Wait with asyncio's own locks, queues and futures, or in `asyncio.to_thread(…)`.",
    ),
    Blocking(
        "the import of a module",
        frozenset(("<frozen importlib._bootstrap>", "<frozen importlib._bootstrap_external>")),
        frozenset(("<module>",)),
        "Import before the first request, where models are loaded.",
    ),
)


def kind_of(frame: str) -> Blocking | None:
    """What a frame "file:line function" is known to do; None for anybody's own code."""
    match = _FRAME.fullmatch(frame)
    if match is None:
        return None
    file, function = re.split(r"[\\/]", match["file"])[-1], match["function"].rpartition(".")[2]
    return next((kind for kind in _KINDS if file in kind.files or function in kind.functions), None)
