"""A trace of some steps, for the profiler of TensorBoard."""

from __future__ import annotations

import sys
from pathlib import Path

import tensorflow as tf

from foundation.errors import UsageError
from trainer.options import profiled_steps

_NEVER = (sys.maxsize, sys.maxsize)


class Profile:
    """Traces the steps [first, end) of a run, counted from 0 over all epochs.

    Calls into the graph end at both, on all workers, so that the trace holds these steps and
    whatever comes between them, such as a validation.

    Args:
        steps: "first:end"; None for no trace.
        num_steps: Steps of the run.
        directory: The TensorBoard directory; None on workers that write no trace.

    Raises:
        UsageError: The run has fewer steps.
    """

    def __init__(self, steps: str | None, num_steps: int, directory: Path | None) -> None:
        self._first, self._end = _NEVER
        if steps:
            self._first, self._end = profiled_steps("--profile", steps)
        if steps and self._first >= num_steps:
            raise UsageError(
                f"--profile {steps} begins after the run, which has {num_steps:,} steps, counted "
                "from 0. Pass earlier ones."
            )
        self._directory = directory
        self._runs = False

    def next_stop(self, step: int) -> int:
        """The step at which a call that begins at `step` has to end."""
        if step < self._first:
            return self._first
        return self._end if step < self._end else sys.maxsize

    def at(self, step: int) -> None:
        """Starts or ends the trace where it is due; to be called between all calls."""
        if self._directory is None:
            return
        if self._runs and step >= self._end:
            self._stop()
        elif not self._runs and self._first <= step < self._end:
            tf.profiler.experimental.start(str(self._directory))
            self._runs = True

    def _stop(self) -> None:
        self._runs = False
        tf.profiler.experimental.stop()

    def close(self) -> None:
        """Ends the trace if the run ends or stops before it."""
        if self._runs:
            self._stop()
