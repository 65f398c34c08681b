"""The split of every staged record, which planning decides, and a sample of the training split."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_jobs import bounds
from beam_jobs.columns import IntArray, int64, uint64
from beam_jobs.corpus.names import SPLIT_NAMES
from beam_jobs.staging.reader import read_staged, unit_sources
from beam_jobs.staging.sidecars import Sidecars
from beam_jobs.workspace import Workspace

LEFT_OUT = -1
SPLITS_FILE = "splits.npy"  # in the folder of the plan


def new_splits(path: Path, records: int) -> npt.NDArray[np.int8]:
    """[records] int8 of zeros in a file that is mapped into memory."""
    if not records:
        return np.zeros(0, np.int8)
    return np.lib.format.open_memmap(path, "w+", np.int8, (records,))


def write_splits(path: Path, records: int, parts: Iterable[npt.NDArray[np.int8]]) -> None:
    """Writes the same file from parts of it, of which one is in memory at a time."""
    described = {"descr": "|i1", "fortran_order": False, "shape": (records,)}
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, described)
        for part in parts:
            file.write(part.tobytes())


class Assignment:
    """The splits of staged records, one signed byte for each.

    Args:
        split_of: [records] int8, changed in place.
        names: Names of the splits.

    Attributes:
        names: Names of the splits; a split is an index into this list.
        split_of: [records] int8; LEFT_OUT for records that are in no split.
    """

    def __init__(self, split_of: npt.NDArray[np.int8], names: Iterable[str] = ()) -> None:
        self.names = list(names)
        self.split_of = split_of

    def of(self, begin: int, table: pa.Table) -> npt.NDArray[np.int8]:
        """[rows] int8 of a part of the sidecars: a writable view."""
        return self.split_of[begin : begin + len(table)]

    def counts(self) -> IntArray:
        """[splits] int64, number of records of each split."""
        counts = np.zeros(1 + len(self.names), np.int64)
        for begin in range(0, len(self.split_of), bounds.PLANNED_ROWS):  # numpy counts in int64
            part = self.split_of[begin : begin + bounds.PLANNED_ROWS]
            counts += np.bincount(part - LEFT_OUT, minlength=len(counts))
        return counts[1:]

    def role(self, split: int) -> str:
        """By the name of a split: "train", "validation", "test", or an empty string."""
        return SPLIT_NAMES.get(self.names[split], "")

    @property
    def training(self) -> int:
        """The split to train on: "train", else the first that is not for evaluation."""
        # Without a "train" in "test=0.2,fit=0.8", "test" must not be the one that is balanced.
        roles = [self.role(split) for split in range(len(self.names))]
        return next((roles.index(role) for role in ("train", "") if role in roles), 0)


_BITS = 16  # hashes are counted by their leading bits first
_COLUMNS = ("id_hash", "record_id", "offset", "length")


class TrainingSample:
    """Reads a sample of the training split, to learn from before shards are written.

    Records are taken in the order of the hash of their id until there are enough bytes. So the
    sample depends on the corpus and the splits alone, never on the seed, the units or the workers,
    and a larger sample contains a smaller one.

    Args:
        rows: Gives the `first_rows` of the sample; there must be a training record.
        workspace: Where the units are.
        corpus_records: Number of staged records, in whatever split.
        records: Number of records in the training split.
        split: Name of the training split.
    """

    def __init__(
        self,
        rows: Callable[[], pa.Table],
        workspace: Workspace,
        corpus_records: int,
        records: int,
        split: str,
    ) -> None:
        self._rows = functools.cache(rows)
        self._workspace = workspace
        self.corpus_records = corpus_records
        self.records = records
        self.split = split

    def key(self) -> str:
        """Content address of the records that `read` yields; staged units are named by content."""
        table = self._rows()
        digest = hashlib.blake2b(json.dumps(table["unit"].to_pylist()).encode(), digest_size=16)
        digest.update(int64(table["offset"]).astype("<i8").tobytes())
        return digest.hexdigest()

    def read(self) -> Iterator[bytes]:
        """The encoded features of the records, always in the same order.

        One table row per sampled record is held in memory.

        Raises:
            InputError: A staged unit is damaged.
        """
        table = self._rows()
        units = table["unit"].combine_chunks().dictionary_encode()
        numbers = pa.array(units.indices, pa.int64())
        table = table.set_column(table.column_names.index("unit"), "unit", numbers)
        sources = unit_sources(units.dictionary.to_pylist(), self._workspace)
        for _, payloads in read_staged(table, sources):
            yield from payloads.to_pylist()


def sample_bytes(assignment: Assignment, sidecars: Sidecars) -> IntArray:
    """[65536] int64, bytes of the records of the training split by the hash of their id."""
    by_bin = np.zeros(1 << _BITS, np.int64)
    for begin, table in sidecars:
        inside = assignment.of(begin, table) == assignment.training
        np.add.at(by_bin, _bins(table)[inside], int64(table["length"])[inside])
    return by_bin


def sample_rows(
    assignment: Assignment, columns: Sidecars, sidecars: Sidecars, by_bin: IntArray, size: int
) -> pa.Table:
    """The rows of some units that may be in a sample, with the key of their unit.

    Args:
        assignment: The split of each record.
        columns: The units, perhaps with fewer columns.
        sidecars: The same units with all columns.
        by_bin: The `sample_bytes` of all units.
        size: Bytes of the sample, about.
    """
    last_bin = int(np.searchsorted(np.cumsum(by_bin), size))
    parts = [np.zeros(0, np.int64)]
    for begin, table in columns:
        inside = assignment.of(begin, table) == assignment.training
        parts.append(begin + np.flatnonzero(inside & (_bins(table) <= last_bin)))
    records = np.concatenate(parts)
    units = np.searchsorted(sidecars.begins, records, side="right") - 1
    keys = pa.array(sidecars.keys, pa.string()).take(pa.array(units))
    return sidecars.take(records, _COLUMNS).append_column("unit", keys)


def first_rows(tables: Iterable[pa.Table], size: int) -> pa.Table:
    """The sample of so many bytes, from the `sample_rows` of all units."""
    rows = pa.concat_tables(tables, promote_options="default")
    rows = rows.sort_by([("id_hash", "ascending"), ("record_id", "ascending")])
    ends = np.cumsum(int64(rows["length"]))
    return rows.slice(0, int(np.searchsorted(ends, size)) + 1).combine_chunks()


def _bins(table: pa.Table) -> npt.NDArray[np.int64]:
    return (uint64(table["id_hash"]) >> np.uint64(64 - _BITS)).astype(np.int64)
