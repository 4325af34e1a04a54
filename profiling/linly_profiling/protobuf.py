"""The wire format of Protocol Buffers, as far as writing needs it.

Source: https://protobuf.dev/programming-guides/encoding/
"""

from __future__ import annotations

import struct
from functools import lru_cache

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5  # wire types

_ONE_BYTE = [bytes((number,)) for number in range(0x80)]
_fixed64 = struct.Struct("<Q").pack
_double = struct.Struct("<d").pack


def varint(number: int) -> bytes:
    """A whole number in as few bytes as it needs; negative ones take ten, as the format says."""
    if 0 <= number < 0x80:
        return _ONE_BYTE[number]
    if 0 <= number < 0x4000:
        return bytes((number & 0x7F | 0x80, number >> 7))
    number &= 2**64 - 1
    groups = bytearray()
    while number >= 0x80:
        groups.append(number & 0x7F | 0x80)
        number >>= 7
    groups.append(number)
    return bytes(groups)


def time_varint(at_ns: int) -> bytes:
    """Like `varint`, faster for times that lie close together, and of at least five bytes."""
    at_ns &= 2**64 - 1
    a, b, c, d = at_ns & 0x7F, at_ns >> 7 & 0x7F, at_ns >> 14 & 0x7F, at_ns >> 21 & 0x7F
    return bytes((a | 0x80, b | 0x80, c | 0x80, d | 0x80)) + _upper(at_ns >> 28)


_upper = lru_cache(maxsize=64)(varint)  # changes every 268 ms


def tag(field: int, wire_type: int) -> bytes:
    return varint(field << 3 | wire_type)


def number(field: int, value: int) -> bytes:
    """A field of type uint64, int64, bool or enum."""
    return tag(field, VARINT) + varint(value)


def fixed64(field: int, value: int) -> bytes:
    return tag(field, FIXED64) + _fixed64(value & 2**64 - 1)


def double(field: int, value: float) -> bytes:
    return tag(field, FIXED64) + _double(value)


def part(field: int, data: bytes) -> bytes:
    """A message, text or bytes as a field of the message around it."""
    return tag(field, BYTES) + varint(len(data)) + data


def text(field: int, value: str) -> bytes:
    return part(field, utf8(value))


def utf8(value: str) -> bytes:
    """The text; halves of surrogate pairs, which UTF-8 cannot hold, become U+FFFD."""
    try:
        return value.encode()
    except UnicodeEncodeError:
        return "".join("\ufffd" if "\ud800" <= char <= "\udfff" else char for char in value).encode()
