"""The duplicates of a set, in one file or in parts; nobody else knows its files.

Some hundred thousand rows are one file. Those of a larger set are in parts, which many workers
write: each cluster is in the part that the hash of the id of its kept record says.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from foundation.storage import Place
from shard_format import naming
from shard_format.dropped import generation_by_generation, read_columns
from shard_format.keys import UInt64Array, id_hash
from shard_format.manifest import Manifest

# The columns of the duplicates, see FORMAT.md.
DUPLICATES_SCHEMA = pa.schema(
    [
        pa.field("record_id", pa.string(), nullable=False),
        pa.field("label", pa.string()),
        pa.field("kept_id", pa.string(), nullable=False),
        pa.field("kept_label", pa.string()),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("similarity", pa.float32(), nullable=False),
        pa.field("conflict", pa.bool_(), nullable=False),
        pa.field("dropped", pa.bool_(), nullable=False),
        pa.field("split", pa.string()),  # of the kept record
        pa.field("preview", pa.large_binary()),
    ]
)

# Kinds of records that are in another set, which `kept_id` begins with.
IN_OTHER, NEAR_OTHER = "in-other", "near-other"
OTHER_KINDS = (IN_OTHER, NEAR_OTHER)

# Rows of a part, about: with paths of images some 60 MiB in memory.
PART_ROWS = 1 << 20


class DuplicateCounts(NamedTuple):
    """Over all rows of the duplicates: clusters, their other members, clusters in conflict.

    Attributes:
        clusters: Clusters of records of the set.
        exact: Their other members that are equal.
        near: Those that are alike.
        conflicts: Clusters whose labels differ.
        dropped: Members that were left out.
        others: Records that are in other sets.
    """

    clusters: int = 0
    exact: int = 0
    near: int = 0
    conflicts: int = 0
    dropped: int = 0
    others: int = 0


def num_parts(rows: int) -> int:
    """Number of parts of so many rows: the smallest power of two of parts of `PART_ROWS`."""
    return 1 << (max(1, -(-rows // PART_ROWS)) - 1).bit_length()


def parts_of(kept_ids: pa.Array, parts: int) -> npt.NDArray[np.int64]:
    """[n] int64 in [0, parts): the part that has the cluster of each kept record.

    Args:
        kept_ids: [n] string.
        parts: A power of two.
    """
    if parts == 1:
        return np.zeros(len(kept_ids), np.int64)
    ids = kept_ids.dictionary_encode()  # rows of a cluster are neighbours, mostly
    hashes = np.array([id_hash(name) for name in ids.dictionary.to_pylist()], np.uint64)
    return parts_of_hashes(hashes, parts)[ids.indices.to_numpy()]


def parts_of_hashes(hashes: UInt64Array, parts: int) -> npt.NDArray[np.int64]:
    """[n] int64, as `parts_of`: the leading bits of [n] uint64 `id_hash`."""
    leading = (hashes >> np.uint64(1)).astype(np.int64)  # numpy shifts by 63 bits at most
    return leading >> (64 - parts.bit_length())


def duplicates_files(manifest: Manifest) -> list[str]:
    """The files with duplicates, generation by generation, and part by part."""
    return generation_by_generation(naming.parse_duplicates, manifest)


def read_duplicates(
    directory: Place,
    manifest: Manifest,
    columns: Sequence[str] = DUPLICATES_SCHEMA.names,
    batch_rows: int | None = None,
) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Yields the duplicates of all generations, piece by piece, each with the name of its file.

    In a file rows are in the order of `kept_id` and `record_id`, and clusters are whole.

    Args:
        directory: The set.
        manifest: Its manifest.
        columns: Which columns to read.
        batch_rows: The most rows in memory at a time; None for as many as suit short columns.

    Raises:
        DamageError: A file is missing, is no Parquet file, or lacks a column.
    """
    for file in duplicates_files(manifest):
        for batch in read_columns(directory, file, columns, batch_rows):
            yield file, batch


def count_duplicates(directory: Place, manifest: Manifest) -> DuplicateCounts | None:
    """How many clusters and what kind of members; None if the set keeps no such file.

    Raises:
        DamageError: A file is missing or is no Parquet file.
    """
    if not duplicates_files(manifest):
        return None
    total, others = np.zeros(5, np.int64), 0
    last: str | None = None
    last_conflict: str | None = None
    columns = ["kept_id", "kind", "conflict", "dropped"]
    # A cluster that has records of several generations counts in each of them.
    for _, batch in read_duplicates(directory, manifest, columns):
        of_others = pc.is_in(batch["kind"], value_set=pa.array(OTHER_KINDS))
        others += pc.sum(of_others).as_py() or 0
        batch = batch.filter(pc.invert(of_others))
        if not len(batch):
            continue
        kept = batch["kept_id"]  # sorted: a cluster is a run of equal values
        conflicts = kept.filter(batch["conflict"])  # every row of a cluster in conflict says so
        total += [
            _runs(kept, last),
            pc.sum(pc.equal(batch["kind"], "exact")).as_py() or 0,
            pc.sum(pc.equal(batch["kind"], "near")).as_py() or 0,
            _runs(conflicts, last_conflict),
            pc.sum(batch["dropped"]).as_py() or 0,
        ]
        last = kept[-1].as_py()
        last_conflict = conflicts[-1].as_py() if len(conflicts) else last_conflict
    return DuplicateCounts(*map(int, [*total, others]))


def _runs(values: pa.Array, before: str | None) -> int:
    """How many runs of equal values begin, if the value before them is known."""
    if not len(values):
        return 0
    changes = pc.sum(pc.not_equal(values[1:], values[:-1])).as_py() or 0
    return int(changes) + (values[0].as_py() != before)


class LeadingClusters:
    """The clusters that are shown: those with conflicting labels first, then by the kept id.

    Args:
        most: How many are shown.

    Attributes:
        conflicting: The first ids of those with conflicting labels, in order.
        first: The first ids of all.
    """

    def __init__(self, most: int) -> None:
        self.conflicting: list[str] = []
        self.first: list[str] = []
        self._most = most

    def add(self, kept_ids: pa.Array, conflict: pa.Array) -> None:
        """Adds some neighbouring rows of a file.

        Args:
            kept_ids: [n] string, ascending.
            conflict: [n] bool.
        """
        self.conflicting = self._joined(self.conflicting, kept_ids.filter(conflict))
        self.first = self._joined(self.first, kept_ids)

    def merge(self, conflicting: Iterable[str], first: Iterable[str]) -> None:
        """Adds what another one has."""
        self.conflicting = sorted({*self.conflicting, *conflicting})[: self._most]
        self.first = sorted({*self.first, *first})[: self._most]

    def chosen(self) -> list[str]:
        """The ids of the kept records of the clusters to show, in the order to show them in."""
        return list(dict.fromkeys([*self.conflicting, *self.first]))[: self._most]

    def _joined(self, before: list[str], ids: pa.Array) -> list[str]:
        is_full = len(before) == self._most
        if not len(ids) or (is_full and ids[0].as_py() > before[-1]):
            return before
        return sorted({*before, *pc.unique(ids)[: self._most].to_pylist()})[: self._most]
