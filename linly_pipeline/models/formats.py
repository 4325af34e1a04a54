"""Formats of weights, as far as telling a whole file from a foreign or a truncated one needs it.

Headers are walked, tensors are jumped over.
"""

from __future__ import annotations

from collections.abc import Callable
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import BinaryIO


def kind_of(path: Path) -> str:
    """The format that a file name promises; "" where it says nothing."""
    kind = path.suffix.lower().lstrip(".")
    return kind if kind in FORMATS else ""


def fault_of(kind: str, stream: BinaryIO) -> str:
    """What is wrong with a file of that format, and what to do; "" if nothing was found.

    Args:
        kind: a key of `FORMATS`.
        stream: the open file, which is not empty.
    """
    name, check = FORMATS[kind]
    try:
        with mmap(stream.fileno(), 0, access=ACCESS_READ) as data:
            check(_Reader(data))
    except (_Foreign, RecursionError):
        return f"is no {name} file; check the path, or download it again"
    except _Cut:
        return f"is a {name} file that was cut short; download it again"
    return ""


class _Foreign(Exception):
    """The file is of another format."""


class _Cut(Exception):
    """The file ends before its header says so."""


class _Reader:
    """Reads little-endian numbers and jumps over the rest; to pass the end of the file means `_Cut`."""

    def __init__(self, data: mmap) -> None:
        self.data = data
        self.position = 0

    def take(self, count: int) -> bytes:
        start = self.position
        self.skip(count)
        return self.data[start : self.position]

    def skip(self, count: int) -> None:
        self.position += count
        if self.position > len(self.data):
            raise _Cut

    @property
    def at_end(self) -> bool:
        return self.position == len(self.data)

    def u8(self) -> int:
        return self.take(1)[0]

    def u16(self) -> int:
        return int.from_bytes(self.take(2), "little")

    def u32(self) -> int:
        return int.from_bytes(self.take(4), "little")

    def u64(self) -> int:
        return int.from_bytes(self.take(8), "little")

    def varint(self) -> int:
        """A number in the variable-length form of Protocol Buffers."""
        value = shift = 0
        while shift < 64:
            byte = self.u8()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
        raise _Foreign


# Bytes of the fixed-size value types of GGUF, by number; 8 is a string, 9 an array.
_GGUF_VALUE_BYTES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
_GGUF_STRING, _GGUF_ARRAY = 8, 9
_GGUF_INTEGERS, _GGUF_SIGNED = {0, 1, 2, 3, 4, 5, 10, 11}, {1, 3, 5, 11}
_GGUF_ALIGNMENT = 32


def _gguf(reader: _Reader) -> None:
    """Source: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md (versions 2 and 3).

    The last tensor must begin inside the file; how long it is, is not looked at.
    """
    if reader.take(4) != b"GGUF" or reader.u32() not in (2, 3):
        raise _Foreign
    tensors, values = reader.u64(), reader.u64()
    for _ in range(values):
        reader.skip(reader.u64())
        _skip_gguf_value(reader, reader.u32())
    last_offset = 0
    for _ in range(tensors):
        reader.skip(reader.u64())
        dimensions = reader.u32()
        reader.skip(8 * dimensions + 4)
        last_offset = max(last_offset, reader.u64())
    padding = -reader.position % _GGUF_ALIGNMENT
    reader.skip(padding + last_offset + 1)


def gguf_numbers(path: Path) -> dict[str, int]:
    """The whole numbers in the header of a GGUF file, by their names; empty if it cannot be read."""
    try:
        with path.open("rb") as stream, mmap(stream.fileno(), 0, access=ACCESS_READ) as data:
            return _gguf_numbers(_Reader(data))
    except (OSError, ValueError, _Foreign, _Cut, RecursionError):
        return {}


