"""The two branches that the trainer adds to the exception tree of `shard_format.errors`."""

from __future__ import annotations

from shard_format.errors import ShardmillError
from trainer.termination import EXIT_CODE


class TrainingError(ShardmillError):
    """The training cannot continue; the message says at which step and what may help."""


class TrainingStopped(ShardmillError):
    """SIGTERM has come, and the run is checkpointed: not an error, the run can resume.

    Args:
        epochs_done: Whole epochs.
        step: Training steps of the epoch behind them that are done.
        steps_per_epoch: Training steps of an epoch.
    """

    exit_code = EXIT_CODE

    def __init__(self, epochs_done: int, step: int, steps_per_epoch: int) -> None:
        within = f" and {step:,} of {steps_per_epoch:,} steps of the next" if step else ""
        plural = "epoch" if epochs_done == 1 else "epochs"
        super().__init__(
            f"stopped by SIGTERM after {epochs_done} {plural}{within}, which are checkpointed. "
            "The same command resumes it."
        )
