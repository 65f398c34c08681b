"""Progress bars fit a narrow terminal, and a log file gets lines."""

from __future__ import annotations

import io
import re
import sys
import time

import pytest
import rich.live

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


def test_a_log_file_gets_lines_while_nothing_is_reported(log, monkeypatch):
    """As while TensorFlow is loaded, or a model compiled."""
    monkeypatch.setattr(console, "_LINE_SECONDS", 0.1)
    monkeypatch.setattr(console, "_HEARTBEAT_SECONDS", 0.1)
    monkeypatch.setattr(console, "_POLL_SECONDS", 0.05)
    with console.Bars(log) as bars:
        bars.update("measure", 3, None, "", "training")
        while log.getvalue().count("\n") < 3:
            time.sleep(0.05)
    lines = log.getvalue().splitlines()
    assert all(re.fullmatch(r"measure  training  for \d+ s", line) for line in lines[:3])


def test_a_log_file_names_a_stage_when_it_begins(log, monkeypatch):
    """As planning, of which nothing is counted for as long as near duplicates are searched."""
    clock = Clock(monkeypatch)
    with console.Bars(log) as bars:
        bars.update("stage", 50, 100, "records")
        clock.now += console._LINE_SECONDS
        bars.update("stage", 100, 100, "records")
        clock.now += 0.1
        bars.update("plan", 0, None, "records")
        bars.update("stage", 100, 100, "records")
        bars.update("plan", 0, None, "records")
        assert [line.split()[0] for line in log.getvalue().splitlines()] == ["stage", "plan"]


def test_a_log_file_repeats_no_line(log, monkeypatch):
    clock = Clock(monkeypatch)
    with console.Bars(log) as bars:
        for done in (10, 50, 50, 50, 80):
            clock.now += console._LINE_SECONDS
            bars.update("stage", done, 100, "records")
        lines = log.getvalue().splitlines()
        assert [line.split()[1] for line in lines] == ["10/100", "50/100", "80/100"]
        clock.now += console._HEARTBEAT_SECONDS
        bars.update("stage", 80, 100, "records")
        (line,) = log.getvalue().splitlines()[3:]
        assert line.startswith("stage  80/100") and line.endswith("  for 50 s")


class Clock:
    """The clock of bars, which stands still; their thread waits on the real one."""

    def __init__(self, monkeypatch):
        self.now = 1000.0
        monkeypatch.setattr(console, "_clock", lambda: self.now)
        monkeypatch.setattr(console, "_POLL_SECONDS", 60.0)


def test_work_without_a_count_gets_a_line_once_it_takes_long(monkeypatch, capsys):
    with console.bar_if_long("report"):
        pass
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr(console, "_LINE_SECONDS", 0.1)
    monkeypatch.setattr(console, "_HEARTBEAT_SECONDS", 0.1)
    monkeypatch.setattr(console, "_POLL_SECONDS", 0.05)
    with console.bar_if_long("report"):
        time.sleep(1)
    out, err = capsys.readouterr()
    assert out == "" and "report  for" in err


def test_a_stage_that_began_in_time_is_the_only_one(log, monkeypatch):
    """As the listing, which says nothing of its own before large annotations are read."""
    monkeypatch.setattr(console, "_LINE_SECONDS", 0.0)
    with console.Bars(log) as bars:
        bars.update("stage", 1, 2, "bytes")
        bars.begin_if_long("list", "files")
        bars._late.join()
    assert {line.split()[0] for line in log.getvalue().splitlines()} == {"stage"}


def test_a_terminal_has_room_for_what_it_echoes(monkeypatch):
    """A line that is wrapped by the ^C of Ctrl-C would be shown twice."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("FORCE_COLOR", "1")  # as on a terminal
    terminal = io.StringIO()
    train(terminal)
    lines = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", terminal.getvalue()).splitlines()
    assert "epoch 13/20" in lines[-1] and max(map(len, lines)) <= 80 - len("^C^C")


def test_an_interrupt_while_bars_start_leaves_stderr_alone(monkeypatch):
    """rich has put itself in the place of stderr then, on top of a file that is closed later."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    before = sys.stderr

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(rich.live.Live, "refresh", interrupt)
    with pytest.raises(KeyboardInterrupt), console.Bars(io.StringIO()) as bars:
        bars.update("list", 0, None, "")
    assert sys.stderr is before
