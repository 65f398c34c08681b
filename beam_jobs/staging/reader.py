"""Staged records in any order; neighbouring records are read together.

Records come from sources: staged units, or cells of merged runs (`staging.runs`). They are read in
blocks, from each source the ranges that a block needs. Small blocks suit the page cache of a local
disk. Elsewhere every range is a request, so blocks are large and ranges few.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from beam_jobs.columns import IntArray, int64
from beam_jobs.staging.parallel import in_parallel
from beam_jobs.staging.units import forget_unit, unit_files
from beam_jobs.workspace import Workspace
from shard_format import DamageError, InputError, storage, unframe
from shard_format.storage import Place

# Payload in memory at a time, per worker, from local files. Blocks of 8 and 32 MiB were not faster
# (images of 20 kB in 60 units) and took more memory.
_LOCAL_BLOCK_BYTES = 2 << 20  # 2 MiB
# A gap up to this is read and thrown away, which is faster than a second read.
_LOCAL_GAP_BYTES = 128 << 10  # 128 KiB
_REMOTE_GAP_BYTES = 2 << 20  # 2 MiB: 30 ms at 70 MB/s


class Source(NamedTuple):
    """Where frames are, one behind the other.

    Attributes:
        place: The file.
        start: Position of the first frame in the file; offsets are counted from here.
        forget: Has the file made again by the next build; called if it is damaged.
        held: The frames, if they are in memory already.
    """

    place: Place
    start: int
    forget: Callable[[], None]
    held: memoryview | None = None

    @property
    def is_remote(self) -> bool:
        """Whether a read is a request that takes long."""
        return self.held is None and storage.local_path(self.place) is None

    @contextlib.contextmanager
    def reporting_damage(self) -> Iterator[None]:
        """Drops the file if it is found damaged.

        Raises:
            InputError: It is damaged.
        """
        try:
            yield
        except DamageError as error:
            self.forget()
            raise InputError(
                f"A staged unit is damaged: {error}. It was dropped; run the same command "
                "again, which stages it again."
            ) from error

    def read(self, ranges: Iterable[tuple[int, int]]) -> Iterator[bytes]:
        """The bytes of some ranges (offset, size)."""
        if self.held is not None:
            yield from (bytes(self.held[offset : offset + size]) for offset, size in ranges)
        else:
            shifted = ((self.start + offset, size) for offset, size in ranges)
            yield from storage.read_ranges(self.place, shifted)


def unit_sources(keys: Sequence[str], workspace: Workspace) -> list[Source]:
    """The payload of some units."""

    def forget(key: str) -> Callable[[], None]:
        return lambda: forget_unit(workspace, key)

    return [Source(unit_files(workspace, key)["tfrecord"], 0, forget(key)) for key in keys]


def read_staged(
    table: pa.Table, sources: Sequence[Source], block_bytes: int = _LOCAL_BLOCK_BYTES
) -> Iterator[tuple[int, list[bytes]]]:
    """Yields (first row, payloads) of successive blocks, in the order of the table.

    Args:
        table: One row per record, with "unit", the number of its source, "offset" and "length".
        sources: Where the frames are.
        block_bytes: Payload in memory at a time; of local units, 2 MiB.

    Raises:
        InputError: A source is damaged.
    """
    return _read_blocks(table, sources, block_bytes, unframe)


def read_frames(
    table: pa.Table, sources: Sequence[Source], block_bytes: int
) -> Iterator[tuple[int, list[bytes]]]:
    """`read_staged`, but whole frames, whose checksums are right."""
    return _read_blocks(table, sources, block_bytes, _checked)


def _checked(framed: bytes, where: str) -> bytes:
    unframe(framed, where)
    return framed


def _read_blocks(
    table: pa.Table,
    sources: Sequence[Source],
    block_bytes: int,
    take: Callable[[bytes, str], bytes],
) -> Iterator[tuple[int, list[bytes]]]:
    lengths = int64(table["length"])
    remote = any(source.is_remote for source in sources)
    if not remote:
        block_bytes = min(block_bytes, _LOCAL_BLOCK_BYTES)
    block_of = np.cumsum(lengths) // block_bytes
    edges = [0, *(np.flatnonzero(np.diff(block_of)) + 1).tolist(), len(lengths)]
    offsets, units = int64(table["offset"]), int64(table["unit"])

    for start, end in itertools.pairwise(edges):
        payloads: list[bytes] = [b""] * (end - start)

        def read_unit(rows: IntArray, start: int = start, into: list[bytes] = payloads) -> None:
            source = sources[int(units[rows[0]])]
            where, frames = str(source.place), _read(source, offsets[rows], lengths[rows])
            with source.reporting_damage():
                for row, framed in zip((rows - start).tolist(), frames, strict=True):
                    into[row] = take(framed, where)

        # By source and offset: copies of a record break the order of the offsets.
        order = start + np.lexsort((offsets[start:end], units[start:end]))
        runs = np.split(order, np.flatnonzero(np.diff(units[order])) + 1)
        for _ in in_parallel(read_unit, runs, remote=remote):
            pass
        yield start, payloads


def _read(source: Source, offsets: IntArray, lengths: IntArray) -> Iterator[bytes]:
    """The given ranges of a source, in ascending order; neighbours are read together."""
    ends = offsets + lengths
    most = _REMOTE_GAP_BYTES if source.is_remote else _LOCAL_GAP_BYTES
    breaks = np.flatnonzero(offsets[1:] - ends[:-1] > most) + 1
    runs = np.split(np.arange(len(offsets)), breaks)
    firsts = [int(offsets[run[0]]) for run in runs]
    sizes = [int(ends[run[-1]]) - first for run, first in zip(runs, firsts, strict=True)]
    blocks = source.read(zip(firsts, sizes, strict=True))
    for run, first, data in zip(runs, firsts, blocks, strict=True):
        for offset, length in zip(offsets[run].tolist(), lengths[run].tolist(), strict=True):
            yield data[offset - first : offset - first + length]
