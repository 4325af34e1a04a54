"""Whisper through CTranslate2 (`faster-whisper`): fast on CPUs, and its weights come from packages."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from linly_pipeline.errors import ConfigError, ModelError
from linly_pipeline.machine import usable_cores
from linly_pipeline.models import check_file, locate
from linly_pipeline.packets import Audio, Text
from linly_pipeline.registry import About
from linly_pipeline.stages.asr import short_window
from linly_pipeline.stages.asr.recogniser import Recogniser

if TYPE_CHECKING:
    from faster_whisper import WhisperModel
    from linly_profiling import Span

    from linly_pipeline.turn import Turn

# Whisper hears this much at once.
WINDOW_S = 30.0

# More than this gains nothing on an utterance with the small models, and slows down whatever else runs.
MOST_THREADS = 4


class Whisper(Recogniser):
    """Speech to text, an utterance at a time.

    Silence, noise and music give no text: a voice activity detector (Silero, inside faster-whisper) goes first.

    Args:
        model: a name of the model store, or a folder with a CTranslate2 Whisper model.
        language: ISO 639-1 code; "" detects it (multilingual models).
        device: "cpu" or "cuda".
        compute_type: CTranslate2's number format; int8 is the fastest on CPUs.
        threads: of the model; if None all cores up to 4, since nothing else of the turn runs at that moment.
        beam_size: hypotheses that are kept; 1 is greedy.

    Raises:
        ConfigError: `faster-whisper` is not installed, or there is no such device.
        ModelError: the weights are missing or broken.
    """

    name = "whisper"
    about = About(
        "Whisper (tiny.en by default) through CTranslate2",
        modules=("faster_whisper",),
        extra="faster-whisper",
        models=("whisper-tiny.en",),
        licence="MIT",
        languages=("en",),
        streaming="utterance",
        devices=("cpu", "cuda"),
    )

    def __init__(
        self,
        model: str | PathLike[str] = "whisper-tiny.en",
        *,
        language: str = "en",
        device: Literal["cpu", "cuda"] = "cpu",
        compute_type: str = "int8",
        threads: int | None = None,
        beam_size: int = 1,
    ) -> None:
        super().__init__()
        self.model = model
        self.language = language
        self.device = device
        self.compute_type = compute_type
        self.threads = threads or min(usable_cores(), MOST_THREADS)
        self.beam_size = beam_size
        self._model: WhisperModel | None = None

    async def load(self) -> None:
        if self._model is None:
            self._model = await self._worker.call(None, self._load)

    async def close(self) -> None:
        self._model = None
        await self._worker.close()

    def _load(self) -> WhisperModel:
        folder = model_folder(self.model)
        try:
            from faster_whisper import WhisperModel
        except ImportError as error:
            raise ConfigError.missing_extra("whisper", "faster-whisper", "faster-whisper") from error
        try:
            model = WhisperModel(
                str(folder), device=self.device, compute_type=self.compute_type, cpu_threads=self.threads
            )
        except (ValueError, RuntimeError) as error:
            if self.device != "cpu" or isinstance(error, ValueError):
                raise ConfigError(
                    f"whisper cannot run on device {self.device!r} as {self.compute_type!r} ({error}): use device 'cpu'"
                ) from error
            raise ModelError(f"'{folder}' does not load as a Whisper model: {error}") from error
        _warm_up(model)
        return model

    def recognise(self, audio: Audio, turn: Turn) -> Text:
        assert self._model is not None, "load() comes before run()"
        with turn.span("whisper.transcribe", audio_s=round(audio.duration_s, 3)) as span:
            text, language = self._recognise(audio, span)
            span.set(language=language)
        return Text(text.strip(), language=language)

    def _recognise(self, audio: Audio, span: Span) -> tuple[str, str]:
        assert self._model is not None
        if self.language and self.beam_size == 1 and audio.duration_s <= short_window.LONGEST_S:
            text = short_window.recognise(self._model, audio.samples, self.language)
            if text is not None:
                return text, self.language
            span.set(full_window=True)
        segments, info = self._model.transcribe(
            audio.samples,
            beam_size=self.beam_size,
            language=self.language or None,
            # Faster, but then a window may end in the middle of a word: only where there is one window.
            without_timestamps=audio.duration_s <= WINDOW_S,
            condition_on_previous_text=False,
            vad_filter=True,
        )
        return "".join(_said(segment) for segment in segments), info.language

    def __repr__(self) -> str:
        return f"Whisper({str(self.model)!r}, language={self.language!r}, device={self.device!r})"


def model_folder(model: str | PathLike[str]) -> Path:
    """The checked folder of a model, by path or by its name in the model store.

    Raises:
        ModelError: missing, truncated, or a Git-LFS pointer.
    """
    folder = Path(model)
    if folder.is_dir():
        check_file(folder, kind="ctranslate2")
        return folder
    return locate(str(model))


def _said(segment: Any) -> str:
    """A segment's text; a decoding loop is cut down to the phrase that it repeats."""
    text: str = segment.text
    return (
        short_window.once(text) if segment.compression_ratio > short_window.LOOP_COMPRESSION_RATIO else text
    )


def _warm_up(model: WhisperModel) -> None:
    """The first call pays for kernels and buffers: let it be this one, not the user's."""
    import numpy as np

    rng = np.random.default_rng(0)
    segments, _ = model.transcribe(
        rng.standard_normal(16_000, dtype=np.float32) * 0.01,
        beam_size=1,
        language="en",
        without_timestamps=True,
        vad_filter=False,
    )
    list(segments)
