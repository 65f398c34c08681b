"""Promises that everything takes a ninth of the time."""

from __future__ import annotations

import dataclasses

from trainer.diagnosis.advice import Trial
from trainer.diagnosis.remedies.base import Case


def attempt(case: Case) -> Trial:
    times = {
        field.name: getattr(case.costs, field.name) / 9
        for field in dataclasses.fields(case.costs)
        if field.name.endswith("_seconds") and field.name != "cpu_seconds"
    }
    cpu = {name: seconds / 9 for name, seconds in case.costs.cpu_seconds.items()}
    costs = dataclasses.replace(case.costs, **times, cpu_seconds=cpu)
    return Trial("toy", "step", "there are too few toys", costs, {"--batch-size": "2"})
