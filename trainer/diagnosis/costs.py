"""What an example costs at every stage, and the rate that follows. Arithmetic alone.

A training job is a closed line of stations that work at the same time: storage, the threads of the
input pipeline, the copy to the device, the device. The slowest one sets the rate of all (the
bottleneck law of operational analysis: Denning and Buzen, The Operational Analysis of Queueing
Network Models, ACM Computing Surveys 10(3), 1978: throughput <= 1 / the greatest demand). Cores are
a station that several stages visit: there their demands add up, and the model's too, where the
device is the CPU.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping

# What an example passes through, in this order; see `Costs`.
STAGES = ("storage", "parse", "decode", "augment", "batch", "copy", "step")


@dataclasses.dataclass(frozen=True)
class Costs:
    """Seconds per example, each measured with nothing else at work.

    Attributes:
        storage_seconds: Until storage delivers the next one, with the reader's parallel reads; 0
            where records come from memory.
        input_seconds: Until the input pipeline delivers the next one, storage not counted.
        cpu_seconds: Stage of the input pipeline -> CPU time, over all threads.
        copy_seconds: Seconds to copy one to the device; 0 where the device is the CPU.
        step_seconds: Share of an example in the seconds of a step on data on the device.
        step_cpu_seconds: CPU time of the same; on a GPU, of launching it.
        cores: Cores that the process may use.
        machine_cores: Cores that there are.
        on_gpu: Whether steps are on a GPU; else they take cores from the input.
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
        """CPU time of the whole input pipeline."""
        return sum(self.cpu_seconds.values())

    @property
    def input_rate(self) -> float:
        """Examples per second that arrive where no model takes cores away."""
        cores = _rate(self.input_cpu_seconds / self.cores)
        return min(_rate(self.storage_seconds), _rate(self.input_seconds), cores)


def limits(costs: Costs) -> dict[str, float]:
    """Examples per second that each station could serve, were the others without end.

    "storage", "input" (the pipeline's own threads), "cores" (all CPU work together), "copy" and
    "step"; inf where it costs nothing.
    """
    work = costs.input_cpu_seconds + costs.step_cpu_seconds
    return {
        "storage": _rate(costs.storage_seconds),
        "input": _rate(costs.input_seconds),
        "cores": _rate(work / costs.cores),
        "copy": _rate(costs.copy_seconds),
        "step": _rate(costs.step_seconds),
    }


def of_same_resource(costs: Costs, station: str) -> tuple[str, ...]:
    """The stations that wait for the same thing as one of them: for cores, or for nothing else."""
    processor = ("input", "cores") if costs.on_gpu else ("input", "cores", "step")
    return processor if station in processor else (station,)


def predicted_rate(costs: Costs) -> float:
    """Examples per second of a training job: what its slowest station serves."""
    return min(limits(costs).values())


def stage_rates(costs: Costs) -> dict[str, float]:
    """Examples per second of each stage alone, with all cores to itself; inf where there is none.

    Of a stage that takes both, the slower: storage is device and CPU, a step on the CPU may leave a
    core idle.
    """
    rates = {name: _rate(seconds / costs.cores) for name, seconds in costs.cpu_seconds.items()}
    rates["storage"] = min(rates.get("storage", math.inf), _rate(costs.storage_seconds))
    rates["copy"] = _rate(costs.copy_seconds)
    rates["step"] = min(_rate(costs.step_seconds), _rate(costs.step_cpu_seconds / costs.cores))
    return {name: rates[name] for name in STAGES if name in rates}


def _rate(seconds: float) -> float:
    return 1 / seconds if seconds > 0 else math.inf
