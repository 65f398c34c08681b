"""From gradients to new weights: optimizers, learning rates, clipping, pruning."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from foundation.members import Members

OPTIMIZERS: Members[Callable[[Any, float], Any]] = Members(
    {
        "adamw": "trainer.optimization.optimizers:adamw",
        "sgd": "trainer.optimization.optimizers:sgd",
        "lamb": "trainer.optimization.optimizers:lamb",
        "lion": "trainer.optimization.optimizers:lion",
    }
)
"""Value of `--optimizer` -> what creates it from (learning rate or schedule, weight decay)."""

SCHEDULES: Members[Callable[[Any], Any]] = Members(
    {
        "cosine": "trainer.optimization.schedules:cosine",
        "step": "trainer.optimization.schedules:step",
        "constant": "trainer.optimization.schedules:constant",
        "one_cycle": "trainer.optimization.schedules:one_cycle",
    }
)
"""Value of `--schedule` -> what creates it from a `SchedulePlan`."""
