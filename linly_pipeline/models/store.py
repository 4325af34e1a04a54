"""Where models lie: an override, the cache, or the installed package that carries them."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from importlib import metadata
from pathlib import Path

from linly_pipeline.errors import ModelError
from linly_pipeline.models.catalogue import Model, find
from linly_pipeline.models.checks import check_file, hash_fault, size_fault
from linly_pipeline.models.stamps import Stamps


def home() -> Path:
    """The folder of everything that the library caches; it need not exist yet.

    `LINLY_HOME` if set; otherwise `linly` in the user's cache folder: `%LOCALAPPDATA%` on Windows,
    `~/Library/Caches` on macOS, `$XDG_CACHE_HOME` or `~/.cache` elsewhere.
    """
    chosen = os.environ.get("LINLY_HOME")
    if chosen:
        return Path(chosen).expanduser().absolute()
    return _user_cache() / "linly"


def _user_cache() -> Path:
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    chosen = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return chosen if chosen.is_absolute() else Path.home() / ".cache"


def variable(name: str) -> str:
    """The environment variable that overrides where a model lies: `LINLY_MODEL_WHISPER_TINY_EN`."""
    return "LINLY_MODEL_" + re.sub(r"[^A-Z0-9]+", "_", name.upper())


def locate(name: str) -> Path:
    """The file or folder of a model, checked. Never downloads.

    Searched in this order: the path in the environment variable `LINLY_MODEL_<NAME>` (see `variable`), the
    cache (`home()`), the installed package that carries the model. Sizes are checked at every call, hashes
    once for each state of a file. A path from the variable may hold other weights than the catalogue's: there
    only the format is checked.

    Raises:
        ModelError: the name is unknown, the model is nowhere, or a file of it is not what it should be.
    """
    found = installed(name)
    if found is None:
        what = find(name).summary
        raise ModelError(f"model {name!r} ({what}) is not on this machine; run: linly models pull {name}")
    return found


def installed(name: str) -> Path | None:
    """Like `locate`, but None where the model is nowhere on this machine.

    Raises:
        ModelError: the name is unknown, or a file of the model is not what it should be.
    """
    model = find(name)
    return override(model) or cached(model) or packaged(model)


def verify(name: str) -> Path:
    """Like `locate`, but reads and hashes every file again.

    Raises:
        ModelError: names the file, what is wrong with it and what to do.
    """
    stamps_of(find(name)).clear()
    return locate(name)


def override(model: Model) -> Path | None:
    """The path that the user set by environment variable, None if not set."""
    chosen = os.environ.get(variable(model.name))
    if not chosen:
        return None
    try:
        return check_file(chosen, kind=model.kind)
    except ModelError as error:
        raise ModelError(f"{error} (set by {variable(model.name)})") from None


def cached(model: Model) -> Path | None:
    """The model in the cache, None if it is not there."""
    folder = folder_of(model)
    if not folder.is_dir():
        return None
    check_files(model, folder)
    return entry(model, folder)


def packaged(model: Model) -> Path | None:
    """The model inside the installed package; None if that is missing, of another version, or only a part."""
    folder = _folder_in_package(model)
    if folder is None:
        return None
    with contextlib.suppress(ModelError):
        check_files(model, folder)
        return entry(model, folder)
    return None


def _folder_in_package(model: Model) -> Path | None:
    members = [member for file in model.files for member in file.members]
    places = {(member.package, member.path.rpartition("/")[0]) for member in members}
    if len(places) != 1:
        return None
    package, folder = places.pop()
    try:
        return Path(str(metadata.distribution(package).locate_file(folder)))
    except metadata.PackageNotFoundError:
        return None


def folder_of(model: Model) -> Path:
    """Where the cache keeps the files of a model."""
    return home() / "models" / model.name


def entry(model: Model, folder: Path) -> Path:
    """What an engine is given: the folder, or the one file in it."""
    return folder if model.is_folder else folder / model.files[0].name


def check_files(model: Model, folder: Path) -> None:
    """Check every file of a model in a folder; the hash only where its stamp is missing.

    Raises:
        ModelError: names the first bad file, what is wrong with it and what to do.
    """
    stamps = stamps_of(model)
    for file in model.files:
        path = folder / file.name
        fault = size_fault(path, file)
        if not fault and not stamps.knows(path, file):
            fault = hash_fault(path, file)
            if not fault:
                stamps.add(path, file)
                stamps.save()
        if fault:
            raise ModelError(f"{path}: {fault}; to get it right, run: linly models pull {model.name}")


def stamps_of(model: Model) -> Stamps:
    """What was hashed already of a model."""
    return Stamps(home() / "stamps" / f"{model.name}.json")
