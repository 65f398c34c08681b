"""Learning rates: how they rise and fall over the steps of a run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

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
    from keras.optimizers.schedules import CosineDecay

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
    from trainer.optimization.warm_up import WarmUpThenSteps  # loads Keras

    return WarmUpThenSteps(plan.peak, plan.warmup_steps, plan.decay_steps)


def constant(plan: SchedulePlan) -> Any:
    """Linear from 0 to the peak, which then stays."""
    return step(plan._replace(decay_steps=()))


def one_cycle(plan: SchedulePlan) -> Any:
    """Linear up to the peak in the first 30 % of the steps, then along half a cosine to almost 0.

    The momentum stays what it is: that of Keras's optimizers is a constant.
    """
    from keras.optimizers.schedules import CosineDecay

    rise = max(1, round(ONE_CYCLE_RISE * plan.num_steps))
    return CosineDecay(
        initial_learning_rate=ONE_CYCLE_START * plan.peak,
        decay_steps=max(1, plan.num_steps - rise),
        alpha=ONE_CYCLE_END,
        warmup_target=plan.peak,
        warmup_steps=rise,
    )


# value of --schedule -> what makes it
SCHEDULES: dict[str, Callable[[SchedulePlan], Any]] = {
    "cosine": cosine,
    "step": step,
    "constant": constant,
    "one_cycle": one_cycle,
}
