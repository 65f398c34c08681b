"""What a set has of records besides its shards, of all generations: merged, and records taken out.

The quarantine, the duplicates and the stored records. Rows whose kept record is removed go too:
their previews show the same content, and their columns have its id.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from beam_jobs.stages.commit.duplicates import write_rows
from beam_jobs.stages.commit.quarantine import write_parts
from beam_jobs.staging.stored import fingerprints_file
from beam_jobs.workspace import Workspace, read_table
from shard_format import Ledger, Manifest, file_info, naming, open_index, storage
from shard_format.dropped import duplicates_files, quarantine_batches, quarantine_files
from shard_format.storage import Place

_BATCH_ROWS = 1 << 16


class Found(NamedTuple):
    """Records of a set with given ids.

    Attributes:
        ids: Those that the set has.
        kept: Number of kept records.
        copies: Number of their copies.
        duplicates: Number of dropped duplicates.
        reasons: Number of rejected and filtered records by reason.
        filtered: How many of these were filtered.
    """

    ids: frozenset[str]
    kept: int
    copies: int
    duplicates: int
    reasons: Counter[str]
    filtered: int

    @property
    def removed(self) -> int:
        """Number of records."""
        return self.kept + self.duplicates + sum(self.reasons.values())

    def ledger(self, before: Ledger) -> Ledger:
        """The ledger without these records."""
        reasons = {
            name: count - self.reasons[name]
            for name, count in before.reasons.items()
            if count > self.reasons[name]
        }
        kept = before.kept - self.kept
        return dataclasses.replace(
            before,
            read=before.read - self.removed,
            kept=kept,
            duplicates=before.duplicates - self.duplicates,
            filtered=before.filtered - self.filtered,
            quarantined=before.quarantined - sum(self.reasons.values()) + self.filtered,
            reasons=reasons,
            repeated=before.repeated - self.copies,
            not_enlarged=min(before.not_enlarged, kept),
        )


def find(base: Place, manifest: Manifest, ids: frozenset[str]) -> Found:
    """Looks for records in shards, quarantine and duplicates.

    Args:
        base: The set.
        manifest: Of it.
        ids: Of the records.
    """
    wanted = pa.array(sorted(ids), pa.string())
    found: set[str] = set()
    kept = copies = duplicates = filtered = 0
    reasons: Counter[str] = Counter()
    if not ids:
        return Found(frozenset(), 0, 0, 0, reasons, 0)
    for split in manifest.splits:
        index = open_index(base / manifest.index_file(split))
        names = index["record_id"]
        if "documents" in index.column_names:  # a document may be in several sequences
            names = pc.list_flatten(index["documents"]).unique()
        rows = names.filter(pc.is_in(names, value_set=wanted))
        own = set(rows.to_pylist())
        kept, copies = kept + len(own), copies + len(rows) - len(own)
        found |= own
    for file in duplicates_files(manifest):
        table = pq.read_table(storage.open_arrow(base / file), columns=["record_id", "dropped"])
        rows = table.filter(pc.is_in(table["record_id"], value_set=wanted))
        duplicates += pc.sum(rows["dropped"]).as_py() or 0
        found |= set(rows["record_id"].to_pylist())
    for batch in quarantine_batches(base, manifest, ["record_id", "stage", "reason"]):
        rows = batch.filter(pc.is_in(batch["record_id"], value_set=wanted))
        reasons.update(rows["reason"].to_pylist())
        filtered += pc.sum(pc.equal(rows["stage"], "filter")).as_py() or 0
        found |= set(rows["record_id"].to_pylist())
    return Found(frozenset(found), kept, copies, duplicates, reasons, filtered)


def write(base: Place, manifest: Manifest, ids: frozenset[str], workspace: Workspace) -> list[str]:
    """Writes quarantine and duplicates of all generations, without some.

    Returns:
        Names of the files, relative to the set.
    """
    wanted = pa.array(sorted(ids), pa.string())
    names = []
    tables = [pq.read_table(storage.open_arrow(base / name)) for name in duplicates_files(manifest)]
    if tables:
        table = _without(pa.concat_tables(tables), wanted)
        if len(table):
            names += write_rows(workspace, _with_conflicts(table))
    if quarantine_files(manifest):
        names += write_parts(workspace, _kept_rejects(base, manifest, wanted))
    return names


def _without(table: pa.Table, ids: pa.Array) -> pa.Table:
    own = pc.is_in(table["record_id"], value_set=ids)
    through = pc.is_in(table["kept_id"], value_set=ids)
    return table.filter(pc.invert(pc.or_(own, through)))


def _with_conflicts(table: pa.Table) -> pa.Table:
    """Duplicates by cluster; a later generation may contradict the label of a cluster."""
    table = table.sort_by([("kept_id", "ascending"), ("record_id", "ascending")])
    same = pc.equal(pc.fill_null(table["label"], ""), pc.fill_null(table["kept_label"], ""))
    differs = pa.array(table["kept_id"].filter(pc.invert(same)).unique().to_pylist(), pa.string())
    conflict = pc.or_(table["conflict"], pc.is_in(table["kept_id"], value_set=differs))
    at = table.column_names.index("conflict")
    return table.set_column(at, table.schema.field("conflict"), conflict)


def _kept_rejects(base: Place, manifest: Manifest, ids: pa.Array) -> Iterator[pa.RecordBatch]:
    """Rows of the quarantine, each as a batch: originals are large."""
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
    folders = [one.folder for one in manifest.generations] or [""]
    places = [base / fingerprints_file(folder) for folder in folders]
    final = workspace.out / fingerprints_file("")
    storage.delete(final)
    # A generation without a staged record has none.
    present = [place for place in places if storage.stat(place) is not None]
    if not present:
        return {}
    tables = [read_table(place) for place in present]
    storage.make_folder(final.parent)
    with (
        workspace.write_arrow(final, durable=True) as sink,
        pa.ipc.new_file(sink, tables[0].schema) as writer,
    ):
        for table in tables:
            for batch in table.to_batches(_BATCH_ROWS):
                rows = pa.Table.from_batches([batch])
                through = pc.fill_null(pc.is_in(rows["kept_id"], value_set=ids), False)
                own = pc.is_in(rows["record_id"], value_set=ids)
                for left in rows.filter(pc.invert(pc.or_(own, through))).to_batches():
                    writer.write_batch(left)
    return {naming.STORED_RECORDS: file_info(final)}
