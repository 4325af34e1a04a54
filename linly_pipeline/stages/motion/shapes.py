"""What the mouth does for each speech sound: targets for a handful of ARKit controls, by IPA symbol.

The grouping into visemes is the usual one (Fisher, "Confusions among visually perceived consonants", 1968, as
refined for ARKit-like rigs); the values were set by eye on portraits.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from enum import Enum

import numpy as np

from linly_pipeline.packets import FloatArray
from linly_pipeline.stages.motion.arkit import spread

CONTROLS: tuple[str, ...] = (
    "jawOpen",
    "mouthClose",
    "mouthFunnel",
    "mouthPucker",
    "mouthSmile",
    "mouthStretch",
    "mouthUpperUp",
    "mouthLowerDown",
    "mouthRollLower",
    "mouthRollUpper",
    "mouthPress",
)
CONTROL: dict[str, int] = {name: i for i, name in enumerate(CONTROLS)}
TO_ARKIT: FloatArray = spread(CONTROLS)  # [controls, 52]


class Contact(Enum):
    """What has to touch for the sound to be believed."""

    NONE = 0
    LIPS = 1  # p, b, m: the lips meet
    TEETH = 2  # f, v: the lower lip meets the upper teeth


@dataclass(frozen=True, slots=True, eq=False)
class Viseme:
    """How the mouth is held for a sound.

    Attributes:
        targets: `[controls]` in 0..1.
        strength: how much it insists on its shape against its neighbours; vowels shape the mouth, most
            consonants let it pass.
        contact: what must touch.
        is_vowel: stress and loudness open it.
    """

    targets: FloatArray
    strength: float = 1.0
    contact: Contact = Contact.NONE
    is_vowel: bool = False


def _targets(**values: float) -> FloatArray:
    row = np.zeros(len(CONTROLS), np.float32)
    for name, value in values.items():
        row[CONTROL["jawOpen" if name == "jaw" else f"mouth{name[0].upper()}{name[1:]}"]] = value
    return row


def _vowel(**values: float) -> Viseme:
    return Viseme(_targets(**values), 1.0, is_vowel=True)


def _consonant(strength: float, **values: float) -> Viseme:
    return Viseme(_targets(**values), strength)


REST = Viseme(_targets(), 0.8)
NEUTRAL = Viseme(_targets(jaw=0.14, lowerDown=0.06), 0.4)
LIPS_TOUCH = Viseme(
    _targets(jaw=0.04, close=0.04, press=0.3, rollLower=0.1, rollUpper=0.1), 1.3, contact=Contact.LIPS
)
LIP_ON_TEETH = Viseme(_targets(jaw=0.06, close=0.04, rollLower=0.55, upperUp=0.3), 1.2, contact=Contact.TEETH)

_BY_GROUP: dict[str, Viseme] = {
    "ɑɒaɐ": _vowel(jaw=0.40, lowerDown=0.18, upperUp=0.10),
    "æ": _vowel(jaw=0.37, stretch=0.18, smile=0.08, lowerDown=0.20, upperUp=0.16),
    "ʌ": _vowel(jaw=0.30, lowerDown=0.14, upperUp=0.06),
    "əᵊɘɤ": Viseme(_targets(jaw=0.22, lowerDown=0.10, upperUp=0.04), 0.6, is_vowel=True),
    "ɛe": _vowel(jaw=0.29, stretch=0.18, smile=0.06, lowerDown=0.20, upperUp=0.12),
    "ɪᵻɨ": _vowel(jaw=0.19, stretch=0.20, smile=0.08, lowerDown=0.16, upperUp=0.10),
    "i": _vowel(jaw=0.13, stretch=0.30, smile=0.20, lowerDown=0.22, upperUp=0.12),
    "ɔoɵ": _vowel(jaw=0.36, funnel=0.42, pucker=0.10),
    "ʊɯ": _vowel(jaw=0.18, funnel=0.34, pucker=0.28),
    "uʉyø": _vowel(jaw=0.11, funnel=0.22, pucker=0.55),
    "ɜɝɚɞœ": _vowel(jaw=0.22, funnel=0.26, pucker=0.06),
    "wʍɥ": _consonant(1.1, jaw=0.06, funnel=0.12, pucker=0.65),
    "j": _consonant(0.6, jaw=0.11, stretch=0.22, smile=0.12, lowerDown=0.14),
    "ɹrɻʁ": _consonant(0.8, jaw=0.12, funnel=0.34, pucker=0.18),
    "lɫɭ": _consonant(0.5, jaw=0.18, lowerDown=0.12),
    "tdnɾTɲʈɖɳ": _consonant(0.5, jaw=0.10, lowerDown=0.12, upperUp=0.04),
    "szʦʣɕʑ": _consonant(0.8, jaw=0.06, stretch=0.16, lowerDown=0.20, upperUp=0.08),
    "ʃʒʧʤʂʐ": _consonant(0.9, jaw=0.08, funnel=0.48, pucker=0.08, lowerDown=0.10, upperUp=0.10),
    "θð": _consonant(0.7, jaw=0.13, lowerDown=0.16, upperUp=0.06),
    "kɡgŋxɣqχ": _consonant(0.35, jaw=0.15, lowerDown=0.08),
    "hɦʔħ": _consonant(0.15, jaw=0.20, lowerDown=0.06),
    "pbm": LIPS_TOUCH,
    "fvɱβɸʋ": LIP_ON_TEETH,
}
_BY_CHARACTER = {character: shape for group, shape in _BY_GROUP.items() for character in group}

# One letter for two sounds: misaki's symbols (https://github.com/hexgrad/misaki, EN_PHONES.md), and letters
# of pinyin that IPA lacks or means otherwise.
_SPELLED_OUT = {
    "A": "eɪ",
    "I": "aɪ",
    "O": "oʊ",
    "W": "aʊ",
    "Y": "ɔɪ",
    "Q": "əʊ",
    "ü": "y",
    "c": "ʦ",
}


def shapes_of(symbol: str) -> tuple[Viseme, ...]:
    """The mouth shapes of one phoneme symbol, in order; a diphthong or affricate has two.

    Length, tone and stress marks and ties are passed over. "" and punctuation are silence; a symbol that is
    not in the table gives a slightly open, neutral mouth.
    """
    text = unicodedata.normalize("NFC", symbol)
    spelled = "".join(_SPELLED_OUT.get(character, character) for character in text)
    known = tuple(_BY_CHARACTER[character] for character in spelled if character in _BY_CHARACTER)
    if known:
        return known
    return (NEUTRAL,) if any(character.isalpha() for character in symbol) else (REST,)
