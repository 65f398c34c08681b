"""A learning rate that rises, stays, and falls in steps; Keras has those without the rise."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf


class WarmUpThenSteps(keras.optimizers.schedules.LearningRateSchedule):
    """Linear from 0 to the peak, then a tenth of what it was from each of some steps on.

    Args:
        peak: The greatest learning rate.
        warmup_steps: Steps until then.
        decay_steps: Counted from the first step of the run.
    """

    def __init__(self, peak: float, warmup_steps: int, decay_steps: tuple[int, ...]) -> None:
        self._peak = peak
        self._warmup_steps = warmup_steps
        self._decay_steps = decay_steps

    def __call__(self, step: Any) -> Any:
        """The learning rate, float32, of a step counted from 0."""
        step = tf.cast(step, tf.float32)
        passed = [tf.cast(step >= boundary, tf.float32) for boundary in self._decay_steps]
        rate = self._peak * 0.1 ** tf.add_n([tf.constant(0.0), *passed])
        return rate * tf.minimum(
            1.0, step / max(1, self._warmup_steps) if self._warmup_steps else 1.0
        )

    def get_config(self) -> dict[str, Any]:
        """Its arguments."""
        return {
            "peak": self._peak,
            "warmup_steps": self._warmup_steps,
            "decay_steps": self._decay_steps,
        }