def _gguf_numbers(reader: _Reader) -> dict[str, int]:
    numbers: dict[str, int] = {}
    reader.skip(16)
    for _ in range(reader.u64()):
        name = reader.take(reader.u64()).decode("utf-8", "replace")
        type_number = reader.u32()
        start = reader.position
        _skip_gguf_value(reader, type_number)
        if type_number in _GGUF_INTEGERS:
            raw = reader.data[start : reader.position]
            numbers[name] = int.from_bytes(raw, "little", signed=type_number in _GGUF_SIGNED)
    return numbers


def _skip_gguf_value(reader: _Reader, type_number: int) -> None:
    if type_number == _GGUF_STRING:
        reader.skip(reader.u64())
    elif type_number == _GGUF_ARRAY:
        element_type, count = reader.u32(), reader.u64()
        if element_type in _GGUF_VALUE_BYTES:
            reader.skip(count * _GGUF_VALUE_BYTES[element_type])
        else:  # of strings; a tokenizer has 100,000 of them
            for _ in range(count):
                _skip_gguf_value(reader, element_type)
    elif type_number in _GGUF_VALUE_BYTES:
        reader.skip(_GGUF_VALUE_BYTES[type_number])
    else:
        raise _Foreign


def _tflite(reader: _Reader) -> None:
    """FlatBuffers file identifier; source: tensorflow/lite/schema/schema.fbs."""
    if reader.take(8)[4:] != b"TFL3":
        raise _Foreign


# Field numbers of ModelProto, of its graph, and the bytes of Protocol Buffers' fixed-size wire types.
# Source: https://github.com/onnx/onnx/blob/main/onnx/onnx.proto
_ONNX_FIELDS = frozenset((1, 2, 3, 4, 5, 6, 7, 8, 14, 20, 25, 26))
_ONNX_GRAPH = 7
_WIRE_BYTES = {1: 8, 5: 4}


def _onnx(reader: _Reader) -> None:
    """Walks the outermost fields of the message, which must end where the file ends."""
    seen = set()
    while not reader.at_end:
        field, wire = divmod(reader.varint(), 8)
        if field not in _ONNX_FIELDS:
            raise _Foreign
        seen.add(field)
        if wire == 0:
            reader.varint()
        elif wire == 2:
            reader.skip(reader.varint())
        elif wire in _WIRE_BYTES:
            reader.skip(_WIRE_BYTES[wire])
        else:
            raise _Foreign
    if _ONNX_GRAPH not in seen:
        raise _Foreign


# The binary version whose layout is walked; of others only the start is looked at.
_CTRANSLATE2_VERSION = 6


def _ctranslate2(reader: _Reader) -> None:
    """Source: `ModelSpec._serialize` in CTranslate2's python/ctranslate2/specs/model_spec.py."""
    version = reader.u32()
    if not 1 <= version < 16 or b"Spec\0" not in reader.take(reader.u16()):
        raise _Foreign
    if version != _CTRANSLATE2_VERSION:
        return
    reader.u32()  # revision of the specification
    for _ in range(reader.u32()):
        reader.skip(reader.u16())
        reader.skip(4 * reader.u8() + 1)
        reader.skip(reader.u32())
    for _ in range(reader.u32()):
        reader.skip(reader.u16())
        reader.skip(reader.u16())


# The end record of a zip file, and its size without the comment behind it (PKWARE APPNOTE 4.3.16).
_ZIP_END, _ZIP_END_BYTES = b"PK\x05\x06", 22


def _task(reader: _Reader) -> None:
    """A MediaPipe task bundle is a zip file after some padding; a zip file's directory stands at its end."""
    if b"PK\x03\x04" not in reader.data[:64]:
        raise _Foreign
    end = reader.data.rfind(_ZIP_END)
    if end < 0:
        raise _Cut
    reader.position = end
    reader.skip(_ZIP_END_BYTES - 2)
    reader.skip(reader.u16())


FORMATS: dict[str, tuple[str, Callable[[_Reader], None]]] = {
    "gguf": ("GGUF", _gguf),
    "tflite": ("TensorFlow Lite", _tflite),
    "onnx": ("ONNX", _onnx),
    "ctranslate2": ("CTranslate2", _ctranslate2),
    "task": ("MediaPipe task", _task),
}
