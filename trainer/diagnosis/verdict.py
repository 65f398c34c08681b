"""From costs to the name of the bottleneck. Arithmetic alone."""

from __future__ import annotations

import dataclasses

from trainer.diagnosis.costs import Costs, limits, predicted_rate

# Stations at which one stage alone waits; at the others ("input", "cores") several stages share.
_OF_ONE_STAGE = ("storage", "copy", "step")


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What holds a training job back.

    Attributes:
        station: The one with the least rate: a key of `limits`.
        stage: What takes the most of it: one of `STAGES`, or "cores" where the process may use
            fewer than there are and needs more.
        rate: Examples per second that the station serves.
        share: Share of the station's time that the stage takes, in [0, 1].
        headroom: Rate of the input alone, as a multiple of that of the whole.
    """

    station: str
    stage: str
    rate: float
    share: float
    headroom: float


def judge(costs: Costs) -> Verdict:
    """The station with the least rate, the first of them where several are equal, and its stage."""
    rates = limits(costs)
    station = min(rates, key=lambda name: rates[name])
    rate = predicted_rate(costs)
    headroom = costs.input_rate / rate
    held = shares(costs)
    stage = max(held, key=lambda name: held[name])
    if station not in _OF_ONE_STAGE and costs.cores < costs.machine_cores:
        return Verdict(station, "cores", rate, 1.0, headroom)
    return Verdict(station, stage, rate, held[stage], headroom)


def shares(costs: Costs) -> dict[str, float]:
    """Share in [0, 1] that each stage takes of the time of the station with the least rate."""
    rates = limits(costs)
    station = min(rates, key=lambda name: rates[name])
    if station in _OF_ONE_STAGE:
        return {station: 1.0}
    work = dict(costs.cpu_seconds)
    if station == "cores":
        work["step"] = costs.step_cpu_seconds
    total = sum(work.values()) or 1.0
    return {name: seconds / total for name, seconds in work.items()}
