"""What a training on JAX needs of a device, and on meshes: what the compiler plans for a step.

The plan is exact, and nothing is run: JAX's `memory_analysis` of the compiled step has the bytes of
its arguments, of its results and of all that it keeps meanwhile.
"""

from __future__ import annotations

import collections
import math
from collections.abc import Sequence
from typing import Any, cast

import jax
from typing_extensions import override

from trainer.data import Data
from trainer.jax_backend.loop import JaxLoop
from trainer.memory.footprint import Footprint
from trainer.memory.plan import NUMBERS, MemoryPlan, Way
from trainer.options import Settings
from trainer.train_state import TrainState

_AXES = ("data", "model")


class CompiledPlan(MemoryPlan):
    """A training on JAX."""

    def __init__(self, options: Settings, policy: str, data: Data) -> None:
        super().__init__(options, policy, data)
        state = self.state()
        self.num_parameters = state.model.count_params()
        self.footprints = self._planned(state)

    @override
    def ways(self) -> list[Way]:
        # Of all devices only: to compile a step may take a minute.
        number = max((n for n in NUMBERS if n <= jax.device_count()), default=1)
        divides_batch = not self._options.batch_size % number
        return [
            self._way(axis, number)
            for axis in _AXES
            if number > 1 and (divides_batch or axis != "data")
        ]

    def _way(self, axis: str, number: int) -> Way:
        changes = {"strategy": "model_parallel", "mesh": f"{axis}={number}", "layout": None}
        most = max(one.total for one in self._planned(self.state(**changes)))
        return Way(f"--strategy model_parallel --mesh {axis}=N", number, most)

    def _planned(self, state: TrainState) -> list[Footprint]:
        """The footprints of the devices that a training is on."""
        parameters = _bytes_by_device(state.model.variables)
        optimizer = _bytes_by_device(state.optimizer.variables)
        plan = cast(JaxLoop, state.loop).planned_memory(self.specs())
        whole = plan.argument_size_in_bytes + plan.temp_size_in_bytes
        whole += plan.output_size_in_bytes - plan.alias_size_in_bytes
        return [
            Footprint(name, size, optimizer[name], max(0, whole - size - optimizer[name]))
            for name, size in parameters.items()
        ]


def _bytes_by_device(variables: Sequence[Any]) -> collections.Counter[str]:
    sums = collections.Counter[str]()
    for variable in variables:
        for shard in variable.value.addressable_shards:
            name = f"{shard.device.platform.upper()}:{shard.device.id}"
            sums[name] += math.prod(shard.data.shape) * shard.data.dtype.itemsize
    return sums
