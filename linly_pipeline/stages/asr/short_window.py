"""Whisper on a window as long as the utterance, instead of 30 seconds.

Whisper's encoder was trained on windows of 30 s and takes the same time for a short question as for a long one. It
accepts shorter ones. Cut at the end of speech it starts to loop; with some seconds of silence behind it hears the
same words as in the full window (measured: `docs/design-notes.md`). A result that looks wrong is not used; the
caller then goes the long way.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

import numpy as np

from linly_pipeline.packets import FloatArray

if TYPE_CHECKING:
    from faster_whisper import WhisperModel

RATE_HZ = 16_000
LONGEST_S = 20.0
SILENCE_S = 8.0
# Mean log probability of a token below which Whisper's own decoder tries again (Radford et al. 2022, section 4.5, has
# -1); stricter here, as the other way costs only time.
LEAST_SCORE = -0.6
# zlib packs natural speech to about half. Above this Whisper's own decoder calls its output a loop (ibid.).
LOOP_COMPRESSION_RATIO = 2.4
# People do say two words twice; three are worth a second hearing.
LOOP_WORDS = 3


def recognise(model: WhisperModel, samples: FloatArray, language: str) -> str | None:
    """The words of one utterance; "" if there is no speech in it; None if the result cannot be trusted.

    Args:
        model: a loaded model.
        samples: `[n]` float32 at 16 kHz, at most `LONGEST_S` seconds.
        language: ISO 639-1 code.
    """
    from faster_whisper.vad import get_speech_timestamps

    speech = get_speech_timestamps(samples)
    if not speech:
        return ""
    spoken = np.concatenate([samples[part["start"] : part["end"]] for part in speech])
    text, score = _decode(model, spoken, language)
    return text if score > LEAST_SCORE and text and not loops(text) else None


def loops(text: str) -> bool:
    """The text ends by saying again what came just before or at its beginning, or it packs too well for speech."""
    data = text.encode()
    if len(data) / len(zlib.compress(data)) > LOOP_COMPRESSION_RATIO:
        return True
    words = ["".join(filter(str.isalnum, word)).lower() for word in text.split()]
    count = len(words)
    begins_again = any(words[at:] == words[: count - at] for at in range(1, count - LOOP_WORDS + 1))
    doubled = any(
        words[-length:] == words[-2 * length : -length] for length in range(LOOP_WORDS, count // 2 + 1)
    )
    return begins_again or doubled or once(text) != text


def once(text: str) -> str:
    """What a looping decoder said, once: "la la la la" → "la"; nothing if it holds no word.

    The shortest phrase that fills the text by repetition counts, a cut-off last repetition included.
    """
    words = text.split()
    if not any(character.isalnum() for character in text):
        return ""
    for length in range(1, len(words) // 2 + 1):
        if all(word == words[index % length] for index, word in enumerate(words)):
            return " " + " ".join(words[:length])
    return text


def _decode(model: WhisperModel, spoken: FloatArray, language: str) -> tuple[str, float]:
    from ctranslate2 import StorageView
    from faster_whisper.tokenizer import Tokenizer
    from faster_whisper.transcribe import get_suppressed_tokens

    features = model.feature_extractor(np.append(spoken, np.zeros(int(SILENCE_S * RATE_HZ), np.float32)))
    even = features[:, : features.shape[1] // 2 * 2]  # the encoder halves it
    tokenizer = Tokenizer(
        model.hf_tokenizer, model.model.is_multilingual, task="transcribe", language=language
    )
    result: Any = model.model.generate(
        model.model.encode(StorageView.from_array(np.ascontiguousarray(even[None], np.float32))),
        [[*tokenizer.sot_sequence, tokenizer.no_timestamps]],
        beam_size=1,
        return_scores=True,
        suppress_tokens=list(get_suppressed_tokens(tokenizer, [-1])),
    )[0]
    return " " + tokenizer.decode(result.sequences_ids[0]).strip(), float(result.scores[0])
