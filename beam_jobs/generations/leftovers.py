"""What a set has of records besides its shards, of all generations: merged, and records taken out.

The quarantine, the duplicates and the stored records. Rows whose kept record is removed go too:
their previews show the same content, and their columns have its id.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_jobs.columns import first_of_run
from beam_jobs.stages.commit.duplicates import duplicates_tasks, write_duplicates_part
from beam_jobs.stages.commit.quarantine import write_parts
from beam_jobs.stages.plan.list_duplicates import listed_rows, send_rows
from beam_jobs.staging.reordering import RowSorter
from beam_jobs.workspace import Workspace, read_batches, schema_in
from foundation import storage
from foundation.storage import Place
from shard_format import Ledger, Manifest, file_info, naming
from shard_format.dropped import quarantine_batches, quarantine_files, read_columns
from shard_format.duplicates import (
    DUPLICATES_SCHEMA,
    OTHER_KINDS,
    num_parts,
    read_duplicates,
)
from shard_format.fingerprint_files import parts_at
from shard_format.index import read_schema
from shard_format.index_parts import index_tables
from shard_format.naming import below

_CLUSTER = ["record_id", "kept_id", "kind", "dropped"]  # columns of the duplicates
_DUPLICATES_ROWS = 1 << 13  # with previews, some MiB
# Whether a row has the label of the kept record.
_AGREES = pa.field("agrees", pa.bool_(), nullable=False)


class Found(NamedTuple):
    """Records of a set with given ids.

    Attributes:
        ids: Those that the set has.
        kept: Number of kept records.
        copies: Number of their copies.
        duplicates: Number of dropped duplicates.
        reasons: Number of rejected and filtered records by reason.
        filtered: How many of these were filtered.
        through: Number of other duplicates that were dropped in favor of these records.
        equal: Ids of those that have the same content.
        files: Names of the files that have any of the records.
    """

    ids: frozenset[str]
    kept: int
    copies: int
    duplicates: int
    reasons: Counter[str]
    filtered: int
    through: int
    equal: frozenset[str]
    files: tuple[str, ...]

    @property
    def removed(self) -> int:
        """Number of records."""
        return self.kept + self.duplicates + sum(self.reasons.values())

    def ledger(self, before: Ledger) -> Ledger:
        """Returns the ledger without these records."""
        reasons = {
            name: count - self.reasons[name]
            for name, count in before.reasons.items()
            if count > self.reasons[name]
        }
        kept = before.kept - self.kept
        return dataclasses.replace(
            before,
            kept=kept,
            duplicates=before.duplicates - self.duplicates - self.through,
            filtered=before.filtered - self.filtered,
            quarantined=before.quarantined - sum(self.reasons.values()) + self.filtered,
            reasons=reasons,
            repeated=before.repeated - self.copies,
            not_enlarged=min(before.not_enlarged, kept),
            excluded=before.excluded + self.removed + self.through,
        )


def find(base: Place, manifest: Manifest, ids: frozenset[str]) -> Found:
    """Looks for records in shards, quarantine, duplicates and stored records.

    Args:
        base: The set.
        manifest: Manifest of the set.
        ids: Ids of the records.
    """
    wanted = pa.array(sorted(ids), pa.string())
    present: set[str] = set()
    equal: set[str] = set()
    files: list[str] = []
    kept = copies = duplicates = filtered = through = 0
    reasons: Counter[str] = Counter()
    if not ids:
        return Found(frozenset(), 0, 0, 0, reasons, 0, 0, frozenset(), ())
    for split in manifest.splits:
        rows, own_files = _in_split(base, manifest, split, wanted)
        own = set(rows)
        kept, copies = kept + len(own), copies + len(rows) - len(own)
        present |= own
        files += own_files
    for file, batch in read_duplicates(base, manifest, _CLUSTER):
        rows = batch.filter(_concerned(batch, wanted)).to_pylist()
        files += [file] * bool(rows)
        for row in rows:
            if row["record_id"] not in ids:
                through += row["dropped"]
                if row["dropped"] and row["kind"] == "exact":
                    equal.add(row["record_id"])
                continue
            present.add(row["record_id"])
            # The first record of a cluster that was left out for its labels counts as filtered.
            lost = row["dropped"] and row["record_id"] == row["kept_id"]
            in_other = row["dropped"] and row["kind"] in OTHER_KINDS
            filtered += lost or in_other
            reasons["label-conflict"] += lost
            reasons[row["kind"]] += in_other
            duplicates += row["dropped"] and not (lost or in_other)
    for file, row in _in_quarantine(base, manifest, wanted):
        files.append(file)
        reasons[row["reason"]] += 1
        filtered += row["stage"] == "filter"
        present.add(row["record_id"])
    for file in stored_files(base, manifest):
        tables = read_batches(base / file, ["record_id", "kept_id"])
        if any(pc.any(_concerned(table, wanted)).as_py() for table in tables):
            files.append(file)
    counts = (kept, copies, duplicates, +reasons, filtered, through)
    return Found(frozenset(present), *counts, frozenset(equal), tuple(dict.fromkeys(files)))


def _concerned(
    table: pa.Table | pa.RecordBatch, ids: pa.Array
) -> pa.ChunkedArray | pa.BooleanArray:
    """Which rows are of some records, or of duplicates that were dropped in favor of them."""
    own = pc.is_in(table["record_id"], value_set=ids)
    return pc.or_(own, pc.fill_null(pc.is_in(table["kept_id"], value_set=ids), False))


def _in_split(
    base: Place, manifest: Manifest, split: str, wanted: pa.Array
) -> tuple[list[str], list[str]]:
    """The ids of some records in a split, those of copies too; and which files have them."""
    present: list[str] = []
    shards, parts = manifest.splits[split].shards, manifest.index_parts(split)
    with_rows: list[str] = []
    index_files: list[str] = []
    packed = "documents" in read_schema(base / manifest.index_file(split)).names
    names = ["documents" if packed else "record_id", "shard"]
    tables = index_tables(base, manifest, split, names)
    for part, table in zip(parts, tables, strict=True):
        ids, numbers = table[names[0]], table["shard"]
        if packed:
            numbers = numbers.take(pc.list_parent_indices(ids))
            ids = pc.list_flatten(ids)
        hits = pc.is_in(ids, value_set=wanted)
        present += ids.filter(hits).to_pylist()
        own = sorted(numbers.filter(hits).unique().to_pylist())
        with_rows += [shards[number].file for number in own]
        index_files += [part.file] * bool(own)
    # A document may be in several sequences.
    return list(dict.fromkeys(present)) if packed else present, [*with_rows, *index_files]


def _in_quarantine(
    base: Place, manifest: Manifest, wanted: pa.Array
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields the file and the row, without the original, of some rejected records."""
    for file in quarantine_files(manifest):
        for batch in read_columns(base, file, ["record_id", "stage", "reason"]):
            hits = pc.is_in(batch["record_id"], value_set=wanted)
            yield from ((file, row) for row in batch.filter(hits).to_pylist())


