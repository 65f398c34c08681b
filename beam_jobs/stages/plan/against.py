"""Staged records that are in other sets, found before duplicates among themselves.

A record is compared with the records of another set directly: that it is like a record which is
like one of theirs says nothing. What is left out takes part in nothing else of planning. The
duplicates of the set list each such record with the one that it equals, as "SET:record id".
"""

from __future__ import annotations

from contextlib import closing
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from beam_jobs.columns import int64, run_starts
from beam_jobs.dedup.clusters import CLUSTER_ORDER, CLUSTER_SCHEMA, NO_NEAR_PAIRS
from beam_jobs.dedup.earlier import exact_links
from beam_jobs.job_context import JobContext
from beam_jobs.options import PreprocessOptions
from beam_jobs.record_types import RecordType
from beam_jobs.stages.plan.appending import confirm_stored
from beam_jobs.stages.plan.find_duplicates import write_clusters
from beam_jobs.staging.other_sets import OtherSet, other_sets
from beam_jobs.staging.reordering import RowSorter
from beam_jobs.staging.sidecars import Sidecars
from beam_jobs.staging.stored import StoredRecords
from beam_jobs.workspace import Workspace, read_batches, schema_in
from foundation import storage
from foundation.options import flag_of
from foundation.wording import counted
from shard_format import InputError, Manifest, load_manifest
from shard_format.duplicates import OTHER_KINDS

# A pair of a staged record and one of another set, of which one per record is listed.
_PAIRS = pa.schema(
    [
        pa.field("record", pa.int64()),
        pa.field("kept_id", pa.string()),
        pa.field("kind", pa.string()),
        pa.field("similarity", pa.float32()),
        pa.field("dropped", pa.bool_()),
    ]
)


class Matches(NamedTuple):
    """The records that are in other sets.

    Attributes:
        rows: A row of CLUSTER_SCHEMA for each.
        filtered: How many are left out, by reason.
        notes: What the user should know.
    """

    rows: pa.Table
    filtered: dict[str, int]
    notes: list[str]

    def add_to_clusters(self, workspace: Workspace) -> None:
        """Adds the rows to the file of clusters, from which the duplicates are listed."""
        schema = schema_in(workspace.clusters)
        with closing(RowSorter(workspace.scratch_file(), schema, CLUSTER_ORDER)) as rows:
            for table in read_batches(workspace.clusters):
                rows.append(table)
            absent = [field for field in schema if field.name not in self.rows.column_names]
            own = self.rows
            for field in absent:  # of a generation: the split of a record in an earlier one
                own = own.append_column(field, pa.nulls(len(own), field.type))
            rows.append(own.select(schema.names).cast(schema))
            write_clusters(workspace, schema, rows.in_order())


NO_MATCHES = Matches(CLUSTER_SCHEMA.empty_table(), {}, [])


def find_matches(sidecars: Sidecars, context: JobContext) -> Matches:
    """Finds the records that are in other sets, and marks those to leave out.

    Args:
        sidecars: All staged units; the marked records are added to its `excluded`.
        context: The job.

    Raises:
        InputError: A set has other records, or has not stored what is needed.
    """
    options, notes = context.options, list[str]()
    if options.matched:
        pairs = _known_pairs(sidecars, options.matched)
    elif not options.others:  # --against none
        return NO_MATCHES
    else:
        pairs = _best_pairs(sidecars, context, notes)
    records = int64(pairs["record"])
    dropped = np.asarray(pairs["dropped"], bool)
    if dropped.any():
        excluded = np.zeros(sidecars.records, bool)
        excluded[records[dropped]] = True
        sidecars.excluded = excluded if sidecars.excluded is None else sidecars.excluded | excluded
    own = sidecars.take(records, ["record_id", "label"])
    rows = pa.table(
        {
            **{name: own[name].cast(pa.string()) for name in ("record_id", "label")},
            "kept_label": pa.nulls(len(pairs), pa.string()),
            "conflict": np.zeros(len(pairs), bool),
            **{name: pairs[name] for name in _PAIRS.names},
        }
    )
    filtered = {kind: pc.sum(pc.equal(pairs["kind"], kind)).as_py() for kind in OTHER_KINDS}
    return Matches(
        rows.select(CLUSTER_SCHEMA.names).cast(CLUSTER_SCHEMA),
        {kind: count for kind, count in filtered.items() if count} if dropped.any() else {},
        notes,
    )


def _best_pairs(sidecars: Sidecars, context: JobContext, notes: list[str]) -> pa.Table:
    """Rows of _PAIRS, the best of each record; adds a note on every set."""
    sets = other_sets(context.workspace)
    if len(sets) != len(context.options.others):
        raise InputError(
            f"{context.workspace.work} no longer says which sets to compare with. Run the same "
            "command again."
        )
    drops = context.options.against_action == "drop"
    tables = [_PAIRS.empty_table()]
    for other in sets:
        pairs, note = _pairs_with(other, sidecars.without_progress(), context)
        fate = "are left out" if drops else "are kept (--against-action report)"
        notes.append(f"{note} {fate}" if len(pairs) else note)
        tables.append(pairs.append_column("dropped", pa.array([drops] * len(pairs), pa.bool_())))
    # Of an exact and a near copy the exact one is named: "in-other" is the lesser text.
    ascending = {name: "ascending" for name in ("record", "kind", "kept_id")}
    order = ascending | {"similarity": "descending"}
    joined = pa.concat_tables(tables).sort_by(
        [(name, order[name]) for name in ("record", "kind", "similarity", "kept_id")]
    )
    return joined.filter(pa.array(run_starts(int64(joined["record"]))))


