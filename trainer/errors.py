"""The branches that the trainer adds to the exception tree of `foundation.errors`."""

from __future__ import annotations

import signal

from foundation.errors import ShardmillError

# Exit code of a worker that lost another one. Above 127, so that Kubeflow's restart policy ExitCode
# takes it for a reason to start the process again, and no code of a signal.
WORKERS_LOST = 175


class TrainingError(ShardmillError):
    """The training cannot continue; the message says at which step and what may help."""


class TrainingStopped(ShardmillError):
    """SIGTERM or Ctrl-C has come, and the run is checkpointed: not an error, the run can resume.

    Args:
        number: The signal.
        epochs_done: Whole epochs.
        step: Training steps of the epoch behind them that are done.
        steps_per_epoch: Training steps of an epoch.

    Attributes:
        exit_code: What shells report of a process that the signal ended; schedulers know it.
    """

    def __init__(
        self, number: signal.Signals, epochs_done: int, step: int, steps_per_epoch: int
    ) -> None:
        name = "Ctrl-C" if number == signal.SIGINT else number.name
        self.exit_code = 128 + number
        super().__init__(
            f"stopped by {name} after {place_text(epochs_done, step, steps_per_epoch)}, which are "
            "checkpointed. The same command resumes it."
        )


class WorkersLost(ShardmillError):
    """A worker of this run died, hangs, or did not start; its last checkpoint is kept.

    Args:
        fact: Which worker, and how that was noticed.
    """

    exit_code = WORKERS_LOST

    def __init__(self, fact: str) -> None:
        super().__init__(
            f"{fact}. See its log, then run the same command again on all workers; the run resumes "
            "at its last checkpoint."
        )


def place_text(epochs_done: int, step: int, steps_per_epoch: int | None = None) -> str:
    """How far a run is: "3 epochs and 12 of 40 steps of the next"."""
    whole = f"{epochs_done} {'epoch' if epochs_done == 1 else 'epochs'}"
    if not step:
        return whole
    if steps_per_epoch:
        return f"{whole} and {step:,} of {steps_per_epoch:,} steps of the next"
    return f"{whole} and {step:,} {'step' if step == 1 else 'steps'} of the next"
