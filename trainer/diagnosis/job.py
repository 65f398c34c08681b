"""A training job that is looked at: opened like a run, but nothing of it is kept."""

from __future__ import annotations

import dataclasses
from typing import Any

from foundation.errors import UsageError
from trainer import precision
from trainer.data import Data, open_data, require_batch
from trainer.devices import configure_devices
from trainer.options import Settings, TrainOptions
from trainer.strategies import SEVERAL_WORKERS
from trainer.train_state import TrainState, make_train_state


@dataclasses.dataclass(frozen=True)
class Job:
    """A job.

    Attributes:
        asked: The options as they were given.
        options: The same, none left open.
        policy: The Keras dtype policy.
        data: What it learns from.
        stream: The training stream; a `reader.Stream`.
        learner: Model, optimizer and loop.
    """

    asked: TrainOptions
    options: Settings
    policy: str
    data: Data
    stream: Any
    learner: TrainState


def open_job(asked: TrainOptions) -> Job:
    """The job of some options; nothing is written.

    Raises:
        UsageError: The options contradict each other, the data set or the machine.
        ShardSetError: There is no shard set in `asked.data`.
    """
    if asked.strategy in {*SEVERAL_WORKERS, "tpu"}:
        raise UsageError(
            f"shardmill doctor does not measure --strategy {asked.strategy}: it looks at one "
            "process. Leave it out, or pass --strategy mirrored."
        )
    configure_devices(asked)
    data = open_data(asked)
    options = asked.settled(data.kind)
    policy = precision.resolve(options.precision, options.strategy)
    stream = data.open_training(None)
    require_batch(stream.info.records, options)
    learner = make_train_state(options, policy, stream.steps_per_epoch, data)
    return Job(asked, options, policy, data, stream, learner)


def changed(job: Job, **options: Any) -> Job:
    """The same job with other options, opened afresh."""
    return open_job(dataclasses.replace(job.asked, **options))
