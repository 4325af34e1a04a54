"""The English voice `hibari-tts`: 8 MB, more than 100 times faster than real time on one core.

The package gives sound only. Its ONNX graph computes how long each phoneme lasts on the way; naming that tensor
as one more output in a copy of the graph in memory gives exact phoneme times, and the files stay as they are.
"""

from __future__ import annotations

import unicodedata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from linly_pipeline.errors import ConfigError, ModelError
from linly_pipeline.packets import FloatArray, Phoneme
from linly_pipeline.registry import About
from linly_pipeline.stages.tts.synthesiser import Synthesiser
from linly_pipeline.text import speakable

if TYPE_CHECKING:
    from linly_pipeline.turn import Turn

DURATIONS = "/Clip_output_0"
# The duration predictor counts in frames of 25 ms; their sum is exactly the length of the sound.
SAMPLES_A_FRAME = 600

# The sound runs ahead of the predicted durations by this much: moved so, the middles of vowels are 4 times as loud
# as those of stops, unmoved they are quieter (measured over four sentences in steps of 10 ms; the best two are
# 40 and 50 ms).
SOUND_LEADS_S = 0.045

STRESS = {"ˈ": 2, "ˌ": 1}
SILENT = frozenset(' ;:,.!?—…"()“”')

# Silence that is left at the ends of a fragment: enough for a breath between sentences, little enough that the
# first sound comes at once (the voice itself begins with a third of a second of silence).
LEAD_S = 0.04
PAUSE_S = 0.22
CLAUSE_PAUSE_S = 0.08
SENTENCE_ENDS = ".!?…。！？"
# Below this a sample counts as silence: 40 dB under full scale, well under the softest fricative of the voice.
SILENCE = 0.01