def stored_files(base: Place, manifest: Manifest) -> list[str]:
    """Files of stored records; a generation without a staged record has none."""
    folders = [one.folder for one in manifest.generations] or [""]
    return [
        below(folder, f"{naming.FINGERPRINTS_DIR}/{place.name}")
        for folder in folders
        for place in parts_at(base / below(folder, naming.STORED_RECORDS))
    ]


def write(base: Place, manifest: Manifest, ids: frozenset[str], workspace: Workspace) -> list[str]:
    """Writes quarantine and duplicates of all generations, without some.

    Returns:
        Names of the files, relative to the set.
    """
    wanted = pa.array(sorted(ids), pa.string())
    names = _write_duplicates(base, manifest, wanted, workspace)
    if quarantine_files(manifest):
        names += write_parts(workspace, _kept_rejects(base, manifest, wanted))
    return names


def _write_duplicates(
    base: Place, manifest: Manifest, ids: pa.Array, workspace: Workspace
) -> list[str]:
    """Writes the duplicates, whose parts may be others; a row is in memory for a moment."""
    schema = DUPLICATES_SCHEMA.append(_AGREES)
    # A row that differs first, so that the first one of a cluster says it for all.
    order = ("kept_id", _AGREES.name, "record_id")
    with closing(RowSorter(workspace.scratch_file(), schema, order)) as rows:
        for _, batch in read_duplicates(base, manifest, batch_rows=_DUPLICATES_ROWS):
            left = pa.Table.from_batches([batch.filter(pc.invert(_concerned(batch, ids)))])
            rows.append(left.append_column(_AGREES, _agrees(left)).cast(schema))
        if not rows.count:
            return []
        parts = num_parts(rows.count)
        sizes = send_rows(workspace, 0, _with_conflicts(rows.in_order()), parts)
    listed_rows(workspace).finish([sizes])
    return [write_duplicates_part(task, workspace).file for task in duplicates_tasks(parts)]


def _agrees(rows: pa.Table) -> pa.ChunkedArray:
    """[n] bool, the rows that have the label of the kept record."""
    return pc.equal(pc.fill_null(rows["label"], ""), pc.fill_null(rows["kept_label"], ""))


def _with_conflicts(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Yields duplicates by cluster; a later generation may contradict the label of a cluster.

    Args:
        tables: Rows with `_AGREES`, by cluster, in each those that do not agree first.
    """
    last, agrees = None, True
    for table in tables:
        ids = table["kept_id"].combine_chunks()
        starts = np.ones(len(table), bool)
        starts[1:] = pc.not_equal(ids[1:], ids[:-1]).to_numpy(zero_copy_only=False)
        first = np.array(table[_AGREES.name].to_numpy())
        if ids[0].as_py() == last:  # the cluster began in an earlier table
            first[0] = agrees
        own = first[first_of_run(starts)]
        last, agrees = ids[-1].as_py(), bool(own[-1])
        table = table.drop_columns([_AGREES.name])
        conflict = pc.or_(table["conflict"], pa.array(~own))
        at = table.column_names.index("conflict")
        yield table.set_column(at, table.schema.field("conflict"), conflict)


def _kept_rejects(base: Place, manifest: Manifest, ids: pa.Array) -> Iterator[pa.RecordBatch]:
    """Yields rows of the quarantine, each as a batch: originals are large."""
    for batch in quarantine_batches(base, manifest):
        left = batch.filter(pc.invert(pc.is_in(batch["record_id"], value_set=ids)))
        for row in range(len(left)):
            yield left.slice(row, 1)


def write_stored(
    base: Place, manifest: Manifest, removed: frozenset[str], workspace: Workspace
) -> dict[str, Any]:
    """Writes the stored records of all generations, without some.

    Returns:
        Bytes and SHA-256 of the file by its name; empty if no generation has one.
    """
    ids = pa.array(sorted(removed), pa.string())
    final = workspace.out / naming.STORED_RECORDS
    files = stored_files(base, manifest)
    if not files:
        return {}
    storage.make_folder(final.parent)
    with (
        workspace.write_arrow(final, durable=True) as sink,
        pa.ipc.new_file(sink, schema_in(base / files[0])) as writer,
    ):
        for name in files:
            for rows in read_batches(base / name):
                for left in rows.filter(pc.invert(_concerned(rows, ids))).to_batches():
                    writer.write_batch(left)
    return {naming.STORED_RECORDS: file_info(final)}
