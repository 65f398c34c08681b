"""Staged records in any order; neighbouring records are read together.

Records come from sources: staged units, or cells of merged runs (`staging.runs`). They are read in
blocks, from each source the ranges that a block needs. Small blocks suit the page cache of a local
disk. Elsewhere every range is a request, so blocks are large and ranges few.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from beam_jobs import bounds
from beam_jobs.columns import IntArray, bounds_of, int64, run_starts
from beam_jobs.staging.units import dropping_damaged, forget_unit, unit_files
from beam_jobs.workspace import Workspace
from foundation import storage
from foundation.storage import Place
from shard_format import DamageError, unframe, unframe_columns

# What is read at a time, per worker, from local files; building examples takes five times as much.
_LOCAL_BLOCK_BYTES = 1 << 20  # 1 MiB
# A gap up to this is read and thrown away, which is faster than a second read.
_LOCAL_GAP_BYTES = 32 << 10  # 32 KiB
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

    def reporting_damage(self) -> AbstractContextManager[None]:
        """Drops the file if it is found damaged, see `dropping_damaged`."""
        return dropping_damaged(self.forget)

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
    table: pa.Table,
    sources: Sequence[Source],
    block_bytes: int = _LOCAL_BLOCK_BYTES,
    local_bytes: int = _LOCAL_BLOCK_BYTES,
) -> Iterator[tuple[int, pa.LargeBinaryArray]]:
    """Yields (first row, payloads) of successive blocks, in the order of the table.

    Args:
        table: One row per record, with "unit", the number of its source, "offset" and "length".
        sources: Where the frames are.
        block_bytes: Payload in memory at a time where a read takes long.
        local_bytes: The same of local files, the gaps between records included.

    Raises:
        InputError: A source is damaged.
    """
    remote = any(source.is_remote for source in sources)
    for start, block in _read_blocks(table, sources, block_bytes if remote else local_bytes):
        if not remote:
            yield start, block.payloads(block.number)
            continue
        # A block that was read from an object store is larger than what is built at a time.
        for begin, end in _blocks(block.lengths[block.number], bounds.EXAMPLE_BYTES):
            yield start + begin, block.payloads(block.number[begin:end])


def read_frames(
    table: pa.Table, sources: Sequence[Source], block_bytes: int
) -> Iterator[tuple[int, list[bytes]]]:
    """As `read_staged`, but whole frames as bytes, whose checksums are right, in larger blocks."""
    if not any(source.is_remote for source in sources):
        block_bytes = min(block_bytes, _LOCAL_BLOCK_BYTES)
    for start, block in _read_blocks(table, sources, block_bytes):
        for begin, end in _blocks(block.lengths[block.number], bounds.EXAMPLE_BYTES):
            block.payloads(block.number[begin:end])  # compares checksums
        yield start, block.frames()


class _Block(NamedTuple):
    """Frames of some records, as they were read.

    Attributes:
        data: Frames and gaps.
        places: [n] int64, where each frame begins in it, ascending.
        lengths: [n] int64, bytes of each frame.
        units: [n] int64, number of the source of each.
        number: [records] int64, the frame of each record: --balance repeats records.
        sources: Where the frames are.
    """

    data: bytearray
    places: IntArray
    lengths: IntArray
    units: IntArray
    number: IntArray
    sources: Sequence[Source]

    def payloads(self, number: IntArray) -> pa.LargeBinaryArray:
        """[k] large_binary, the payloads of some frames."""
        used, order = np.unique(number, return_inverse=True)
        places, lengths = self.places[used], self.lengths[used]
        payloads, damaged = unframe_columns(self.data, places, lengths, order)
        if damaged >= 0:
            source = self.sources[int(self.units[used[damaged]])]
            with source.reporting_damage():
                begin = int(places[damaged])
                unframe(bytes(self.data[begin : begin + int(lengths[damaged])]), str(source.place))
                raise DamageError(f"frames overlap in {source.place}")
        return payloads

    def frames(self) -> list[bytes]:
        """The frame of each record."""
        view = memoryview(self.data)
        begins, ends = self.places[self.number], (self.places + self.lengths)[self.number]
        places = zip(begins.tolist(), ends.tolist(), strict=True)
        return [bytes(view[begin:end]) for begin, end in places]


def _read_blocks(
    table: pa.Table, sources: Sequence[Source], block_bytes: int
) -> Iterator[tuple[int, _Block]]:
    """Yields (first row, frames) of successive blocks; without a step of Python for each record."""
    remote = any(source.is_remote for source in sources)
    units, offsets, lengths = (int64(table[name]) for name in ("unit", "offset", "length"))
    sizes = lengths if remote else _read_bytes(units, offsets, lengths)
    for start, end in _blocks(sizes, block_bytes):
        rows = slice(start, end)
        yield start, _read_block(units[rows], offsets[rows], lengths[rows], sources, remote=remote)


def _blocks(lengths: IntArray, block_bytes: int) -> Iterator[tuple[int, int]]:
    """The ranges of neighbours that have about so many bytes."""
    block_of = np.cumsum(lengths) // block_bytes
    edges = [0, *(np.flatnonzero(np.diff(block_of)) + 1).tolist(), len(lengths)]
    return itertools.pairwise(edges)


def _read_bytes(units: IntArray, offsets: IntArray, lengths: IntArray) -> IntArray:
    """[n] bytes read for a record: its own, and the gap before it if that is read too.

    A split of a tenth of the records has gaps of nine records; in blocks of so much payload they
    were ten times as much memory.
    """
    order = np.argsort(units, kind="stable")  # in a unit, offsets rise with the rows
    gaps = np.zeros(len(order), np.int64)
    gaps[1:] = offsets[order][1:] - (offsets + lengths)[order][:-1]
    gaps[run_starts(units[order]) | (gaps < 0) | (gaps > _LOCAL_GAP_BYTES)] = 0
    sizes = lengths.copy()
    sizes[order] += gaps
    return sizes


def _read_block(
    units: IntArray,
    offsets: IntArray,
    lengths: IntArray,
    sources: Sequence[Source],
    *,
    remote: bool,
) -> _Block:
    """Reads the frames of some records; neighbours in a source are one range."""
    order = np.lexsort((offsets, units))
    units, offsets, lengths = units[order], offsets[order], lengths[order]
    distinct = run_starts(units, offsets)
    number = np.empty(len(order), np.int64)
    number[order] = np.cumsum(distinct) - 1
    units, offsets, lengths = units[distinct], offsets[distinct], lengths[distinct]

    breaks = run_starts(units)
    gap = _REMOTE_GAP_BYTES if remote else _LOCAL_GAP_BYTES
    breaks[1:] |= offsets[1:] - (offsets + lengths)[:-1] > gap
    firsts = np.flatnonzero(breaks)
    starts, ends = offsets[firsts], np.maximum.reduceat(offsets + lengths, firsts)
    data = _read_ranges(units[firsts], starts, ends, sources, remote=remote)
    places = offsets + (bounds_of(ends - starts)[:-1] - starts)[np.cumsum(breaks) - 1]
    return _Block(data, places, lengths, units, number, sources)


def _read_ranges(
    units: IntArray, starts: IntArray, ends: IntArray, sources: Sequence[Source], *, remote: bool
) -> bytearray:
    """The bytes [start, end) of a source each; with zeros in place of what a source lacks."""
    begins = bounds_of(ends - starts)
    data = bytearray(int(begins[-1]))
    columns = (units, starts, ends - starts, begins[:-1])
    ranges = zip(*(column.tolist() for column in columns), strict=True)
    by_unit = [list(own) for _, own in itertools.groupby(ranges, key=operator.itemgetter(0))]

    def read(own: list[tuple[int, int, int, int]]) -> None:
        wanted = ((start, size) for _, start, size, _ in own)
        for (*_, begin), piece in zip(own, sources[own[0][0]].read(wanted), strict=True):
            data[begin : begin + len(piece)] = piece

    for _ in storage.in_parallel(read, by_unit, remote=remote):
        pass
    return data
