"""Names, and what the mouth does for a sound."""

from __future__ import annotations

import numpy as np
import pytest

from linly_pipeline.stages.motion.arkit import INDEX, NAMES, columns, spread
from linly_pipeline.stages.motion.shapes import CONTROL, NEUTRAL, REST, Contact, shapes_of

MISAKI = "AIOQWYabdfhijklmnpstuvwzæðŋɑɐɒɔəɛɜɡɪɹɾʃʊʌʒʤʧθᵊᵻTʔɚ"


def test_there_are_52_different_names_in_arkits_order() -> None:
    assert len(set(NAMES)) == 52
    assert (NAMES[0], NAMES[17], NAMES[18], NAMES[51]) == (
        "eyeBlinkLeft",
        "jawOpen",
        "mouthClose",
        "tongueOut",
    )


def test_a_name_without_its_side_means_both() -> None:
    assert columns("mouthSmile") == (INDEX["mouthSmileLeft"], INDEX["mouthSmileRight"])
    assert columns("jawOpen") == (17,)
    with pytest.raises(KeyError):
        columns("mouthGrin")


def test_spreading_writes_each_value_to_its_columns_alone() -> None:
    row = np.array([0.5, 0.25], np.float32) @ spread(["jawOpen", "eyeBlink"])
    assert row[17] == 0.5
    assert row[INDEX["eyeBlinkLeft"]] == row[INDEX["eyeBlinkRight"]] == 0.25
    assert row.sum() == 1.0


@pytest.mark.parametrize("symbol", MISAKI)
def test_every_sound_of_the_english_voice_has_a_shape(symbol: str) -> None:
    assert all(shape is not NEUTRAL and shape is not REST for shape in shapes_of(symbol))


@pytest.mark.parametrize(
    ("symbol", "sounds"), [("I", "aɪ"), ("A", "eɪ"), ("O", "oʊ"), ("W", "aʊ"), ("Y", "ɔɪ")]
)
def test_a_diphthong_goes_from_one_vowel_to_another(symbol: str, sounds: str) -> None:
    assert shapes_of(symbol) == shapes_of(sounds) == (*shapes_of(sounds[0]), *shapes_of(sounds[1]))


@pytest.mark.parametrize("symbol", ["ˈɑː", "ɑ", "ɑ5", "ɑ̃"])
def test_length_tone_and_stress_marks_are_passed_over(symbol: str) -> None:
    assert shapes_of(symbol) == shapes_of("ɑ")


@pytest.mark.parametrize("symbol", ["", " ", ",", "…", "—", "“"])
def test_silence_and_punctuation_are_rest(symbol: str) -> None:
    assert shapes_of(symbol) == (REST,)


@pytest.mark.parametrize("symbol", ["ǂ", "ж", "好"])
def test_a_symbol_that_nobody_knows_is_neutral(symbol: str) -> None:
    assert shapes_of(symbol) == (NEUTRAL,)


@pytest.mark.parametrize("symbol", ["zh", "sh", "ang", "iu", "ü", "ɕ", "ʈ͡ʂ", "ɤ"])
def test_mandarin_sounds_are_known(symbol: str) -> None:
    assert NEUTRAL not in shapes_of(symbol)
    assert REST not in shapes_of(symbol)


def test_vowels_differ_where_it_is_seen() -> None:
    def value(symbol: str, control: str) -> float:
        return float(shapes_of(symbol)[0].targets[CONTROL[control]])

    assert value("ɑ", "jawOpen") > value("ɛ", "jawOpen") > value("i", "jawOpen")
    assert value("u", "mouthPucker") > 0.4 > value("ɑ", "mouthPucker")
    assert value("i", "mouthStretch") > 0.2 > value("u", "mouthStretch")
    assert {shapes_of(s)[0].contact for s in "pbm"} == {Contact.LIPS}
    assert {shapes_of(s)[0].contact for s in "fv"} == {Contact.TEETH}
