"""`mix`: several sets as one stream, by weight.

Every set is read in its own order, endlessly, as if its epochs were one, so nothing of it is left
out. Since all positions of a group are of one set, a worker's positions of the mixture are the
worker's positions of the set too: the mixture is as elastic as the sets, and reads no more bytes.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from typing_extensions import override

from foundation.options import check_choice, check_integer
from foundation.storage import absolute, place_of
from reader.cache.locations import locate_dataset
from reader.lazy_tensorflow import tf
from reader.loader import load_batches
from reader.opening import Opened, open_split
from reader.options import MAX_EPOCHS, REQUIRED, ReadOptions
from reader.order.class_sampling import SLOTS, shares
from reader.order.mixture import MixturePlan, MixtureStage
from reader.records.vocabulary import HUGGING_FACE, SENTENCE_PIECE
from reader.state import as_json, content_of, digest, read_state, sampled_label
from reader.stream import Stream, StreamInfo
from reader.transforms.normalization import TRAINING_SPLIT
from shard_format import UsageError, load_manifest, manifest_with
from shard_format import mix as mix_bits

GROUP = 8
# Options of `load` that a mixture has no use for, and what to do instead.
_UNFIT = {
    "remainder": "A mixture has no end at which a batch could be short",
    "buckets": "Batches of a mixture hold records of several sets",
    "service": "A mixture is made by the process that reads it",
    "normalize": "Every set has its own statistics; normalize in the model",
    "on_cached": "Several sets are cached one after the other",
}
_OPTIONS = tuple(field.name for field in dataclasses.fields(ReadOptions))


@dataclasses.dataclass(eq=False, kw_only=True)
class Mixture(Stream):
    """Several sets as one stream.

    Attributes:
        opened: The sets.
        plan: Which set every group of the mixture is of.
        parts: Describes the stream of each set, by the names of `mix`; `info` has the sums.
        shares: Share of each set in the first batches, in [0, 1]: its weight, rounded to one in
            4096.
        arguments: Arguments of `mix` but the state, for a process elsewhere.
    """

    opened: tuple[Opened, ...] = dataclasses.field(repr=False)
    plan: MixturePlan = dataclasses.field(repr=False)
    parts: Mapping[str, StreamInfo]
    shares: Mapping[str, float]
    arguments: Mapping[str, Any] = dataclasses.field(repr=False)

    @override
    def _make_dataset(self) -> tf.data.Dataset:
        from reader.graph.mixing import mixed
        from reader.graph.pipeline import finished, without_autograph
        from reader.tensorflow_dataset import dataset_of

        loader, first = self.opened[0].loader, self.first_step
        batches = -1 if self._last_step is None else len(self)
        if not self._needs_tensorflow:
            return dataset_of(lambda: self.arrays(first), loader, batches)
        position = first * self.info.batch_size
        dataset = without_autograph(mixed)(self.opened, self.plan, position, self.info.worker[1])
        return finished(dataset.take(batches), batches, loader.options)

    @override
    def arrays(self, first: int, worker: tuple[int, int] = (0, 1)) -> Iterator[Any]:
        if self._needs_tensorflow:
            return super().arrays(first, worker)
        size, workers = self.info.batch_size, self.info.worker[1]
        position = first * size
        turns = self.plan.batches(position, size, workers)
        if self._last_step is not None:
            turns = itertools.islice(turns, max(0, self._last_step - first))
        sources = []
        for one, before in zip(self.opened, self.plan.before(position).tolist(), strict=True):
            tasks = one.loader.windows.endless(*divmod(before, one.info.records))
            sources.append((one.loader, tasks))
        return load_batches(sources, turns, worker)

    @override
    def __reduce__(self) -> Any:
        arguments = dict(self.arguments)
        arguments["weights"] = _at_absolute(arguments["weights"])
        later = arguments["schedule"] or {}
        arguments["schedule"] = {step: _at_absolute(own) for step, own in later.items()} or None
        return functools.partial(mix, **arguments, state=self.state_after(0)), ()

    @property
    def _needs_tensorflow(self) -> bool:
        return any(one.loader.parser.needs_tensorflow for one in self.opened)


def _at_absolute(weights: Mapping[Any, float]) -> dict[Any, float]:
    return {absolute(str(name)): weight for name, weight in weights.items()}


def mix(
    weights: Mapping[str, float] | Mapping[os.PathLike[str], float],
    *,
    batch_size: int = REQUIRED,
    seed: int = 0,
    epochs: int | None = None,
    steps_per_epoch: int | None = None,
    worker: tuple[int, int] = (0, 1),
    state: Mapping[str, Any] | None = None,
    group: int | None = None,
    batch_from: str = "all",
    schedule: Mapping[int, Mapping[Any, float]] | None = None,
    **options: Any,
) -> Mixture:
    """One stream over several shard sets, with so much of each as its weight says.

        stream = reader.mix({"data/photos": 0.7, "data/drawings": 0.3}, batch_size=128,
                            image_size=224, augment="standard")

    The sets must have the same record type, classes (or tokenizer) and shape of an element; they
    may differ in everything else. What `load` promises holds here too: batches are a function of
    (sets, weights, seed), a state resumes them exactly, for any number of workers, and workers
    share them without reading twice. A set is read in its own order again and again; its epochs
    follow each other without a gap, so a small set with a large weight repeats, in another order
    and augmented anew.

    Args:
        weights: Directory of each set -> how much of it, above 0; only their ratios count.
        batch_size: Records per batch, of all workers together.
        seed: Order and augmentation are functions of seed, position and record.
        epochs: How many; None is endless.
        steps_per_epoch: What is called an epoch of the mixture; by default as many batches as the
            records of all sets make.
        worker: (i, n): the data set gives the i-th of n equal parts of every batch.
        state: Result of `Mixture.state`: the data set begins there.
        group: So many positions after each other are of one set, 8 by default; the count in worker
            must divide it. It is part of the order.
        batch_from: "one": all records of a batch are of one set; "all": of any.
        schedule: Step -> the weights from that step of the training on, until the next one: a
            curriculum. A set that is not named then has weight 0, which is allowed here as long as
            another one has more. A group that began before is finished.
        **options: All others of `load`, the same for every set, but for remainder, buckets and
            normalize.

    Raises:
        UsageError: An option is wrong, or the sets do not fit together.
        ShardSetError: There is no shard set, or it cannot be read by this version.
        DamageError: A set is not what its manifest says.
    """
    _check_options(options)
    if epochs is not None:
        check_integer("epochs", epochs, 1, MAX_EPOCHS, "reader.mix")
    plan = _plan(weights, schedule, _group(group, batch_from, batch_size, worker), batch_size, seed)
    names = [str(name) for name in weights]
    _check_distinct(names)
    opened = [
        _open(name, seed, {"batch_size": batch_size, "worker": worker, **options}) for name in names
    ]
    _check_alike(names, opened)
    records = sum(one.info.records for one in opened)
    steps = max(1, records // batch_size) if steps_per_epoch is None else steps_per_epoch
    check_integer("steps_per_epoch", steps, 1)
    stage, *later = ((stage.first, stage.slots.tolist()) for stage in plan.stages)
    sets: list[Any] = [[one.info.root_hash for one in opened], stage[1]]
    if later:
        sets.append({"schedule": later})
    if opened[0].info.split != TRAINING_SPLIT:  # states of the first version are of this one
        sets.append(opened[0].info.split)
    first = opened[0].loader.options
    sample = first.sample
    of_mixture = {
        "sets": digest(sets),
        "batch_size": batch_size,
        "seed": seed,
        "group": plan.group,
        "shuffle": opened[0].info.shuffle,
        "streams": [one.info.streams for one in opened][:8],
        "sample": digest(dict(sample) if isinstance(sample, Mapping) else sample),
        "where": None if first.where is None else digest(first.where),
        "steps_per_epoch": steps,
        **sampled_label(first),
        "content": content_of(first),
    }
    of_mixture = as_json(of_mixture)
    start = read_state(state, of_mixture, steps, epochs)
    parts = dict(zip(names, (one.info for one in opened), strict=True))
    return Mixture(
        steps_per_epoch=steps,
        info=_sums(list(parts.values()), names, seed, epochs, str(of_mixture["sets"])),
        order=of_mixture,
        start=start,
        copies=tuple(copies for one in opened for copies in one.copies),
        losses=tuple(one.skipped for one in opened),
        opened=tuple(opened),
        plan=plan,
        parts=parts,
        shares=dict(zip(names, plan.shares().tolist(), strict=True)),
        arguments={
            "weights": weights,
            "batch_size": batch_size,
            "seed": seed,
            "epochs": epochs,
            "steps_per_epoch": steps_per_epoch,
            "worker": worker,
            "group": group,
            "batch_from": batch_from,
            "schedule": schedule,
            **options,
        },
    )


def _open(directory: str, seed: int, options: Mapping[str, Any]) -> Opened:
    """A set with a seed of its own, so that sets of as many records differ in their order."""
    # "wrap", for a batch may be larger than the smallest set, which then repeats within it.
    asked = ReadOptions(**{**options, "seed": seed, "epochs": None, "remainder": "wrap"})
    own = int(locate_dataset(directory, asked).manifest.root_hash[:16], 16)
    own_seed = int(mix_bits(np.array([seed], np.uint64) ^ np.uint64(own))[0] >> np.uint64(1))
    return open_split(directory, dataclasses.replace(asked, seed=own_seed))


def _check_options(options: Mapping[str, Any]) -> None:
    allowed = [name for name in _OPTIONS if name not in _UNFIT]
    for name in options:
        if name in _UNFIT:
            raise UsageError(
                f"{name}={options[name]!r} does not work in reader.mix. {_UNFIT[name]}."
            )
        check_choice("option", name, allowed, "reader.mix")


def _group(group: int | None, batch_from: str, batch_size: int, worker: tuple[int, int]) -> int:
    """Positions that follow each other and are of one set.

    Raises:
        UsageError: Workers do not divide them, or two options contradict each other.
    """
    check_choice("batch_from", batch_from, ("all", "one"), "reader.mix")
    if batch_from == "one":
        if group is not None:
            raise UsageError(
                f"group={group!r} does not work with batch_from='one' in reader.mix, where a group "
                "is a batch. Leave one of them out."
            )
        check_integer("batch_size", batch_size, 1, where="reader.mix")
        return batch_size
    group = GROUP if group is None else group
    check_integer("group", group, 1)
    is_pair = isinstance(worker, tuple) and len(worker) == 2  # else `load` says what is wrong
    if is_pair and isinstance(worker[1], int) and group % max(1, worker[1]):
        raise UsageError(
            f"{worker[1]} workers do not divide group={group} in reader.mix. Pass "
            f"group={worker[1]} for the whole training: it is part of the order."
        )
    return group


def _plan(
    weights: Mapping[Any, float],
    schedule: Mapping[int, Mapping[Any, float]] | None,
    group: int,
    batch_size: int,
    seed: int,
) -> MixturePlan:
    """The shares of the sets, in slots, from each step of the schedule on.

    Raises:
        UsageError: A weight is not above 0, or a step or a set of the schedule is wrong.
    """
    _check_weights(weights, "The weights are", may_be_zero=schedule is not None)
    if len(weights) > SLOTS:
        raise UsageError(
            f"{len(weights)} sets are more than the {SLOTS} that reader.mix takes. Join some."
        )
    if not (schedule is None or isinstance(schedule, Mapping)):
        raise UsageError(
            f"schedule is {schedule!r} in reader.mix. Pass the weights from each step on, such as "
            '{10_000: {"data/a": 0.2, "data/b": 0.8}}.'
        )
    stages: dict[int, Mapping[Any, float]] = {0: weights}
    for step, own in (schedule or {}).items():
        check_integer("The step in schedule", step, 1, where="reader.mix")
        _check_weights(own, f"The weights from step {step} on are", may_be_zero=True)
        for name in own:
            check_choice("directory in schedule", str(name), list(map(str, weights)), "reader.mix")
        stages[step] = own
    planned = []
    for step, own in sorted(stages.items()):
        by_name = {str(name): float(weight) for name, weight in own.items()}
        exact = np.array([by_name.get(str(name), 0.0) for name in weights])
        first = -(-step * batch_size // group) if step else 0
        planned.append(MixtureStage(first, shares(exact, SLOTS)))
    return MixturePlan(tuple(planned), group, seed)


def _check_weights(weights: Any, what: str, may_be_zero: bool) -> None:
    """Checks that there is a weight for each of some sets.

    Raises:
        UsageError: There is not.
    """
    if not isinstance(weights, Mapping) or not weights:
        raise UsageError(
            f"{what} {weights!r} in reader.mix. Pass the weight of each directory, such as "
            '{"data/a": 0.7, "data/b": 0.3}.'
        )
    for name, weight in weights.items():
        is_number = isinstance(weight, (int, float)) and not isinstance(weight, bool)
        if not is_number or not 0 <= weight < 1e9 or not (weight or may_be_zero):
            raise UsageError(
                f"The weight of {name} is {weight!r} in reader.mix. Pass a number above 0 and "
                "below 1e9, or leave the set out."
            )
    if not any(weights.values()):
        raise UsageError(f"{what} all 0 in reader.mix. Give at least one set more.")


def _check_distinct(names: list[str]) -> None:
    """Checks that no directory is named twice.

    Raises:
        UsageError: One is: its order being its own, the same records would come from both, and at
            nearly the same time.
    """
    places: dict[str, str] = {}
    for name in names:
        known = place_of(name)
        place = os.path.realpath(known) if isinstance(known, Path) else str(known)
        if place in places:
            raise UsageError(
                f"{places[place]} and {name} are the same directory in reader.mix. Pass it once, "
                "with the sum of both weights."
            )
        places[place] = name


def _check_alike(names: list[str], opened: list[Opened]) -> None:
    """Checks that batches may hold records of all sets.

    Raises:
        UsageError: Two differ in what a batch consists of.
    """
    first = _likeness(opened[0])
    for name, one in zip(names[1:], opened[1:], strict=True):
        for what, value in _likeness(one).items():
            if value != first[what]:
                raise UsageError(
                    f"Sets of a mixture have different {what}: {_short(first[what])} in "
                    f"{names[0]}, {_short(value)} in {name}. Build them alike."
                )


def _likeness(opened: Opened) -> dict[str, Any]:
    info = opened.info
    manifest = manifest_with(info.directory, info.root_hash) or load_manifest(info.directory)
    files = manifest.files
    tokenizers = [files[name] for name in (HUGGING_FACE, SENTENCE_PIECE) if name in files]
    return {
        "record types": info.record_type,
        "kinds of targets": info.targets,
        "classes": list(info.labels.values()),
        "shapes of an element": info.element_shape,
        "element types": info.dtype,
        "features": [
            one
            for name in info.features
            for one in manifest.schema.features
            if one.name == name or one.name.startswith(f"{name}/")
        ],
        "vocabulary sizes": info.tokens.vocabulary_size if info.tokens else None,
        "tokenizers": tokenizers,
    }


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 100 else f"{text[:97]}..."


def _sums(
    parts: list[StreamInfo], names: list[str], seed: int, epochs: int | None, name: str
) -> StreamInfo:
    """What is read of all sets together."""
    reasons = (f"{one.directory}: {one.cache_reason}" for one in parts)
    return dataclasses.replace(
        parts[0],
        directory=Path(" + ".join(names)),
        root_hash=name,
        records=sum(one.records for one in parts),
        stored_bytes=sum(one.stored_bytes for one in parts),
        cache=", ".join(sorted({one.cache for one in parts})),
        cache_reason="; ".join(reasons),
        seed=seed,
        epochs=epochs,
    )
