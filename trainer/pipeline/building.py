"""A model that was just built becomes one in stages."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from foundation.errors import InputError, UsageError
from foundation.wording import counted
from trainer.models.heads import parts_for_training
from trainer.models.shapes import InputShape, examples
from trainer.options import Settings
from trainer.pipeline import placement
from trainer.pipeline.calls import Calls, calls_of
from trainer.pipeline.stages import Stages
from trainer.strategies.pipeline import rows_of_devices

# Micro-batches for each stage by default: a share of (stages - 1) / (parts + stages - 1) of the
# time is then lost at the ends of a batch, at most a fifth (Huang et al. 2019, section 2.3).
_PARTS_PER_STAGE = 4


@dataclasses.dataclass(frozen=True)
class Division:
    """How a model is divided.

    Attributes:
        stages: The stages.
        microbatches: Parts of a replica's share of a batch.
        text: Text of the file with the placement, see `placement.read_placement`.
        lines: What to tell of each stage.
    """

    stages: Stages
    microbatches: int
    text: str
    lines: tuple[str, ...]


def divide(options: Settings, model: Any, shape: InputShape, slots: int, stored: Path) -> Division:
    """Divides a model, and moves its variables to the devices of its stages.

    Args:
        options: Options of the run.
        model: The model, on the host.
        shape: Shape of one of its inputs.
        slots: Variables of the optimizer for each weight.
        stored: File with the placement of this run, which a continued run keeps.

    Raises:
        InputError: The file with the placement cannot be read.
        UsageError: The options contradict the devices, or the model cannot be divided.
    """
    calls = calls_of(parts_for_training(model).body)
    rows = rows_of_devices(options.stages)
    stages = len(rows[0])
    if stages > len(calls.calls):
        raise UsageError(
            f"--stages {stages} is more than the {counted(len(calls.calls), 'layer')} of the "
            f"model (--model {options.model}). Pass fewer."
        )
    parts = _microbatches(options, len(rows), stages)
    costs: list[placement.Cost] = []
    if options.place is not None:
        begins = placement.read_placement(options.place, calls, stages)
    elif (kept := _stored(stored, calls, stages)) is not None:
        begins = kept
    else:
        size = options.batch_size // (parts * len(rows))
        inputs = keras.tree.map_structure(tf.convert_to_tensor, examples(shape, size))
        costs = placement.measured(calls, inputs, rows[0][0])
        if options.deterministic:  # times differ from run to run
            costs = [dataclasses.replace(cost, seconds=0.0) for cost in costs]
        begins = placement.balanced(costs, stages, 2.0 + slots, parts)
    divided = Stages(calls, begins, rows)
    divided.move(model.variables)
    lines = _lines(calls, begins, rows, costs)
    return Division(divided, parts, placement.placement_text(calls, begins), tuple(lines))


def _microbatches(options: Settings, rows: int, stages: int) -> int:
    """Parts of the share of a row of devices.

    Raises:
        UsageError: The batch cannot be divided so.
    """
    share, left = divmod(options.batch_size, rows)
    divisors = [n for n in range(1, share + 1) if share % n == 0]
    asked = options.microbatches or 1
    if left or asked not in divisors:
        nearest = min(divisors, key=lambda n: abs(n - asked), default=1)
        raise UsageError(
            f"--batch-size {options.batch_size} is not a multiple of {rows} x {asked}, the "
            "replicas and the micro-batches of each. Pass a --batch-size that is"
            + ("." if left else f", or --microbatches {nearest}.")
        )
    return options.microbatches or max(n for n in divisors if n <= _PARTS_PER_STAGE * stages)


def _stored(path: Path, calls: Calls, stages: int) -> list[int] | None:
    """The placement of a run that continues; None if it has no such one."""
    try:
        return placement.read_placement(path, calls, stages)
    except (InputError, UsageError):
        return None


def _lines(
    calls: Calls, begins: list[int], rows: list[list[str]], costs: list[placement.Cost]
) -> list[str]:
    ends = [*begins[1:], len(calls.calls)]
    lines = []
    for number, (begin, end) in enumerate(zip(begins, ends, strict=True)):
        devices = " and ".join(row[number].rpartition("device:")[2] for row in rows)
        line = (
            f"stage {number + 1} of {len(begins)} on {devices}: "
            f"{counted(end - begin, 'layer')} from {calls.calls[begin].name}"
        )
        if whole := sum(cost.seconds for cost in costs):
            line += f", {sum(cost.seconds for cost in costs[begin:end]) / whole:.0%} of the time"
        lines.append(line)
    return lines
