"""Quiet logs: what Beam says on the local engine is for those who work on Beam."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Sequence

# What means the pinned engine on this machine; None is no --runner at all.
LOCAL_RUNNERS = (None, "DirectRunner", "FnApiRunner")


def runs_here(beam_args: Sequence[str]) -> bool:
    """Whether these flags for Beam mean the local engine; Beam itself need not be loaded."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--runner")
    return parser.parse_known_args(list(beam_args))[0].runner in LOCAL_RUNNERS


def quiet_beam() -> None:
    """Silences Beam on this machine; call it before anything imports Beam.

    Its import warns on the root logger that Google's clients are missing, and its workers log
    their life and, on failure, the same traceback several times over.
    """
    logging.getLogger().addFilter(lambda record: "apitools" not in str(record.msg))
    logging.getLogger("apache_beam").setLevel(logging.CRITICAL)
