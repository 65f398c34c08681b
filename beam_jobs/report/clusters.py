"""A few clusters of duplicates: which ones to show, their members, and what is seen of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_jobs.report.finished import FinishedSet, Place, places_of
from beam_jobs.report.gallery import thumbnail_of
from beam_jobs.report.markup import DataUri
from beam_jobs.report.pictures import encode, preview
from beam_jobs.report.texts import Excerpt, excerpt_of_preview, excerpts
from shard_format import naming
from shard_format.dropped import read_columns

MOST_CLUSTERS = 24
MOST_MEMBERS = 6
_PREVIEW_ROWS = 1024  # of the column with pictures: a few MiB
_MOST_PREVIEW_BYTES = 1 << 20  # 1 MiB; ours have a few KiB
_COLUMNS = ["kept_id", "kept_label", "record_id", "label", "split", "kind", "similarity"]
_FLAGS = ["conflict", "dropped"]


@dataclasses.dataclass
class Member:
    """A record that is like the kept one; the fields are columns of duplicates.parquet.

    There every record of a cluster with several labels is in conflict; here, those with another
    label than the kept one.
    """

    row: int
    record_id: str
    label: str | None
    split: str | None
    kind: str
    similarity: float
    conflict: bool
    dropped: bool
    picture: DataUri | None = None
    excerpt: Excerpt | None = None


@dataclasses.dataclass
class Cluster:
    """The kept record and the first members that are like it, contradictory ones before others.

    Attributes:
        kept_id: The record that stands for all.
        kept_label: Its class, or None.
        size: Members in all, the kept record not counted.
        members: Those to show.
        kept_split: Where the kept record is, or None if it is in no split.
        left_out: Whether the whole cluster is left out for its labels; nothing is kept then.
        picture: Of the kept record, if it is one.
        excerpt: Of the kept record, if it is a document.
    """

    kept_id: str
    kept_label: str | None
    size: int = 0
    members: list[Member] = dataclasses.field(default_factory=list)
    kept_split: str | None = None
    left_out: bool = False
    picture: DataUri | None = None
    excerpt: Excerpt | None = None


def read_clusters(finished: FinishedSet) -> list[Cluster]:
    """Clusters to show: those with contradictory labels first, then the first ones of the file.

    Raises:
        DamageError: duplicates.parquet or a shard is not as it was written.
    """
    if naming.DUPLICATES not in finished.manifest.files:
        return []
    clusters = _members(finished.directory, _chosen(finished.directory))
    _add_previews(finished, clusters)
    for cluster in clusters:
        _take_out_own(cluster)
    _add_kept(finished, clusters)
    return clusters


def _take_out_own(cluster: Cluster) -> None:
    """A cluster that is left out as a whole has a row for the record that would be kept."""
    own = cluster.members[0]
    if own.record_id == cluster.kept_id:
        cluster.left_out, cluster.picture, cluster.excerpt = True, own.picture, own.excerpt
        cluster.size -= 1
        del cluster.members[0]


def _chosen(directory: Path) -> list[str]:
    contradictory: dict[str, None] = {}  # dictionaries keep the order of the file
    first: dict[str, None] = {}
    for batch in read_columns(directory, naming.DUPLICATES, ["kept_id", "conflict"]):
        kept = batch["kept_id"]
        found = kept.filter(batch["conflict"])
        for chosen, ids in ((contradictory, found), (first, kept)):
            if len(chosen) < MOST_CLUSTERS:
                chosen.update(dict.fromkeys(pc.unique(ids)[:MOST_CLUSTERS].to_pylist()))
    ordered = [*contradictory, *(kept_id for kept_id in first if kept_id not in contradictory)]
    return ordered[:MOST_CLUSTERS]


def _members(directory: Path, chosen: list[str]) -> list[Cluster]:
    clusters: dict[str, Cluster] = {}
    wanted = pa.array(chosen, pa.string())
    start = 0
    for batch in read_columns(directory, naming.DUPLICATES, [*_COLUMNS, *_FLAGS]):
        codes = np.asarray(pc.fill_null(pc.index_in(batch["kept_id"], wanted), -1))
        conflict = np.asarray(_disagrees(batch).cast("int8"))
        own = np.asarray(pc.equal(batch["record_id"], batch["kept_id"]).cast("int8"))
        order = -conflict - 2 * own
        for code in np.unique(codes[codes >= 0]):
            rows = np.flatnonzero(codes == code)
            shown = rows[np.argsort(order[rows], kind="stable")][:MOST_MEMBERS]
            values = batch.take(pa.array(shown)).to_pylist()
            kept_id = chosen[code]
            cluster = clusters.setdefault(kept_id, Cluster(kept_id, values[0]["kept_label"]))
            cluster.size += len(rows)
            cluster.members += [
                _member(start + row, value | {"conflict": bool(conflict[row])})
                for row, value in zip(shown, values, strict=True)
            ]
        start += len(batch)
    for cluster in clusters.values():  # one that lies in several batches
        cluster.members = sorted(cluster.members, key=lambda member: _rank(cluster, member))
        del cluster.members[MOST_MEMBERS:]
    return [clusters[kept_id] for kept_id in chosen]


def _disagrees(batch: pa.RecordBatch) -> pa.Array:
    """Which rows have another label than the record that their cluster is named for."""
    differs = pc.not_equal(pc.fill_null(batch["label"], ""), pc.fill_null(batch["kept_label"], ""))
    return pc.and_(pc.fill_null(batch["conflict"], False), differs)


def _rank(cluster: Cluster, member: Member) -> tuple[bool, bool]:
    return member.record_id != cluster.kept_id, not member.conflict


def _member(row: int, value: dict[str, Any]) -> Member:
    own = {name: item for name, item in value.items() if not name.startswith("kept_")}
    return Member(row=int(row), **own)


def _add_previews(finished: FinishedSet, clusters: Iterable[Cluster]) -> None:
    members = {member.row: member for cluster in clusters for member in cluster.members}
    if not members:
        return
    start, last = 0, max(members)
    for batch in read_columns(finished.directory, naming.DUPLICATES, ["preview"], _PREVIEW_ROWS):
        for row in sorted(members.keys() & range(start, start + len(batch))):
            value = batch["preview"][row - start]
            if not value.is_valid or len(value.as_buffer()) > _MOST_PREVIEW_BYTES:
                continue
            if finished.holds_text:
                members[row].excerpt = excerpt_of_preview(value.as_py())
            else:
                members[row].picture = preview(value.as_py())
        start += len(batch)
        if start > last:
            return


def _add_kept(finished: FinishedSet, clusters: Iterable[Cluster]) -> None:
    by_id = {cluster.kept_id: cluster for cluster in clusters}
    if finished.packed:  # a sequence has the name of the document it begins with, and others in it
        for cluster in by_id.values():
            cluster.kept_split = next((member.split for member in cluster.members), None)
        return
    found = {place.record_id: place for place in _find(finished, list(by_id))}
    for record_id, place in found.items():
        by_id[record_id].kept_split = place.split
    if finished.holds_text:
        for place, shown in excerpts(finished, found.values()):
            by_id[place.record_id].excerpt = shown
    if finished.image is None:
        return
    for place, values in finished.read(found.values()):
        try:
            by_id[place.record_id].picture = encode(thumbnail_of(place, values, finished.image))
        except Exception:  # As in gallery: the page shows that there is none.
            continue


def _find(finished: FinishedSet, record_ids: list[str]) -> Iterable[Place]:
    """The places of some records: one pass over the index for all of them."""
    missing = set(record_ids)
    for split in finished.manifest.splits:
        for batch in finished.index(split).to_batches():
            if not missing:
                return
            wanted = pa.array(sorted(missing), pa.string())
            for place in places_of(split, batch.filter(pc.is_in(batch["record_id"], wanted))):
                missing.discard(place.record_id)
                yield place
