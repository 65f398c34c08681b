"""Staged records, read in any order with as few reads as neighbouring bytes allow."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from beam_jobs.columns import IntArray, int64
from beam_jobs.staging import forget_unit, unit_files
from beam_jobs.workspace import Workspace
from shard_format import DamageError, InputError, unframe

# Payload in memory at a time, per worker. Longer blocks were no faster (8 and 32 MiB; photographs
# of 20 kB in 60 units), and the memory they take shows.
_BLOCK_BYTES = 2 << 20  # 2 MiB
# Bytes worth reading and throwing away rather than asking the disk twice.
_MAX_GAP_BYTES = 128 << 10  # 128 KiB


def read_staged(
    table: pa.Table, keys: Sequence[str], workspace: Workspace
) -> Iterator[tuple[int, list[bytes]]]:
    """(first row, payloads) of successive blocks of about 2 MiB, in the order of the table.

    Args:
        table: One row per record, with "unit", "offset" and "length".
        keys: Of the units.
        workspace: Where they are.

    Raises:
        InputError: A staged unit was damaged.
    """
    lengths = int64(table["length"])
    block_of = np.cumsum(lengths) // _BLOCK_BYTES
    edges = [0, *(np.flatnonzero(np.diff(block_of)) + 1).tolist(), len(lengths)]
    offsets, units = int64(table["offset"]), int64(table["unit"])
    for start, end in itertools.pairwise(edges):
        payloads: list[Any] = [None] * (end - start)
        for unit in np.unique(units[start:end]).tolist():
            rows = np.flatnonzero(units[start:end] == unit)
            # Copies of records stand out of order.
            rows = rows[np.argsort(offsets[start:end][rows], kind="stable")]
            path = unit_files(workspace, keys[unit])["tfrecord"]
            taken = rows + start
            frames = _read(path, offsets[taken], lengths[taken])
            try:
                for row, framed in zip(rows.tolist(), frames, strict=True):
                    payloads[row] = unframe(framed, str(path))
            except DamageError as error:
                forget_unit(workspace, keys[unit])
                raise InputError(
                    f"staged units must be as they were written, got damage: {error}. The unit was "
                    "dropped; run the same command again to stage it anew."
                ) from error
        yield start, payloads


def _read(path: Path, offsets: IntArray, lengths: IntArray) -> Iterator[bytes]:
    """The given ranges of a file, ascending, with as few reads as neighbouring bytes allow."""
    ends = offsets + lengths
    breaks = np.flatnonzero(offsets[1:] - ends[:-1] > _MAX_GAP_BYTES) + 1
    with path.open("rb", buffering=0) as file:
        for run in np.split(np.arange(len(offsets)), breaks):
            first, last = int(offsets[run[0]]), int(ends[run[-1]])
            file.seek(first)
            data = file.read(last - first)
            for offset, length in zip(offsets[run].tolist(), lengths[run].tolist(), strict=True):
                yield data[offset - first : offset - first + length]
