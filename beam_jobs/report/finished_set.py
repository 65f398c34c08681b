"""A finished shard set as the report reads it: manifest, index, and single records.

Everything comes from the files of the set, by random access where a record is needed.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from foundation import storage
from foundation.storage import Place
from shard_format import (
    DamageError,
    Feature,
    decode_example,
    load_build,
    load_manifest,
    open_split_index,
    unframe,
)
from shard_format.dropped import Refused, read_refused
from shard_format.example import Values
from shard_format.kept_columns import is_scalar


class RecordLocation(NamedTuple):
    """Where a record is stored: split, shard number, and its frame in that shard in bytes."""

    split: str
    shard: int
    offset: int
    length: int
    record_id: str


class LabelClasses(NamedTuple):
    """The classes of one label.

    Attributes:
        name: Name of the feature; "" for the main label.
        class_names: Names in the order of the labels.
        counts: For every split, [classes] records.
        weights: Weight of every class in training, by its name; empty if the set has none.
    """

    name: str
    class_names: tuple[str, ...]
    counts: dict[str, npt.NDArray[np.int64]]
    weights: dict[str, float]


class FinishedSet:
    """A shard set that was built.

    Args:
        directory: The directory of the set.
        generation: Number of a generation; None for the newest.

    Attributes:
        directory: The directory of the set.
        manifest: Its manifest, as it was when that generation was the newest one.
        build: build.json, or an empty dictionary: a set is complete without it.

    Raises:
        ShardSetError: There is no set in this directory.
        DamageError: The manifest was changed after the build.
    """

    def __init__(self, directory: Place, generation: int | None = None) -> None:
        self.directory = directory
        self.manifest = load_manifest(directory, generation)
        self.build = load_build(directory)
        self._indexes: dict[str, pa.Table] = {}

    def index(self, split: str) -> pa.Table:
        """Returns the index of a split, memory-mapped."""
        if split not in self._indexes:
            self._indexes[split] = open_split_index(self.directory, self.manifest, split)
        return self._indexes[split]

    @property
    def holds_text(self) -> bool:
        """Whether records are documents, or tokens of documents."""
        return self.manifest.schema.record_type == "text"

    @property
    def packed(self) -> bool:
        """Whether a record is a sequence packed with several documents."""
        return bool(self.manifest.config.get("pack"))

    @property
    def records(self) -> int:
        """Number of records of all splits."""
        return sum(split.records for split in self.manifest.splits.values())

    @functools.cached_property
    def image(self) -> Feature | None:
        """The feature that holds the image, if records have one."""
        images = (item for item in self.manifest.schema.features if item.kind == "image")
        return next(images, None)

    @functools.cached_property
    def kept_columns(self) -> tuple[Feature, ...]:
        """The features of one text or number that --keep-columns added."""
        return tuple(one for one in self.manifest.schema.kept if is_scalar(one))

    @functools.cached_property
    def kept_lists(self) -> tuple[Feature, ...]:
        """The other ones: lists, tensors, images and bytes."""
        return tuple(one for one in self.manifest.schema.kept if not is_scalar(one))

    @functools.cached_property
    def labels(self) -> list[LabelClasses]:
        """The classes of every label, those of the main one first; empty without labels."""
        statistics = {name: split.statistics for name, split in self.manifest.splits.items()}
        labelled = [item for item in self.manifest.schema.labels if item.class_names]
        counted = [own["class_counts"] for own in statistics.values() if own.get("class_counts")]
        if not labelled and not counted:
            return []
        names = labelled[0].class_names if labelled else tuple(counted[0])
        labels = [_label_classes("", names, statistics)]
        for feature in labelled:
            own = {
                split: values.get("labels", {}).get(feature.name) or {}
                for split, values in statistics.items()
            }
            if any(own.values()):
                labels.append(_label_classes(feature.name, feature.class_names, own))
        return labels

    @property
    def class_names(self) -> tuple[str, ...]:
        """The name of every class of the main label, in its order; empty without labels."""
        return self.labels[0].class_names if self.labels else ()

    @functools.cached_property
    def refused(self) -> list[Refused]:
        """One example for every reason in the quarantine."""
        return read_refused(self.directory, self.manifest)

    def commonest_classes(self, limit: int) -> list[int]:
        """Labels of the classes with the most records, in the order of labels; none is empty."""
        total = sum(self.labels[0].counts.values(), np.zeros(len(self.class_names), np.int64))
        order = np.argsort(-total, kind="stable")[:limit]
        return sorted(int(label) for label in order if total[label])

    def first_records(self, labels: list[int], count: int) -> Iterator[tuple[int, RecordLocation]]:
        """(label, location) of the first records of each class, split after split.

        Records of a split are in shuffled order, so the first ones of a class are a fair sample
        of it, and always the same; nothing has to be drawn.

        Args:
            labels: The classes; without labels all records of the set have label 0.
            count: Records of each class.
        """
        needed = np.zeros(max(labels, default=0) + 1, np.int64)
        needed[labels] = count
        seen: set[tuple[int, str]] = set()  # a record that was repeated for balance counts once
        for split in self.manifest.splits:
            for batch in self.index(split).to_batches():
                if not needed.any():
                    return
                rows, own = labels_of(batch, bool(self.class_names))
                known = (own >= 0) & (own < len(needed))
                rows, own = rows[known], own[known]
                order = np.argsort(own, kind="stable")
                rank = np.arange(len(order)) - np.searchsorted(own[order], own[order])
                order = order[rank < needed[own[order]]]
                locations = locations_of(split, batch.take(pa.array(rows[order])))
                for label, location in zip(own[order].tolist(), locations, strict=True):
                    if (label, location.record_id) not in seen:
                        seen.add((label, location.record_id))
                        needed[label] -= 1
                        yield label, location

    def find(self, record_ids: Iterable[str]) -> Iterator[RecordLocation]:
        """Yields the locations of some records: one pass over the index for all of them."""
        missing = set(record_ids)
        for split in self.manifest.splits:
            for batch in self.index(split).to_batches():
                if not missing:
                    return
                wanted = pa.array(sorted(missing), pa.string())
                rows = batch.filter(pc.is_in(batch["record_id"], wanted))
                for location in locations_of(split, rows):
                    missing.discard(location.record_id)
                    yield location

    def read(
        self, locations: Iterable[RecordLocation], limit: int | None = None
    ) -> Iterator[tuple[RecordLocation, dict[str, Values]]]:
        """Yields records by random access, in the order in which they are stored.

        Args:
            locations: The records.
            limit: Bytes; a longer record is not read, and has no values.

        Raises:
            DamageError: A shard is missing or cut, or a record does not match its checksum.
        """
        splits = list(self.manifest.splits)
        ordered = sorted(set(locations), key=lambda at: (splits.index(at.split), *at[1:3]))
        for (split, shard), group in itertools.groupby(ordered, lambda location: location[:2]):
            path = self._shard_path(split, shard)
            try:
                with storage.open_input(path) as file:
                    for location in group:
                        long = limit is not None and location.length > limit
                        yield location, {} if long else _read_record(file, location, path)
            except OSError as error:
                raise DamageError(
                    f"Shard {path} cannot be read: {error.strerror}. Run 'shardmill verify' on "
                    "the set."
                ) from error

    def _shard_path(self, split: str, shard: int) -> Place:
        shards = self.manifest.splits[split].shards
        if not 0 <= shard < len(shards):
            raise DamageError(
                f"The index of split {split} names shard {shard}, and the split has {len(shards)} "
                "shards. Run 'shardmill verify' on the set."
            )
        return self.directory / shards[shard].file


def locations_of(split: str, rows: pa.Table | pa.RecordBatch) -> list[RecordLocation]:
    """Returns the locations in rows of an index."""
    columns = [rows[name].to_pylist() for name in RecordLocation._fields[1:]]
    return [RecordLocation(split, *values) for values in zip(*columns, strict=True)]


def _label_classes(
    label: str, names: tuple[str, ...], statistics: Mapping[str, Mapping[str, Any]]
) -> LabelClasses:
    """The classes of a label from its statistics in every split."""
    counts: dict[str, npt.NDArray[np.int64]] = {}
    weights: Any = {}
    for split, values in statistics.items():
        by_name = values.get("class_counts") or {}
        counts[split] = np.array([by_name.get(name, 0) for name in names], np.int64)
        weights = weights or values.get("class_weights") or {}
    if not isinstance(weights, dict):  # in the first sets they are a list
        weights = dict(zip(names, weights, strict=False))
    return LabelClasses(label, names, counts, weights)


def labels_of(rows: pa.RecordBatch, labelled: bool) -> tuple[npt.NDArray[np.int64], ...]:
    """(row, label) of every label in rows of an index; label 0 everywhere if there are none."""
    if not labelled:
        return np.arange(len(rows)), np.zeros(len(rows), np.int64)
    if "labels" in rows.schema.names:
        return (
            np.asarray(pc.list_parent_indices(rows["labels"]), np.int64),
            np.asarray(pc.list_flatten(rows["labels"]), np.int64),
        )
    present = np.flatnonzero(np.asarray(pc.is_valid(rows["label"])))
    return present, np.asarray(rows["label"].drop_null(), np.int64)


def _read_record(file: BinaryIO, location: RecordLocation, path: Place) -> dict[str, Values]:
    if location.offset < 0 or location.length < 0:
        raise DamageError(
            f"The index has offset {location.offset} and length {location.length} for a record of "
            f"{path}. Run 'shardmill verify' on the set."
        )
    file.seek(location.offset)
    payload = unframe(file.read(location.length), f"{path} at byte {location.offset}")
    return decode_example(payload)
