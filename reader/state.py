"""The state of a stream: a few numbers from which the rest of it follows."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from reader.options import MAX_EPOCHS, ReadOptions
from shard_format import UsageError

FORMAT = 1
# Options that decide which records a step reads.
_ORDER = ("split", "batch_size", "shuffle", "seed", "streams", "remainder", "buckets")
_LONGEST = 200  # characters of a condition in a state
# Options that decide what a batch holds of its records.
_CONTENT = ("augment", "image_size", "dtype", "normalize", "label")


@dataclasses.dataclass(frozen=True)
class Position:
    """A place between two steps.

    Attributes:
        epoch: Epochs that are done.
        step: Steps of the next one that are done, below those of an epoch.
    """

    epoch: int
    step: int


def make_state(position: Position, order: Mapping[str, Any]) -> dict[str, Any]:
    """A state that JSON can hold, of less than 1 kB: the place, and what the order depends on."""
    return {"format": FORMAT, "epoch": position.epoch, "step": position.step, **order}


def read_state(
    state: Mapping[str, Any] | None, order: Mapping[str, Any], steps: int, epochs: int | None
) -> Position:
    """The position where a state resumes; the beginning without one.

    Args:
        state: What `make_state` gave, possibly by way of JSON.
        order: What the order depends on here, see `order_of`.
        steps: Number of steps of an epoch.
        epochs: Number of epochs of the stream; None for no end.

    Raises:
        UsageError: It is no state, or one of another set, or of other options: its place would be
            another one here.
    """
    if state is None:
        return Position(0, 0)
    found_format: Any = state.get("format") if isinstance(state, Mapping) else None
    if not _is_count(found_format) or found_format != FORMAT:
        raise UsageError(
            f"The state has format {found_format!r}, not {FORMAT}, in reader.load. Pass what "
            "stream.state(global_step=...) returned; one of a newer version needs that version."
        )
    for name, value in order.items():
        if name == "content":
            _check_content(state, value)
            continue
        saved = state.get(name)
        if type(saved) is not type(value) or saved != value:
            raise UsageError(
                f"The state is of another set or order in reader.load: {name} is {saved!r} in it "
                f"and {value!r} in the stream. Load with the same arguments as then, or leave the "
                "state out to begin again."
            )
    epoch: Any = state.get("epoch")
    step: Any = state.get("step")
    if not (_is_count(epoch) and _is_count(step) and epoch <= MAX_EPOCHS and step < steps):
        raise UsageError(
            f"The state has epoch={epoch!r} and step={step!r}, not an epoch up to {MAX_EPOCHS} and "
            f"a step below {steps}, in reader.load. Pass what "
            "stream.state(global_step=...) returned, unchanged."
        )
    if epochs is not None and (epoch, step) > (epochs, 0):
        raise UsageError(
            f"The state is of epoch {epoch}, beyond the {epochs} epochs of the stream, in "
            "reader.load. Pass a larger epochs."
        )
    return Position(epoch, step)


def check_generation(state: Mapping[str, Any] | None, earlier: Sequence[str]) -> None:
    """Checks that a state is not one of an earlier generation of the set.

    Args:
        state: See `read_state`.
        earlier: Root hashes of the set at its earlier generations, the first one first.

    Raises:
        UsageError: It is.
    """
    root_hash = state.get("root_hash") if isinstance(state, Mapping) else None
    if root_hash in earlier:
        number = list(earlier).index(str(root_hash))
        raise UsageError(
            f"The state is of generation {number} of the set, and generation {len(earlier)} was "
            f"loaded, in reader.load. Pass generation={number} to continue it, or leave the state "
            "out to begin with all records."
        )


def _check_content(state: Mapping[str, Any], content: Mapping[str, Any]) -> None:
    """Checks that batches hold the same of their records; states of earlier versions do not say.

    Raises:
        UsageError: They do not.
    """
    stored = state.get("content", content)
    stored = stored if isinstance(stored, Mapping) else {}
    wrong = [
        f"{name}={stored.get(name)!r}, not {value!r}"
        for name, value in content.items()
        if stored.get(name) != value
    ]
    if wrong:
        raise UsageError(
            f"The state is of batches with {', '.join(wrong)}, in reader.load. Load with the same "
            "arguments as then, or remove 'content' from the state to continue its order with "
            "other batches."
        )


def content_of(options: ReadOptions) -> dict[str, Any]:
    """What a batch holds of its records, as JSON holds it; an augmentation of objects as a hash."""
    content = {name: getattr(options, name) for name in _CONTENT}
    if not isinstance(options.augment, str):
        parts = options.augment if isinstance(options.augment, Sequence) else [options.augment]
        content["augment"] = digest([_name_of(part) for part in parts])
    return as_json(content)


def _name_of(transform: Any) -> str:
    """Name and parameters of a transform, the same in every process."""
    if isinstance(transform, str) or dataclasses.is_dataclass(transform):
        return repr(transform)
    return f"{type(transform).__module__}.{type(transform).__qualname__}"


def order_of(root_hash: str, options: ReadOptions) -> dict[str, Any]:
    """What the batches of a stream depend on, as JSON holds it."""
    order = {"root_hash": root_hash} | {name: getattr(options, name) for name in _ORDER}
    # States of earlier versions have none, which is None.
    is_long = options.where is not None and len(options.where) > _LONGEST
    order["where"] = digest(options.where) if is_long else options.where
    if options.buckets > 1:  # records that are cut at a length are of one length
        order["max_tokens"] = options.max_tokens
    sample = options.sample
    if isinstance(sample, Mapping):  # of a thousand classes: only whether it is the same counts
        sample = digest({str(name): float(weight) for name, weight in sample.items()})
    order |= {"sample": sample, **sampled_label(options)}
    return as_json(order | {"content": content_of(options)})


def sampled_label(options: ReadOptions) -> dict[str, Any]:
    """The label that decides the order, where records are drawn by class; None is the main one."""
    if options.sample is None:
        return {}
    label = options.label
    return {"sampled_label": label if label is None or isinstance(label, str) else label[0]}


def as_json(order: Mapping[str, Any]) -> dict[str, Any]:
    """The order as JSON holds it: a member of an enumeration becomes its value."""
    read: dict[str, Any] = json.loads(json.dumps(order))
    return read


def digest(value: Any) -> str:
    """16 hexadecimal digits of the hash of a value that JSON can hold."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
