"""Output for people: progress bars, tables, numbers with units.

Bars go to stderr, results to stdout, so that output can be piped.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from typing import IO, Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Column, Table
from rich.text import Text

from shard_format.wording import format_bytes

_LOG_TAIL_BYTES = 4000  # the last messages of native libraries, shown after an error


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Leaves it to `main`, like all other output; rich would exit with 1."""
        raise BrokenPipeError


def stdout() -> Console:
    """The console for results, without markup and highlighting in file names."""
    return _Console(highlight=False, markup=False, soft_wrap=False)


def say(text: str) -> None:
    """Lines of text on stdout, never wrapped: people copy commands and paths from them."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        raise BrokenPipeError from None  # without the errno, for which click would exit with 1


def print_json(value: Mapping[str, Any]) -> None:
    """One JSON object, as the last line of stdout."""
    say(json.dumps(value))


def table(title: str, *columns: str, right: tuple[str, ...] = ()) -> Table:
    """An empty table; columns named in `right` hold numbers."""
    empty = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)
    for column in columns:
        empty.add_column(column, justify="right" if column in right else "left", overflow="fold")
    return empty


_BAR_WIDTH = 20  # characters
_WIDE = 100  # columns of a terminal with room for long progress bars
_LINE_SECONDS = 5.0  # between two lines of progress in a log file


def bar(share: float) -> str:
    """A bar for a share in [0, 1]; at least one mark unless it is 0."""
    return "█" * max(1, round(share * _BAR_WIDTH)) if share > 0 else ""


class _Count(ProgressColumn):
    """Units done and in total, if the stage counts any."""

    def render(self, task: Task) -> Text:
        if not task.completed or not task.fields["unit"]:
            return Text("")
        if task.fields["unit"] == "bytes":
            whole = "" if task.total is None else f"/{format_bytes(task.total)}"
            return Text(f"{format_bytes(task.completed)}{whole}")
        whole = "" if task.total is None else f"/{task.total:,.0f}"
        return Text(f"{task.completed:,.0f}{whole}")


class _Rate(ProgressColumn):
    """Units per second, over the last seconds while running and over all when done."""

    def render(self, task: Task) -> Text:
        speed = task.finished_speed if task.finished else task.speed
        if not speed or not task.fields["unit"]:
            return Text("")
        if task.fields["unit"] == "bytes":
            return Text(f"{format_bytes(speed)}/s")
        return Text(f"{speed:,.0f} {task.fields['unit']}/s")


class Bars:
    """Progress bars on stderr, one per stage, each added when its stage begins.

    Where stderr is no terminal, a line says every few seconds how far the stage is.
    """

    def __init__(self, file: IO[str] | None = None) -> None:
        self._console = Console(file=file or sys.stderr, highlight=False, markup=False)
        note = Column(ratio=1, no_wrap=True, overflow="ellipsis")  # gets the width that is left
        self._progress = Progress(
            TextColumn("{task.description:<12}"),
            BarColumn(bar_width=24 if self._console.width >= _WIDE else 8),
            _Count(),
            _Rate(),
            TimeRemainingColumn(elapsed_when_finished=True),
            TextColumn("{task.fields[note]}", markup=False, table_column=note),
            console=self._console,
            expand=True,
        )
        self._tasks: dict[str, Any] = {}
        self._line_at = time.monotonic() + _LINE_SECONDS

    def update(
        self, stage: str, done: float, total: float | None, unit: str, note: str = ""
    ) -> None:
        """Shows the progress of a stage; a `total` of None or 0 is not known yet."""
        if not self._tasks:
            self._progress.start()  # not earlier: without a bar it prints an empty line
        if stage not in self._tasks:
            self._tasks[stage] = self._progress.add_task(stage, total=None, unit=unit, note=note)
        self._progress.update(self._tasks[stage], completed=done, total=total or None, note=note)
        if not self._console.is_terminal and time.monotonic() >= self._line_at:
            self._line_at = time.monotonic() + _LINE_SECONDS
            task = self._progress.tasks[self._tasks[stage]]
            parts = (stage, *(column.render(task).plain for column in (_Count(), _Rate())), note)
            self._console.print("  ".join(part for part in parts if part), soft_wrap=True)

    def finish(self, stage: str) -> None:
        """Marks a stage of unknown length as done."""
        task = self._progress.tasks[self._tasks[stage]]
        # A stage without a count is shown as 1 of 1.
        self._progress.update(task.id, total=task.completed or 1, completed=task.completed or 1)

    def __enter__(self) -> Bars:
        return self

    def __exit__(self, *_: object) -> None:
        if self._tasks:
            self._progress.stop()


@contextlib.contextmanager
def native_noise_kept() -> Iterator[IO[str]]:
    """Keeps messages of C libraries on stderr out of the bars; yields the real stderr.

    libtiff reports every damaged file there, although the ledger counts it. After an unexpected
    error, the last messages are shown.
    """
    sys.stderr.flush()
    saved = os.dup(2)
    with tempfile.TemporaryFile() as log, os.fdopen(saved, "w", closefd=False) as real:
        os.dup2(log.fileno(), 2)
        try:
            yield real
        except Exception:
            size = log.seek(0, os.SEEK_END)
            log.seek(max(0, size - _LOG_TAIL_BYTES))
            _show_unless_expected(log.read(), real)
            raise
        finally:
            sys.stderr.flush()
            os.dup2(saved, 2)
    os.close(saved)


def _show_unless_expected(tail: bytes, real: IO[str]) -> None:
    from shard_format import ShardmillError

    if tail and not isinstance(sys.exc_info()[1], ShardmillError):
        real.write(tail.decode(errors="replace"))
