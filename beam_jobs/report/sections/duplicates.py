"""Clusters of duplicates: was the right record kept, and do their labels agree?"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_jobs.columns import int64
from beam_jobs.report.finished_set import FinishedSet
from beam_jobs.report.previews import (
    Preview,
    as_preview,
    image_of_bytes,
    read_previews,
    text_of_document,
)
from beam_jobs.report.sections.base import Content
from shard_format.duplicates import (
    OTHER_KINDS,
    LeadingClusters,
    count_duplicates,
    read_duplicates,
)

_MOST_CLUSTERS = 24
_MOST_MEMBERS = 6
_PREVIEW_ROWS = 1024  # of the column with images: a few MiB
_MOST_PREVIEW_BYTES = 1 << 20  # 1 MiB; those that a build writes have a few KiB
_COLUMNS = ["record_id", "label", "split", "kind", "similarity", "conflict", "dropped"]


@dataclasses.dataclass
class ClusterMember:
    """A duplicate of the kept record; the fields are columns of the duplicates.

    In that file every record of a cluster with several labels has `conflict`; here, only those
    whose label differs from that of the kept record.
    """

    row: int
    record_id: str
    label: str | None
    split: str | None
    kind: str
    similarity: float
    conflict: bool
    dropped: bool
    preview: Preview | None = None


@dataclasses.dataclass
class DuplicateCluster:
    """The kept record and its first duplicates, those with another label first.

    Attributes:
        kept_id: The record that represents the cluster.
        size: Members in all, the kept record not counted.
        kept_label: The class of the kept record, or None.
        members: The duplicates to show.
        kept_split: The split of the kept record, or None if it is in none.
        left_out: Whether the cluster is dropped for its conflicting labels, so nothing is kept.
        preview: The preview of the kept record.
    """

    kept_id: str
    size: int
    kept_label: str | None = None
    members: list[ClusterMember] = dataclasses.field(default_factory=list)
    kept_split: str | None = None
    left_out: bool = False
    preview: Preview | None = None

    @property
    def contradictory(self) -> bool:
        """Whether labels differ."""
        return self.left_out or any(member.conflict for member in self.members)

    @property
    def of_other(self) -> bool:
        """Whether the kept record is one of another set."""
        return any(member.kind in OTHER_KINDS for member in self.members)


def content(reported: FinishedSet) -> Content:
    """Numbers, then the clusters, those with conflicting labels first.

    Raises:
        DamageError: The duplicates or a shard were changed after the build.
    """
    counts = count_duplicates(reported.directory, reported.manifest)
    dropped = reported.manifest.ledger.duplicates
    if counts is None and dropped:
        return f"{dropped:,} duplicates were left out; this set does not list them."
    if counts is None or not (counts.clusters or counts.others):
        return "No duplicates were found."
    return {"counts": counts, "clusters": read_clusters(reported)}


def read_clusters(
    reported: FinishedSet, chosen: list[str] | None = None, most_members: int = _MOST_MEMBERS
) -> list[DuplicateCluster]:
    """Clusters to show, by the ids of their kept records.

    Args:
        reported: The set.
        chosen: The ids; None for the first ones, of which those with conflicting labels come first.
        most_members: Members of each that are shown.
    """
    chosen = _chosen(reported) if chosen is None else chosen
    clusters = _read_members(reported, chosen, most_members)
    _add_previews_of_members(reported, clusters)
    for cluster in clusters:
        _separate_kept(cluster)
    _add_kept_records(reported, clusters)
    return clusters


def _rows(
    reported: FinishedSet, columns: Sequence[str], batch_rows: int | None = None
) -> Iterator[pa.RecordBatch]:
    """Yields columns of the duplicates of all generations, piece by piece."""
    rows = read_duplicates(reported.directory, reported.manifest, columns, batch_rows)
    return (batch for _, batch in rows)


def _chosen(reported: FinishedSet) -> list[str]:
    leading = LeadingClusters(_MOST_CLUSTERS)
    for batch in _rows(reported, ["kept_id", "conflict"]):
        leading.add(batch["kept_id"], batch["conflict"])
    return leading.chosen()


def _read_members(
    reported: FinishedSet, chosen: list[str], most_members: int
) -> list[DuplicateCluster]:
    wanted = pa.array(chosen, pa.string())
    sizes = np.zeros(len(chosen), np.int64)
    first: list[pa.Table] = []  # the rows to show; a cluster may span several batches
    start = 0
    for batch in _rows(reported, ["kept_id", "kept_label", *_COLUMNS]):
        columns = {
            **{name: batch[name] for name in batch.schema.names},
            "conflict": _disagrees(batch),
            "row": np.arange(start, start + len(batch)),
            "cluster": pc.index_in(batch["kept_id"], wanted),
            "own": pc.equal(batch["record_id"], batch["kept_id"]),
        }
        rows = pa.table(columns).filter(pc.is_valid(columns["cluster"]))
        sizes += np.bincount(int64(rows["cluster"]), minlength=len(chosen))
        first = [_first_members(pa.concat_tables([*first, rows]), most_members)]
        start += len(batch)
    clusters = [DuplicateCluster(*named) for named in zip(chosen, sizes.tolist(), strict=True)]
    for value in (value for rows in first for value in rows.to_pylist()):
        cluster = clusters[value["cluster"]]
        cluster.kept_label = value["kept_label"]
        cluster.members.append(ClusterMember(value["row"], *(value[name] for name in _COLUMNS)))
    return clusters


def _first_members(rows: pa.Table, most: int) -> pa.Table:
    """Returns the rows of each cluster to show: the kept record, then those with another label."""
    keys = [("cluster", "ascending"), ("own", "descending"), ("conflict", "descending")]
    rows = rows.sort_by([*keys, ("row", "ascending")])
    cluster = int64(rows["cluster"])
    rank = np.arange(len(cluster)) - np.searchsorted(cluster, cluster)
    return rows.filter(pa.array(rank < most))


def _disagrees(batch: pa.RecordBatch) -> pa.Array:
    """Returns which rows have another label than the record that their cluster is named for."""
    differs = pc.not_equal(pc.fill_null(batch["label"], ""), pc.fill_null(batch["kept_label"], ""))
    return pc.and_(pc.fill_null(batch["conflict"], False), differs)


def _add_previews_of_members(reported: FinishedSet, clusters: Iterable[DuplicateCluster]) -> None:
    members = {member.row: member for cluster in clusters for member in cluster.members}
    if not members:
        return
    start, last = 0, max(members)
    see = text_of_document if reported.holds_text else image_of_bytes
    for batch in _rows(reported, ["preview"], _PREVIEW_ROWS):
        for row in sorted(members.keys() & range(start, start + len(batch))):
            value = batch["preview"][row - start]
            if value.is_valid and len(value.as_buffer()) <= _MOST_PREVIEW_BYTES:
                members[row].preview = see(value.as_py())
        start += len(batch)
        if start > last:
            return


def _separate_kept(cluster: DuplicateCluster) -> None:
    """A cluster that is dropped completely has a row for the record that would be kept."""
    own = cluster.members[0]
    if own.record_id == cluster.kept_id:
        cluster.left_out, cluster.preview = True, own.preview
        cluster.size -= 1
        del cluster.members[0]


def _add_kept_records(reported: FinishedSet, clusters: Iterable[DuplicateCluster]) -> None:
    by_id = {cluster.kept_id: cluster for cluster in clusters}
    if reported.packed:  # a sequence has the id of its first document, and holds others
        for cluster in by_id.values():
            cluster.kept_split = next((member.split for member in cluster.members), None)
        return
    locations = list(reported.find(by_id))
    for location in locations:
        by_id[location.record_id].kept_split = location.split
    for location, _, seen in read_previews(reported, locations):
        by_id[location.record_id].preview = as_preview(seen)
