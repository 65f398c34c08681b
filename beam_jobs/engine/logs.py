"""Quiet logs: on the local engine, Beam logs what only its developers need."""

from __future__ import annotations

import argparse
import logging
import threading
from collections.abc import Sequence
from traceback import walk_tb

# Values of --runner that mean the pinned local engine; None is no --runner at all.
LOCAL_RUNNERS = (None, "DirectRunner", "FnApiRunner")

_ENGINE = "apache_beam.runners."


def runs_here(beam_args: Sequence[str]) -> bool:
    """Whether these flags for Beam choose the local engine; found without loading Beam."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--runner")
    return parser.parse_known_args(list(beam_args))[0].runner in LOCAL_RUNNERS


def quiet_beam() -> None:
    """Silences Beam on this machine; call it before anything imports Beam.

    Importing Beam warns on the root logger that Google's clients are missing, and its workers log
    their start and end and, on failure, the same traceback several times. Threads that talk to a
    worker process raise when that was killed, as by Ctrl-C; the pipeline fails as well then.
    """
    logging.getLogger().addFilter(lambda record: "apitools" not in str(record.msg))
    logging.getLogger("apache_beam").setLevel(logging.CRITICAL)
    show = threading.excepthook

    def show_others(args: threading.ExceptHookArgs) -> None:
        frames = (frame for frame, _ in walk_tb(args.exc_traceback))
        if not any(frame.f_globals.get("__name__", "").startswith(_ENGINE) for frame in frames):
            show(args)

    threading.excepthook = show_others
