"""The cores that the process may not use."""

from __future__ import annotations

import dataclasses

from trainer.diagnosis.advice import Attempt
from trainer.diagnosis.remedies.base import Case


def attempt(case: Case) -> Attempt | None:
    """Applies where there are more cores than the process may use.

    Not measured, for threads were made for the cores that were there at the start: what is CPU work
    is spread over all cores.
    """
    costs = case.costs
    if costs.cores >= costs.machine_cores:
        return None
    ratio = costs.cores / costs.machine_cores
    return Attempt(
        remedy="all-cores",
        stage="cores",
        because=(
            f"the process may use {costs.cores:g} of the {costs.machine_cores} cores of this "
            "machine"
        ),
        costs=dataclasses.replace(
            costs,
            cores=costs.machine_cores,
            input_seconds=costs.input_seconds * ratio,
            step_seconds=costs.step_seconds * (1.0 if costs.on_gpu else ratio),
        ),
        options={},
        command=f"taskset --cpu-list 0-{costs.machine_cores - 1}",
        note="in a container, raise its limit of CPUs instead",
    )
