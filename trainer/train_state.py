"""A model and its optimizer, created in the scope of the strategy."""

from __future__ import annotations

import dataclasses
from typing import Any

import keras
import tensorflow as tf

from shard_format.errors import UsageError
from trainer.loop import Loop
from trainer.models import MODELS, InputShape, build_model
from trainer.optimizers import OPTIMIZERS, warm_up_then_cosine, with_loss_scale
from trainer.options import Settings
from trainer.precision import dtype_policy
from trainer.strategies import STRATEGIES


@dataclasses.dataclass(frozen=True)
class TrainState:
    """The state of a training: the model, its optimizer, and the loop that runs both.

    Attributes:
        strategy: The tf.distribute.Strategy that holds the variables of both.
        model: From float32 images in [0, 255], or from token ids, to float32 probabilities.
        optimizer: Built for the model's weights.
        schedule: From a step, counted from 0, to its learning rate.
        loop: The steps.
    """

    strategy: Any
    model: Any
    optimizer: Any
    schedule: Any
    loop: Loop

    @property
    def last_learning_rate(self) -> float:
        """The learning rate of the latest step that changed the weights."""
        return float(self.schedule(max(0, int(self.optimizer.iterations.numpy()) - 1)))


def make_train_state(
    options: Settings,
    precision: str,
    steps_per_epoch: int,
    num_classes: int,
    input_shape: InputShape | None = None,
) -> TrainState:
    """The untrained model of a run under its strategy, its weights a function of the seed.

    Args:
        options: Of the run.
        precision: The Keras dtype policy.
        steps_per_epoch: For the length of the learning-rate schedule.
        num_classes: Length of the model's output.
        input_shape: What the model is fed; None for images of the size in the options.

    Raises:
        UsageError: The options contradict the machine, or name a model that does not fit.
    """
    _require_tensorflow_backend()
    if options.deterministic:
        tf.config.experimental.enable_op_determinism()
    keras.utils.set_random_seed(options.seed)
    strategy = STRATEGIES[options.strategy]()
    replicas = strategy.num_replicas_in_sync
    if options.batch_size % replicas:
        raise UsageError(
            f"--batch-size {options.batch_size} is not a multiple of the {replicas} devices. Pass "
            f"{options.batch_size // replicas * replicas or replicas}."
        )
    side = options.image_size or 0
    shape: InputShape = input_shape or (side, side, 3)
    with strategy.scope(), dtype_policy(precision):
        model = build_model(options.model, MODELS, shape, num_classes)
        if not model.trainable_variables:
            raise UsageError(
                f"The model has no weights to train (--model {options.model}). Make its layers "
                "trainable."
            )
        schedule = _make_schedule(options, steps_per_epoch)
        optimizer = OPTIMIZERS[options.optimizer](schedule, options.weight_decay)
        if precision == "mixed_float16":
            optimizer = with_loss_scale(optimizer)
        optimizer.build(model.trainable_variables)
    # A layer may draw from the seed while it is built; the steps start from the seed again.
    keras.utils.set_random_seed(options.seed)
    loop = Loop(strategy, model, optimizer, options.batch_size, options.label_smoothing)
    return TrainState(strategy, model, optimizer, schedule, loop)


def _make_schedule(options: Settings, steps_per_epoch: int) -> Any:
    return warm_up_then_cosine(
        options.learning_rate,
        # At most half the run, so that a run of few epochs reaches the peak and comes down again.
        warmup_steps=round(min(options.warmup_epochs, options.epochs / 2) * steps_per_epoch),
        num_steps=options.epochs * steps_per_epoch,
    )


def _require_tensorflow_backend() -> None:
    if keras.config.backend() != "tensorflow":
        raise UsageError(
            f"Keras runs on KERAS_BACKEND={keras.config.backend()}, not on TensorFlow. Unset "
            "KERAS_BACKEND."
        )
