"""Building a pipeline: types, names, sinks, loading; the synchronous form; the decorator."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from helpers import fake_pipeline

from linly_pipeline import (
    Audio,
    ConfigError,
    MediaError,
    ModelError,
    Mp4Sink,
    Pipeline,
    SinkError,
    Speech,
    Stage,
    StageError,
    Text,
    Turn,
    WavSink,
    stage,
)
from linly_pipeline.testing import (
    FakeChat,
    FakeFace,
    FakeMotion,
    FakeRecogniser,
    FakeVoice,
    FaultyStage,
    check_stage,
    run_virtual,
    tone,
)


def test_neighbours_that_do_not_fit_are_refused_with_both_names() -> None:
    with pytest.raises(ConfigError, match="'fake-motion' takes Speech, but 'fake-llm' before it gives Text"):
        Pipeline(FakeChat(), FakeMotion())


def test_an_empty_pipeline_a_class_and_a_plain_function_are_refused() -> None:
    with pytest.raises(ConfigError, match="at least one stage"):
        Pipeline()
    with pytest.raises(ConfigError, match="call it"):
        Pipeline(FakeChat)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="@stage"):
        Pipeline(lambda text: text)  # type: ignore[arg-type]


def test_a_stage_without_types_is_refused() -> None:
    class Untyped(Stage):  # type: ignore[type-arg]
        pass

    with pytest.raises(ConfigError, match="does not say its types"):
        Pipeline(Untyped())


def test_two_stages_of_one_name_are_refused() -> None:
    with pytest.raises(ConfigError, match="two stages are named 'fake-llm'"):
        Pipeline(FakeChat(), FakeChat())


def test_a_stage_takes_its_types_from_its_base_and_its_name_from_its_class() -> None:
    class Shout(Stage[Text, Text]):
        async def run(self, stream: AsyncIterator[Text], turn: Turn) -> AsyncIterator[Text]:
            async for piece in stream:
                yield piece.replace(text=piece.text.upper())

    shout = Shout()
    assert (shout.name, shout.accepts, shout.gives) == ("shout", Text, Text)


def test_a_sink_that_cannot_take_the_output_is_refused_before_anything_loads(tmp_path: Path) -> None:
    loaded = []

    class Loading(FakeChat):
        async def load(self) -> None:
            loaded.append(self)

    async def main() -> None:
        with pytest.raises(ConfigError, match="Mp4Sink takes Video.*'fake-tts'.*gives Speech"):
            async with Pipeline(Loading(), FakeVoice()).session(Mp4Sink(tmp_path / "a.mp4")):
                pass

    run_virtual(main())
    assert not loaded


def test_a_packet_that_no_stage_takes_is_refused_with_what_they_take() -> None:
    async def main() -> None:
        async with Pipeline(FakeChat(), FakeVoice()).session() as session:
            with pytest.raises(
                ConfigError, match="no stage of this pipeline takes Audio.*fake-llm takes Text"
            ):
                await session.ask(tone(1.0))
            with pytest.raises(ConfigError, match="cannot ask with int"):
                await session.ask(7)  # type: ignore[arg-type]

    run_virtual(main())


def test_a_session_that_is_not_open_says_so() -> None:
    async def main() -> None:
        with pytest.raises(ConfigError, match="async with"):
            await fake_pipeline().session().ask("Hello?")

    run_virtual(main())


class Counting(FakeChat):
    """Counts its loads and closes."""

    def __init__(self) -> None:
        super().__init__("Yes.")
        self.loads = self.closes = 0

    async def load(self) -> None:
        self.loads += 1

    async def close(self) -> None:
        self.closes += 1


def test_models_load_once_for_overlapping_sessions_and_close_after_the_last() -> None:
    async def main() -> None:
        chat = Counting()
        pipeline = Pipeline(chat, FakeVoice())
        async with pipeline:
            async with pipeline.session(), pipeline.session():
                pass
            async with pipeline.session():
                pass
            assert (chat.loads, chat.closes) == (1, 0)
        assert (chat.loads, chat.closes) == (1, 1)

    run_virtual(main())


def test_a_model_that_fails_to_load_closes_what_was_loaded_before_it() -> None:
    class Missing(FakeVoice):
        async def load(self) -> None:
            raise ModelError("no weights")

    async def main() -> None:
        chat = Counting()
        with pytest.raises(ModelError, match="no weights"):
            async with Pipeline(chat, Missing()).session():
                pass
        assert (chat.loads, chat.closes) == (1, 1)

    run_virtual(main())


# The synchronous form


def test_the_one_liner_writes_a_file_and_keeps_models_warm(tmp_path: Path) -> None:
    chat = Counting()
    pipeline = Pipeline(chat, FakeVoice())
    turn = pipeline.ask("Hello?", out=tmp_path / "answer.wav")
    assert turn.reply == "Yes."
    assert Audio.read(tmp_path / "answer.wav").duration_s == pytest.approx(
        turn.utterances[-1].end_s, abs=0.01
    )
    pipeline.say("More.", out=tmp_path / "more.wav")
    assert (chat.loads, chat.closes) == (1, 0)
    pipeline.close()
    assert chat.closes == 1


def test_the_one_liner_works_inside_a_running_loop_as_in_a_notebook() -> None:
    async def cell() -> str:
        return await asyncio.to_thread(lambda: Pipeline(FakeChat("Yes."), FakeVoice()).ask("Hello?").reply)

    assert asyncio.run(cell()) == "Yes."


def test_the_one_liner_raises_the_first_failure_and_the_pipeline_goes_on() -> None:
    pipeline = Pipeline(FaultyStage("raises"), FakeVoice())
    with pytest.raises(StageError, match="faulty"):
        pipeline.ask("Hello?")
    with pytest.raises(StageError, match="faulty"):
        pipeline.ask("Hello?")


def test_a_missing_sound_file_is_named() -> None:
    with pytest.raises(MediaError, match=r"nowhere\.wav"):
        Pipeline(FakeRecogniser()).ask("nowhere.wav")


def test_an_unknown_suffix_is_refused_with_what_there_is() -> None:
    with pytest.raises(SinkError, match=r"\.mp4 or \.wav"):
        Pipeline(FakeChat(), FakeVoice()).ask("Hello?", out="answer.xyz")


def test_a_second_turn_of_a_session_does_not_overwrite_the_first_file(tmp_path: Path) -> None:
    async def main() -> None:
        async with Pipeline(FakeChat("Yes."), FakeVoice()).session(WavSink(tmp_path / "a.wav")) as session:
            first = await session.ask("One?")
            second = await session.ask("Two?")
        assert first.played is not None
        assert second.played is not None
        assert [first.played.path, second.played.path] == [tmp_path / "a.wav", tmp_path / "a-2.wav"]

    asyncio.run(main())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a-2.wav", "a.wav"]


def test_a_cancelled_turn_leaves_no_file(tmp_path: Path) -> None:
    async def main() -> None:
        pipeline = Pipeline(
            FakeChat("One two three four.", per_item_ms=20), FakeVoice(), FakeMotion(), FakeFace()
        )
        async with pipeline.session(Mp4Sink(tmp_path / "a.mp4")) as session:
            turn = await session.start("Hello?")
            while turn.utterances == []:
                await asyncio.sleep(0.005)
            await turn.cancel()

    asyncio.run(main())
    assert list(tmp_path.iterdir()) == []


# The decorator


def test_a_function_becomes_a_stage() -> None:
    @stage
    def shout(piece: Text) -> Text | None:
        return piece.replace(text=piece.text.upper()) if piece.text.strip() else None

    @stage
    async def twice(stream: AsyncIterator[Text], turn: Turn) -> AsyncIterator[Text]:
        async for piece in stream:
            yield piece
            yield piece

    @stage
    async def kind(piece: Text) -> Text:
        await asyncio.sleep(0)
        return piece

    assert repr(shout) == "@stage shout"

    async def main() -> None:
        async with Pipeline(FakeChat("oh my"), shout, twice, kind, FakeVoice()).session() as session:
            turn = await session.ask("Hello?")
        assert [each.text for each in turn.utterances] == ["OH", "OH", " MY", " MY"]

    run_virtual(main())
    for each in (shout, twice, kind):
        run_virtual(check_stage(lambda each=each: each, [Text("a"), Text("b")]))  # type: ignore[misc]


def test_a_function_without_packet_types_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"@stage nothing: annotate"):

        @stage
        def nothing(piece: str) -> str:
            return piece


# Import


def test_importing_the_library_imports_no_engine_and_nothing_heavy() -> None:
    code = (
        "import linly_pipeline, sys;"
        "heavy = {'torch', 'cv2', 'av', 'PIL', 'soxr', 'faster_whisper', 'ctranslate2', 'onnxruntime', 'hibari',"
        " 'xllamacpp', 'ai_edge_litert', 'rich', 'transformers', 'scipy'};"
        "print(sorted(heavy & set(sys.modules)))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_the_public_names_are_sorted_and_real() -> None:
    import linly_pipeline

    assert linly_pipeline.__all__ == sorted(linly_pipeline.__all__, key=lambda name: (name.islower(), name))
    for name in linly_pipeline.__all__:
        assert getattr(linly_pipeline, name) is not None


def test_speech_carries_its_audio() -> None:
    assert Speech(tone(1.0)).audio.duration_s == 1.0
