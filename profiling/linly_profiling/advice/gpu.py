"""Rules about how a GPU is used: out of spans that torch's profiler recorded, and of the process's settings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from linly_profiling.advice.evidence import Evidence, cited, percent, severity, times, total_ns
from linly_profiling.advice.finding import Advice
from linly_profiling.analysis.tree import is_torch
from linly_profiling.record import Record
from linly_profiling.tables import duration, shown

# A request needs a few: its input there, its output back. More than this and they are made once a step.
MANY = 20
# Of the request: less is not worth a change.
LEAST_SHARE = 0.02

_GPU_COPIES = ("Memcpy HtoD", "Memcpy DtoH")
_COPY_CALLS = ("cudaMemcpy", "hipMemcpy")
_SYNCHRONISE = frozenset(
    [
        "aten::item",
        "aten::_local_scalar_dense",
        "aten::nonzero",
        "aten::is_nonzero",
        "cudaStreamSynchronize",
        "cudaDeviceSynchronize",
        "cudaEventSynchronize",
        "hipStreamSynchronize",
        "hipDeviceSynchronize",
    ]
)


def repeated_copies(seen: Evidence) -> Iterator[Advice]:
    """Data goes back and forth between host and GPU many times in one request."""
    copies = _torch(seen, lambda name: name.startswith(_GPU_COPIES))
    # The calls on the host are the same copies once more; they count only if the GPU's own record is missing.
    copies = copies or _torch(seen, lambda name: name.startswith(_COPY_CALLS))
    cost_ns = total_ns(copies)
    if len(copies) < MANY or not _matters(seen, cost_ns):
        return
    pageable = any("Pageable" in span.name for span in copies)
    yield Advice(
        rule="repeated-copies",
        severity=severity(cost_ns, seen.wall_ns),
        title=f"{times(len(copies), 'copy', 'copies')} between host and GPU",
        evidence=f"{_names(copies)}: {duration(cost_ns)}, {percent(cost_ns, seen.wall_ns)} of the request",
        remedy=(
            "Keep tensors on the GPU from one step to the next, and copy once, in one piece;"
            f" {'pinned memory (these copies are from pageable memory) and' if pageable else 'pinned memory and'}"
            " non_blocking=True; make constants and masks on the GPU itself."
        ),
        span_ids=cited(copies),
        cost_ns=cost_ns,
    )


def implicit_sync(seen: Evidence) -> Iterator[Advice]:
    """The host waits for the GPU many times in one request, so that neither runs ahead of the other."""
    waits = [span for span in _torch(seen, _SYNCHRONISE.__contains__) if not _inside_another(seen, span)]
    cost_ns = total_ns(waits)
    if len(waits) < MANY or not _matters(seen, cost_ns):
        return
    yield Advice(
        rule="implicit-sync",
        severity=severity(cost_ns, seen.wall_ns),
        title=f"The host waited {times(len(waits), 'time')} for the GPU to finish",
        evidence=f"{_names(waits)}: {duration(cost_ns)}, {percent(cost_ns, seen.wall_ns)} of the request",
        remedy=(
            "Keep values on the GPU until the end: no `.item()`, `.cpu()`, `print` or `if tensor:` in a loop; collect"
            " results there and read them once; compare with `torch.where` instead of branches in Python."
        ),
        span_ids=cited(waits),
        cost_ns=cost_ns,
    )


def launch_blocking(seen: Evidence) -> Iterator[Advice]:
    """CUDA_LAUNCH_BLOCKING=1 makes every kernel wait for the one before it."""
    if seen.root is not None and seen.root.attrs.get("cuda_launch_blocking") is True:
        yield Advice(
            rule="cuda-launch-blocking",
            severity="high",
            title="CUDA_LAUNCH_BLOCKING is set",
            evidence="Every kernel launch waits until the kernel is done: host and GPU never work at the same time",
            remedy="Unset it: it is for debugging. Times measured with it say little about those without.",
            span_ids=(seen.root.span_id,),
            cost_ns=None,
        )


def _torch(seen: Evidence, chosen: Callable[[str], bool]) -> list[Record]:
    return [span for span in seen.trace.spans if chosen(span.name) and is_torch(span)]


def _matters(seen: Evidence, cost_ns: int) -> bool:
    return 0 < seen.wall_ns * LEAST_SHARE <= cost_ns


def _inside_another(seen: Evidence, span: Record) -> bool:
    """`aten::item` calls `aten::_local_scalar_dense`, which calls `cudaStreamSynchronize`: one wait, not three."""
    visited = {span.span_id}
    parent = seen.by_id.get(span.parent_id or 0)
    while parent is not None and parent.span_id not in visited:
        if parent.name in _SYNCHRONISE:
            return True
        visited.add(parent.span_id)
        parent = seen.by_id.get(parent.parent_id or 0)
    return False


def _names(spans: Sequence[Record]) -> str:
    found = Counter(span.name for span in spans).most_common(3)
    return ", ".join(f"{number} × {shown(name, 40)}" for name, number in found)
