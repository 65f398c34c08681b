"""Fine-tuning in two phases: a run of the head on frozen layers, then one of the whole network."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from trainer.checkpointing.run_dir import HEAD
from trainer.events import TrainResult
from trainer.options import TrainOptions


def head_run(options: TrainOptions) -> TrainOptions:
    """The first phase: only the head is trained, for `head_epochs`, in a run directory of its own.

    It has a learning-rate schedule of its own, from the first step to the last of these epochs.
    """
    return dataclasses.replace(
        options,
        run_dir=options.run_dir / HEAD,
        epochs=options.head_epochs,
        learning_rate=options.head_learning_rate or options.learning_rate,
        decay_epochs=None,
        freeze=True,
        head_epochs=None,
        head_learning_rate=None,
    )


def weights_of(head: TrainResult) -> Path:
    """The file with which the second phase begins: the best epoch; without validation the last."""
    return head.best_path or head.model_path
