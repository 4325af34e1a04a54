"""Speech made up for tests."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from linly_pipeline.packets import Audio, FloatArray, Motion, Phoneme, Speech

Run = Callable[..., list[Motion]]


def voice(duration_s: float, rate_hz: int = 24_000, level: float = 0.2) -> Audio:
    """Something with the band and the level of a vowel."""
    time_s = np.arange(round(duration_s * rate_hz)) / rate_hz
    wave = sum(np.sin(2 * np.pi * 140 * n * time_s) / n for n in range(1, 12))
    return Audio((level * wave / 2).astype(np.float32), rate_hz)


def spoken(symbols: Iterable[str], each_s: float = 0.12, rate_hz: int = 24_000, stress: int = 0) -> Speech:
    """A fragment that says these sounds, with a little silence around them."""
    symbols = list(symbols)
    phonemes = [
        Phoneme(symbol, 0.2 + i * each_s, 0.2 + (i + 1) * each_s, stress) for i, symbol in enumerate(symbols)
    ]
    end_s = 0.2 + len(symbols) * each_s
    silence = Phoneme("", 0.0, 0.2), Phoneme("", end_s, end_s + 0.3)
    return Speech(voice(end_s + 0.3, rate_hz), phonemes=(silence[0], *phonemes, silence[1]))


def joined(motions: Iterable[Motion]) -> FloatArray:
    """`[frames, 52]`"""
    rows = [motion.blendshapes for motion in motions]
    return np.concatenate(rows) if rows else np.zeros((0, 52), np.float32)
