"""Quiet logs: while loading, TensorFlow logs what only its developers need."""

from __future__ import annotations

import os


def quiet_tensorflow() -> None:
    """Lets only errors through; call it before anything imports TensorFlow."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
