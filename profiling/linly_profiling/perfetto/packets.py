"""Packets, of which a file is made: some describe, the others tell what happened at a time.

Messages: trace.proto, trace_packet.proto.
"""

from __future__ import annotations

from functools import lru_cache
from operator import itemgetter
from typing import TypeAlias

from linly_profiling.protobuf import BYTES, VARINT, number, part, tag, time_varint, varint

# A TrackEvent, after what decides its place: twice its time, and 1 more if others of that time have to come first.
Event: TypeAlias = tuple[int, bytes]

_SEQUENCE = number(10, 1)  # packets of one sequence share their names
NAMES_BEGIN, _NEEDS_NAMES = number(13, 1), number(13, 2)  # TracePacket.SequenceFlags

_PACKET, _TIME = tag(1, BYTES), tag(8, VARINT)
_EVENT = _SEQUENCE + _NEEDS_NAMES + tag(11, BYTES)


def description(content: bytes) -> bytes:
    """A packet without a time."""
    return part(1, content + _SEQUENCE)


def packets(events: list[Event], shift_ns: int) -> bytearray:
    """Packets in the order of time. Adding `shift_ns` gives the time in the file."""
    events.sort(key=itemgetter(0))  # stable: what happens at once stays in its order
    data = bytearray()
    for order, content in events:
        time = time_varint((order >> 1) + shift_ns)
        before, after = _frame(len(time), len(content))
        data += before
        data += time
        data += after
        data += content
    return data


@lru_cache(maxsize=4096)
def _frame(time_size: int, content_size: int) -> tuple[bytes, bytes]:
    """What stands before the time and before the content, by how many bytes these have."""
    after = _EVENT + varint(content_size)
    return _PACKET + varint(len(_TIME) + time_size + len(after) + content_size) + _TIME, after
