"""From phonemes in time to smooth mouth curves, by dominance functions.

After M. M. Cohen and D. W. Massaro, "Modeling coarticulation in synthetic visual speech" (1993): each sound
pulls the mouth towards its target with a dominance that falls off on both sides of its centre, and the curve
is the average of the targets weighted by dominance. What must touch (the lips in p, b, m; lip and teeth in
f, v) is put right afterwards on the frame nearest the sound's centre, because averages never close a mouth.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from linly_pipeline.packets import FloatArray, Phoneme
from linly_pipeline.stages.motion.loudness import Times
from linly_pipeline.stages.motion.shapes import (
    CONTROL,
    CONTROLS,
    LIP_ON_TEETH,
    LIPS_TOUCH,
    REST,
    Contact,
    Viseme,
    shapes_of,
)

_STRESS_GAIN = (1.0, 1.07, 1.18)  # none, secondary, primary
_SHORTEST_REACH_S = 0.045  # lips cannot move faster than this (about 12 movements a second)
_PLATEAU_EDGE_S = 0.05  # a long sound holds its shape and lets go this long before its end
_FALL = 1.6  # between the cusp of exponent 1 and a bell: the paper's c
_PASSING_S, _PAUSE_S = 0.06, 0.15  # the gap between two words does not close the mouth, a pause does
_FAINT = 1e-3  # dominance of rest, everywhere: far from any sound the mouth is at rest


@dataclass(frozen=True, slots=True)
class Segment:
    """One mouth shape and when it is held, in seconds since the start of the turn."""

    viseme: Viseme
    start_s: float
    end_s: float
    gain: float = 1.0
    strength: float = 1.0

    @property
    def centre_s(self) -> float:
        return (self.start_s + self.end_s) / 2


def segments_of(phonemes: Iterable[Phoneme], offset_s: float, end_s: float) -> list[Segment]:
    """Mouth shapes of a fragment that begins at `offset_s`; times outside it are brought in."""
    found: list[Segment] = []
    for phoneme in phonemes:
        start = min(max(offset_s + phoneme.start_s, offset_s), end_s)
        end = min(max(offset_s + phoneme.end_s, start), end_s)
        shapes = shapes_of(phoneme.symbol)
        edges = np.linspace(start, end, len(shapes) + 1)
        stress = _STRESS_GAIN[min(max(phoneme.stress, 0), 2)]
        for shape, left, right in zip(shapes, edges[:-1], edges[1:], strict=True):
            found.append(_segment(shape, float(left), float(right), stress))
    return found


def _segment(shape: Viseme, start_s: float, end_s: float, stress: float) -> Segment:
    if shape is REST:
        insists = min(max((end_s - start_s - _PASSING_S) / _PAUSE_S, 0.0), 1.0)
        return Segment(shape, start_s, end_s, strength=shape.strength * insists)
    return Segment(shape, start_s, end_s, stress if shape.is_vowel else 1.0, shape.strength)


def curves(segments: list[Segment], time_s: Times) -> FloatArray:
    """Control values at times, `[n, controls]`."""
    if not segments:
        return np.zeros((len(time_s), len(CONTROLS)), np.float32)
    centre = np.array([s.centre_s for s in segments])
    half = np.array([(s.end_s - s.start_s) / 2 for s in segments])
    targets = np.array([s.viseme.targets for s in segments])
    targets[:, CONTROL["jawOpen"]] *= [s.gain for s in segments]
    targets[:, CONTROL["mouthLowerDown"]] *= [s.gain for s in segments]
    strength = np.array([s.strength for s in segments])
    away = np.abs(time_s[:, None] - centre) - np.maximum(half - _PLATEAU_EDGE_S, 0.0)
    reach = np.clip(half, _SHORTEST_REACH_S, 0.10)
    dominance = strength * np.exp(-((np.maximum(away, 0.0) / reach) ** _FALL))
    weight = dominance / (dominance.sum(axis=1, keepdims=True) + _FAINT)
    return np.asarray(weight @ targets, np.float32)


def touch(values: FloatArray, segments: list[Segment], first_frame: int, fps: int, lead_s: float) -> None:
    """Make lips and teeth meet on the frame nearest each sound that needs it; changes `values` in place.

    `values` is `[n, controls]` for the frames from `first_frame` on. A sound that lasts longer than a frame
    holds its neighbours half-way.
    """
    for segment in segments:
        if segment.viseme.contact is Contact.NONE:
            continue
        at = round((segment.centre_s - lead_s) * fps) - first_frame
        if at == -1 and (segment.end_s - lead_s) * fps >= first_frame:
            at = 0  # the nearest frame has been sent already; this one still belongs to the sound
        shape = LIPS_TOUCH if segment.viseme.contact is Contact.LIPS else LIP_ON_TEETH
        if 0 <= at < len(values):
            values[at] = _in_contact(values[at], shape)
        if (segment.end_s - segment.start_s) * fps > 1.2:
            for beside in (at - 1, at + 1):
                if 0 <= beside < len(values):
                    values[beside] = (values[beside] + _in_contact(values[beside], shape)) / 2


def _in_contact(row: FloatArray, shape: Viseme) -> FloatArray:
    """The shape itself, with what the neighbours say about the corners of the mouth kept in part."""
    mixed = shape.targets.copy()
    for name in ("mouthPucker", "mouthSmile", "mouthStretch"):
        mixed[CONTROL[name]] = 0.7 * row[CONTROL[name]]
    return mixed
