"""Where a stream is: a few numbers, from which the rest of it follows."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from typing import Any

from reader.options import ReadOptions
from shard_format import UsageError

FORMAT = 1
# Options on which it depends which records a step reads.
_ORDER = ("split", "batch_size", "shuffle", "seed", "streams", "remainder", "buckets")


@dataclasses.dataclass(frozen=True)
class Position:
    """A place between two steps.

    Attributes:
        epoch: Epochs that are done.
        step: Steps of the next one that are done, below those of an epoch.
    """

    epoch: int
    step: int


def make_state(position: Position, root_hash: str, options: ReadOptions) -> dict[str, Any]:
    """A state that JSON can hold, of less than 1 kB: the place, and what the order depends on."""
    return {
        "format": FORMAT,
        "epoch": position.epoch,
        "step": position.step,
        "root_hash": root_hash,
    } | _order_of(options)


def read_state(
    state: Mapping[str, Any] | None, root_hash: str, options: ReadOptions, steps: int
) -> Position:
    """Where a state says to go on; the beginning where there is none.

    Args:
        state: What `make_state` gave, possibly by way of JSON.
        root_hash: Of the set that is read.
        options: How it is read.
        steps: Of an epoch.

    Raises:
        UsageError: It is no state, or one of another set, or of other options: its place would be
            another one here.
    """
    if state is None:
        return Position(0, 0)
    expected = {"format": FORMAT, "root_hash": root_hash} | _order_of(options)
    for name, value in expected.items():
        found = state.get(name) if isinstance(state, Mapping) else None
        if found != value:
            raise UsageError(
                f"a state must be of the same set and order, got {name}={found!r} in it where the "
                f"stream has {value!r} in reader.load. Load with what the state was taken with, or "
                "leave the state out to begin again."
            )
    epoch: Any = state.get("epoch")
    step: Any = state.get("step")
    if not (_is_count(epoch) and _is_count(step) and step < steps):
        raise UsageError(
            f"a state must name an epoch and a step below {steps}, got epoch={epoch!r} and "
            f"step={step!r} in reader.load. Pass what stream.state(steps_done) returned, unchanged."
        )
    if options.epochs is not None and (epoch, step) > (options.epochs, 0):
        raise UsageError(
            f"a state must lie within the epochs of the stream ({options.epochs}), got epoch "
            f"{epoch} in reader.load. Pass a larger epochs."
        )
    return Position(epoch, step)


def _order_of(options: ReadOptions) -> dict[str, Any]:
    """The options on which the order depends, as JSON holds them."""
    found = {name: getattr(options, name) for name in _ORDER}
    sample = options.sample
    if isinstance(sample, Mapping):  # of a thousand classes: only whether it is the same counts
        text = json.dumps(
            {str(name): float(weight) for name, weight in sample.items()}, sort_keys=True
        )
        sample = hashlib.sha256(text.encode()).hexdigest()[:16]
    return found | {"sample": sample}


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
