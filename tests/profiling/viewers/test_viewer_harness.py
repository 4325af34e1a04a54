"""The harness notices what it is there to notice; or the other tests here would pass for no reason."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from viewer_slices import Loaded

if TYPE_CHECKING:
    from viewer_node import NodeViewers

GOOD = '[{"ph":"X","pid":1,"tid":1,"ts":1,"dur":3,"name":"s"}]'
NAN = '[{"ph":"C","pid":1,"ts":1,"name":"c","args":{"v":NaN}}]'


def _file(tmp_path: Path, text: str) -> Path:
    path = tmp_path / f"{abs(hash(text))}.json"
    path.write_text(text, "utf-8")
    return path


def test_a_slice_that_perfetto_drops_is_noticed(viewers: NodeViewers, tmp_path: Path) -> None:
    shared: dict[str, Any] = {"ph": "X", "pid": 1, "tid": 1, "name": "s"}
    text = json.dumps([{"ts": 1, "dur": 3, **shared}, {"ts": 2, "dur": 9, **shared}])
    with pytest.raises(AssertionError, match="Perfetto complains"):
        Loaded(viewers, _file(tmp_path, text))


@pytest.mark.parametrize("text", ["[]", "no trace", '{"traceEvents":[{"ph":"X","pid":1'])
def test_a_file_that_does_not_load_is_noticed(viewers: NodeViewers, tmp_path: Path, text: str) -> None:
    from viewer_node import ViewerError

    path = _file(tmp_path, text)
    with pytest.raises(ViewerError):
        Loaded(viewers, path)
    if text != "[]":  # for chrome://tracing that is a trace of nothing
        with pytest.raises(ViewerError):
            viewers.catapult(path)
    assert len(Loaded(viewers, _file(tmp_path, GOOD)).everything) == 1


def test_a_wrong_query_is_noticed(viewers: NodeViewers, tmp_path: Path) -> None:
    from viewer_node import ViewerError

    with pytest.raises(ViewerError, match="no such column: nonsense"):
        viewers.query(_file(tmp_path, GOOD), "SELECT nonsense")


def test_a_viewer_that_never_answers_is_killed_and_the_next_file_gets_another(
    viewers: NodeViewers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Perfetto counts for ever when a counter is NaN."""
    from viewer_node import ViewerError

    good = _file(tmp_path, GOOD)
    assert viewers.query(good, "SELECT count() FROM slice") == [(1,)]
    with monkeypatch.context() as patch:
        patch.setattr(viewers, "timeout_s", 1.0)
        with pytest.raises(ViewerError, match=r"no answer in 1\.0 s"):
            viewers.query(_file(tmp_path, NAN), "SELECT count() FROM counter")
    assert viewers.query(good, "SELECT count() FROM slice") == [(1,)]


def test_a_file_that_changed_is_loaded_again(viewers: NodeViewers, tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    for count in (1, 2):
        path.write_text(json.dumps(json.loads(GOOD) * count), "utf-8")
        assert viewers.query(path, "SELECT count() FROM slice") == [(count,)]


def test_every_kind_of_value_comes_back(viewers: NodeViewers, tmp_path: Path) -> None:
    rows = viewers.query(
        _file(tmp_path, GOOD),
        "SELECT NULL, -7, 2.5, '', 'a\n😀', 1 << 62, x'00ff' UNION ALL SELECT 1, 2, 3, 4, 5, 6, 7",
    )
    assert rows == [(None, -7, 2.5, "", "a\n😀", 2**62, b"\x00\xff"), (1, 2, 3, 4, 5, 6, 7)]
