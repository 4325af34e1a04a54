"""The default pipeline, whole, on real input: the video is decoded again and measured."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from linly_pipeline import Audio, Hibari, Mp4Sink, Pipeline, Portrait, Speech, Turn, Visemes, WavSink, stage
from linly_pipeline.config import embedded
from linly_pipeline.media.probe import MediaInfo, probe, read_frames
from linly_pipeline.models import locate
from linly_pipeline.packets import FloatArray
from linly_pipeline.stages.face.landmarks import Landmarker

QUESTION = "Hello! Can you tell me how plants make their food?"


@dataclass(frozen=True)
class Answer:
    """A turn of the default pipeline and the file that it wrote."""

    turn: Turn
    path: Path
    info: MediaInfo


async def _record(path: Path) -> None:
    async with Pipeline(Hibari()).session(WavSink(path)) as session:
        await session.say(QUESTION)


async def _answer(folder: Path) -> Answer:
    await _record(folder / "question.wav")
    async with embedded().session(Mp4Sink(folder / "answer.mp4")) as session:
        turn = await session.ask(Audio.read(folder / "question.wav"))
    assert turn.played is not None
    assert turn.played.path is not None
    return Answer(turn, turn.played.path, probe(turn.played.path))


@pytest.fixture(scope="module")
def answer(tmp_path_factory: pytest.TempPathFactory) -> Answer:
    return asyncio.run(_answer(tmp_path_factory.mktemp("an answer 你好")))


def test_the_question_is_understood_exactly(answer: Answer) -> None:
    assert answer.turn.question == "Hello. Can you tell me how plants make their food?"


def test_the_answer_is_to_the_question(answer: Answer) -> None:
    assert "photosynthesis" in answer.turn.reply
    assert answer.turn.reply.rstrip().endswith(".")


def test_the_video_plays_everywhere(answer: Answer) -> None:
    info = answer.info
    assert (info.video_codec, info.pix_fmt, info.audio_codec) == ("h264", "yuv420p", "aac")
    assert (info.width, info.height) == (512, 512)
    assert info.fps == 25


def test_picture_and_sound_are_of_one_length_and_start_together(answer: Answer) -> None:
    spoken_s = answer.turn.utterances[-1].end_s
    assert abs(answer.info.frames - spoken_s * 25) <= 1
    assert abs(answer.info.duration_s - spoken_s) <= 1.5 / 25
    assert answer.info.video_start_s is not None
    assert answer.info.audio_start_s is not None
    assert abs(answer.info.video_start_s - answer.info.audio_start_s) <= 1 / 25
    assert answer.turn.report().av_offset_ms == pytest.approx(0, abs=40)


def test_the_voice_is_as_loud_as_it_was_synthesised(answer: Answer) -> None:
    decoded = Audio.read(answer.path)
    level_dbfs = 20 * np.log10(np.sqrt(np.mean(decoded.samples**2)))
    assert -32 < level_dbfs < -12


def test_the_first_frame_left_before_the_language_model_was_done(answer: Answer) -> None:
    report = answer.turn.report()
    [llm] = [stage for stage in report.stages if stage.row == "llm"]
    [face] = [stage for stage in report.stages if stage.row == "face"]
    assert face.first_out_ns is not None
    llm_end_ns = next(
        record.end_ns for record in answer.turn.trace.records() if record.span_id == llm.span_id
    )
    assert face.first_out_ns < llm_end_ns


def test_one_trace_holds_every_stage_and_loads_again(answer: Answer, tmp_path: Path) -> None:
    from linly_profiling import Report, load

    answer.turn.trace.save(tmp_path / "answer.trace.json")
    [loaded] = load(tmp_path / "answer.trace.json")
    rows = {record.attrs.get("row") for record in loaded.spans}
    assert {"asr", "llm", "tts", "motion", "face", "sink"} <= rows
    assert str(Report.of(loaded)) == str(answer.turn.report())


def test_the_mouth_is_open_on_open_vowels_and_closed_on_lips(tmp_path: Path) -> None:
    """Measured with the landmark model on decoded frames, for a sentence full of both."""
    turn = asyncio.run(_say(tmp_path / "speech.mp4", "Bob's papa might stop by my barn. Mama began a map."))
    openings = _openings(tmp_path / "speech.mp4")
    vowels = [_near(openings, at_s, np.max) for symbol, at_s in _spoken(turn) if symbol in "ɑæI"]
    closures = [_near(openings, at_s, np.min) for symbol, at_s in _spoken(turn) if symbol in "mbp"]
    assert len(vowels) >= 6
    assert len(closures) >= 8
    rest = np.quantile(openings, 0.1)
    wide = np.quantile(openings, 0.9)
    closed = np.array(closures) < rest + 0.25 * (wide - rest)
    assert closed.mean() >= 0.9, closures
    assert np.median(vowels) > rest + 0.5 * (wide - rest)


PHONEMES: dict[str, list[tuple[str, float]]] = {}


async def _say(path: Path, text: str) -> Turn:
    heard: list[tuple[str, float]] = []

    @stage
    def listen(speech: Speech) -> Speech:
        for phoneme in speech.phonemes:
            heard.append((phoneme.symbol, speech.audio.start_s + (phoneme.start_s + phoneme.end_s) / 2))
        return speech

    pipeline = Pipeline(Hibari(), listen, Visemes(), Portrait(locate("portrait-astronaut")))
    async with pipeline.session(Mp4Sink(path)) as session:
        turn = await session.say(text)
    PHONEMES[turn.id] = heard
    return turn


def _spoken(turn: Turn) -> list[tuple[str, float]]:
    return [(symbol, at_s) for symbol, at_s in PHONEMES[turn.id] if symbol]


def _openings(path: Path) -> FloatArray:
    """Inner lip gap of every frame, over the mouth's width."""
    landmarker = Landmarker(locate("face-landmarker"))
    gaps = []
    for frame in read_frames(path):
        points = landmarker.detect(frame)[0].landmarks
        gaps.append(
            np.linalg.norm(points[13, :2] - points[14, :2]) / np.linalg.norm(points[61, :2] - points[291, :2])
        )
    return np.array(gaps, np.float32)


def _near(openings: FloatArray, at_s: float, pick: object) -> float:
    """The extreme opening within the 80 ms before to 40 ms after: the mouth leads the sound."""
    first, last = round((at_s - 0.08) * 25), round((at_s + 0.04) * 25)
    return float(pick(openings[max(0, first) : last + 1]))  # type: ignore[operator]
