"""What a finished set has stored of its records, for the records of a later generation.

Exact duplicates need key and fingerprint, which are in the index. Where planning used more, the set
has `fingerprints/records.arrow`: one row per staged record, dropped ones included, since
a new record may belong to a cluster through one of them. No shard is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_jobs import bounds
from beam_jobs.columns import IntArray, bounds_of, slices
from beam_jobs.corpus.record import LABEL_SEPARATOR
from beam_jobs.workspace import read_batches, read_table, schema_in
from foundation import storage
from foundation.storage import Place
from shard_format import (
    LABELS_FIELD,
    InputError,
    Manifest,
    load_build,
    load_manifest,
    naming,
)
from shard_format.expected_files import fingerprint_files
from shard_format.fingerprint_files import parts_at, whole_file
from shard_format.index import read_schema
from shard_format.shard_list import shard_numbers

# Further columns: "group", and what near duplicates are found by.
STORED_FIELDS = (
    pa.field("key", pa.uint64(), nullable=False),
    pa.field("record_id", pa.string(), nullable=False),
    pa.field("fingerprint", pa.binary(16), nullable=False),
    pa.field("label", pa.string()),  # as staged; several are joined
    pa.field("split", pa.string()),  # null if it was dropped
    pa.field("kept_id", pa.string()),  # of a dropped duplicate: the record that is kept
)


class _Piece(NamedTuple):
    """Some stored records: a file of them, or a part of the index of a split.

    Attributes:
        place: The file.
        records: Number of records in it.
        split: Name of the split; None for a file of stored records.
        class_names: Names of the classes, by the numbers in an index.
    """

    place: Place
    records: int
    split: str | None
    class_names: tuple[str, ...]


class StoredRecords:
    """The records of all generations of a set, of which some are in memory at a time.

    The number of a record is its row when all pieces are concatenated.

    Args:
        base: The set.
        needed: Columns that only a file of stored records has.
        complete: Whether records that were dropped are needed.
        generation: The last one whose records count; None for the newest.

    Attributes:
        base: The set.
        manifest: Manifest of that generation.

    Raises:
        InputError: The set has not stored what is needed.
    """

    def __init__(
        self,
        base: Place,
        needed: Sequence[str],
        *,
        complete: bool,
        generation: int | None = None,
    ) -> None:
        self.base = base
        self.manifest = load_manifest(base, generation)
        self._pieces: list[_Piece] = []
        folders = [one.folder for one in self.manifest.generations] or [""]
        for folder in folders:
            self._add(folder, needed, complete=complete)
        self._begins = bounds_of(np.array([piece.records for piece in self._pieces], np.int64))

    def __len__(self) -> int:
        return int(self._begins[-1])

    def tables(self, names: Sequence[str]) -> Iterator[pa.Table]:
        """Yields some columns of every record, in order, some records at a time."""
        for piece in self._pieces:
            for table in _tables(piece.place, names):
                yield from slices(table.select(names), bounds.PLANNED_ROWS)

    def take(self, rows: IntArray, names: Sequence[str]) -> pa.Table:
        """Columns of some records, in the order of `rows`: any, and label and split of all."""
        parts: list[pa.Table] = []
        order: list[IntArray] = [np.zeros(0, np.int64)]
        piece_of = np.searchsorted(self._begins, rows, side="right") - 1
        for number in np.unique(piece_of).tolist():
            at = np.flatnonzero(piece_of == number)
            at = at[np.argsort(rows[at], kind="stable")]
            piece = self._pieces[number]
            own = _taken(piece, rows[at] - self._begins[number], names)
            parts.append(pa.table({name: _values(own, piece, name) for name in names}))
            order.append(at)
        if not parts:
            return pa.table({name: pa.nulls(0, pa.string()) for name in names})
        back = np.argsort(np.concatenate(order))
        return pa.concat_tables(parts, promote_options="default").take(pa.array(back))

    def group_splits(self) -> Iterator[pa.Table]:
        """Yields columns group and split of the kept records that have a group."""
        for table in self.tables(["group", "split"]):
            yield table.filter(pc.and_(pc.is_valid(table["group"]), pc.is_valid(table["split"])))

    def _add(self, folder: str, needed: Sequence[str], *, complete: bool) -> None:
        """Adds the pieces of a generation."""
        root = self.base / folder if folder else self.base
        places = parts_at(root / naming.STORED_RECORDS)
        for place in places:
            names, records = _described(place)
            missing = [name for name in needed if name not in names]
            if missing:
                raise InputError(
                    f"{place} has no column {', '.join(missing)}. Build the set again."
                )
            self._pieces.append(_Piece(place, records, None, ()))
        if places:
            return
        manifest = load_manifest(root) if folder else load_manifest(self.base, 0)
        if needed or complete:
            _check_none_staged(root, manifest)
            return
        label = next(iter(manifest.schema.labels), None)
        for split, info in manifest.splits.items():
            records_of = shard_numbers(info.shards, "records")
            for part, shards in manifest.shards_by_part(split):
                records = int(records_of[shards.start : shards.stop].sum())
                class_names = label.class_names if label else ()
                self._pieces.append(_Piece(root / part.file, records, split, class_names))


def _described(place: Place) -> tuple[list[str], int]:
    """The columns of a file of stored records, and its number of records."""
    if storage.local_path(place) is not None:
        table = read_table(place)
        return table.column_names, len(table)
    return schema_in(place).names, sum(len(table) for table in read_batches(place, ["key"]))


def _tables(place: Place, names: Sequence[str]) -> Iterator[pa.Table]:
    """The records of a file: mapped if it is local, else a batch of some columns at a time."""
    if storage.local_path(place) is not None:
        yield read_table(place)
    else:
        yield from read_batches(place, names)


def _taken(piece: _Piece, rows: IntArray, names: Sequence[str]) -> pa.Table:
    """What `_values` needs of some records of a piece, whose numbers ascend."""
    columns = list(names)
    if piece.split is not None:
        columns = [name for name in names if name not in ("label", "split", "kept_id")]
        if "label" in names:
            schema = read_schema(piece.place)
            columns.append(LABELS_FIELD.name if LABELS_FIELD.name in schema.names else "label")
        columns = columns or ["key"]
    taken, begin = [], 0
    for table in _tables(piece.place, columns):
        own = rows[slice(*np.searchsorted(rows, [begin, begin + len(table)]))]
        taken.append(table.select(columns).take(pa.array(own - begin)))
        begin += len(table)
    return pa.concat_tables(taken)


def _check_none_staged(root: Place, manifest: Manifest) -> None:
    """Checks that a build without a file of stored records had no record to store.

    Args:
        root: Directory of the generation.
        manifest: Its own manifest.

    Raises:
        InputError: It had some, as far as its ledger and its build.json say.
    """
    missing = f"{root / naming.STORED_RECORDS} is missing"
    named = (whole_file(one.file) for one in fingerprint_files(load_build(root)))
    if naming.STORED_RECORDS in named:
        raise InputError(f"{missing}. Run 'shardmill repair' on the set, which writes it again.")
    if manifest.ledger.kept or manifest.ledger.duplicates:
        raise InputError(
            f"{root} has not stored what duplicates and groups of new records are found by "
            f"({missing}): it was built before shard sets had it, or without it. Build the set "
            "again, from all sources."
        )


def _values(rows: pa.Table, piece: _Piece, name: str) -> pa.ChunkedArray | pa.Array:
    """A column as a file of stored records has it."""
    if piece.split is None or name not in ("label", "split", "kept_id"):
        return rows[name]
    if name == "split":
        return pa.array([piece.split] * len(rows), pa.string())
    if name == "kept_id":
        return pa.nulls(len(rows), pa.string())
    if LABELS_FIELD.name in rows.column_names:
        joined = (
            LABEL_SEPARATOR.join(sorted(piece.class_names[one] for one in labels or ()))
            for labels in rows[LABELS_FIELD.name].to_pylist()
        )
        return pa.array(list(joined), pa.string())
    return pa.array(piece.class_names, pa.string()).take(rows["label"].combine_chunks())
