"""Staged records in any order; neighbouring records are read together."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from beam_jobs.columns import IntArray, int64
from beam_jobs.staging import forget_unit, unit_files
from beam_jobs.workspace import Workspace
from shard_format import DamageError, InputError, storage, unframe
from shard_format.storage import Place

# Payload in memory at a time, per worker. Blocks of 8 and 32 MiB were not faster (images of 20 kB
# in 60 units) and took more memory.
_BLOCK_BYTES = 2 << 20  # 2 MiB
# A gap up to this is read and thrown away, which is faster than a second read.
_MAX_GAP_BYTES = 128 << 10  # 128 KiB


def read_staged(
    table: pa.Table, keys: Sequence[str], workspace: Workspace
) -> Iterator[tuple[int, list[bytes]]]:
    """Yields (first row, payloads) of successive blocks of about 2 MiB, in the order of the table.

    Args:
        table: One row per record, with "unit", "offset" and "length".
        keys: Keys of the units.
        workspace: The build that staged them.

    Raises:
        InputError: A staged unit is damaged.
    """
    lengths = int64(table["length"])
    block_of = np.cumsum(lengths) // _BLOCK_BYTES
    edges = [0, *(np.flatnonzero(np.diff(block_of)) + 1).tolist(), len(lengths)]
    offsets, units = int64(table["offset"]), int64(table["unit"])
    for start, end in itertools.pairwise(edges):
        payloads: list[Any] = [None] * (end - start)
        for unit in np.unique(units[start:end]).tolist():
            rows = np.flatnonzero(units[start:end] == unit)
            # Copies of a record break the order of the offsets.
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
                    f"A staged unit is damaged: {error}. It was dropped; run the same command "
                    "again, which stages it again."
                ) from error
        yield start, payloads


def _read(place: Place, offsets: IntArray, lengths: IntArray) -> Iterator[bytes]:
    """The given ranges of a file, in ascending order; neighbours are read together."""
    ends = offsets + lengths
    breaks = np.flatnonzero(offsets[1:] - ends[:-1] > _MAX_GAP_BYTES) + 1
    runs = np.split(np.arange(len(offsets)), breaks)
    firsts = [int(offsets[run[0]]) for run in runs]
    sizes = [int(ends[run[-1]]) - first for run, first in zip(runs, firsts, strict=True)]
    blocks = storage.read_ranges(place, zip(firsts, sizes, strict=True))
    for run, first, data in zip(runs, firsts, blocks, strict=True):
        for offset, length in zip(offsets[run].tolist(), lengths[run].tolist(), strict=True):
            yield data[offset - first : offset - first + length]
