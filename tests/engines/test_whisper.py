"""Speech recognition with the real weights."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from linly_pipeline import Audio, ConfigError, ModelError, Speech, Text, Whisper
from linly_pipeline.stages.asr import short_window
from linly_pipeline.stages.asr.short_window import loops, once
from linly_pipeline.testing import check_stage, fake_turn, run_virtual, tone

JFK = "And so my fellow Americans ask not what your country can do for you. Ask what you can do for your country."


def joined(speeches: Sequence[Speech]) -> Audio:
    return speeches[0].audio.replace(samples=np.concatenate([speech.audio.samples for speech in speeches]))


def words(text: str) -> str:
    return " ".join("".join(c for c in text.lower() if c.isalnum() or c in " '").split())


def test_a_real_speech_is_recognised(whisper: Any, jfk: Audio) -> None:
    [heard] = whisper(jfk)
    assert words(heard.text) == words(JFK)


def test_the_same_speech_in_pieces_is_recognised_the_same(whisper: Any, jfk: Audio) -> None:
    pieces = [
        Audio(jfk.samples[at : at + 16_000], jfk.rate_hz, at) for at in range(0, len(jfk.samples), 16_000)
    ]
    assert whisper(*pieces) == whisper(jfk)


@pytest.mark.parametrize("rate_hz", [8_000, 22_050, 48_000])
def test_any_rate_is_resampled_to_the_models(whisper: Any, jfk: Audio, rate_hz: int) -> None:
    [heard] = whisper(jfk.at_rate(rate_hz))
    assert words(JFK).split()[-9:] == words(heard.text).split()[-9:]


@pytest.mark.parametrize("count", [0, 1, 319, 320, 1_599])
def test_less_than_a_tenth_of_a_second_holds_no_word(whisper: Any, count: int) -> None:
    assert whisper(Audio(np.full(count, 0.1, np.float32), 16_000)) == []


@pytest.mark.parametrize("seconds", [0.2, 2.0])
def test_nothing_is_invented_on_silence_noise_or_a_hum(whisper: Any, seconds: float) -> None:
    rng = np.random.default_rng(0)
    count = int(16_000 * seconds)
    noise = rng.standard_normal(count, dtype=np.float32)
    for samples in (np.zeros(count, np.float32), noise * 0.001, noise * 0.2, np.cumsum(noise) / 300):
        assert whisper(Audio(np.clip(samples, -1, 1).astype(np.float32), 16_000)) == []
    assert whisper(tone(seconds, 16_000, pitch_hz=120)) == []


def test_words_at_the_border_of_two_windows_are_not_lost(whisper: Any, jfk: Audio) -> None:
    """The speech four times in a row, 44 s: the 30 s window ends in the middle of the third."""
    [heard] = whisper(jfk.replace(samples=np.tile(jfk.samples, 4)))
    counts = [words(heard.text).split().count(word) for word in ("fellow", "americans", "country")]
    assert counts == [4, 4, 8]


def test_no_input_at_all_gives_nothing(whisper: Any) -> None:
    assert whisper() == []


def test_a_loop_of_the_decoder_is_said_once() -> None:
    assert once(" thank you thank you thank you thank") == " thank you"
    assert once(" . . . . .") == ""
    assert once(" you may ask what you may ask") == " you may ask what you may ask"
    assert once(" no no never") == " no no never"


def test_what_looks_like_a_loop_is_not_trusted() -> None:
    assert loops(" Hello, can you tell me. Hello, can you")
    assert loops(" What is a rainbow really made of? What is a rainbow really made of?")
    assert loops(" " + "the sea and the sky, " * 9 + "then")
    assert not loops(" How do birds find their way home over the open sea?")


def test_a_result_that_is_not_trusted_is_heard_again_in_the_full_window(
    whisper: Any, jfk: Audio, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(short_window, "LEAST_SCORE", 0.0)
    turn = fake_turn()
    [heard] = whisper(jfk, turn=turn)
    assert words(heard.text) == words(JFK)
    [record] = [record for record in turn.trace.records() if record.name == "whisper.transcribe"]
    assert record.attrs["full_window"]


def test_the_short_window_hears_the_same_words_as_the_full_one(
    whisper: Any, hibari: Any, jfk: Audio, monkeypatch: pytest.MonkeyPatch
) -> None:
    spoken = [
        "Hello.",
        "What time is it?",
        "Hello! Can you tell me how plants make their food?",
        "Please bring me a cup of coffee and a glass of water.",
        "My phone number is five five five, one two three four.",
        "Do you think that machines will ever be able to dream, and if they do, what would they dream about?",
    ]
    clips = [jfk, *(joined(hibari(Text(text))) for text in spoken)]
    short = [whisper(clip)[0].text for clip in clips]
    monkeypatch.setattr(short_window, "LONGEST_S", 0.0)
    full = [whisper(clip)[0].text for clip in clips]
    assert [words(text) for text in short] == [words(text) for text in full]


def test_the_stage_keeps_the_rules(jfk: Audio) -> None:
    import asyncio

    output = asyncio.run(check_stage(lambda: Whisper(), [jfk], cancel_steps=3))
    assert all(isinstance(item, Text) for item in output)


def test_missing_weights_are_named_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no-such-model"):
        run_virtual(_load(Whisper("no-such-model")))
    (tmp_path / "model.bin").write_bytes(
        b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"
    )
    with pytest.raises(ModelError, match=r"model\.bin|LFS"):
        run_virtual(_load(Whisper(tmp_path)))


def test_a_gpu_that_is_not_there_is_a_sentence() -> None:
    import ctranslate2

    if ctranslate2.get_cuda_device_count():
        pytest.skip("this machine has a GPU")
    with pytest.raises(ConfigError, match="cuda"):
        run_virtual(_load(Whisper(device="cuda")))


async def _load(stage: Whisper) -> None:
    try:
        await stage.load()
    finally:
        await stage.close()
