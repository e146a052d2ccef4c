"""The progress bar: silent for short work, one line for long work."""

from __future__ import annotations

import io
from itertools import count

import pytest

from longtail import _progress
from longtail._progress import ProgressBar


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_short_work_shows_nothing() -> None:
    stream = Terminal()
    bar = ProgressBar("FastXML", "trees", stream)
    for done in range(51):
        bar(done, 50)
    bar.close()
    assert stream.getvalue() == ""


def test_long_work_shows_one_line_that_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = count(0, 1.5)
    monkeypatch.setattr(_progress.time, "monotonic", lambda: next(clock))
    stream = Terminal()
    bar = ProgressBar("FastXML", "trees", stream)
    for done in range(5):
        bar(done, 4)
    bar.close()
    text = stream.getvalue()
    assert text.count("\n") == 1
    assert "FastXML" in text
    assert "2/4 trees, 4 s left" in text
    assert "4/4 trees" in text


def test_a_pipe_gets_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = count(0, 1.5)
    monkeypatch.setattr(_progress.time, "monotonic", lambda: next(clock))
    stream = io.StringIO()
    bar = ProgressBar("FastXML", "trees", stream)
    for done in range(5):
        bar(done, 4)
    bar.close()
    assert stream.getvalue() == ""
