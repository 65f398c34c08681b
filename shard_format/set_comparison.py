"""What differs between two sets, or two generations of one: records, ledgers, options, counts.

Records are joined by their ids and compared by the columns of the index, so no shard is read. A
column of an index is in memory at a time, besides the ids of both sets.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from foundation import storage
from foundation.errors import file_error
from foundation.storage import Place
from shard_format.index import LABELS_FIELD, label_column, read_schema
from shard_format.index_parts import index_tables
from shard_format.manifest import Manifest
from shard_format.manifest_file import load_manifest

DIFFERENCES_SCHEMA = pa.schema(
    [
        pa.field("record_id", pa.string(), nullable=False),
        pa.field("what", pa.string(), nullable=False),  # "added", "removed" or "changed"
        pa.field("changed", pa.list_(pa.string()), nullable=False),  # of a changed record: CHANGES
        pa.field("split_before", pa.string()),
        pa.field("label_before", pa.string()),  # several are joined
        pa.field("split_after", pa.string()),
        pa.field("label_after", pa.string()),
    ]
)
CHANGES = ("payload", "label", "split")
WHATS = ("added", "removed", "changed")
_DOCUMENTS = "documents"  # column of packed sequences
# Columns that say where a record is, or that are compared under another name.
_PLACES = {"shard", "offset", "length", "key", "record_id", "label", LABELS_FIELD.name}


class ComparedSet(NamedTuple):
    """A set as it was when a generation was its newest one."""

    place: Place
    manifest: Manifest


class SetComparison(NamedTuple):
    """What differs between two sets.

    Attributes:
        before: The first set.
        after: The second one.
        records: Rows of DIFFERENCES_SCHEMA, sorted by `what`, then by `record_id`.
        same: Number of records that both have and in which nothing differs.
        options: [before, after] by the name of each option of the manifest that differs.
    """

    before: ComparedSet
    after: ComparedSet
    records: pa.Table
    same: int
    options: dict[str, list[Any]]

    @property
    def equal(self) -> bool:
        """Whether records and options are equal, as far as the indexes say."""
        return not len(self.records) and not self.options

    def counts(self) -> dict[str, int]:
        """Records by what differs; of the changed ones also by CHANGES, each of them in several."""
        whats = _counts(self.records["what"])
        changes = _counts(pc.list_flatten(self.records["changed"]))
        return (
            {"same": self.same}
            | {name: whats.get(name, 0) for name in WHATS}
            | {f"changed_{name}": changes.get(name, 0) for name in CHANGES}
        )

    def ids(self, what: str) -> pa.ChunkedArray:
        """The ids of the records that were "added", "removed" or "changed", ascending."""
        return self.records.filter(pc.equal(self.records["what"], what))["record_id"]

    def write(self, place: Place) -> None:
        """Writes `records` to a Parquet file.

        Raises:
            InputError: The file cannot be written.
        """
        try:
            with storage.create_arrow(place) as sink:
                pq.write_table(self.records, sink)
        except OSError as error:
            raise file_error(error, str(place)) from error

    def as_json(self) -> dict[str, Any]:
        """For `--json`."""
        return {
            "equal": self.equal,
            "records": self.counts(),
            "options": self.options,
            "before": _described(self.before),
            "after": _described(self.after),
        }


def compare_sets(
    before: Place,
    after: Place,
    generation_before: int | None = None,
    generation_after: int | None = None,
) -> SetComparison:
    """Compares the indexes and manifests of two sets.

    A payload counts as changed if its fingerprint, its length, or a column of the index that both
    sets have differs. Of packed sequences, the splits of documents are compared alone.

    Args:
        before: The first set.
        after: The second one; may be the same directory.
        generation_before: Generation of the first set; None for the newest.
        generation_after: Generation of the second set; None for the newest.

    Raises:
        UsageError: There is no such generation.
        ShardSetError: A directory is not a shard set.
        DamageError: A manifest or an index is not as it was written.
    """
    old = ComparedSet(before, load_manifest(before, generation_before))
    new = ComparedSet(after, load_manifest(after, generation_after))
    records, same = _compare(_Records(old), _Records(new))
    then, now = (_options_of(one.manifest) for one in (old, new))
    options = {
        name: [then.get(name), now.get(name)]
        for name in sorted(then.keys() | now.keys())
        if then.get(name) != now.get(name)
    }
    return SetComparison(old, new, records, same, options)


def _options_of(manifest: Manifest) -> dict[str, Any]:
    return {"name": manifest.name, **manifest.config}


def _described(one: ComparedSet) -> dict[str, Any]:
    manifest = one.manifest
    statistics = {name: dict(split.statistics) for name, split in manifest.splits.items()}
    return {
        "directory": str(one.place),
        "generation": manifest.newest,
        **manifest.summary(),
        "statistics": statistics,
    }


class _Records:
    """The distinct records of a set, whose columns are read when they are asked for.

    Attributes:
        ids: [n] large_string, their ids.
        columns: Types of the columns of all its indexes.
        packed: Whether a row has several documents, whose ids these are.
        class_names: Names of the classes of every label.
        further_labels: Columns of the labels behind the main one.
    """

    def __init__(self, compared: ComparedSet) -> None:
        self._place, self._manifest = compared
        schemas = [
            read_schema(self._place / self._manifest.index_file(split))
            for split in self._manifest.splits
        ]
        shared = [dict(zip(one.names, one.types, strict=True)) for one in schemas]
        self.columns = {
            name: kind
            for name, kind in (shared[0] if shared else {}).items()
            if all(one.get(name) == kind for one in shared)
        }
        self.packed = _DOCUMENTS in self.columns
        labels = self._manifest.schema.labels
        self.class_names = {one.name: one.class_names for one in labels}
        self.further_labels = [label_column(one.name) for one in labels if one.name != "label"]
        self._rows: pa.Array | None = None  # of the distinct ones, where some are repeated
        ids = self._read(_DOCUMENTS if self.packed else "record_id")
        self.ids = (pc.list_flatten(ids) if self.packed else ids).cast(pa.large_string())
        if self.packed or self._manifest.ledger.repeated:
            first = pc.index_in(self.ids, value_set=self.ids)
            at = np.arange(len(self.ids))
            self._rows = pa.array(np.flatnonzero(np.asarray(first) == at))
            self.ids = self.ids.take(self._rows)

    def take(self, name: str, rows: pa.Array) -> pa.Array:
        """A column of some distinct records, or "split"; labels have the names of their classes."""
        if name == "split":
            return self._splits().take(rows)
        values = self._read(name)
        values = values if self._rows is None else values.take(self._rows)
        return self._named(name, values.take(rows))

    def labels(self, rows: pa.Array) -> pa.Array:
        """The main label of some records; several are joined."""
        if self.packed or not self._manifest.schema.labels:
            return pa.nulls(len(rows), pa.string())
        several = LABELS_FIELD.name in self.columns
        return self.take(LABELS_FIELD.name if several else "label", rows)

    def _read(self, name: str) -> pa.Array:
        parts = [
            table[name].combine_chunks()
            for split in self._manifest.splits
            for table in index_tables(self._place, self._manifest, split, [name])
        ]
        if name == "record_id":
            parts = [part.cast(pa.large_string()) for part in parts]  # of more than 2 GiB together
        kind = parts[0].type if parts else self.columns.get(name, pa.large_string())
        return pa.concat_arrays(parts) if parts else pa.nulls(0, kind)

    def _splits(self) -> pa.Array:
        names = list(self._manifest.splits)
        counts = [split.records for split in self._manifest.splits.values()]
        numbers: npt.NDArray[np.int32] = np.repeat(np.arange(len(names), dtype=np.int32), counts)
        if self.packed:
            numbers = numbers[np.asarray(pc.list_parent_indices(self._read(_DOCUMENTS)))]
        splits = pa.DictionaryArray.from_arrays(pa.array(numbers), pa.array(names, pa.string()))
        splits = splits.cast(pa.string())
        return splits if self._rows is None else splits.take(self._rows)

    def _named(self, name: str, values: pa.Array) -> pa.Array:
        by_column = {label_column(label): names for label, names in self.class_names.items()}
        class_names = by_column.get("label" if name == LABELS_FIELD.name else name)
        if class_names is None:
            return values
        names = pa.array(class_names, pa.string())
        return _joined(values, names) if name == LABELS_FIELD.name else names.take(values)


def _joined(labels: pa.Array, names: pa.Array) -> pa.Array:
    """The names of the labels of each row in one text, sorted; null without labels."""
    table = pa.table(
        {
            "row": pc.list_parent_indices(labels).cast(pa.int64()),
            "name": names.take(pc.list_flatten(labels)),
        }
    ).sort_by([("row", "ascending"), ("name", "ascending")])
    starts = np.searchsorted(table["row"].to_numpy(), np.arange(len(labels) + 1))
    ordered = pa.ListArray.from_arrays(pa.array(starts, pa.int32()), table["name"].combine_chunks())
    labelled = pc.greater(pc.list_value_length(ordered), 0)
    return pc.if_else(labelled, pc.binary_join(ordered, ", "), None)


def _compare(old: _Records, new: _Records) -> tuple[pa.Table, int]:
    """Rows of DIFFERENCES_SCHEMA, and the number of equal records."""
    at = pc.index_in(new.ids, value_set=old.ids)
    is_known = np.asarray(pc.is_valid(at))
    in_new = pa.array(np.flatnonzero(is_known))
    in_old = at.take(in_new).cast(pa.int64())
    was_kept = np.zeros(len(old.ids), bool)
    was_kept[np.asarray(in_old)] = True
    flags = _changes(old, new, in_old, in_new)  # [both, CHANGES]
    differs = flags.any(axis=1)
    added, removed = (pa.array(np.flatnonzero(~one)) for one in (is_known, was_kept))
    changed = pa.array(differs)
    old_rows = pa.concat_arrays([pa.nulls(len(added), pa.int64()), removed, in_old.filter(changed)])
    new_rows = pa.concat_arrays([added, pa.nulls(len(removed), pa.int64()), in_new.filter(changed)])
    counts = [len(added), len(removed), int(differs.sum())]
    flags = np.concatenate([np.zeros((sum(counts[:2]), len(CHANGES)), bool), flags[differs]])
    ends = np.cumsum([0, *flags.sum(axis=1)])
    names = np.tile(CHANGES, (len(flags), 1))[flags]
    table = pa.table(
        {
            "record_id": pc.coalesce(new.ids.take(new_rows), old.ids.take(old_rows)),
            "what": np.repeat(WHATS, counts),
            "changed": pa.ListArray.from_arrays(pa.array(ends, pa.int32()), pa.array(names)),
            "split_before": old.take("split", old_rows),
            "label_before": old.labels(old_rows),
            "split_after": new.take("split", new_rows),
            "label_after": new.labels(new_rows),
        }
    ).cast(DIFFERENCES_SCHEMA)
    order = [(name, "ascending") for name in ("what", "record_id")]
    return table.sort_by(order), len(in_new) - counts[2]


def _changes(
    old: _Records, new: _Records, in_old: pa.Array, in_new: pa.Array
) -> npt.NDArray[np.bool_]:
    """[n, CHANGES] what differs of records that both sets have."""

    def differs(name: str) -> npt.NDArray[np.bool_]:
        return _differs(old.take(name, in_old), new.take(name, in_new))

    payload, label = (np.zeros(len(in_old), bool) for _ in range(2))
    if not (old.packed or new.packed):
        label |= _differs(old.labels(in_old), new.labels(in_new))
        further = set(old.further_labels) | set(new.further_labels)
        for name in further & old.columns.keys() & new.columns.keys():
            label |= differs(name)
        for name in sorted(old.columns.keys() & new.columns.keys() - further - _PLACES):
            if old.columns[name] == new.columns[name] and not pa.types.is_nested(old.columns[name]):
                payload |= differs(name)
        if old.class_names == new.class_names:  # else equal labels may take more bytes
            payload |= differs("length") & ~label
    return np.stack([payload, label, differs("split")], axis=1)


def _differs(old: pa.Array, new: pa.Array) -> npt.NDArray[np.bool_]:
    """[n] whether values differ; nulls are equal, and so are NaN."""
    if pa.types.is_floating(old.type):
        old, new = (pc.if_else(pc.is_nan(one), None, one) for one in (old, new))
    one_null = pc.not_equal(pc.is_null(old), pc.is_null(new))
    return np.asarray(pc.or_(pc.fill_null(pc.not_equal(old, new), False), one_null))


def _counts(values: pa.Array | pa.ChunkedArray) -> dict[str, int]:
    return {one["values"]: one["counts"] for one in pc.value_counts(values).to_pylist()}
