"""The catalogue holds together."""

from __future__ import annotations

import re

import pytest

from linly_pipeline.models import CATALOGUE, EMBEDDED, Model, variable
from linly_pipeline.models.formats import FORMATS

MODELS = pytest.mark.parametrize("model", CATALOGUE.values(), ids=CATALOGUE.keys())


def test_the_demo_finds_ears_a_mind_a_face_and_a_portrait() -> None:
    assert {CATALOGUE[name].role for name in EMBEDDED} == {"asr", "llm", "face", "portrait"}


def test_names_and_their_variables_are_one_to_one() -> None:
    assert len({variable(name) for name in CATALOGUE}) == len(CATALOGUE)


@MODELS
def test_every_file_comes_from_a_wheel_that_is_listed_and_every_wheel_is_used(model: Model) -> None:
    members = [member for file in model.files for member in file.members]
    assert {member.package for member in members} == {wheel.package for wheel in model.wheels}


@MODELS
def test_every_file_has_a_size_a_hash_and_a_plain_name(model: Model) -> None:
    for file in model.files:
        assert file.size_bytes > 0
        assert re.fullmatch("[0-9a-f]{64}", file.sha256)
        assert re.fullmatch(r"[\w.-]+", file.name)
    assert len({file.name for file in model.files}) == len(model.files)


@MODELS
def test_every_wheel_is_pinned_and_sized(model: Model) -> None:
    for wheel in model.wheels:
        assert re.fullmatch(r"[\w-]+==[\d.]+", wheel.requirement)
        assert wheel.size_bytes > 0
        assert bool(wheel.platforms) == bool(wheel.python)


@MODELS
def test_a_model_that_is_no_folder_is_one_file(model: Model) -> None:
    assert model.is_folder or len(model.files) == 1


@MODELS
def test_every_model_says_what_it_is_where_it_comes_from_and_under_which_licence(model: Model) -> None:
    assert model.summary
    assert model.licence
    assert model.licence_note
    assert model.origin.startswith("https://")
    assert model.kind in {"", *FORMATS}
    assert set(model.languages) == {"*"} or all(re.fullmatch("[a-z]{2}", code) for code in model.languages)
