"""The optimizers, and the scaling of the loss for float16."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf

# Weight decay is for kernels. On biases and on the scales and offsets of normalisation it only
# costs accuracy (He et al., "Bag of Tricks", 2018).
UNDECAYED = ("bias", "gamma", "beta")


def adamw(learning_rate: Any, weight_decay: float) -> Any:
    """Adam with decoupled weight decay: the one that needs the least tuning on small sets."""
    return _of_kernels(keras.optimizers.AdamW(learning_rate, weight_decay=weight_decay))


def sgd(learning_rate: Any, weight_decay: float) -> Any:
    """SGD with Nesterov momentum 0.9: what published ImageNet recipes of ResNet use."""
    optimizer = keras.optimizers.SGD(
        learning_rate, momentum=0.9, nesterov=True, weight_decay=weight_decay or None
    )
    return _of_kernels(optimizer)


def lamb(learning_rate: Any, weight_decay: float) -> Any:
    """Adam with a trust ratio for every weight, for batches of thousands (You et al., 2019)."""
    return _of_kernels(keras.optimizers.Lamb(learning_rate, weight_decay=weight_decay or None))


def lion(learning_rate: Any, weight_decay: float) -> Any:
    """The sign of a momentum (Chen et al., 2023): half of Adam's memory, a third of its rate."""
    return _of_kernels(keras.optimizers.Lion(learning_rate, weight_decay=weight_decay or None))


def _of_kernels(optimizer: Any) -> Any:
    if optimizer.weight_decay is not None:
        optimizer.exclude_from_weight_decay(var_names=list(UNDECAYED))
    return optimizer


def with_averages(optimizer: Any, decay: float) -> Any:
    """The optimizer, which from now on keeps a moving average of every weight among its variables.

    Keras does so: the first step takes the weights as they are, every other one adds 1 - `decay` of
    them. A step that a loss scale skips adds nothing.

    Args:
        optimizer: Not built yet.
        decay: Share of the average that stays at a step.
    """
    optimizer.use_ema, optimizer.ema_momentum = True, decay
    return optimizer


def averages_of(optimizer: Any, weights: list[Any]) -> dict[int, Any]:
    """The moving averages of an optimizer with averages, by the ids of the weights.

    Args:
        optimizer: Optimizer that was built for the weights.
        weights: Keras variables.
    """
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    # Private: Keras hands them out by overwriting the weights alone (finalize_variable_values).
    averages = inner._model_variables_moving_average
    return {id(weight): average for weight, average in zip(weights, averages, strict=True)}


def with_loss_scale(optimizer: Any) -> Any:
    """The optimizer wrapped for mixed_float16: starts at 2**15, halves on overflow, grows again."""
    return keras.optimizers.LossScaleOptimizer(optimizer)


def updating_in_place(optimizer: Any) -> Any:
    """The optimizer, which from now on updates a weight on the device where the weight is.

    TensorFlow would do the arithmetic of all weights on the first GPU.
    """
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    update_step = inner.update_step

    def update(gradient: Any, variable: Any, learning_rate: Any) -> None:
        with tf.device(variable.device):  # Keras hands its tf.Variable here
            update_step(gradient, variable, learning_rate)

    inner.update_step = update
    return optimizer


def states_for_each_weight(optimizer: Any) -> int:
    """Variables that an optimizer, not built yet, keeps for each weight."""
    weight = keras.Variable(np.zeros((2, 3)))
    optimizer.build([weight])
    return sum(variable.shape == weight.shape for variable in optimizer.variables)
