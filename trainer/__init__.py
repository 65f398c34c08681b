"""Trains a Keras model on a shard set: one loop for every strategy, with mixed precision.

    from trainer import TrainOptions, train

    result = train(TrainOptions(data="data/clothing", run_dir="runs/1", model="small_cnn"))
    result.final.val_accuracy, result.model_path

Importing this package loads neither TensorFlow nor Keras; `train` does.
"""

from __future__ import annotations

from trainer.errors import TrainingError, TrainingStopped, WorkersLost
from trainer.events import (
    EpochDone,
    Event,
    MetricsServed,
    Notice,
    OnEvent,
    RunDone,
    RunStarted,
    ServerStarted,
    StepsDone,
    StopAsked,
    TrainResult,
    WorkersAwaited,
)
from trainer.events import ignore as _ignore
from trainer.models import MODELS
from trainer.optimization import OPTIMIZERS
from trainer.options import TrainOptions
from trainer.precision import PRECISIONS
from trainer.strategies import STRATEGIES

__all__ = [
    "MODELS",
    "OPTIMIZERS",
    "PRECISIONS",
    "STRATEGIES",
    "EpochDone",
    "Event",
    "MetricsServed",
    "Notice",
    "OnEvent",
    "RunDone",
    "RunStarted",
    "ServerStarted",
    "StepsDone",
    "StopAsked",
    "TrainOptions",
    "TrainResult",
    "TrainingError",
    "TrainingStopped",
    "WorkersAwaited",
    "WorkersLost",
    "train",
]


def train(options: TrainOptions, on_event: OnEvent = _ignore) -> TrainResult:
    """A trained model, or the rest of its training if `options.run_dir` holds the beginning.

    Args:
        options: What to train, on what, and where to put it.
        on_event: Function called in this thread with every event, see `trainer.events`.

    Raises:
        UsageError: The options contradict each other, the data set or the machine.
        ShardSetError: There is no shard set in `options.data`.
        InputError: The run directory holds another run, is in use by another process, or cannot be
            written.
        DamageError: No checkpoint of the run is as it was written.
        TrainingError: The loss is no longer finite.
        TrainingStopped: SIGTERM or Ctrl-C came to this process, whose main thread this is and which
            does not handle it itself, or to another worker of the run. The run is checkpointed;
            the same call resumes it.
        WorkersLost: Another process of the run died, hangs, or did not start.
        SystemExit: This process is a worker or a parameter server of --strategy parameter_server,
            and the run is over.
    """
    from foundation.extras import naming_extras
    from trainer.devices import use_backend

    use_backend(options.backend)
    with naming_extras():
        from trainer import run  # loads TensorFlow: seconds that a mere import should not cost

    return run.train(options, on_event)