class Hibari(Synthesiser):
    """American English speech with exact phoneme times.

    Args:
        speed: 0.5 (slow) to 2 (fast).
        threads: of the model; one is enough and leaves the other core to the language model.

    Raises:
        ConfigError: `hibari-tts` is not installed, or `speed` is out of range.
        ModelError: the installed package's graph is not the one that this adapter knows.
    """

    name = "hibari"
    about = About(
        "one American voice of 8 MB, with exact phoneme times",
        modules=("hibari", "onnxruntime"),
        extra="hibari",
        licence="Apache-2.0",
        languages=("en",),
        streaming="clause",
    )
    rate_hz = 24_000

    def __init__(self, *, speed: float = 1.0, threads: int = 1) -> None:
        super().__init__()
        if not 0.5 <= speed <= 2.0:
            raise ConfigError(f"hibari: speed is 0.5 to 2, not {speed}")
        self.speed = speed
        self.threads = threads
        self._engine: Any = None

    async def load(self) -> None:
        if self._engine is None:
            self._engine = await self._worker.call(None, self._load)

    async def close(self) -> None:
        self._engine = None
        await self._worker.close()

    def _load(self) -> Any:
        try:
            import hibari
            import onnxruntime
        except ImportError as error:
            raise ConfigError.missing_extra("hibari", "hibari", "hibari-tts") from error
        engine = hibari.Hibari(threads=self.threads)
        model = Path(engine.model_path).read_bytes()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = self.threads
        options.log_severity_level = 3
        try:
            engine.sess = onnxruntime.InferenceSession(
                with_output(model, DURATIONS), options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:
            raise ModelError(
                f"'{engine.model_path}' has no phoneme durations: install hibari-tts 0.2 ({error})"
            ) from error
        # The whole way from text to sound once: the first use of each part of it takes its time.
        for phonemes in engine.phonemize(speakable("Ready to *speak*, at once.")):
            self._call(engine, engine.ids(phonemes), seed=0)
        return engine

    def cannot_say(self, spoken: str) -> str:
        """Letters of other scripts than the Latin one have no sound in an English voice."""
        return "".join(c for c in spoken if c.isalpha() and not unicodedata.name(c, "").startswith("LATIN"))

    def synthesise(self, spoken: str, turn: Turn) -> tuple[FloatArray, tuple[Phoneme, ...]]:
        assert self._engine is not None, "load() comes before run()"
        sounds: list[FloatArray] = []
        timed: list[Phoneme] = []
        at_s = 0.0
        for symbols in self._engine.phonemize(spoken):
            samples, frames = self._call(self._engine, self._engine.ids(symbols), turn.seed)
            pause_s = PAUSE_S if symbols.rstrip()[-1:] in SENTENCE_ENDS else CLAUSE_PAUSE_S
            phonemes = phoneme_times(self._known(symbols), frames)
            samples, phonemes = trimmed(samples, phonemes, self.rate_hz, pause_s)
            sounds.append(samples)
            timed += [
                phoneme.replace(start_s=phoneme.start_s + at_s, end_s=phoneme.end_s + at_s)
                for phoneme in phonemes
            ]
            at_s += len(samples) / self.rate_hz
        if not sounds:
            return np.zeros(0, np.float32), ()
        return np.concatenate(sounds), tuple(timed)

    def _known(self, symbols: str) -> str:
        """The symbols that the model has an ID for: one duration each."""
        return "".join(symbol for symbol in symbols if symbol in self._engine.vocab)

    def _call(self, engine: Any, ids: list[int], seed: int) -> tuple[FloatArray, FloatArray]:
        from hibari import dsp

        *spectrum, frames = engine.sess.run(
            None, {"ids": np.asarray([ids], np.int64), "speed": np.asarray([self.speed], np.float32)}
        )
        samples = dsp.synth(*(part[0] for part in spectrum), np.random.default_rng(seed))
        return np.clip(samples, -1.0, 1.0).astype(np.float32), np.asarray(frames, np.float32).ravel()

    def __repr__(self) -> str:
        return f"Hibari(speed={self.speed:g})"


def with_output(model: bytes, tensor: str) -> bytes:
    """An ONNX model with one more of its inner tensors as an output.

    Protocol buffers merge: a second `graph` field (7) that holds only an `output` (12) with a `name` (1) adds to
    the first (onnx.proto, "ModelProto", "GraphProto", "ValueInfoProto").
    """
    name = tensor.encode()
    if len(name) > 100:
        raise ValueError("longer names need a longer length field")
    info = b"\x0a" + bytes([len(name)]) + name
    graph = b"\x62" + bytes([len(info)]) + info
    return model + b"\x3a" + bytes([len(graph)]) + graph


def phoneme_times(symbols: str, frames: FloatArray) -> list[Phoneme]:
    """Phonemes from the model's symbols and the frames each of them takes.

    `frames` has one more entry before and after the symbols, for the silence around them. The frames of a
    stress mark belong to the vowel behind it; spaces and punctuation are silence. The times are those of the
    sound, which is not quite where the durations put it (`SOUND_LEADS_S`).
    """
    ends_s = np.cumsum(frames) * SAMPLES_A_FRAME / Hibari.rate_hz
    ends_s[:-1] = np.maximum(ends_s[:-1] - SOUND_LEADS_S, 0.0)
    phonemes: list[Phoneme] = [Phoneme("", 0.0, float(ends_s[0]))]
    stress = 0
    start_s = float(ends_s[0])
    for symbol, end in zip(symbols, ends_s[1:-1], strict=True):
        if symbol in STRESS:
            stress = STRESS[symbol]
            continue
        silent = symbol in SILENT
        phonemes.append(Phoneme("" if silent else symbol, start_s, float(end), 0 if silent else stress))
        start_s = float(end)
        if not silent:
            stress = 0
    phonemes.append(Phoneme("", start_s, float(ends_s[-1])))
    return phonemes


def trimmed(
    samples: FloatArray, phonemes: list[Phoneme], rate_hz: int, pause_s: float
) -> tuple[FloatArray, list[Phoneme]]:
    """Cut the silence at both ends, leave `pause_s` at the end, and move the phonemes along."""
    loud = np.flatnonzero(np.abs(samples) > SILENCE)
    if not len(loud):
        return samples[:0], []
    lead = max(0, int(loud[0]) - round(LEAD_S * rate_hz))
    tail = min(len(samples), int(loud[-1]) + round(pause_s * rate_hz))
    cut = samples[lead:tail]
    lead_s, length_s = lead / rate_hz, len(cut) / rate_hz
    moved = [
        phoneme.replace(
            start_s=min(max(phoneme.start_s - lead_s, 0.0), length_s),
            end_s=min(max(phoneme.end_s - lead_s, 0.0), length_s),
        )
        for phoneme in phonemes
    ]
    return cut, [phoneme for phoneme in moved if phoneme.end_s > phoneme.start_s]
