"""Flags for Beam that are understood without loading it, and its logs, most of them silenced.

Beam logs what only its developers need, and on a cluster some lines for its user.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from traceback import walk_tb

from typing_extensions import override

# Values of --runner that mean the pinned local engine; None is no --runner at all.
LOCAL_RUNNERS = (None, "DirectRunner", "FnApiRunner")

_ENGINE = "apache_beam.runners."

# Loggers that say in which state a job is, and on Dataflow where to see it.
_FOR_USERS = ("apache_beam.runners.dataflow", "apache_beam.runners.portability.portable_runner")
_OF_WORKERS = "apache_beam.runners.worker"  # in this process: the launcher shows their errors
_NOISE = (
    "apitools",  # Google's clients are not installed
    "has started a component",  # how to write the program that we have written
    "Traceback (most recent call last)",  # of what the launcher explains
    "Really starting service",
    "Really destroying service",
    "Unparseable argument",  # options of the job server, which are checked before
    "Discarding unparseable args",
)


def runs_here(beam_args: Sequence[str]) -> bool:
    """Whether these flags for Beam choose the local engine; found without loading Beam."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--runner")
    return parser.parse_known_args(list(beam_args))[0].runner in LOCAL_RUNNERS


def submits_only(beam_args: Sequence[str]) -> bool:
    """Whether these flags for Beam ask for a job that the launcher does not wait for."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--template_location")
    parser.add_argument("--no_wait_until_finish", action="store_true")
    known = parser.parse_known_args(list(beam_args))[0]
    return known.no_wait_until_finish or known.template_location is not None


@contextlib.contextmanager
def beam_log(beam_args: Sequence[str], show: Callable[[str], None]) -> Iterator[None]:
    """Within this context, Beam logs what matters to users; enter it before anything imports Beam.

    Args:
        beam_args: Flags for Beam; a cluster's states of the job are logged, else nothing.
        show: Called with a line, also from other threads.
    """
    if runs_here(beam_args):
        quiet_beam()
        yield
    else:
        with _engine_log_shown(show):
            yield


def quiet_beam() -> None:
    """Silences Beam on this machine; call it before anything imports Beam.

    Importing Beam warns on the root logger that Google's clients are missing, and its workers log
    their start and end and, on failure, the same traceback several times.
    """
    logging.getLogger().addFilter(lambda record: "apitools" not in str(record.msg))
    logging.getLogger("apache_beam").setLevel(logging.CRITICAL)
    _hide_lost_threads()


@contextlib.contextmanager
def _engine_log_shown(show: Callable[[str], None]) -> Iterator[None]:
    handler, root = _LineHandler(show), logging.getLogger()
    root.addHandler(handler)
    for name in _FOR_USERS:
        logging.getLogger(name).setLevel(logging.INFO)
    _hide_lost_threads()
    try:
        yield
    finally:
        # Engines that end with this process have more to say, of which nothing matters.
        root.removeHandler(handler)
        root.addHandler(logging.NullHandler())


class _LineHandler(logging.Handler):
    """The first line of each record: of a failure Beam logs Java's stack traces."""

    def __init__(self, show: Callable[[str], None]) -> None:
        super().__init__()
        self._show = show

    @override
    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage().strip()
        shown = record.levelno >= logging.WARNING and not record.name.startswith(_OF_WORKERS)
        if (
            (shown or record.name.startswith(_FOR_USERS))
            and text
            and not any(noise in text for noise in _NOISE)
        ):
            self._show(text.splitlines()[0])


def _hide_lost_threads() -> None:
    """Threads that talk to a killed process raise, as after Ctrl-C; the pipeline fails as well."""
    show = threading.excepthook

    def show_others(args: threading.ExceptHookArgs) -> None:
        frames = (frame for frame, _ in walk_tb(args.exc_traceback))
        if not any(frame.f_globals.get("__name__", "").startswith(_ENGINE) for frame in frames):
            show(args)

    threading.excepthook = show_others
