"""Learning rates: how they rise and fall over the steps of a run."""

from __future__ import annotations

from typing import Any, NamedTuple

import tensorflow as tf
from keras.optimizers.schedules import CosineDecay, LearningRateSchedule

# Where the learning rate is divided by 10, as shares of a run: after 30, 60 and 80 of 90 epochs
# (Goyal et al., "Accurate, Large Minibatch SGD", 2017, section 5.1).
DECAY_SHARES = (1 / 3, 2 / 3, 8 / 9)

# Smith, Topin, "Super-Convergence", 2018, with the factors that PyTorch and fastai took up.
ONE_CYCLE_RISE = 0.3
ONE_CYCLE_START = 1 / 25
ONE_CYCLE_END = 1e-4 / 25


class SchedulePlan(NamedTuple):
    """Lengths and peak of a schedule.

    Attributes:
        peak: The greatest learning rate.
        warmup_steps: Steps in which it grows from 0, if the schedule leaves that to the options.
        num_steps: All steps of the run.
        decay_steps: Steps at which the schedule "step" divides it by 10.
    """

    peak: float
    warmup_steps: int
    num_steps: int
    decay_steps: tuple[int, ...] = ()


def cosine(plan: SchedulePlan) -> Any:
    """Linear from 0 to the peak, then along half a cosine down to 0 at the last step."""
    if plan.warmup_steps == 0:
        return CosineDecay(plan.peak, decay_steps=plan.num_steps)
    # Keras counts decay_steps from the end of the warm-up.
    return CosineDecay(
        initial_learning_rate=0.0,
        decay_steps=max(1, plan.num_steps - plan.warmup_steps),
        warmup_target=plan.peak,
        warmup_steps=plan.warmup_steps,
    )


def step(plan: SchedulePlan) -> Any:
    """Linear from 0 to the peak, then divided by 10 at each of `decay_steps`."""
    return _WarmUpThenSteps(plan.peak, plan.warmup_steps, plan.decay_steps)


def constant(plan: SchedulePlan) -> Any:
    """Linear from 0 to the peak, which then stays."""
    return step(plan._replace(decay_steps=()))


def one_cycle(plan: SchedulePlan) -> Any:
    """Linear up to the peak in the first 30 % of the steps, then along half a cosine to almost 0.

    The momentum stays what it is: that of Keras's optimizers is a constant.
    """
    rise = max(1, round(ONE_CYCLE_RISE * plan.num_steps))
    return CosineDecay(
        initial_learning_rate=ONE_CYCLE_START * plan.peak,
        decay_steps=max(1, plan.num_steps - rise),
        alpha=ONE_CYCLE_END,
        warmup_target=plan.peak,
        warmup_steps=rise,
    )


class _WarmUpThenSteps(LearningRateSchedule):
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
