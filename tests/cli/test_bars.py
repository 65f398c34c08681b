"""Progress bars fit a narrow terminal, and a log file gets lines."""

from __future__ import annotations

import io

import pytest

from cli import console

NOTE = "epoch 13/20, val accuracy 87.5%; stopping, Ctrl-C ends it at once"


@pytest.fixture
def log(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    return io.StringIO()


def train(log):
    with console.Bars(log) as bars:
        bars.update("load", 0, None, "", "TensorFlow, the data and the model")
        bars.finish("load")
        for step in (1, 100, 12_800):
            bars.update("train", step, 12_800, "steps", NOTE)


def test_a_long_note_does_not_wrap(log):
    train(log)
    lines = log.getvalue().splitlines()
    assert [line.split()[0] for line in lines] == ["load", "train"]
    assert max(map(len, lines)) <= 80
    assert "epoch 13/20" in lines[1] and "12,800/12,800" in lines[1]


def test_a_log_file_gets_lines_while_a_stage_runs(log, monkeypatch):
    monkeypatch.setattr(console, "_LINE_SECONDS", 0.0)
    train(log)
    lines = log.getvalue().splitlines()
    assert lines[0] == "load  TensorFlow, the data and the model"
    assert lines[2].startswith("train  100/12,800") and lines[2].endswith(NOTE)
