"""Deeper looks with torch: its profiler for chosen spans in the same trace, and our span names in other profilers.

Nothing here imports torch before it is used.
"""

from __future__ import annotations

from linly_profiling.torch_tools.kineto import KinetoError, Profile, read_kineto
from linly_profiling.torch_tools.memory import gpu_memory_reader
from linly_profiling.torch_tools.merge import merge, merge_kineto
from linly_profiling.torch_tools.profiler import TorchProfile, torch_profile, warm_up
from linly_profiling.torch_tools.ranges import (
    disable_ranges,
    enable_nvtx,
    enable_record_function,
    ranges_from_environment,
)
from linly_profiling.torch_tools.requests import TorchProfiles

__all__ = [
    "KinetoError",
    "Profile",
    "TorchProfile",
    "TorchProfiles",
    "disable_ranges",
    "enable_nvtx",
    "enable_record_function",
    "gpu_memory_reader",
    "merge",
    "merge_kineto",
    "ranges_from_environment",
    "read_kineto",
    "torch_profile",
    "warm_up",
]
