"""From the raw tuples that spans leave behind to records."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from linly_profiling.frozen import frozen
from linly_profiling.record import Mark, Record
from linly_profiling.sampler import Series
from linly_profiling.values import clean_name

if TYPE_CHECKING:
    from linly_profiling.exact import Exact


def records_of(raws: Sequence[tuple[Any, ...]], request_id: str, memory: Series) -> list[Record]:
    """Records in the order of span IDs."""
    return [record_of(raw, request_id, memory) for raw in sorted(raws, key=lambda raw: raw[0])]


def record_of(raw: tuple[Any, ...], request_id: str, memory: Series) -> Record:
    (span_id, parent_id, name, thread, start_ns, end_ns, outcome, error_type, rss_start, rss_end, more) = raw
    exact: Exact | None = more.exact if more is not None else None
    if exact is not None:
        rss_start, rss_end = exact.rss_start_bytes, exact.rss_end_bytes or rss_end
    seen = [b for b in (rss_start, memory.peak(start_ns, end_ns), rss_end) if b is not None]
    return Record(
        name=clean_name(name),
        span_id=span_id,
        parent_id=parent_id,
        request_id=request_id,
        thread_id=thread[0],
        thread_name=thread[1],
        task=exact.task if exact is not None else None,
        start_ns=int(start_ns),
        end_ns=max(int(start_ns), int(end_ns)),
        outcome=outcome,
        error_type=error_type,
        attrs=dict(more.attrs) if more is not None else {},
        marks=_marks(more.marks) if more is not None else (),
        rss_start_bytes=rss_start,
        rss_end_bytes=rss_end,
        rss_peak_bytes=max(seen, default=None),
        cpu_ns=exact.cpu_ns if exact is not None else None,
        cuda=exact.cuda if exact is not None else None,
    )


def _marks(arrays: dict[str | tuple[str], array[int]]) -> tuple[Mark, ...]:
    """In the order of time. A plain name holds times; a name in a tuple holds pairs of value and time."""
    marks: list[Mark] = []
    for key, numbers in frozen(arrays.items()):
        whole = frozen(numbers)
        if isinstance(key, str):
            marks.extend(Mark(key, at_ns) for at_ns in whole)
        else:
            pairs = zip(whole[::2], whole[1::2], strict=False)
            marks.extend(Mark(key[0], at_ns, value) for value, at_ns in pairs)
    marks.sort(key=lambda mark: mark.at_ns)
    return tuple(marks)
