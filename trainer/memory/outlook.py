"""What a training needs of its devices, before it begins, and which options need less.

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
import os
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from foundation.errors import UsageError
from foundation.wording import format_bytes, parse_size
from trainer import precision
from trainer.data import Data, open_data, require_batch
from trainer.devices import configure_devices
from trainer.memory.footprint import Footprint, estimated, first_device, measured
from trainer.memory.liveness import short_name
from trainer.models.heads import parts_for_training
from trainer.options import Settings, TrainOptions
from trainer.pipeline.calls import calls_of
from trainer.pipeline.placement import Cost, balanced
from trainer.pipeline.stages import stage_of
from trainer.train_state import TrainState, make_train_state

_ESTIMATED = ("default", "mirrored", "one_device", "pipeline")
NUMBERS = (2, 4, 8)  # of parts, and of devices, that are looked at
# What is divided among so many parts or devices.
ACCUMULATE = "--accumulate N"
MIRRORED = "--strategy mirrored, N devices"
PIPELINE = "--strategy pipeline --stages N"
_UNEVEN = 1.5  # of the greatest stage, over the even cut: measured on three networks


@dataclasses.dataclass(frozen=True)
class Way:
    """Options that need less memory of a device.

    Attributes:
        flag: One of ACCUMULATE, MIRRORED and PIPELINE.
        number: Number of parts, or of devices.
        bytes: Memory of the device that needs the most.
    """

    flag: str
    number: int
    bytes: int

    @property
    def text(self) -> str:
        """The options with their number."""
        return self.flag.replace("N", str(self.number))


@dataclasses.dataclass(frozen=True)
class Outlook:
    """The memory that a training needs.

    Attributes:
        options: Its options, with all defaults filled in.
        precision: The Keras dtype policy.
        num_parameters: Weights of the model, trained or not.
        footprints: Estimates for each device of these options.
        measured: Bytes by device, see `trainer.memory.footprint.measured`; empty where not known.
        ways: What other options would need.
        limit: The value of --device-memory in bytes; None without.
    """

    options: Settings
    precision: str
    num_parameters: int
    footprints: Sequence[Footprint]
    measured: dict[str, int]
    ways: Sequence[Way]
    limit: int | None

    @property
    def most(self) -> int:
        """Estimated bytes of the device that needs the most."""
        return max(footprint.total for footprint in self.footprints)

    @property
    def fits(self) -> bool:
        """Whether that is below the limit, or there is none."""
        return self.limit is None or self.most <= self.limit

    def fitting(self) -> list[Way]:
        """Of every kind of way, the one with the smallest number that is below the limit."""
        if self.limit is None:
            return []
        below = [way for way in self.ways if way.bytes <= self.limit]
        return list({way.flag: way for way in reversed(below)}.values())[::-1]


def outlook(asked: TrainOptions, *, measure: bool = True) -> Outlook:
    """What a training with some options needs; nothing is written.

    Args:
        asked: The options.
        measure: Whether two steps are made, on ones for examples, where the estimate fits.

    Raises:
        UsageError: The options contradict each other, the data set or the machine.
        ShardSetError: There is no shard set in `asked.data`.
        TrainingError: A device has no memory left.
    """
    if asked.strategy not in _ESTIMATED or asked.backend != "tensorflow":
        raise UsageError(
            f"The memory of a device is estimated for --strategy {', '.join(_ESTIMATED)} on "
            f"TensorFlow, not for {asked.strategy} on {asked.backend}. Pass one of them."
        )
    if measure:  # TensorFlow counts the memory of a CPU with this allocator only
        os.environ.setdefault("TF_CPU_ALLOCATOR_USE_BFC", "true")
    configure_devices(asked)
    data = open_data(asked)
    options = asked.settled(data.kind)
    policy = precision.resolve(options.precision, options.strategy)
    limit = parse_size("--device-memory", options.device_memory) if options.device_memory else None
    plan = _Plan(options, policy, data)
    alone = plan.alone()
    footprints = plan.footprints(alone)
    drawn = Outlook(options, policy, alone.num_parameters, footprints, {}, plan.ways(alone), limit)
    if measure and drawn.fits:
        drawn = dataclasses.replace(drawn, measured=measured(plan.state(), plan.specs()))
    return drawn


def require_memory(asked: TrainOptions) -> None:
    """Checks that a training needs no more of a device than --device-memory, if that is given.

    Raises:
        UsageError: It does, or see `outlook`.
    """
    if asked.device_memory is None:
        return
    drawn = outlook(asked, measure=False)
    if drawn.fits:
        return
    options, fitting = drawn.options, drawn.fitting()
    instead = "; ".join(f"{way.text} ({format_bytes(way.bytes)})" for way in fitting)
    raise UsageError(
        f"--model {options.model} with --batch-size {options.batch_size} needs about "
        f"{format_bytes(drawn.most)} of a device (--strategy {options.strategy}), more than "
        f"--device-memory {options.device_memory}. Pass "
        f"{instead or 'a smaller --batch-size, or a smaller model'}. See all with --dry-run."
    )


class _Plan:
    """A training that is looked at."""

    def __init__(self, options: Settings, policy: str, data: Data) -> None:
        self._options = options
        self._policy = policy
        self._data = data
        self._stream = data.open_training(None)
        require_batch(self._stream.info.records, options)

    def state(self, **changes: Any) -> TrainState:
        """The model and its optimizer, under options with some changes."""
        options = dataclasses.replace(self._options, **changes)
        return make_train_state(options, self._policy, self._stream.steps_per_epoch, self._data)

    def specs(self, divisor: int = 1) -> Any:
        """Shapes and dtypes of a batch, or of a part of it, with the greatest length."""

        def known(spec: Any) -> Any:
            lengths = [side or self._options.max_tokens for side in spec.shape[1:]]
            return tf.TensorSpec([self._options.batch_size // divisor or 1, *lengths], spec.dtype)

        return tf.nest.map_structure(known, self._stream.dataset.element_spec)

    def alone(self) -> _Alone:
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

    def footprints(self, alone: _Alone) -> list[Footprint]:
        """The footprints of the options that were asked for."""
        options, names = self._options, [first_device()]
        if options.strategy == "pipeline":
            return estimated(self.state(), self.specs())
        if options.strategy == "mirrored":
            gpus = tf.config.list_logical_devices("GPU")
            names = [short_name(gpu.name) for gpu in gpus] or names
        step = alone.step(len(names) * options.accumulate)
        step += alone.sums if options.accumulate > 1 else 0
        whole = alone.footprint
        return [Footprint(name, whole.parameters, whole.optimizer, step) for name in names]

    def ways(self, alone: _Alone) -> list[Way]:
        """What other options would need."""
        state = alone.footprint.parameters + alone.footprint.optimizer
        parts = [n for n in NUMBERS if not self._options.batch_size % n]
        stages = [n for n in NUMBERS if n <= len(alone.costs)]
        return [
            *(Way(ACCUMULATE, n, state + alone.sums + alone.step(n)) for n in parts),
            *(Way(MIRRORED, n, state + alone.step(n)) for n in parts),
            *(Way(PIPELINE, n, int(_UNEVEN * _greatest_stage(alone.costs, n))) for n in stages),
        ]

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
