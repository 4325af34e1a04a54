"""Rules about sound and picture."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from linly_profiling.advice.evidence import (
    MOST_CITED,
    MS,
    Evidence,
    cited,
    percent,
    severity,
    times,
    total_ns,
)
from linly_profiling.advice.finding import Advice
from linly_profiling.analysis.numbers import length, overlap
from linly_profiling.analysis.pacing import Pacing, Stall
from linly_profiling.tables import duration, shown

# Below this share of the request even a vocoder that costs nothing would not be noticed.
VOCODER_SHARE = 0.05
# Fewer frames say little: the first ones also warm up the renderer.
LEAST_FRAMES = 10
# The rate of frames over media is exact to a frame or so.
FPS_TOLERANCE = 0.98
# Shorter holds of a picture pass for jitter: two frames at 25 fps and a half.
LEAST_STALL_NS = 100 * MS
# Where viewers begin to notice that the sound comes too early or too late, by ITU-R BT.1359-1.
PICTURE_LATE_MS = 45.0
PICTURE_EARLY_MS = -125.0


def vocoder_over_mel(seen: Evidence) -> Iterator[Advice]:
    """Making the waveform takes longer than making the spectrogram, which is the harder problem."""
    mel, vocoder = (seen.named(name.__eq__) for name in ("tts.mel", "tts.vocoder"))
    mel_ns, vocoder_ns = total_ns(mel), total_ns(vocoder)
    if not 0 < mel_ns < vocoder_ns or vocoder_ns < VOCODER_SHARE * seen.wall_ns:
        return
    yield Advice(
        rule="vocoder-over-mel",
        severity=severity(vocoder_ns, seen.wall_ns),
        title=f"The vocoder takes {vocoder_ns / mel_ns:.1f} times as long as the mel spectrogram",
        evidence=(
            f"{duration(vocoder_ns)} in {times(len(vocoder), 'call')} of tts.vocoder, {duration(mel_ns)} of tts.mel"
        ),
        remedy=(
            "A lighter vocoder (a small HiFi-GAN, or one with an inverse Fourier transform at its end, like Vocos or"
            " iSTFTNet), half precision or int8, a compiled graph; begin with the first frames of the spectrogram."
        ),
        span_ids=cited(vocoder),
        cost_ns=vocoder_ns,
    )


def renderer_below_fps(seen: Evidence) -> Iterator[Advice]:
    """The renderer cannot make frames as fast as they are shown."""
    pace = seen.report.pacing
    if pace is None or pace.fps is None or pace.effective_fps is None or pace.frames < LEAST_FRAMES:
        return
    if pace.effective_fps >= FPS_TOLERANCE * pace.fps:
        return
    missing_ns = round(1e9 * (pace.frames / pace.effective_fps - pace.frames / pace.fps))
    yield Advice(
        rule="renderer-below-fps",
        severity=severity(missing_ns, seen.wall_ns),
        title=f"The renderer makes {pace.effective_fps:.1f} frames a second of {pace.fps:.0f}",
        evidence=_render_times(pace),
        remedy=(
            "A smaller picture or fewer frames a second; larger batches on a GPU; half precision or a compiled model;"
            " render only the face and paste it; reuse frames while nobody speaks."
        ),
        span_ids=cited(seen.by_id[span_id] for span_id in pace.span_ids),
        cost_ns=missing_ns,
    )


def _render_times(pace: Pacing) -> str:
    parts = []
    if pace.render is not None and pace.budget_ms is not None:
        parts.append(
            f"{pace.render.p50_ms:.1f} ms a frame (p95 {pace.render.p95_ms:.1f} ms),"
            f" {pace.budget_ms:.1f} ms for each"
        )
    parts.append(f"{pace.late_frames or 0:,} of {times(pace.frames, 'frame')} late")
    held_ns = sum(stall.duration_ns for stall in pace.stalls)
    parts.append(f"the picture would stand still for {duration(held_ns)} in all")
    return "; ".join(parts)


def playback_starved(seen: Evidence) -> Iterator[Advice]:
    """The picture would stand still because the renderer got nothing to render in time."""
    pace = seen.report.pacing
    stalls = [stall for stall in pace.stalls if not stall.rendering] if pace is not None else []
    held_ns = sum(stall.duration_ns for stall in stalls)
    if held_ns < LEAST_STALL_NS:
        return
    yield Advice(
        rule="playback-starved",
        severity=severity(held_ns, seen.wall_ns),
        title=f"Playback would run dry for {duration(held_ns)}",
        evidence=f"{times(len(stalls), 'gap')} in which the renderer had nothing to render{_culprits(seen, stalls)}",
        remedy=(
            "Make the stage that was waited for faster, or let it begin earlier (shorter sentences for the voice);"
            " or begin to play later, with a longer buffer."
        ),
        span_ids=tuple(dict.fromkeys(stall.span_id for stall in _longest_first(stalls)))[:MOST_CITED],
        cost_ns=held_ns,
    )


def _longest_first(stalls: Sequence[Stall]) -> list[Stall]:
    return sorted(stalls, key=lambda stall: -stall.duration_ns)


def _culprits(seen: Evidence, stalls: Sequence[Stall]) -> str:
    """Whom the critical path names in those gaps."""
    gaps = [(stall.start_ns, stall.end_ns) for stall in stalls]
    owned = Counter(
        {stage.name: overlap(gaps, seen.owned.get(stage.span_id, ())) for stage in seen.report.stages}
    )
    named = [f"{shown(name, 30)} {percent(ns, length(gaps))}" for name, ns in owned.most_common(2) if ns > 0]
    return f"; meanwhile the request waited for {', '.join(named)}" if named else ""


def av_offset(seen: Evidence) -> Iterator[Advice]:
    """Sound and picture are so far apart that viewers notice."""
    offset_ms = seen.report.av_offset_ms
    if offset_ms is None or PICTURE_EARLY_MS <= offset_ms <= PICTURE_LATE_MS:
        return
    side = "behind" if offset_ms > 0 else "before"
    yield Advice(
        rule="av-offset",
        severity="high",
        title=f"The picture is {abs(offset_ms):.0f} ms {side} the sound",
        evidence=f"viewers notice more than {PICTURE_LATE_MS:.0f} ms behind or {-PICTURE_EARLY_MS:.0f} ms before it",
        remedy=(
            "Let each frame carry the sound that belongs to it, and play both by one clock, the sound's;"
            " check the lookahead and the first frame's number of the stages in between."
        ),
        span_ids=cited(span for span in seen.trace.spans if "av_offset_ms" in span.attrs),
        cost_ns=None,
    )
