"""What a training on TensorFlow needs of a device, and with other options: from graphs of a step.

With w bytes of weights, o of the optimizer's state, and a step whose peak is a + b n bytes for n
examples, a device needs

    w + o + a + b n          one device
    w + o + a + b n / k      `mirrored` with k replicas
    2 w + o + a + b n / k    `accumulate` with k parts, whose gradients have a sum
    a stage's share of that  `pipeline`: w + o + a by weights, b n by the outputs of layers

where a and b come from two graphs of the step, for n and for n / 2 examples. A stage gets half
more than the even share, because stages are cut for equal times as well.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import tensorflow as tf
from typing_extensions import override

from foundation.errors import UsageError
from trainer.data import Data
from trainer.memory.footprint import Footprint, estimated, first_device
from trainer.memory.liveness import short_name
from trainer.memory.plan import NUMBERS, MemoryPlan, Way
from trainer.models.heads import parts_for_training
from trainer.options import Settings
from trainer.pipeline.calls import calls_of
from trainer.pipeline.placement import Cost, balanced
from trainer.pipeline.stages import stage_of
from trainer.train_state import TrainState

# What is divided among so many parts or devices.
ACCUMULATE = "--accumulate N"
MIRRORED = "--strategy mirrored on N devices"
PIPELINE = "--strategy pipeline --stages N"
_UNEVEN = 1.5  # of the greatest stage, over the even cut: measured on three networks


class TracedPlan(MemoryPlan):
    """A training on TensorFlow."""

    def __init__(self, options: Settings, policy: str, data: Data) -> None:
        super().__init__(options, policy, data)
        self._alone = self._on_one_device()
        self.num_parameters = self._alone.num_parameters
        self.footprints = self._estimated()

    def _on_one_device(self) -> _Alone:
        """The training on one device."""
        state = self.state(
            strategy="default",
            accumulate=1,
            stages=None,
            microbatches=None,
            recompute=False,
            place=None,
        )
        (whole,), (half,) = (estimated(state, self.specs(divisor)) for divisor in (1, 2))
        of_examples = min(whole.step, 2 * (whole.step - half.step))
        sums = 4 * sum(math.prod(weight.shape) for weight in state.model.trainable_variables)
        fixed = whole.total - of_examples
        costs = self._costs(state, fixed, of_examples)
        return _Alone(state.model.count_params(), whole, of_examples, sums, costs)

    def _estimated(self) -> list[Footprint]:
        """The footprints of the options that were asked for."""
        options, alone, names = self._options, self._alone, [first_device()]
        if options.strategy == "pipeline":
            return estimated(self.state(), self.specs())
        if options.strategy == "mirrored":
            gpus = tf.config.list_logical_devices("GPU")
            names = [short_name(gpu.name) for gpu in gpus] or names
        step = alone.step(len(names) * options.accumulate)
        step += alone.sums if options.accumulate > 1 else 0
        whole = alone.footprint
        return [Footprint(name, whole.parameters, whole.optimizer, step) for name in names]

    @override
    def ways(self) -> list[Way]:
        alone = self._alone
        state = alone.footprint.parameters + alone.footprint.optimizer
        parts = [n for n in NUMBERS if not self._options.batch_size % n]
        stages = [n for n in NUMBERS if n <= len(alone.costs)]
        ways = [
            *(Way(ACCUMULATE, n, state + alone.sums + alone.step(n)) for n in parts),
            *(Way(MIRRORED, n, state + alone.step(n)) for n in parts),
            *(Way(PIPELINE, n, int(_UNEVEN * _greatest_stage(alone.costs, n))) for n in stages),
        ]
        return [way for way in ways if way.number > self._in_use().get(way.flag, 1)]

    def _in_use(self) -> dict[str, int]:
        """Flag -> its number in the options that were asked for."""
        devices = len(self.footprints)
        used = {"mirrored": MIRRORED, "pipeline": PIPELINE}.get(self._options.strategy)
        return {ACCUMULATE: self._options.accumulate} | ({used: devices} if used else {})

    def _costs(self, state: TrainState, fixed: int, of_examples: int) -> list[Cost]:
        """What of these bytes belongs to each call of a layer; none if it cannot be divided."""
        try:
            calls = calls_of(parts_for_training(state.model).body)
        except UsageError:
            return []
        weights, outputs, seen = [], [], set[int]()
        for number, call in enumerate(calls.calls):
            layers = stage_of(calls, number, number + 1).layers
            weights.append(sum(math.prod(v.shape) for v in layers.variables if id(v) not in seen))
            seen.update(map(id, layers.variables))
            outputs.append(sum(map(self._size, call.outputs)))
        by_weight, by_output = fixed / (sum(weights) or 1), of_examples / (sum(outputs) or 1)
        return [
            Cost(0.0, round(by_weight * one), round(by_output * other))
            for one, other in zip(weights, outputs, strict=True)
        ]

    def _size(self, tensor: Any) -> int:
        """Bytes of an output for one example."""
        sides = [side or self._options.max_tokens or 1 for side in tensor.shape[1:]]
        return math.prod(sides) * int(tf.as_dtype(tensor.dtype).size)


@dataclasses.dataclass(frozen=True)
class _Alone:
    """A training on one device: w + o + a + b n bytes.

    Attributes:
        num_parameters: Weights of the model.
        footprint: The footprint.
        of_examples: b n.
        sums: Bytes of the gradients of all weights.
        costs: The bytes by call of a layer.
    """

    num_parameters: int
    footprint: Footprint
    of_examples: int
    sums: int
    costs: list[Cost]

    def step(self, divisor: int) -> int:
        """The share a + b n / divisor."""
        return self.footprint.step - self.of_examples + self.of_examples // divisor


def _greatest_stage(costs: list[Cost], stages: int) -> int:
    """Bytes of the greatest stage."""
    begins = balanced(costs, stages, weight_factor=1.0, parts=1)
    ends = [*begins[1:], len(costs)]
    return max(
        sum(cost.weight_bytes + cost.activation_bytes for cost in costs[begin:end])
        for begin, end in zip(begins, ends, strict=True)
    )
