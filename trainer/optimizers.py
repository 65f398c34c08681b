"""The optimizers, their learning-rate schedule, and the scaling of the loss for float16."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

# Weight decay is for kernels. On biases and on the scales and offsets of normalisation it only
# costs accuracy (He et al., "Bag of Tricks", 2018).
UNDECAYED = ("bias", "gamma", "beta")


def adamw(learning_rate: Any, weight_decay: float) -> Any:
    """Adam with decoupled weight decay: the one that needs the least tuning on small sets."""
    import keras

    optimizer = keras.optimizers.AdamW(learning_rate, weight_decay=weight_decay)
    optimizer.exclude_from_weight_decay(var_names=list(UNDECAYED))
    return optimizer


def sgd(learning_rate: Any, weight_decay: float) -> Any:
    """SGD with Nesterov momentum 0.9: what published ImageNet recipes of ResNet use."""
    import keras

    optimizer = keras.optimizers.SGD(
        learning_rate, momentum=0.9, nesterov=True, weight_decay=weight_decay or None
    )
    if weight_decay:
        optimizer.exclude_from_weight_decay(var_names=list(UNDECAYED))
    return optimizer


# value of --optimizer -> what creates it from (learning rate or schedule, weight decay)
OPTIMIZERS: dict[str, Callable[[Any, float], Any]] = {"adamw": adamw, "sgd": sgd}


def warm_up_then_cosine(peak: float, warmup_steps: int, num_steps: int) -> Any:
    """The schedule: linear from 0 to `peak`, then along half a cosine down to 0 at `num_steps`."""
    import keras

    if warmup_steps == 0:
        return keras.optimizers.schedules.CosineDecay(peak, decay_steps=num_steps)
    # Keras counts decay_steps from the end of the warm-up.
    return keras.optimizers.schedules.CosineDecay(
        initial_learning_rate=0.0,
        decay_steps=max(1, num_steps - warmup_steps),
        warmup_target=peak,
        warmup_steps=warmup_steps,
    )


def with_loss_scale(optimizer: Any) -> Any:
    """The optimizer wrapped for mixed_float16: starts at 2**15, halves on overflow, grows again."""
    import keras

    return keras.optimizers.LossScaleOptimizer(optimizer)
