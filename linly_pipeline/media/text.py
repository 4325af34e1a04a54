"""Text files in."""

from __future__ import annotations

from pathlib import Path

from linly_pipeline.errors import MediaError


def read_text(path: Path) -> str:
    """The content of a UTF-8 text file.

    Raises:
        MediaError: missing, a folder, or not UTF-8.
    """
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise MediaError(f"'{path}' is not UTF-8 text: save it as UTF-8") from error
    except OSError as error:
        raise MediaError(f"cannot read '{path}': {error.strerror or error}") from error
