"""Another number format for the layers of the model."""

from __future__ import annotations

import tensorflow as tf

from trainer.diagnosis.advice import Attempt
from trainer.diagnosis.costs import predicted_rate
from trainer.diagnosis.job import changed
from trainer.diagnosis.measuring import measure_step
from trainer.diagnosis.remedies.base import Case


def attempt(case: Case) -> Attempt | None:
    """Tries the formats that the device has; the one with the fastest step."""
    formats = ["float32", "mixed_bfloat16"]
    if tf.config.list_physical_devices("GPU"):  # CPUs compute float16 in float32, and convert
        formats.append("mixed_float16")
    attempts = []
    for precision in formats:
        if precision != case.job.policy:
            step = measure_step(changed(case.job, precision=precision), case.seconds)
            attempts.append((precision, case.with_step(step)))
    precision, costs = max(attempts, key=lambda each: predicted_rate(each[1]))
    return Attempt(
        remedy="precision",
        stage="step",
        because=f"this device computes faster in {precision} than in {case.job.policy}",
        costs=costs,
        options={"--precision": precision},
        note="" if precision == "float32" else "losses may differ in the third digit",
    )
