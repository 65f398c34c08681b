"""A finished shard set as the sections of the report see it.

Everything comes from its files: the manifest, the index, and single records by random access.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from shard_format import (
    DamageError,
    Feature,
    decode_example,
    load_build,
    load_manifest,
    naming,
    open_index,
    storage,
    unframe,
)
from shard_format.dropped import Refused, read_refused
from shard_format.example import Values


class Place(NamedTuple):
    """Where a record lies: split, number of the shard, and its frame there in bytes."""

    split: str
    shard: int
    offset: int
    length: int
    record_id: str
    height: int  # pixels as stored, 0 where the index does not say
    width: int


class FinishedSet:
    """A shard set that was built.

    Attributes:
        directory: Where it lies.
        manifest: Its manifest.
        build: build.json, or an empty dictionary: the set is whole without it.

    Raises:
        ShardSetError: There is no set in this directory.
        DamageError: The manifest is not what was written.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.manifest = load_manifest(directory)
        self.build = load_build(directory)
        self._indexes: dict[str, pa.Table] = {}

    def index(self, split: str) -> pa.Table:
        """The index of a split, memory-mapped."""
        if split not in self._indexes:
            self._indexes[split] = open_index(self.directory / naming.index_file(split))
        return self._indexes[split]

    @property
    def holds_text(self) -> bool:
        """Whether records are documents, or tokens of them."""
        return self.manifest.schema.record_type == "text"

    @property
    def packed(self) -> bool:
        """Whether a record is a sequence that is filled with documents."""
        return bool(self.manifest.config.get("pack"))

    @functools.cached_property
    def image(self) -> Feature | None:
        """The feature that holds the picture, if records have one."""
        images = (item for item in self.manifest.schema.features if item.kind == "image")
        return next(images, None)

    @functools.cached_property
    def class_names(self) -> tuple[str, ...]:
        """The name of every class, in the order of the labels; empty if there are no labels."""
        for feature in self.manifest.schema.features:
            if feature.class_names:
                return feature.class_names
        for split in self.manifest.splits.values():
            counts = split.statistics.get("class_counts")
            if isinstance(counts, dict) and counts:
                return tuple(map(str, counts))
        return ()

    @functools.cached_property
    def class_counts(self) -> dict[str, npt.NDArray[np.int64]]:
        """For every split, how many records each class has, in the order of `class_names`."""
        counts = {}
        for name, split in self.manifest.splits.items():
            found = split.statistics.get("class_counts") or {}
            counts[name] = np.array([found.get(item, 0) for item in self.class_names], np.int64)
        return counts

    @functools.cached_property
    def class_weights(self) -> dict[str, float]:
        """The weight of every class in training; empty if the set has none."""
        for split in self.manifest.splits.values():
            weights = split.statistics.get("class_weights")
            if isinstance(weights, dict):
                return {str(name): float(weight) for name, weight in weights.items()}
            if isinstance(weights, list):
                return dict(zip(self.class_names, map(float, weights), strict=False))
        return {}

    @functools.cached_property
    def refused(self) -> list[Refused]:
        """One example for every reason in the quarantine."""
        return read_refused(self.directory, self.manifest)

    def commonest_classes(self, limit: int) -> list[int]:
        """Labels of the classes with the most records, in the order of labels; none is empty."""
        total = sum(self.class_counts.values(), np.zeros(len(self.class_names), np.int64))
        order = np.argsort(-total, kind="stable")[:limit]
        return sorted(int(label) for label in order if total[label])

    def read(self, places: Iterable[Place]) -> Iterator[tuple[Place, dict[str, Values]]]:
        """Records by random access, in the order in which they lie on disk.

        Raises:
            DamageError: A shard is missing or cut, or a record does not match its checksum.
        """
        ordered = sorted(set(places), key=lambda place: (place.split, place.shard, place.offset))
        for (split, shard), group in itertools.groupby(ordered, lambda place: place[:2]):
            path = self._shard_path(split, shard)
            try:
                with storage.open_input(path) as file:
                    for place in group:
                        yield place, decode_example(_payload(file, place, path))
            except OSError as error:
                raise DamageError(
                    f"every shard must be a file that can be read, got '{error.strerror}' for "
                    f"{path}. Run 'shardmill verify' on the set."
                ) from error

    def _shard_path(self, split: str, shard: int) -> Path:
        shards = self.manifest.splits[split].shards
        if not 0 <= shard < len(shards):
            raise DamageError(
                f"an index must name one of {len(shards)} shards, got number {shard} in "
                f"{naming.index_file(split)}. Run 'shardmill verify' on the set."
            )
        return self.directory / shards[shard].file


def places_of(split: str, rows: pa.Table | pa.RecordBatch) -> list[Place]:
    """The places of rows of an index."""
    columns = [rows[name].to_pylist() for name in ("shard", "offset", "length", "record_id")]
    for name in ("height", "width"):
        known = name in rows.schema.names
        columns.append(pc.fill_null(rows[name], 0).to_pylist() if known else [0] * len(rows))
    return [Place(split, *values) for values in zip(*columns, strict=True)]


def _payload(file: BinaryIO, place: Place, path: Path) -> bytes:
    if place.offset < 0 or place.length < 0:
        raise DamageError(
            f"an index must hold offsets and lengths, got {place.offset} and {place.length} for "
            f"{path}. Run 'shardmill verify' on the set."
        )
    file.seek(place.offset)
    return unframe(file.read(place.length), f"{path} at byte {place.offset}")
