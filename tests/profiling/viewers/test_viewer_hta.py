"""Holistic Trace Analysis reads our files into its data frame.

It is in no extra, because it brings Jupyter and some 90 packages: pip install HolisticTraceAnalysis.
"""

from __future__ import annotations

import logging
from collections import Counter
from pathlib import Path

import pytest
from linly_profiling import save
from viewer_traces import ROWS, answers

pytest.importorskip("hta", reason="HolisticTraceAnalysis is not installed")


@pytest.mark.parametrize("name", ["t.json", "t.json.gz"])
@pytest.mark.filterwarnings("ignore")  # it is not written for the newest pandas
def test_every_slice_is_a_row(tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture) -> None:
    from hta.common.trace_parser import parse_trace_dataframe
    from hta.configs.parser_config import ParserConfig

    path = save(tmp_path / name, answers(3))
    with caplog.at_level(logging.ERROR):
        _, frame, symbols = parse_trace_dataframe(str(path), ParserConfig.get_default_cfg())
    assert not caplog.records
    names = Counter(symbols.sym_table[number] for number in frame["name"])
    assert names == {
        "linly.request": 3,
        **{f"linly.stage {row}": 3 for row in ROWS},
        "linly.queue.wait": 2,
        "whisper.transcribe": 3,
        "llm.generate": 3,
        **dict.fromkeys(("tts.synthesise", "tts.mel", "tts.vocoder", "face.render", "mp4.write"), 9),
    }
    assert set(frame["pid"]) == {2**30 + i for i in range(3)}
    assert (frame["dur"] >= 0).all()
