"""What a training needs of its devices, before it begins, and which options need less."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence

import keras

from foundation.errors import UsageError
from foundation.wording import format_bytes, parse_size
from trainer import precision
from trainer.data import open_data
from trainer.devices import configure_devices
from trainer.memory.footprint import Footprint, measured
from trainer.memory.plan import MemoryPlan, Way
from trainer.memory.traced import TracedPlan
from trainer.options import Settings, TrainOptions

_TRACED = ("default", "mirrored", "one_device", "pipeline")


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
    on_jax = asked.backend == "jax"
    if not on_jax and asked.strategy not in _TRACED:
        raise UsageError(
            f"The memory of a device is estimated for --strategy {', '.join(_TRACED)} and for "
            f"--backend jax, not for {asked.strategy}. Pass one of them."
        )
    if measure and not on_jax:  # TensorFlow counts the memory of a CPU with this allocator only
        os.environ.setdefault("TF_CPU_ALLOCATOR_USE_BFC", "true")
    configure_devices(asked)
    data = open_data(asked)
    options = asked.settled(data.kind)
    policy = precision.resolve(options.precision, options.strategy)
    limit = parse_size("--device-memory", options.device_memory) if options.device_memory else None
    plan = _plan_of(options)(options, policy, data)
    drawn = Outlook(options, policy, plan.num_parameters, plan.footprints, {}, (), limit)
    if measure or not drawn.fits:
        drawn = dataclasses.replace(drawn, ways=plan.ways())
    if measure and drawn.fits and not on_jax:
        drawn = dataclasses.replace(drawn, measured=measured(plan.state(), plan.specs()))
    return drawn


def _plan_of(options: Settings) -> type[MemoryPlan]:
    if options.backend == "tensorflow":
        return TracedPlan
    from trainer.memory.compiled import CompiledPlan  # loads JAX, which is an extra

    return CompiledPlan


def require_memory(asked: TrainOptions) -> None:
    """Checks that a training needs no more of a device than --device-memory, if that is given.

    Raises:
        UsageError: It does, or see `outlook`.
    """
    if asked.device_memory is None:
        return
    drawn = outlook(asked, measure=False)
    _forget_models()
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


def _forget_models() -> None:
    """Frees the models that were looked at. Names of layers, which layouts have, begin again."""
    policy = keras.config.dtype_policy()
    keras.backend.clear_session()
    keras.config.set_dtype_policy(policy)
