"""Attribute values: plain, bounded, and never alive."""

from __future__ import annotations

import enum
import json
from pathlib import PurePosixPath

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from linly_profiling.values import clean


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


class Tensor:
    def __repr__(self) -> str:
        raise AssertionError("a repr may wait for the GPU")


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        (None, None),
        (True, True),
        (7, 7),
        (2.5, 2.5),
        (float("nan"), None),
        (float("-inf"), None),
        (2**63, str(2**63)),
        pytest.param(10**5000, "<int>", id="too long for text"),
        ("text", "text"),
        (Colour.RED, "red"),
        (Level.HIGH, 3),
        (PurePosixPath("a/b"), "a/b"),
        (np.float32(0.5), 0.5),
        (np.int64(4), 4),
        (np.zeros(3), "<ndarray>"),
        (Tensor(), "<Tensor>"),
        (ValueError("secret"), "<ValueError>"),
        (b"bytes", "<bytes>"),
        ((1, "a", None), [1, "a", None]),
        ({"a": (1,), 2: Tensor()}, {"a": [1], "2": "<Tensor>"}),
    ],
)
def test_values_become_plain_data(value: object, kept: object) -> None:
    cleaned = clean(value)
    assert cleaned == kept
    assert type(cleaned) is type(kept)


def test_long_values_are_cut() -> None:
    assert clean("x" * 5000) == "x" * 1023 + "…"
    assert clean(list(range(1000))) == list(range(256))


def test_a_list_inside_itself_ends() -> None:
    endless: list[object] = []
    endless.append(endless)
    assert clean(endless) == [[[["<list>"]]]]


_anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.complex_numbers(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner) | st.tuples(inner),
)


@given(_anything)
def test_everything_is_json_afterwards_and_cleaning_twice_changes_nothing(value: object) -> None:
    cleaned = clean(value)
    assert json.loads(json.dumps(cleaned, allow_nan=False)) == cleaned
    assert clean(cleaned) == cleaned
