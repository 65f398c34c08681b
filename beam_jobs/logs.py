"""Quiet logs: what Beam says on the local engine is for those who work on Beam."""

from __future__ import annotations

import logging


def quiet_beam() -> None:
    """Silences Beam on this machine; call it before anything imports Beam.

    Its import warns on the root logger that Google's clients are missing, and its workers log
    their life and, on failure, the same traceback several times over.
    """
    logging.getLogger().addFilter(lambda record: "apitools" not in str(record.msg))
    logging.getLogger("apache_beam").setLevel(logging.CRITICAL)
