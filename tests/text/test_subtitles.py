"""Subtitles that players show as meant."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from linly_pipeline.errors import SinkError
from linly_pipeline.text import Cue, cues, write_subtitles

LONG = (
    "The height of Mount Everest is 8,848.86 meters, which makes it the highest mountain on Earth, and it is"
    " climbed by many people every year despite its dangers."
)


def test_a_short_fragment_is_one_cue() -> None:
    assert cues([("Hello **there**.", 0.5, 1.5)]) == [Cue(0.5, 1.5, "Hello there.")]


def test_a_long_fragment_is_cut_behind_commas_and_shares_its_time_by_length() -> None:
    found = cues([(LONG, 0.0, 9.0)])
    assert [cue.text[-9:] for cue in found] == ["6 meters,", "on Earth,", " dangers."]
    assert found[0].start_s == 0.0
    assert found[-1].end_s == pytest.approx(9.0)
    rates = [len(cue.text) / (cue.end_s - cue.start_s) for cue in found]
    assert max(rates) == pytest.approx(min(rates))


def test_chinese_lines_hold_20_characters() -> None:
    text = "今天天气很好我们一起去公园散步，然后去吃饭，最后回家休息，明天再继续努力工作和学习吧。" * 2
    lines = [line for cue in cues([(text, 0, 20)]) for line in cue.text.split("\n")]
    assert "".join(lines) == text
    assert max(map(len, lines)) <= 20
    assert not any(line.startswith(("，", "。")) for line in lines)


TEXTS = st.text(st.sampled_from("ab ,.你好，。“”\n!-")).filter(lambda text: "```" not in text)
SPANS = st.lists(st.tuples(TEXTS, st.floats(-1, 100), st.floats(-1, 100)), max_size=6)


@given(SPANS)
def test_cues_never_overlap_nor_run_backwards(fragments: list[tuple[str, float, float]]) -> None:
    found = cues(fragments)
    assert all(0 <= cue.start_s <= cue.end_s for cue in found)
    assert all(before.end_s <= after.start_s + 1e-9 for before, after in itertools.pairwise(found))


@given(TEXTS)
def test_every_word_is_shown_in_two_lines_at_most(text: str) -> None:
    from linly_pipeline.text import plain

    found = cues([(text, 0, 1)])
    assert re.sub(r"\s", "", "".join(cue.text for cue in found)) == re.sub(r"\s", "", plain(text))
    lines = [line for cue in found for line in cue.text.split("\n")]
    assert all(1 <= len(line) <= 42 for line in lines)
    assert all(cue.text.count("\n") <= 1 for cue in found)


def test_words_are_kept_whole_unless_wider_than_a_line() -> None:
    words = {word for cue in cues([(LONG, 0, 9)]) for word in cue.text.split()}
    assert words == set(LONG.split())
    assert "".join(cue.text for cue in cues([("x" * 100, 0, 9)])).replace("\n", "") == "x" * 100


def test_srt(tmp_path: Path) -> None:
    path = tmp_path / "你好 world's.srt"
    write_subtitles(path, [Cue(0, 1.5, "Hello\nthere & <you>"), Cue(3661.0019, 3662, "你好")])
    assert path.read_bytes().decode() == (
        "1\n00:00:00,000 --> 00:00:01,500\nHello\nthere & <you>\n\n2\n01:01:01,002 --> 01:01:02,000\n你好\n"
    )
    assert list(tmp_path.iterdir()) == [path]


def test_vtt(tmp_path: Path) -> None:
    path = tmp_path / "a.VTT"
    write_subtitles(path, [Cue(0, 1.5, "1 --> 2 & <you>"), Cue(1.5, 2, "a\n\nb")])
    assert path.read_text(encoding="utf-8") == (
        "WEBVTT\n"
        "\n00:00:00.000 --> 00:00:01.500\n1 → 2 &amp; &lt;you&gt;\n"
        "\n00:00:01.500 --> 00:00:02.000\na\nb\n"
    )


def test_no_cues_is_a_valid_file(tmp_path: Path) -> None:
    write_subtitles(tmp_path / "a.srt", [])
    write_subtitles(tmp_path / "a.vtt", [])
    assert (tmp_path / "a.srt").read_text() == ""
    assert (tmp_path / "a.vtt").read_text() == "WEBVTT\n"


def test_written_times_are_monotone_even_where_cues_are_not(tmp_path: Path) -> None:
    path = tmp_path / "a.srt"
    write_subtitles(path, [Cue(1.0, 2.0, "a"), Cue(1.5, 1.6, "b"), Cue(2.5, 2.5, "c")])
    spans = re.findall(r"\d\d:\d\d:(\d\d),(\d{3}) --> \d\d:\d\d:(\d\d),(\d{3})", path.read_text())
    times = [int(a + b) for span in spans for a, b in (span[:2], span[2:])]
    assert times == sorted(times)
    assert all(start < end for start, end in zip(times[::2], times[1::2], strict=True))


def test_another_suffix_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(SinkError, match=r"a\.txt.* must end in \.srt or \.vtt"):
        write_subtitles(tmp_path / "a.txt", [])


def test_a_missing_folder_is_named_and_nothing_is_left(tmp_path: Path) -> None:
    with pytest.raises(SinkError, match="missing' does not exist; create it first"):
        write_subtitles(tmp_path / "missing" / "a.srt", [])
    (tmp_path / "b.srt").mkdir()
    with pytest.raises(SinkError, match=r"b\.srt"):
        write_subtitles(tmp_path / "b.srt", [])
    assert [each.name for each in tmp_path.iterdir()] == ["b.srt"]


def test_an_old_file_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "a.srt"
    path.write_text("old")
    write_subtitles(path, [Cue(0, 1, "new")])
    assert "new" in path.read_text()
    assert "old" not in path.read_text()
