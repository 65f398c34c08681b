"""The columns of all records of a set: those of its index, and those that were measured.

The number of a record is its row when the indexes of all splits are concatenated. Columns are read
when a check asks for them, and a check holds a few of them at a time.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from typing_extensions import override

from beam_jobs.audit.measuring import LOOKS, WantedMeasures, measure_shards
from beam_jobs.audit.predictions import Predictions
from beam_jobs.columns import BoolArray, IntArray, bounds_of
from beam_jobs.dedup.clusters import NO_NEAR_PAIRS, NearPairs
from beam_jobs.dedup.images import near_duplicates as images
from beam_jobs.dedup.text import near_duplicates as texts
from beam_jobs.dedup.text.signatures import NEAR_FIELDS
from beam_jobs.images.measures import ImageMeasures
from beam_jobs.report.finished_set import FinishedSet
from beam_jobs.staging.sidecars import Sidecars
from beam_jobs.staging.stored import StoredRecords
from foundation import storage
from shard_format import Feature, InputError
from shard_format.index import LABELS_FIELD, label_column, read_schema
from shard_format.index_parts import index_tables

Float64Array = npt.NDArray[np.float64]

# Columns that say where a record is, or what it is compared by.
_PLACES = {"shard", "offset", "length", "key", "record_id", "label", "fingerprint"}


class AuditedSet:
    """A set with what was measured of it.

    Args:
        finished: The set.
        folder: Empty local folder for what does not fit in memory.
        near: Whether near duplicates will be asked for.
        predictions: What a model says of its records; None without a model.

    Attributes:
        finished: The set.
        manifest: Its manifest.
        begins: [splits + 1] int64, the number of the first record of each split; last, `records`.
        records: Number of records.
        predictions: As they were passed.
        image: The feature with one image for each record; None for none.
        has_text: Whether records are documents.
        was_read: Whether the shards were read.
    """

    def __init__(
        self,
        finished: FinishedSet,
        folder: Path,
        *,
        near: bool,
        predictions: Predictions | None = None,
    ) -> None:
        self.finished, self.manifest = finished, finished.manifest
        splits = self.manifest.splits
        self.begins: IntArray = bounds_of(np.array([one.records for one in splits.values()]))
        self.records = int(self.begins[-1])
        self.predictions = predictions
        image = finished.image
        self.image = image if image is not None and not image.dims else None
        features = {one.name: one for one in self.manifest.schema.features}
        self.has_text = "text" in features and features["text"].kind == "text"
        self._folder = folder
        schemas = [
            read_schema(finished.directory / self.manifest.index_file(name)) for name in splits
        ]
        self._types = {
            field.name: field.type
            for field in (schemas[0] if schemas else ())
            if all(field in schema for schema in schemas)
        }
        self._stored = self._stored_looks() if near else None
        measures, near = not self._has_measures(), near and self._stored is None
        self._wanted = WantedMeasures(self.image, self.has_text, measures, near)
        self._measured: pa.Table | None = None

    def _has_measures(self) -> bool:
        """Whether the index has what would be measured."""
        if self.has_text:
            return "language" in self._types
        scored = {one.get("measure") for one in self.manifest.config.get("score") or ()}
        return scored >= set(ImageMeasures._fields) <= self._types.keys()

    def _stored_looks(self) -> pa.Table | None:
        """What a set of --dedup near has stored of its records, if it is mapped from this disk."""
        fields = LOOKS if self.image is not None else NEAR_FIELDS
        names = ["record_id", "split", "fingerprint", *(field.name for field in fields)]
        if storage.local_path(self.finished.directory) is None:
            return None
        try:
            stored = StoredRecords(self.finished.directory, names, complete=True)
        except InputError:
            return None
        tables = list(stored.tables(names))
        return pa.concat_tables(tables) if tables else None

    @property
    def was_read(self) -> bool:
        """Whether the shards were read."""
        return self._measured is not None

    def measure(self, workers: int | None, on_progress: Callable[[int], None]) -> None:
        """Reads the shards, unless the index has all that is wanted.

        Args:
            workers: How many work at a time; None for one per usable core.
            on_progress: Called with the number of records that are done.
        """
        if self._wanted.any:
            job = (self.finished.directory, self.manifest, self._wanted, self._folder)
            tables = measure_shards(*job, workers, on_progress)
            self._measured = pa.concat_tables([self._wanted.schema.empty_table(), *tables])

    def scalars(self) -> dict[str, pa.DataType]:
        """The columns of the index with one number or text that describe a record."""
        return {
            name: kind
            for name, kind in self._types.items()
            if name not in _PLACES and not name.startswith("label.") and not _is_nested(kind)
        }

    def column(self, name: str) -> pa.ChunkedArray | None:
        """[records] a measured column, or one of the index; None if there is neither."""
        if self._measured is not None and name in self._measured.column_names:
            return self._measured[name]
        if name not in self._types:
            return None
        tables = (
            table
            for split in self.manifest.splits
            for table in index_tables(self.finished.directory, self.manifest, split, [name])
        )
        chunks = [chunk for table in tables for chunk in table[name].chunks]
        return pa.chunked_array(chunks, self._types[name])

    def numbers(self, name: str) -> Float64Array | None:
        """[records] float64 of a column, NaN where it has no value; None if there is none."""
        column = self.column(name)
        if column is None:
            return None
        return np.asarray(pc.fill_null(column.cast(pa.float64(), safe=False), np.nan).to_numpy())

    def damaged(self) -> BoolArray:
        """[records] whether a record could not be read; none if the shards were not read."""
        column = self.column("damaged")
        return np.zeros(self.records, bool) if column is None else np.asarray(column, bool)

    def label(self, name: str = "label") -> Feature | None:
        """A class_label of which each record has one at most; None if there is no such label."""
        own = {one.name: one for one in self.manifest.schema.labels}
        label = own.get(name)
        return label if label is not None and not label.shape and label.class_names else None

    def labels(self, name: str = "label") -> IntArray:
        """[records] the class of each record, -1 without one; such as all of several labels."""
        column = self.column(label_column(name)) if self.label(name) else None
        if column is None:
            return np.full(self.records, -1)
        return np.asarray(pc.fill_null(column.cast(pa.int64()), -1), np.int64)

    def splits_of(self, rows: IntArray) -> IntArray:
        """[n] the number of the split of each record."""
        return np.searchsorted(self.begins, rows, side="right") - 1

    def described(self, rows: IntArray) -> dict[str, pa.Array]:
        """record_id, split and label of some records; several labels are joined."""
        at = pa.array(rows)
        ids = self.column("record_id")
        names = pa.array(list(self.manifest.splits), pa.string())
        return {
            "record_id": pa.nulls(0, pa.string()) if ids is None else _taken(ids, at),
            "split": names.take(pa.array(self.splits_of(rows))),
            "label": self._label_names(at),
        }

    def _label_names(self, at: pa.Array) -> pa.Array:
        several = self.column(LABELS_FIELD.name)
        column = self.column("label") if several is None else several
        if not self.finished.class_names or column is None:
            return pa.nulls(len(at), pa.string())
        names = pa.array(self.finished.class_names, pa.string())
        own = _taken(column, at)
        if several is None:
            return names.take(own)
        rows = (sorted(names.take(one.values).to_pylist()) if one.is_valid else [] for one in own)
        return pa.array([", ".join(one) or None for one in rows], pa.string())

    def near_pairs(self, threshold: float) -> NearPairs | None:
        """Pairs of similar records, enough to connect every cluster; None if none were measured."""
        find = texts.near_duplicates if self.image is None else images.near_duplicates
        if self._stored is not None:
            left_out = np.asarray(pc.is_null(self._stored["split"]), bool)  # it was dropped
            sidecars = _MeasuredSidecars(self._stored, left_out, self._folder)
            return self._numbered(find(sidecars, threshold, None), self._stored["record_id"])
        if self._measured is None or not self._wanted.near:
            return None
        left_out = self.damaged()
        if self.image is not None:
            left_out |= np.asarray(pc.is_null(self._measured["stored_width"]), bool)
        return find(_MeasuredSidecars(self._measured, left_out, self._folder), threshold, None)

    def _numbered(self, near: NearPairs, ids: pa.ChunkedArray) -> NearPairs:
        """Pairs of records by their numbers in the set, from their places among some ids."""
        own = self.column("record_id")
        places, ends = np.unique(near.pairs, return_inverse=True)
        if own is None or not len(places):
            return NO_NEAR_PAIRS
        rows = pc.index_in(ids.take(pa.array(places)), value_set=own.combine_chunks())
        numbers = np.asarray(pc.fill_null(rows.cast(pa.int64()), -1), np.int64)
        pairs = numbers[ends.reshape(-1, 2)]
        known = (pairs >= 0).all(axis=1)  # others were removed since
        return NearPairs(pairs[known], near.similarity[known])


class _MeasuredSidecars(Sidecars):
    """Measured columns as sidecars of units, from which near duplicates are computed.

    Args:
        table: The columns, a chunk for each unit.
        left_out: [records] whether a record is compared with no other one.
        folder: Where to write what does not fit in memory.
    """

    def __init__(self, table: pa.Table, left_out: BoolArray, folder: Path) -> None:
        self._tables = [pa.Table.from_batches([one]) for one in table.to_batches()]
        self.keys = [str(number) for number in range(len(self._tables))]
        self.begins = bounds_of(np.array([len(one) for one in self._tables], np.int64))
        self.records = len(table)
        self.excluded = left_out
        self._on_read = lambda rows: None
        self._folder = folder

    @override
    def table(self, unit: int) -> pa.Table:
        return self._tables[unit]

    @override
    def scratch_file(self) -> Path:
        return self._folder / uuid.uuid4().hex


def _taken(column: pa.ChunkedArray, at: pa.Array) -> pa.Array:
    taken = column.take(at)
    return taken.combine_chunks() if isinstance(taken, pa.ChunkedArray) else taken


def _is_nested(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_nested(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind)
    )
