"""Texts and annotations of Perfetto's own format.

Names are interned: they stand once, at the head of the file, and events name them by their number.
Field numbers: `protos/perfetto/trace/interned_data/interned_data.proto` and `track_event/debug_annotation.proto`.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache, partial

from linly_profiling.protobuf import BYTES, VARINT, double, number, part, tag, text, varint
from linly_profiling.record import CudaUse, Record
from linly_profiling.values import Value

_NOTE = 4  # TrackEvent.debug_annotations
_IN_DICT, _IN_ARRAY = 11, 12  # fields of DebugAnnotation
_ORIGIN = ("outcome", "error_type", "thread_id", "thread", "task")
_MEMORY = ("rss_start_bytes", "rss_end_bytes", "rss_peak_bytes")
_MAX_INT64 = 2**63
_MAX_VARINT = 10  # bytes


class Interned(dict[str, bytes]):
    """By text: the field that names it. A text gets its number when it is first asked for."""

    def __init__(self, field: int, texts: Iterable[str] = ()) -> None:
        """`field` is where a message names a text; `texts` are numbered at once."""
        self._field = field
        for each in texts:
            self[each]

    def __missing__(self, name: str) -> bytes:
        self[name] = found = number(self._field, len(self) + 1)
        return found

    def definitions(self, field: int) -> bytes:
        """All texts, for this field of InternedData."""
        return b"".join(
            part(field, number(1, i) + text(2, name or "?")) for i, name in enumerate(self, start=1)
        )


class Notes:
    """Writes the annotations of events, which a viewer shows as their arguments."""

    def __init__(self) -> None:
        self.names = Interned(1)
        # Most values come again and again. Typed: 1 and True are equal, but not the same to write.
        self._again = lru_cache(maxsize=8192, typed=True)(self._field)
        self._origin = lru_cache(maxsize=1024)(partial(self._fields, _ORIGIN))
        self._memory = lru_cache(maxsize=1024)(partial(self._fields, _MEMORY))
        self._own = self.names["linly"]
        self._span_id, self._parent_id, self._cpu_ns = map(self._heads, ("span_id", "parent_id", "cpu_ns"))

    def of(self, record: Record, exact_ns: int | None) -> bytes:
        """The attributes, each under its name, and under "linly" all the rest that was measured.

        `exact_ns` is the span's length, where it is drawn shorter.
        """
        own = self._own + self._measured(record)
        if exact_ns is not None:
            own += self._field(_IN_DICT, "duration_ns", exact_ns)
        return b"".join([self.note(name, value) for name, value in record.attrs.items()]) + part(_NOTE, own)

    def note(self, name: str, value: Value) -> bytes:
        """One annotation, as a field of TrackEvent."""
        if isinstance(value, (str, int)):  # not floats: 0.0 equals -0.0
            return self._again(_NOTE, name, value)
        return self._field(_NOTE, name, value)

    def _field(self, field: int, name: str, value: Value) -> bytes:
        return part(field, self.names[name] + self._value(value))

    def _value(self, value: Value) -> bytes:
        if isinstance(value, str):
            return text(6, value)
        if isinstance(value, bool):
            return number(2, value)
        if isinstance(value, int):
            return number(4, value) if -_MAX_INT64 <= value < _MAX_INT64 else text(6, str(value))
        if isinstance(value, float):
            return double(5, value)
        if not value:  # viewers show nothing of an annotation without a value
            return text(6, "null" if value is None else str(value))
        if isinstance(value, dict):
            return b"".join(self._field(_IN_DICT, name, item) for name, item in value.items())
        return b"".join(part(_IN_ARRAY, self._value(item)) for item in value)

    def _measured(self, record: Record) -> bytes:
        """Entries of the dictionary "linly". What was not measured is not there."""
        number = varint(record.span_id)
        fields = self._span_id[len(number)] + number
        if record.parent_id is not None:
            number = varint(record.parent_id)
            fields += self._parent_id[len(number)] + number
        fields += self._origin(
            record.outcome, record.error_type, record.thread_id, record.thread_name, record.task
        )
        fields += self._memory(record.rss_start_bytes, record.rss_end_bytes, record.rss_peak_bytes)
        if record.cpu_ns is not None:
            number = varint(record.cpu_ns)
            fields += self._cpu_ns[len(number)] + number
        if record.cuda is not None:
            fields += self._field(_IN_DICT, "cuda", _present(record.cuda))
        return fields

    def _heads(self, name: str) -> list[bytes]:
        """What stands before a number that hardly comes again, by how many bytes this has."""
        head = self.names[name] + tag(4, VARINT)
        return [tag(_IN_DICT, BYTES) + varint(len(head) + size) + head for size in range(_MAX_VARINT + 1)]

    def _fields(self, names: tuple[str, ...], *values: str | int | None) -> bytes:
        found = zip(names, values, strict=True)
        return b"".join(self._field(_IN_DICT, name, value) for name, value in found if value is not None)


def _present(cuda: CudaUse) -> dict[str, Value]:
    return {name: value for name, value in cuda._asdict().items() if value is not None}