def _pairs_with(other: OtherSet, sidecars: Sidecars, context: JobContext) -> tuple[pa.Table, str]:
    """The pairs with the records of one set, and a note on them."""
    record_type, is_near = context.record_type, context.options.dedup == "near"
    stored, note = stored_in(other, context)
    confirm = confirm_stored(sidecars, stored, record_type)
    exact = exact_links(sidecars, stored, confirm, by_content=True, by_id=False)
    near = NO_NEAR_PAIRS
    if is_near and sidecars.records and len(stored):
        left = np.ones(sidecars.records, bool)
        if sidecars.excluded is not None:
            left &= ~sidecars.excluded
        left[exact[:, 0]] = False
        near = record_type.near_earlier_ones(sidecars, np.flatnonzero(left), stored)
    linked = np.concatenate([exact, near.pairs])
    ids = stored.take(linked[:, 1], ["record_id"])["record_id"].cast(pa.string())
    kinds = np.repeat(OTHER_KINDS, [len(exact), len(near.pairs)])
    pairs = pa.table(
        {
            "record": linked[:, 0],
            "kept_id": pc.binary_join_element_wise(other.name, ids, ":"),
            "kind": pa.array(kinds, pa.string()),
            "similarity": np.append(np.ones(len(exact), np.float32), near.similarity),
        },
        schema=pa.schema([field for field in _PAIRS if field.name != "dropped"]),
    )
    counts = [len(np.unique(own[:, 0])) for own in (exact, near.pairs)]
    copies = f"{counts[0]:,} exact and {counts[1]:,} near copies" if is_near else "exact copies"
    total = len(np.unique(linked[:, 0]))
    note += f"{counted(total, 'record')} in {other.name} ({len(stored):,} records): {copies}"
    return pairs, note if total else f"no record is in {other.name} ({len(stored):,} records)"


def stored_in(other: OtherSet, context: JobContext) -> tuple[StoredRecords, str]:
    """What a set has stored, and the beginning of a note on it.

    Raises:
        InputError: It has other records, or has not stored what is needed.
    """
    options, record_type = context.options, context.record_type
    place, named = storage.place_of(other.place), f"--against {other.source or other.place}"
    manifest = load_manifest(place)
    note = _check_comparable(named, manifest, options, record_type)
    is_near = options.dedup == "near"
    needed = [field.name for field in record_type.stored_features] if is_near else []
    packed = manifest.config.get("pack") is not None  # its index has no documents
    try:
        return StoredRecords(place, needed, complete=bool(needed) or packed), note
    except InputError as error:
        raise InputError(
            f"{named}: {error} Or name the folder that it was built from, which is staged then."
        ) from error


def _check_comparable(
    named: str, manifest: Manifest, options: PreprocessOptions, record_type: RecordType
) -> str:
    """The beginning of a note if exact copies are found as near ones alone.

    Raises:
        InputError: They are not found at all.
    """
    kind = manifest.config.get("record_type")
    if kind != options.record_type:
        raise InputError(f"{named} has {kind} records, and this job {options.record_type} records.")
    own, absent = options.config(), options.absent()
    differing = [
        flag_of(name)
        for name in record_type.fingerprint_options
        if manifest.config.get(name, absent.get(name)) != own.get(name, absent.get(name))
    ]
    if not differing:
        return ""
    fact = f"{named} was built with another {', '.join(differing)}"
    if options.dedup != "near":
        raise InputError(
            f"{fact}, so equal records have other fingerprints. Use the same options; or, of "
            "images, name the folder that it was built from, or use --dedup near, which compares "
            "what was read."
        )
    return f"{fact}, so exact copies count as near ones. "


def _known_pairs(sidecars: Sidecars, files: tuple[str, ...]) -> pa.Table:
    """Rows of _PAIRS from the duplicates of a set that is built again."""
    columns = ["record_id", "kept_id", "kind", "similarity", "dropped"]
    tables = [_PAIRS.empty_table()]
    for file in files:
        with storage.open_arrow(storage.place_of(file)) as source:
            table = pq.read_table(source, columns=columns)
        table = table.filter(pc.is_in(table["kind"], value_set=pa.array(OTHER_KINDS)))
        ids = table["record_id"].combine_chunks()
        for begin, staged in sidecars.without_progress():
            at = pc.index_in(staged["record_id"].cast(pa.string()), value_set=ids)
            is_known = np.asarray(pc.is_valid(at), bool)
            own = table.drop_columns(["record_id"]).take(at.filter(pa.array(is_known)))
            own = own.append_column("record", pa.array(begin + np.flatnonzero(is_known)))
            tables.append(own.select(_PAIRS.names).cast(_PAIRS))
    return pa.concat_tables(tables)
