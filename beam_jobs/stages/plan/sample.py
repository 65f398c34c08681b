"""A sample of the training split, for what is learned before shards are written.

Records are taken by the hash of their id, the least first, until there are enough bytes. So the
sample depends on the corpus and the splits, never on the seed, on units or on workers, and a larger
one holds a smaller one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from beam_jobs.columns import int64, uint64
from beam_jobs.stages.plan.splits import Assignment, units_of
from beam_jobs.staging.reader import read_staged
from beam_jobs.staging.sidecars import Sidecars
from beam_jobs.workspace import Workspace
from shard_format import InputError

_BITS = 16  # hashes are counted by their leading bits first
_COLUMNS = ("id_hash", "record_id", "offset", "length")


class TrainingSample:
    """Reads a sample of the training split.

    Args:
        assignment: Which records are in it.
        sidecars: All units.
        workspace: Where they are.
    """

    def __init__(self, assignment: Assignment, sidecars: Sidecars, workspace: Workspace) -> None:
        self._assignment = assignment
        self._sidecars = sidecars
        self._workspace = workspace

    @property
    def empty(self) -> bool:
        """See Sample."""
        return not self._sidecars.records

    def key(self, size: int) -> str:
        """See Sample; staged units are named by their content."""
        table = self._rows(size)
        digest = hashlib.blake2b(json.dumps(self._sidecars.keys).encode(), digest_size=16)
        for name in ("unit", "offset"):
            digest.update(int64(table[name]).astype("<i8").tobytes())
        return digest.hexdigest()

    def read(self, size: int) -> Iterator[bytes]:
        """The encoded features of about `size` bytes of records, in the order of their hashes.

        What is held in memory is a row for every record of the sample.

        Raises:
            InputError: The training split has no record, or a staged unit was damaged.
        """
        for _, payloads in read_staged(self._rows(size), self._sidecars.keys, self._workspace):
            yield from payloads

    def _rows(self, size: int) -> pa.Table:
        """The rows of the sample with their unit, in order.

        Raises:
            InputError: The training split has no record.
        """
        by_bin = np.zeros(1 << _BITS, np.int64)
        for _, table in self._training():
            np.add.at(by_bin, _bins(table), int64(table["length"]))
        last_bin = int(np.searchsorted(np.cumsum(by_bin), size))
        parts = []
        for unit, table in self._training():
            table = table.filter(pa.array(_bins(table) <= last_bin))
            parts.append(table.append_column("unit", pa.array(np.full(len(table), unit))))
        if not by_bin.any():
            name = self._assignment.names[self._assignment.training]
            raise InputError(
                f"a tokenizer is trained on the training split, got no record in {name!r}. Give it "
                "a larger fraction with --split, or name a --tokenizer."
            )
        rows = pa.concat_tables(parts)
        rows = rows.sort_by([("id_hash", "ascending"), ("record_id", "ascending")])
        ends = np.cumsum(int64(rows["length"]))
        return rows.slice(0, int(np.searchsorted(ends, size)) + 1).combine_chunks()

    def _training(self) -> Iterator[tuple[int, pa.Table]]:
        for unit, table, split_of in units_of(self._assignment, self._sidecars):
            inside = pa.array(split_of == self._assignment.training)
            yield unit, table.select(list(_COLUMNS)).filter(inside)


def _bins(table: pa.Table) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return (uint64(table["id_hash"]) >> np.uint64(64 - _BITS)).astype(np.int64)
