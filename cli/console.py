"""Output for people: progress bars, tables, numbers with units.

Bars go to stderr, results to stdout, so that output can be piped.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import signal
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator, Mapping
from typing import IO, Any

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
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
from typing_extensions import override

from cli.ending import object_was_printed, print_object
from foundation.errors import INTERRUPTED
from foundation.processes.signals import ExitHandler, ends_process, handling
from foundation.wording import format_bytes, visible

_ECHO_WIDTH = 4  # columns: "^C^C"
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
    object_was_printed()
    say(json.dumps(value))


def table(title: str, *columns: str, right: tuple[str, ...] = ()) -> Table:
    """An empty table; columns named in `right` hold numbers."""
    empty = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)
    for column in columns:
        empty.add_column(column, justify="right" if column in right else "left", overflow="fold")
    return empty


def print_table(rows: Table) -> None:
    """A table on stdout, and an empty line behind it."""
    console = stdout()
    console.print(rows)
    console.print()


_BAR_WIDTH = 20  # characters
_SHOW_CURSOR = "\x1b[?25h"  # bars hide it
_WIDE = 100  # columns of a terminal with room for long progress bars
_LINE_SECONDS = 5.0  # between two lines of progress in a log file
_HEARTBEAT_SECONDS = 30.0  # the same while no number changes
_SHOW_SECONDS = 0.1  # an update takes as long as hashing 100 kB, and holds the interpreter's lock
_POLL_SECONDS = 1.0  # between two checks whether a line is due
_clock = time.monotonic


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


@dataclasses.dataclass
class _WithRoom:
    """Leaves room at the right: a terminal echoes ^C there, and a wrapped line is shown twice."""

    content: RenderableType

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from console.render(
            self.content, options.update(width=max(1, options.max_width - _ECHO_WIDTH))
        )


class _Progress(Progress):
    @override
    def get_renderable(self) -> RenderableType:
        return _WithRoom(super().get_renderable())


class Bars:
    """Progress bars on stderr, one per stage, each added when its stage begins.

    Where stderr is no terminal, a command that takes longer than some seconds prints a line when a
    stage begins and when its numbers have changed. While nothing changes, as while a model is
    compiled, a line says now and then which stage runs and for how long.
    """

    def __init__(self, file: IO[str] | None = None) -> None:
        self._console = Console(file=file or sys.stderr, highlight=False, markup=False)
        note = Column(ratio=1, no_wrap=True, overflow="ellipsis")  # gets the width that is left
        self._progress = _Progress(
            TextColumn("{task.description:<12}"),
            BarColumn(bar_width=24 if self._console.width >= _WIDE else 8),
            _Count(),
            _Rate(),
            TimeRemainingColumn(elapsed_when_finished=True),
            TextColumn("{task.fields[note]}", markup=False, table_column=note),
            console=self._console,
            expand=True,
            get_time=_clock,
        )
        self._tasks: dict[str, Any] = {}
        self._stage = ""
        self._started = self._line_at = _clock()
        self._printed: tuple[object, ...] = ()  # the stage and the numbers of the last line
        self._lock = threading.RLock()
        self._next = ("", 0.0)  # a stage, and when its next update is shown
        self._over = threading.Event()
        self._beat = threading.Thread(target=self._keep_printing, daemon=True)
        self._late: threading.Timer | None = None

    def update(
        self, stage: str, done: float, total: float | None, unit: str, note: str = ""
    ) -> None:
        """Shows the progress of a stage; a `total` of None or 0 is not known yet."""
        with self._lock:
            self._show(stage, done, total, unit, note)

    def _show(self, stage: str, done: float, total: float | None, unit: str, note: str) -> None:
        if not self._tasks:
            self._progress.start()  # not earlier: without a bar it prints an empty line
        begins = stage not in self._tasks
        if begins:
            self._tasks[stage] = self._progress.add_task(stage, total=None, unit=unit, note=note)
        self._progress.update(self._tasks[stage], completed=done, total=total or None, note=note)
        self._stage = stage
        if not self._console.is_terminal:
            self._print_if_due(begins=begins)
            if len(self._tasks) == 1 and begins:
                self._beat.start()

    def update_often(self, stage: str, done: float, total: float | None, unit: str) -> None:
        """`update` for threads that report every block: some updates of a stage are not shown."""
        with self._lock:
            now = time.monotonic()
            known, due = self._next
            if known != stage or now >= due or done == total:
                self._next = (stage, now + _SHOW_SECONDS)
                self.update(stage, done, total, unit)

    def begin_if_long(self, stage: str, unit: str) -> None:
        """Shows a stage after some seconds in which none has begun."""
        self._late = threading.Timer(_LINE_SECONDS, self._begin_late, (stage, unit))
        self._late.daemon = True
        self._late.start()

    def _begin_late(self, stage: str, unit: str) -> None:
        with self._lock:
            if not self._tasks:
                self.update(stage, 0, None, unit)

    @contextlib.contextmanager
    def ends_at_interrupt(self, hint: str = "") -> Iterator[None]:
        """Within this context Ctrl-C ends the process at once, for work that leaves nothing behind.

        KeyboardInterrupt would be raised in the middle of native code: while TensorFlow is loaded
        it may become another exception, and while its data sets run, it may abort the process.

        Args:
            hint: What Ctrl-C means for the command.
        """
        end = ExitHandler(lambda: self.say_at_the_end("interrupted", hint, INTERRUPTED))
        with handling(end, signal.SIGINT, replaces=ends_process):
            yield

    def say_at_the_end(self, fact: str, hint: str, code: int) -> None:
        """Lines from a signal handler that ends the process with an exit code."""
        # Past rich and its buffers: the signal may have come in the middle of either.
        begin = f"{_SHOW_CURSOR}\n" if self._console.is_terminal and self._tasks else ""
        line = f"{begin}{fact}: {hint}\n" if hint else f"{begin}{fact}\n"
        os.write(self._console.file.fileno(), line.encode())
        print_object(code, fact, hint)

    def finish(self, stage: str) -> None:
        """Marks a stage of unknown length as done."""
        task = self._progress.tasks[self._tasks[stage]]
        # A stage without a count is shown as 1 of 1.
        self._progress.update(task.id, total=task.completed or 1, completed=task.completed or 1)

    def rest(self) -> None:
        """No more lines by themselves: what follows takes until another process ends it."""
        self._over.set()

    def note(self, text: str) -> None:
        """A line above the bars, which stays."""
        self._console.print(f"note: {visible(text)}", soft_wrap=True)

    def line(self, text: str) -> None:
        """A line above the bars, which stays, and counts as one of progress."""
        self._console.print(visible(text), soft_wrap=True)
        self._line_at = _clock()

    def _print_if_due(self, *, begins: bool = False) -> None:
        """Prints a line of progress if there has been none for long enough.

        Args:
            begins: Whether the stage begins now; only a short command says nothing of that.
        """
        task, now = self._progress.tasks[self._tasks[self._stage]], _clock()
        state = (self._stage, task.completed, task.total, task.fields["note"])
        changed = state != self._printed
        since = self._started if begins else self._line_at
        if now - since < (_LINE_SECONDS if changed else _HEARTBEAT_SECONDS):
            return
        self._line_at, self._printed = now, state
        numbers = [column.render(task).plain for column in (_Count(), _Rate())]
        parts = [self._stage, *numbers, task.fields["note"]]
        if not begins and not (changed and any(numbers)):
            parts.append(f"for {task.elapsed or 0:.0f} s")
        self._console.print("  ".join(part for part in parts if part), soft_wrap=True)

    def _keep_printing(self) -> None:
        """Prints lines also while nothing is reported."""
        while not self._over.wait(_POLL_SECONDS):
            self._print_if_due()

    def __enter__(self) -> Bars:
        return self

    def __exit__(self, *_: object) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late.join()
        self._over.set()
        if self._beat.is_alive():
            self._beat.join()
        if self._progress.live.is_started:  # also if Ctrl-C came while it started
            self._progress.stop()


@contextlib.contextmanager
def bar_if_long(stage: str) -> Iterator[None]:
    """Shows a bar, or lines in a log file, once work that counts nothing takes some seconds."""
    with Bars() as bars:
        bars.begin_if_long(stage, "")
        yield


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
            with _damage_shown(real):
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


@contextlib.contextmanager
def _damage_shown(stream: IO[str]) -> Iterator[None]:
    """Prints what the reader warns of damaged records."""
    from reader.damage import DamageWarning

    with warnings.catch_warnings():
        shown = warnings.showwarning

        def show(message: Any, category: type[Warning], *where: Any, **options: Any) -> None:
            if issubclass(category, DamageWarning):
                stream.write(f"warning: {message}\n")
                stream.flush()
            else:
                shown(message, category, *where, **options)

        warnings.showwarning = show
        yield


def _show_unless_expected(tail: bytes, real: IO[str]) -> None:
    from shard_format import ShardmillError

    if tail and not isinstance(sys.exc_info()[1], ShardmillError):
        real.write(tail.decode(errors="replace"))
