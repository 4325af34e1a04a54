"""Why a file cannot be read: the true cause, told from its first bytes rather than from a decoder's code."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

from linly_pipeline.errors import MediaError

HEAD_BYTES = 512  # enough for every signature below, and to tell text from binary data
GIT_LFS = b"version https://git-lfs.github.com/spec/"
# Major brands of HEIF files coded with HEVC: ISO/IEC 23008-12, annex B.
HEIC_BRANDS = (b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1")
SIGNATURES = (
    (b"\xff\xd8\xff", "a JPEG picture"),
    (b"\x89PNG\r\n\x1a\n", "a PNG picture"),
    (b"GIF8", "a GIF picture"),
    (b"%PDF", "a PDF document"),
    (b"PK\x03\x04", "a ZIP archive"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"ID3", "MP3 sound"),
    (b"fLaC", "FLAC sound"),
    (b"OggS", "Ogg sound or video"),
    (b"\x1aE\xdf\xa3", "a Matroska or WebM file"),
)


def source_path(path: str | PathLike[str], what: str) -> Path:
    """The absolute path of a file that is there, is a file, has bytes and may be read.

    Args:
        path: as the user wrote it.
        what: what is wanted from it, "sound", "a picture", "video".

    Raises:
        MediaError: none of that, with the reason.
    """
    full = Path(path).absolute()  # absolute: 'a:b.wav' is a file name and never a protocol
    try:
        if full.is_dir():
            raise unreadable(path, what, f"it is a folder; name a file in it that holds {what}")
        with full.open("rb") as file:
            if not file.read(1):
                raise unreadable(path, what, "the file is empty (0 bytes); copy or record it again")
    except FileNotFoundError:
        raise unreadable(path, what, f"there is no such file; looked for '{full}'") from None
    except PermissionError:
        raise unreadable(path, what, "permission denied; let this user read the file") from None
    except (OSError, ValueError) as error:  # ValueError: a NUL character in the name
        raise unreadable(path, what, str(error)) from error
    return full


def unreadable(path: str | PathLike[str], what: str, cause: str) -> MediaError:
    """The error for a file that gives no `what`."""
    return MediaError(f"cannot read {what} from '{path}': {cause}")


def read_head(path: Path) -> bytes:
    """The first bytes, for `true_cause`."""
    with path.open("rb") as file:
        return file.read(HEAD_BYTES)


def true_cause(head: bytes, what: str) -> str:
    """Say what a file that begins with `head` is, when no decoder takes it as `what`, and what to do."""
    if head.startswith(GIT_LFS):
        return "it is a Git-LFS pointer, not the file itself; run 'git lfs pull'"
    if is_heic(head):
        return "it is a HEIC picture; pip install pillow-heif, or save it as JPEG or PNG"
    if _is_text(head):
        return f"it is a text file; give a file that holds {what}"
    if name := kind_of(head):
        return f"it looks like {name}: truncated, damaged, or not {what} at all; use the original file"
    return "the data is of no known format, or truncated, or damaged; use the original file"


def kind_of(head: bytes) -> str | None:
    """What a file that begins with `head` seems to be, in words, or None."""
    known = (name for signature, name in SIGNATURES if head.startswith(signature))
    return next(known, "a text file" if _is_text(head) else None)


def is_heic(head: bytes) -> bool:
    """Whether a file begins as a HEIC picture, as phones take them."""
    return head[4:8] == b"ftyp" and head[8:12] in HEIC_BRANDS


def _is_text(head: bytes) -> bool:
    try:
        text = head.decode("utf-8")
    except UnicodeDecodeError as error:
        if error.start < len(head) - 3:  # the last character may be cut by HEAD_BYTES
            return False
        text = head[: error.start].decode("utf-8")
    return all(character.isprintable() or character in "\r\n\t\f\ufeff" for character in text)
