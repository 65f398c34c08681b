"""The GPUs of this machine, found without TensorFlow, and their division among processes."""

from __future__ import annotations

import os
import shutil
import subprocess

from foundation.errors import UsageError


def visible_gpus() -> list[str]:
    """Returns what CUDA calls the GPUs of this machine that it may use."""
    given = os.environ.get("CUDA_VISIBLE_DEVICES")
    if given is not None:
        return [name for name in given.split(",") if name.strip() and not name.startswith("-")]
    command = shutil.which("nvidia-smi")
    if command is None:
        return []
    listed = subprocess.run([command, "-L"], capture_output=True, text=True, check=False).stdout
    return [str(index) for index, _ in enumerate(listed.splitlines())]


def divided_gpus(count: int) -> list[list[str]] | None:
    """Returns the GPUs of each worker; None if there are none.

    Raises:
        UsageError: There are fewer than workers; NCCL does not let two share one.
    """
    available = visible_gpus()
    if not available:
        return None
    if len(available) < count:
        raise UsageError(
            f"{count} local workers, and {len(available)} GPU: each needs one of its own. Pass "
            f"--local-workers {len(available)}, or set CUDA_VISIBLE_DEVICES=-1 to train on CPUs."
        )
    return [available[index::count] for index in range(count)]
