"""Two ways to move a mouth: by the phonemes of what is said, or by its loudness alone."""

from __future__ import annotations

from collections import deque
from typing import ClassVar

import numpy as np

from linly_pipeline.packets import FloatArray, Speech
from linly_pipeline.stages.motion.accents import Accents
from linly_pipeline.stages.motion.coarticulation import Segment, curves, segments_of, touch
from linly_pipeline.stages.motion.loudness import SILENCE_DB, Times, level_db, voice_band
from linly_pipeline.stages.motion.shapes import CONTROL, CONTROLS

_REMEMBER_S = 1.0
_FILTER_CONTEXT_S = 0.15


class Recent:
    """The sound heard last, with a little before it: frames look across the border of two fragments."""

    def __init__(self) -> None:
        self.samples: FloatArray = np.zeros(0, np.float32)
        self.start_s = 0.0
        self.rate_hz = 1

    def hear(self, samples: FloatArray, rate_hz: int, start_s: float) -> None:
        follows = abs(self.start_s + len(self.samples) / self.rate_hz - start_s) < 1 / rate_hz
        before = self.samples[-int(_REMEMBER_S * rate_hz) :] if follows else self.samples[:0]
        self.samples = np.concatenate([before, samples])
        self.rate_hz = rate_hz
        self.start_s = start_s - len(before) / rate_hz

    def level_db(self, time_s: Times, window_s: float = 0.05) -> Times:
        return level_db(self.samples, self.rate_hz, time_s - self.start_s, window_s)


class PhonemeMouth:
    """Coarticulated visemes; loudness scales the jaw, and where there is no sound the mouth rests."""

    _LOUDER_PER_DB = 1 / 30
    _GAIN = (0.75, 1.2)

    def __init__(self, fps: int, lead_s: float, accents: Accents) -> None:
        self._fps = fps
        self._lead_s = lead_s
        self._accents = accents
        self._segments: list[Segment] = []
        self._recent = Recent()

    def hear(self, speech: Speech, start_s: float, shown_s: float) -> None:
        audio = speech.audio
        new = segments_of(speech.phonemes, start_s, start_s + audio.duration_s)
        self._segments = [s for s in self._segments if s.end_s > shown_s - _REMEMBER_S] + new
        self._recent.hear(audio.samples, audio.rate_hz, start_s)
        self._accents.add(new, shown_s)

    def shape(self, first_frame: int, count: int) -> FloatArray:
        time_s = np.arange(first_frame, first_frame + count) / self._fps + self._lead_s
        values = curves(self._segments, time_s)
        values *= self._presence(time_s)[:, None]
        values[:, CONTROL["jawOpen"]] *= self._loudness_gain(time_s)
        return values

    def touch(self, values: FloatArray, first_frame: int) -> None:
        """Close what must close; the last step, after all smoothing."""
        touch(values, self._segments, first_frame, self._fps, self._lead_s)

    def _presence(self, time_s: Times) -> Times:
        """0 in silence, 1 where there is a voice; the window spans the silent part of a plosive."""
        return np.clip((self._recent.level_db(time_s, 0.2) - SILENCE_DB) / 10.0, 0.0, 1.0)

    def _loudness_gain(self, time_s: Times) -> Times:
        level = self._recent.level_db(time_s, 0.1)
        voiced = level[level > SILENCE_DB + 10]
        usual = float(np.median(voiced)) if len(voiced) else 0.0
        return np.clip(1.0 + (level - usual) * self._LOUDER_PER_DB, *self._GAIN)


class EnergyMouth:
    """The louder, the wider. Steady noise and silence leave the mouth still."""

    _ATTACK_S, _RELEASE_S = 0.03, 0.09
    _GATE_DB = -50.0  # what is softer is no voice
    _OVER_NOISE_DB = 8.0  # speech stands out from steady noise by more than its ripple
    _SPAN_DB = 22.0  # from a murmur to a loud vowel
    _LOUD_DB = -16.0  # a loud vowel, until one has been heard
    _NOISE_MEMORY_S = 3.0
    _WIDEST: ClassVar = {"jawOpen": 0.42, "mouthLowerDown": 0.18, "mouthUpperUp": 0.08, "mouthStretch": 0.06}

    def __init__(self, fps: int, lead_s: float) -> None:
        self._fps = fps
        self._lead_s = lead_s
        self._recent = Recent()
        self._context: FloatArray = np.zeros(0, np.float32)
        self._levels: deque[float] = deque(maxlen=max(1, round(self._NOISE_MEMORY_S * fps)))
        self._open = 0.0
        self._loudest_db = self._LOUD_DB - 12.0
        self._widest = np.zeros(len(CONTROLS), np.float32)
        for name, value in self._WIDEST.items():
            self._widest[CONTROL[name]] = value

    def hear(self, speech: Speech, start_s: float, shown_s: float) -> None:
        audio = speech.audio
        # A little of what came before goes through the filter too: short packets have no low end of their own.
        context = self._context[-round(_FILTER_CONTEXT_S * audio.rate_hz) :]
        self._context = np.concatenate([context, audio.samples])
        filtered = voice_band(self._context, audio.rate_hz)[len(context) :]
        self._recent.hear(filtered, audio.rate_hz, start_s)

    def shape(self, first_frame: int, count: int) -> FloatArray:
        time_s = np.arange(first_frame, first_frame + count) / self._fps + self._lead_s
        level = self._recent.level_db(time_s)
        wanted = self._wanted(level)
        self._levels.extend(level.tolist())
        opening = np.empty(count, np.float32)
        for i, target in enumerate(wanted):
            opening[i] = self._open = self._follow(float(target))
        return opening[:, None] * self._widest

    def _wanted(self, level: Times) -> Times:
        noise_db = min([*self._levels, *level.tolist()], default=-120.0)
        floor_db = max(self._GATE_DB, noise_db + self._OVER_NOISE_DB)
        self._loudest_db = max(self._loudest_db, float(level.max(initial=-120.0)))
        bottom = max(floor_db, self._loudest_db - self._SPAN_DB)
        loudness = np.clip((level - bottom) / (self._loudest_db - bottom + 1e-6), 0, 1)
        return np.where(level > floor_db, loudness, 0.0)

    def _follow(self, target: float) -> float:
        """One step of an envelope that opens fast and closes slower."""
        slowness_s = self._ATTACK_S if target > self._open else self._RELEASE_S
        value = target + (self._open - target) * float(np.exp(-1 / (self._fps * slowness_s)))
        return value if value > 1e-3 else 0.0
