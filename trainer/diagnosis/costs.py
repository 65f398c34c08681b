"""The cost of an example at every stage, the rate that follows, and the bottleneck.

A training is a closed line of stations that work at the same time: storage, the threads of the
input pipeline, the copy to the device, the device. The slowest station sets the rate (the
bottleneck law of operational analysis: Denning and Buzen, The Operational Analysis of Queueing
Network Models, ACM Computing Surveys 10(3), 1978: throughput <= 1 / the greatest demand). Several
stages share the cores: their CPU times add up there, with that of the model if it runs on the CPU.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

# Stages of an example, in order.
STAGES = ("storage", "parse", "decode", "augment", "batch", "copy", "step")
# Stations that serve one stage only; several stages share the others ("input", "cores").
_OF_ONE_STAGE = ("storage", "copy", "step")


@dataclasses.dataclass(frozen=True)
class Costs:
    """Seconds per example, each measured with nothing else at work.

    Attributes:
        storage_seconds: Time until storage delivers the next example, with the reader's parallel
            reads; 0 if records come from memory.
        input_seconds: Time until the input pipeline delivers the next example from memory.
        cpu_seconds: CPU time of each stage of the input pipeline, over all threads.
        copy_seconds: Time to copy an example to the device; 0 if the device is the CPU.
        step_seconds: Share of an example in the time of a step on data on the device.
        step_cpu_seconds: CPU time of the step; on a GPU, of launching it.
        cores: Number of cores that the process may use.
        machine_cores: Number of cores of the machine.
        on_gpu: Whether steps run on a GPU; else they take cores from the input.
    """

    storage_seconds: float
    input_seconds: float
    cpu_seconds: Mapping[str, float]
    copy_seconds: float
    step_seconds: float
    step_cpu_seconds: float
    cores: float
    machine_cores: int
    on_gpu: bool = False

    @property
    def input_cpu_seconds(self) -> float:
        """CPU time of the input pipeline."""
        return sum(self.cpu_seconds.values())

    @property
    def input_rate(self) -> float:
        """Examples per second of the input pipeline without a model."""
        cores = _rate(self.input_cpu_seconds / self.cores)
        return min(_rate(self.storage_seconds), _rate(self.input_seconds), cores)


def limits(costs: Costs) -> dict[str, float]:
    """Examples per second of each station, if the others were infinitely fast.

    Stations are "storage", "input" (the threads of the pipeline), "cores" (all CPU work together),
    "copy" and "step"; the rate is inf if a station costs nothing.
    """
    work = costs.input_cpu_seconds + costs.step_cpu_seconds
    return {
        "storage": _rate(costs.storage_seconds),
        "input": _rate(costs.input_seconds),
        "cores": _rate(work / costs.cores),
        "copy": _rate(costs.copy_seconds),
        "step": _rate(costs.step_seconds),
    }


def predicted_rate(costs: Costs) -> float:
    """Examples per second of a training: the rate of its slowest station."""
    return min(limits(costs).values())


def stage_rates(costs: Costs) -> dict[str, float]:
    """Examples per second of each stage alone, with all cores; inf if the stage costs nothing.

    Storage and the step take CPU time and other time; the slower of both counts.
    """
    rates = {name: _rate(seconds / costs.cores) for name, seconds in costs.cpu_seconds.items()}
    rates["storage"] = min(rates.get("storage", math.inf), _rate(costs.storage_seconds))
    rates["copy"] = _rate(costs.copy_seconds)
    rates["step"] = min(_rate(costs.step_seconds), _rate(costs.step_cpu_seconds / costs.cores))
    return {name: rates[name] for name in STAGES if name in rates}


@dataclasses.dataclass(frozen=True)
class Verdict:
    """The bottleneck of a training.

    Attributes:
        station: Station with the least rate: a key of `limits`.
        stage: Stage that takes the most time of it: one of `STAGES`, or "cores" if the process may
            use fewer than the machine has and needs more.
        share: Share of the station's time that the stage takes, in [0, 1].
        headroom: Rate of the input alone, as a multiple of that of the whole.
    """

    station: str
    stage: str
    share: float
    headroom: float


def judge(costs: Costs) -> Verdict:
    """Names the station with the least rate, the first of several equal ones, and its stage."""
    station, shares = _slowest_station(costs), stage_shares(costs)
    stage = max(shares, key=lambda name: shares[name])
    headroom = costs.input_rate / predicted_rate(costs)
    return Verdict(station, stage, shares[stage], headroom)


def stage_shares(costs: Costs) -> dict[str, float]:
    """Shares in [0, 1] of the stages in the time of the slowest station; others have none."""
    station = _slowest_station(costs)
    if station in _OF_ONE_STAGE:
        return {station: 1.0}
    work = dict(costs.cpu_seconds)
    if station == "cores":
        work["step"] = costs.step_cpu_seconds
    total = sum(work.values()) or 1.0
    shares = {name: seconds / total for name, seconds in work.items()}
    return {"cores": 1.0, **shares} if costs.cores < costs.machine_cores else shares


def with_cheaper_stage(costs: Costs, stage: str, remaining: float) -> Costs:
    """The costs if a stage took a share of its time; if "cores", with all cores of the machine."""
    if stage == "cores":
        share = costs.cores / costs.machine_cores
        return dataclasses.replace(
            costs,
            cores=costs.machine_cores,
            input_seconds=costs.input_seconds * share,
            step_seconds=costs.step_seconds * (1.0 if costs.on_gpu else share),
        )
    changes: dict[str, Any] = {}
    if stage in _OF_ONE_STAGE:
        changes[f"{stage}_seconds"] = remaining * getattr(costs, f"{stage}_seconds")
    if stage == "step":
        changes["step_cpu_seconds"] = remaining * costs.step_cpu_seconds
    if stage in costs.cpu_seconds:
        changes["cpu_seconds"] = {**costs.cpu_seconds, stage: remaining * costs.cpu_seconds[stage]}
        saved = (1 - remaining) * costs.cpu_seconds[stage] / (costs.input_cpu_seconds or 1.0)
        changes["input_seconds"] = costs.input_seconds * (1 - saved)
    return dataclasses.replace(costs, **changes)


def _slowest_station(costs: Costs) -> str:
    rates = limits(costs)
    return min(rates, key=lambda name: rates[name])


def _rate(seconds: float) -> float:
    return 1 / seconds if seconds > 0 else math.inf
