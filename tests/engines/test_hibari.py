"""The default voice: real synthesis, phoneme times, joins."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from linly_pipeline import Audio, ConfigError, Hibari, Speech, Text
from linly_pipeline.stages.tts.hibari import with_output
from linly_pipeline.testing import check_stage, fake_turn

SENTENCES = [
    "The quick brown fox jumps over the lazy dog.",
    "Please bring me a cup of coffee and a glass of water.",
    "The weather in London is often cold and rainy in November.",
    "She sells fresh apples at the market every Saturday morning.",
    "We will meet at the station at half past seven.",
]


def test_speech_transcribes_back_to_its_text(hibari: Any, whisper: Any) -> None:
    """Word error rate over five sentences at most 5 %: 49 words, so two words may be misheard."""
    errors = total = 0
    for sentence in SENTENCES:
        spoken = joined(hibari(Text(sentence)))
        heard = "".join(text.text for text in whisper(spoken))
        errors += word_errors(sentence, heard)
        total += len(sentence.split())
    assert errors / total <= 0.05


def test_the_first_clause_is_spoken_before_the_rest_is_written(hibari: Any) -> None:
    speeches = hibari(
        Text("Plants use sunlight to make food, and they store it in their leaves. They are clever.")
    )
    assert len(speeches) >= 3
    assert speeches[0].text.startswith("Plants")
    assert speeches[0].audio.duration_s < 3


def test_fragments_follow_each_other_without_gap(hibari: Any) -> None:
    speeches = hibari(Text("One, two, three. Four five six. Seven eight nine."))
    ends = [speech.audio.end for speech in speeches]
    assert [speech.audio.start for speech in speeches] == [0, *ends[:-1]]
    assert "".join(speech.text for speech in speeches) == "One, two, three. Four five six. Seven eight nine."


def test_phonemes_are_in_order_inside_the_sound_and_cover_it(hibari: Any) -> None:
    for speech in hibari(Text("Bob and my mother make beautiful maps of Peru. What about Philip?")):
        assert speech.phonemes[0].start_s == 0.0
        for before, after in zip(speech.phonemes, speech.phonemes[1:], strict=False):
            assert before.start_s < before.end_s == after.start_s
        assert speech.phonemes[-1].end_s == pytest.approx(speech.audio.duration_s, abs=0.026)


def test_phoneme_times_match_the_sound(hibari: Any) -> None:
    """Vowels are loud and the closures of p, b, t, k are quiet, where the times say they are."""
    levels: dict[str, list[float]] = {"vowel": [], "stop": []}
    for speech in hibari(Text("Peter picked a pack of paper. Tick tock, cookie, top cop.")):
        for phoneme in speech.phonemes:
            middle = int((phoneme.start_s + phoneme.end_s) / 2 * speech.audio.rate_hz)
            around = speech.audio.samples[max(0, middle - 120) : middle + 120]
            group = "vowel" if phoneme.symbol in "ɪɑæiʌəA" else "stop" if phoneme.symbol in "ptk" else ""
            if group and phoneme.symbol:
                levels[group].append(float(np.sqrt(np.mean(around**2))))
    assert np.median(levels["vowel"]) > 4 * np.median(levels["stop"])


def test_stress_marks_reach_their_vowel(hibari: Any) -> None:
    [speech] = hibari(Text("Banana."))
    stressed = [phoneme.symbol for phoneme in speech.phonemes if phoneme.stress == 2]
    assert stressed == ["æ"]


def test_a_fragment_begins_at_once_and_ends_with_a_breath(hibari: Any) -> None:
    for text, pause_s in (("Hello there.", 0.22), ("Hello there,", 0.08)):
        [speech] = hibari(Text(text))
        loud = np.flatnonzero(np.abs(speech.audio.samples) > 0.01)
        assert loud[0] / speech.audio.rate_hz <= 0.05
        assert (len(speech.audio.samples) - loud[-1]) / speech.audio.rate_hz == pytest.approx(
            pause_s, abs=0.01
        )


def test_joins_do_not_click(hibari: Any) -> None:
    """At a join the sound steps by less than inside the speech."""
    speeches = hibari(Text("Hello there. How are you? I am fine."))
    for before, after in zip(speeches, speeches[1:], strict=False):
        assert abs(float(before.audio.samples[-1] - after.audio.samples[0])) < 0.01


def test_the_same_seed_gives_the_same_sound(hibari: Any) -> None:
    one, two = (joined(hibari(Text("Hello."), turn=fake_turn(seed=3))) for _ in range(2))
    assert np.array_equal(one.samples, two.samples)


@pytest.mark.parametrize("text", ["", " ", "......", "”", "😀", "# \n\n***"])
def test_what_cannot_be_spoken_is_skipped(hibari: Any, text: str) -> None:
    assert hibari(Text(text)) == []


def test_what_an_english_voice_leaves_out_is_told_once(hibari: Any, caplog: pytest.LogCaptureFixture) -> None:
    speeches = hibari(Text("I like 苹果 very much. My 苹果 is red, Zoë."))
    assert len(speeches) == 2
    assert caplog.messages == ["voice 'hibari' cannot say 果 苹: left out"]


def test_speed_shortens_speech() -> None:
    async def length_s(speed: float) -> float:
        voice = Hibari(speed=speed)
        await voice.load()
        stream = voice.run(_texts("This is a sentence of some length."), fake_turn())
        duration_s = sum([speech.audio.duration_s async for speech in stream])
        await voice.close()
        return duration_s

    slow, fast = asyncio.run(length_s(0.8)), asyncio.run(length_s(1.6))
    assert 1.5 < slow / fast < 2.3


def test_a_speed_out_of_range_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"0\.5 to 2"):
        Hibari(speed=3)


def test_the_stage_keeps_the_rules() -> None:
    asyncio.run(check_stage(lambda: Hibari(), [Text("Hello there."), Text(" How are you?")], cancel_steps=4))


def test_adding_an_output_leaves_the_model_as_it_was() -> None:
    assert with_output(b"model", "/Clip_output_0")[:5] == b"model"


async def _texts(*texts: str) -> Any:
    for text in texts:
        yield Text(text)


def joined(speeches: Sequence[Speech]) -> Audio:
    return speeches[0].audio.replace(
        samples=np.concatenate([speech.audio.samples for speech in speeches]), start=0
    )


def word_errors(reference: str, heard: str) -> int:
    """Levenshtein distance in words."""
    one, two = (_words(text) for text in (reference, heard))
    row = list(range(len(two) + 1))
    for i, word in enumerate(one, 1):
        diagonal, row[0] = row[0], i
        for j, other in enumerate(two, 1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (word != other))
    return row[-1]


def _words(text: str) -> list[str]:
    return "".join(c for c in text.lower() if c.isalnum() or c.isspace()).split()
