"""New records against those of earlier generations of a set.

An old record stays whatever a new one is: of a cluster that has an old record, all new ones are
dropped, or, with --duplicates keep, follow its split. So memory grows with the number of new
records, and so does work beyond one look at the old fingerprints.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from beam_jobs.columns import (
    BoolArray,
    ByteArray,
    IntArray,
    fixed_bytes,
    int64,
    ranges,
    uint64,
)
from beam_jobs.dedup.clusters import CLUSTER_ORDER, CLUSTER_SCHEMA, Clusters, NearPairs, components
from beam_jobs.staging.reordering import StructuredArray
from beam_jobs.staging.sidecars import Sidecars
from beam_jobs.staging.stored import StoredRecords
from shard_format import InputError
from shard_format.keys import UInt64Array

# Of a cluster with an old record: the split of that one. Only in builds that append.
EARLIER_SPLIT = pa.field("earlier_split", pa.string())

# From [n] numbers of new records and [n] keys of stored ones to whether they are equal.
ConfirmOld = Callable[[IntArray, UInt64Array], BoolArray]


class Related(NamedTuple):
    """New records and the old ones that decide about them.

    Attributes:
        clusters: Clusters of the new records; the kept record of some is an old one.
        records: [k] int64, new records in a cluster with old ones, ascending.
        splits: [k] the split of each one's old record; None if that was dropped.
    """

    clusters: Clusters
    records: IntArray
    splits: list[str | None]


def exact_links(
    sidecars: Sidecars,
    stored: StoredRecords,
    confirm: ConfirmOld | None,
    *,
    by_content: bool,
    by_id: bool = True,
) -> IntArray:
    """[n, 2] (new record, row of a stored one) of equal records.

    Of new records, key and fingerprint are in memory (24 bytes, and 32 to look them up); of stored
    ones some at a time.

    Args:
        sidecars: All staged units.
        stored: The earlier generations.
        confirm: Decides where equal fingerprints do not suffice.
        by_content: Whether to find equal content under other ids too.
        by_id: Whether equal ids are those of one record; not in a set of its own.

    Raises:
        InputError: A new record has the id of an old one, and other content.
    """
    keys, prints = _new(sidecars)
    lookups = [(_Lookup(keys), "key")] if by_id else []
    if by_content:
        lookups.append((_Lookup(_heads(prints)), "head"))
    pieces: list[StructuredArray] = [np.zeros(0, _LINK)]
    begin = 0
    for table in stored.tables(["key", "fingerprint"]):
        old_prints = fixed_bytes(table["fingerprint"], 16)
        values = {"key": uint64(table["key"]), "head": _heads(old_prints)}
        matches = [lookup.matches(values[name]) for lookup, name in lookups]
        links = np.unique(np.concatenate(matches), axis=0)
        if sidecars.excluded is not None:
            links = links[~sidecars.excluded[links[:, 0]]]
        new, old = links.T
        piece: StructuredArray = np.zeros(len(links), _LINK)
        piece["new"], piece["old"], piece["key"] = new, old + begin, values["key"][old]
        piece["equal"] = np.all(prints[new] == old_prints[old], axis=1)
        pieces.append(piece)
        begin += len(table)
    pairs = np.sort(np.concatenate(pieces), order=["new", "old"])
    if confirm is not None:
        equal = np.flatnonzero(pairs["equal"])
        pairs["equal"][equal] = confirm(pairs["new"][equal], pairs["key"][equal])
    changed = np.unique(pairs["new"][~pairs["equal"] & (keys[pairs["new"]] == pairs["key"])])
    if by_id and len(changed):
        first = sidecars.take(changed[:1], ["record_id"])["record_id"][0].as_py()
        raise InputError(
            f"{len(changed):,} records have the id of another one in "
            f"{stored.base}, which has other content; the first is {first!r}. If they are other "
            "records, pass --id-prefix NAME, which their ids then begin with. To replace records, "
            "take the old ones out with 'shardmill compact --remove' before."
        )
    pairs = pairs[pairs["equal"]]
    return np.stack([pairs["new"], pairs["old"]], axis=1)


# A new record and a stored one with the same id, or with fingerprints that begin alike.
_LINK = np.dtype([("new", np.int64), ("old", np.int64), ("key", np.uint64), ("equal", np.bool_)])


def _new(sidecars: Sidecars) -> tuple[UInt64Array, ByteArray]:
    keys, prints = [np.zeros(0, np.uint64)], [np.zeros((0, 16), np.uint8)]
    for _, table in sidecars:
        keys.append(uint64(table["key"]))
        prints.append(fixed_bytes(table["fingerprint"], 16))
    return np.concatenate(keys), np.concatenate(prints)


def _heads(prints: ByteArray) -> UInt64Array:
    return np.ascontiguousarray(prints[:, :8]).view(np.uint64).ravel()


class _Lookup:
    """Values of new records, among which many old ones are looked for.

    Args:
        new: [n] uint64.
    """

    def __init__(self, new: UInt64Array) -> None:
        self._order = np.argsort(new, kind="stable")
        self._ordered = new[self._order]
        # Most old values are not among the new ones: a bitmap of 16 leading bits passes over them.
        self._few = np.zeros(1 << 16, bool)
        self._few[new >> np.uint64(48)] = True

    def matches(self, old: UInt64Array) -> IntArray:
        """[k, 2] (number of the new value, row of `old`) with equal values."""
        rows = np.flatnonzero(self._few[old >> np.uint64(48)])
        first = np.searchsorted(self._ordered, old[rows], side="left")
        sizes = np.searchsorted(self._ordered, old[rows], side="right") - first
        places, which = ranges(first, sizes)
        return np.stack([self._order[places], rows[which]], axis=1)


def match_existing(
    sidecars: Sidecars,
    stored: StoredRecords,
    clusters: Clusters,
    exact: IntArray,
    near: NearPairs,
    *,
    keep_all: bool,
) -> Related:
    """Joins the clusters of new records to old records.

    Args:
        sidecars: All staged units.
        stored: The earlier generations.
        clusters: Clusters of the new records alone.
        exact: [n, 2] see `exact_links`.
        near: Pairs (new record, row of a stored one).
        keep_all: Keep all records, in the split of the old one.
    """
    links = np.concatenate([exact, near.pairs])
    if not len(links):
        return Related(clusters, np.zeros(0, np.int64), [])
    members = clusters.members
    member_ids = int64(members["record"])
    old = _Representatives(stored, np.unique(links[:, 1]))
    new = np.unique(np.concatenate([member_ids, links[:, 0]]))
    # Nodes: the new records, then the old records that represent those in links.
    kept = members["kept_id"]
    same = pc.equal(kept.slice(1), kept.slice(0, max(0, len(kept) - 1))).to_numpy()
    within = np.stack([member_ids[:-1][same], member_ids[1:][same]], axis=1)
    to_old = np.stack(
        [np.searchsorted(new, links[:, 0]), len(new) + old.node_of(links[:, 1])], axis=1
    )
    pairs = np.concatenate([np.searchsorted(new, within).reshape(-1, 2), to_old])
    roots = components(len(new) + len(old.ids), pairs)
    touched = np.isin(roots[: len(new)], roots[len(new) :])
    records = new[touched]
    chosen, split_conflicts = old.of_roots(roots[: len(new)][touched], roots[len(new) :])
    # What connects old records of different splits can be in neither.
    rows = _rows(
        sidecars, records, old, chosen, exact, near, dropped=split_conflicts | (not keep_all)
    )
    untouched = pa.array(~np.isin(member_ids, records))
    first = pc.equal(members["record_id"], members["kept_id"])
    lost = pc.and_(pc.and_(first, members["conflict"]), members["dropped"])
    remaining = members.filter(untouched)
    new_conflicts = rows.filter(rows["conflict"])["kept_id"]
    table = remaining.append_column(EARLIER_SPLIT, pa.nulls(len(remaining), pa.string()))
    table = pa.concat_tables([table, rows.cast(table.schema)])
    return Related(
        clusters=Clusters(
            members=table.sort_by([(name, "ascending") for name in CLUSTER_ORDER]),
            num_dropped=int(pc.sum(table["dropped"]).as_py() or 0),
            conflicts=_count(remaining.filter(remaining["conflict"])["kept_id"])
            + _count(new_conflicts),
            lost_to_conflict=int(pc.sum(lost.filter(untouched)).as_py() or 0),
        ),
        records=records,
        splits=[old.splits[one] for one in chosen.tolist()],
    )


def _count(ids: pa.ChunkedArray) -> int:
    return int(pc.count_distinct(ids).as_py())


class _Representatives:
    """The kept old records behind those in links: a dropped one is represented by its kept one."""

    def __init__(self, stored: StoredRecords, rows: IntArray) -> None:
        self._rows = rows
        records = stored.take(rows, ["record_id", "label", "split", "kept_id"]).to_pylist()
        self._node: list[int] = []
        number: dict[str, int] = {}
        self.ids: list[str] = []
        self.labels: list[str | None] = []
        self.splits: list[str | None] = []
        for row in records:
            name = row["record_id"] if row["split"] else row["kept_id"] or row["record_id"]
            if name not in number:
                number[name] = len(self.ids)
                self.ids.append(name)
                self.labels.append(row["label"])
                self.splits.append(None)
            node = number[name]
            self._node.append(node)
            if row["split"] is not None:
                self.labels[node], self.splits[node] = row["label"], row["split"]
        self._fill_splits(stored)

    def _fill_splits(self, stored: StoredRecords) -> None:
        """Finds kept records that are in no link themselves, by their ids."""
        from shard_format import id_hash, shuffle_keys

        unknown = [node for node, split in enumerate(self.splits) if split is None]
        if not unknown:
            return
        seed = int(stored.manifest.config.get("seed", 0))
        hashes = np.array([id_hash(self.ids[node]) for node in unknown], np.uint64)
        lookup, links, begin = _Lookup(shuffle_keys(hashes, seed)), [np.zeros((0, 2), np.int64)], 0
        for table in stored.tables(["key"]):
            own = lookup.matches(uint64(table["key"]))
            own[:, 1] += begin
            links.append(own)
            begin += len(table)
        nodes, rows = np.concatenate(links).T
        records = stored.take(rows, ["record_id", "label", "split"]).to_pylist()
        for at, record in zip(nodes.tolist(), records, strict=True):
            if record["record_id"] == self.ids[unknown[at]]:
                self.labels[unknown[at]] = record["label"]
                self.splits[unknown[at]] = record["split"]

    def node_of(self, rows: IntArray) -> IntArray:
        """The node of stored rows."""
        return np.array(self._node, np.int64)[np.searchsorted(self._rows, rows)]

    def of_roots(
        self, roots: IntArray, old_roots: IntArray
    ) -> tuple[IntArray, npt.NDArray[np.bool_]]:
        """The representative of each component, by id, and whether it has several splits."""
        best: dict[int, int] = {}
        splits: dict[int, set[str]] = {}
        order = sorted(
            range(len(self.ids)), key=lambda node: (self.splits[node] is None, self.ids[node])
        )
        for node in order:
            root = int(old_roots[node])
            best.setdefault(root, node)
            split = self.splits[node]
            if split is not None:
                splits.setdefault(root, set()).add(split)
        chosen = np.array([best[root] for root in roots.tolist()], np.int64)
        split_conflicts = np.array([len(splits.get(root, ())) > 1 for root in roots.tolist()], bool)
        return chosen, split_conflicts


def _rows(
    sidecars: Sidecars,
    records: IntArray,
    old: _Representatives,
    chosen: IntArray,
    exact: IntArray,
    near: NearPairs,
    *,
    dropped: npt.NDArray[np.bool_],
) -> pa.Table:
    """Rows of `Clusters.members` for records in a cluster with an old one."""
    own = sidecars.take(records, ["record_id", "label"])
    labels = own["label"].to_pylist()
    kept: dict[str, list[Any]] = {"id": [], "label": [], "split": []}
    for node in chosen.tolist():
        kept["id"].append(old.ids[node])
        kept["label"].append(old.labels[node])
        kept["split"].append(old.splits[node])
    similarity = np.zeros(len(records), np.float32)
    place = np.searchsorted(records, near.pairs[:, 0])
    np.maximum.at(similarity, place, near.similarity)
    is_exact = np.isin(records, exact[:, 0])
    similarity[is_exact | (similarity == 0)] = 1
    conflict = [one != other for one, other in zip(labels, kept["label"], strict=True)]
    table = pa.table(
        {
            "record_id": own["record_id"],
            "label": own["label"].cast(pa.string()),
            "kept_id": pa.array(kept["id"], pa.string()),
            "kept_label": pa.array(kept["label"], pa.string()),
            "kind": np.where(is_exact, "exact", "near"),
            "similarity": similarity,
            "conflict": pa.array(conflict, pa.bool_()),
            "dropped": dropped,
            "record": records,
            EARLIER_SPLIT.name: pa.array(kept["split"], pa.string()),
        }
    )
    return table.cast(pa.schema([*CLUSTER_SCHEMA, EARLIER_SPLIT]))
