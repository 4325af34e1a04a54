"""The GPU's memory right now, for a sampler: what torch holds, and what the whole device does."""

from __future__ import annotations

import importlib
import logging
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from linly_profiling.cuda import cuda_in_use

_log = logging.getLogger("linly_profiling")

Reading: TypeAlias = tuple[str, str, int]  # counter, track, bytes


def gpu_memory_reader() -> Callable[[], list[Reading]] | None:
    """What reads the memory of all GPUs in use: counter name, track, bytes; such as ("memory.gpu.used", "cuda:0", n).

    `memory.gpu.allocated` and `memory.gpu.reserved` are of this process and come from torch's allocator once the
    program has initialised CUDA; nothing here does. `memory.gpu.used` is the device's, with all other processes, and
    comes from NVML if the package `nvidia-ml-py` is installed (`pip install "linly-pipeline[nvml]"`). The track is
    "nvml:0" instead of "cuda:0" where several GPUs might be numbered in two ways. A call takes some 20 µs for each
    GPU. A source that fails is left out from then on.

    Returns:
        None where there is no source now; ask again when the next trace begins, torch may be loaded then.
    """
    sources = [source for source in (_torch_source(), _nvml_source()) if source is not None]
    if not sources:
        return None

    def read() -> list[Reading]:
        readings: list[Reading] = []
        for source in list(sources):
            try:
                readings.extend(source())
            except Exception as error:  # noqa: BLE001  a probe must never break the program it watches
                sources.remove(source)
                _log.warning("GPU memory is not sampled: %s: %s", type(error).__name__, error)
        return readings

    return read


def _torch_source() -> Callable[[], Iterator[Reading]] | None:
    if "torch" not in sys.modules:
        return None

    def read() -> Iterator[Reading]:
        cuda = cuda_in_use()
        if cuda is None:
            return
        for device in range(cuda.device_count()):
            table = cuda.memory_stats_as_nested_dict(device)
            reserved = int(table["reserved_bytes"]["all"]["current"])
            if reserved or device == cuda.current_device():
                yield (
                    "memory.gpu.allocated",
                    f"cuda:{device}",
                    int(table["allocated_bytes"]["all"]["current"]),
                )
                yield "memory.gpu.reserved", f"cuda:{device}", reserved

    return read


_nvml_state: list[Any] = []  # empty before the first try, then the module, or None where NVML cannot be used


def _nvml() -> Any:
    if not _nvml_state:
        try:
            nvml = importlib.import_module("pynvml")
            nvml.nvmlInit()
            _nvml_state.append(nvml)
        except Exception:  # noqa: BLE001  no package, no driver, no permission: no figures
            _nvml_state.append(None)
    return _nvml_state[0]


def _nvml_source() -> Callable[[], Iterator[Reading]] | None:
    nvml = _nvml()
    handles = _handles(nvml) if nvml is not None else []
    if not handles:
        return None

    def read() -> Iterator[Reading]:
        for track, handle in handles:
            yield "memory.gpu.used", track, int(nvml.nvmlDeviceGetMemoryInfo(handle).used)

    return read


def _handles(nvml: Any) -> list[tuple[str, Any]]:
    """Track and handle of each GPU that this process may use."""
    try:
        everything = list(range(nvml.nvmlDeviceGetCount()))
        sure = len(everything) == 1 or os.environ.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID"
        visible = _visible(everything)
        if not sure:
            return [(f"nvml:{index}", nvml.nvmlDeviceGetHandleByIndex(index)) for index in everything]
        return [(f"cuda:{i}", nvml.nvmlDeviceGetHandleByIndex(index)) for i, index in enumerate(visible)]
    except Exception as error:  # noqa: BLE001  see gpu_memory_reader
        _log.warning("GPU memory is not sampled by NVML: %s: %s", type(error).__name__, error)
        return []


def _visible(everything: list[int]) -> list[int]:
    """Those of CUDA_VISIBLE_DEVICES, in its order, which is how CUDA numbers them."""
    value = os.environ.get("CUDA_VISIBLE_DEVICES")
    if value is None:
        return everything
    chosen: list[int] = []
    for part in value.split(","):
        part = part.strip()
        if not part.isdigit():  # a UUID means one GPU; "" and "-1" hide what follows
            return everything if part.startswith(("GPU-", "MIG-")) and len(everything) == 1 else chosen
        if int(part) not in everything:
            break
        chosen.append(int(part))
    return chosen
