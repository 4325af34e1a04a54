"""A pipeline from TOML, and engines by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from linly_pipeline import Chat, ConfigError, Fallback, Hibari, Pipeline, Portrait, Visemes, Whisper
from linly_pipeline.registry import about, engine_class, engine_names

EMBEDDED = """
[limits]
stall_s = 30

[[stage]]
engine = "whisper"
threads = 1

[[stage]]
engine = "fallback"
first_item_s = 1.5
stages = [{ engine = "llama.cpp", max_tokens = 32 }, { engine = "llama.cpp", name = "spare" }]

[[stage]]
engine = "hibari"
speed = 1.1

[[stage]]
engine = "visemes"

[[stage]]
engine = "portrait"
image = "me.png"
"""


def load(tmp_path: Path, content: str) -> Pipeline:
    path = tmp_path / "my pipeline.toml"
    path.write_text(content, encoding="utf-8")
    return Pipeline.from_config(path)


def test_a_pipeline_is_built_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "me.png").write_bytes(b"")
    whisper, llm, hibari, visemes, portrait = load(tmp_path, EMBEDDED).stages
    assert isinstance(whisper, Whisper)
    assert whisper.threads == 1
    assert isinstance(llm, Fallback)
    assert isinstance(llm.stages[0], Chat)
    assert (llm.first_item_s, llm.stages[0].max_tokens, llm.stages[1].name) == (1.5, 32, "spare")
    assert isinstance(hibari, Hibari)
    assert hibari.speed == 1.1
    assert isinstance(visemes, Visemes)
    assert isinstance(portrait, Portrait)


def test_relative_paths_begin_at_the_file(tmp_path: Path) -> None:
    (tmp_path / "me.png").write_bytes(b"")
    portrait = load(tmp_path, EMBEDDED).stages[-1]
    assert str(tmp_path / "me.png") in repr(portrait)


def test_limits_come_from_the_file(tmp_path: Path) -> None:
    assert load(tmp_path, EMBEDDED).limits.stall_s == 30


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "no \\[\\[stage\\]\\]"),
        ("[[stage]]\nengine = 'wisper'", "unknown engine 'wisper': did you mean 'whisper'"),
        (
            "[[stage]]\nengine = 'whisper'\nlanguge = 'en'",
            "unknown setting of 'whisper': 'languge'.*'language'",
        ),
        ("[[stages]]\nengine = 'whisper'", "unknown key: 'stages': did you mean 'stage'"),
        ("[limits]\nstal_s = 3\n[[stage]]\nengine = 'whisper'", "unknown limit: 'stal_s'.*'stall_s'"),
        ("[[stage]]\nspeed = 3", "needs an engine"),
        ("[[stage]]\nengine = 'hibari'\nspeed = 9", "speed is 0.5 to 2"),
        ("[[stage]\n", "not valid TOML"),
        ("limits = 3\n[[stage]]\nengine = 'whisper'", "limits is a table"),
        ("[limits]\nstall_s = '30'\n[[stage]]\nengine = 'whisper'", "stall_s is a number"),
        ("[[stage]]\nengine = 3", "needs an engine"),
        ("[[stage]]\nengine = 'hibari'\nspeed = 'fast'", "'speed' of 'hibari' must be a number, not 'fast'"),
        ("[[stage]]\nengine = 'portrait'", "'portrait' needs the setting 'image'"),
        ("[[stage]]\nengine = 'llama.cpp'\n[[stage]]\nengine = 'visemes'", "'visemes' takes Speech"),
    ],
)
def test_a_mistake_is_one_sentence_that_names_file_and_remedy(
    tmp_path: Path, content: str, message: str
) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        load(tmp_path, content)
    assert "my pipeline.toml" in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read"):
        Pipeline.from_config(tmp_path / "none.toml")


def test_every_engine_says_what_it_is() -> None:
    for name in engine_names():
        known = about(engine_class(name))
        assert known.summary, name
        assert not known.modules or known.extra, name
