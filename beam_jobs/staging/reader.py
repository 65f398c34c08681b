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

from beam_jobs.columns import IntArray, bounds_of, int64, run_starts
from beam_jobs.staging.examples import BLOCK_BYTES
from beam_jobs.staging.parallel import in_parallel
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
    if not any(source.is_remote for source in sources):
        yield from _read_columns(table, sources, local_bytes)
        return
    for start, payloads in _read_blocks(table, sources, block_bytes, unframe):
        # A block that was read from an object store is larger than what is built at a time.
        for begin, end in _blocks(np.array(list(map(len, payloads))), BLOCK_BYTES):
            yield start + begin, pa.array(payloads[begin:end], pa.large_binary())


def _blocks(lengths: IntArray, block_bytes: int) -> Iterator[tuple[int, int]]:
    """The ranges of neighbours that have about so many bytes."""
    block_of = np.cumsum(lengths) // block_bytes
    edges = [0, *(np.flatnonzero(np.diff(block_of)) + 1).tolist(), len(lengths)]
    return itertools.pairwise(edges)


def _read_columns(
    table: pa.Table, sources: Sequence[Source], block_bytes: int
) -> Iterator[tuple[int, pa.LargeBinaryArray]]:
    """`read_staged` of local files; without a step of Python for each record but its checksum."""
    units, offsets, lengths = (int64(table[name]) for name in ("unit", "offset", "length"))
    for start, end in _blocks(_read_bytes(units, offsets, lengths), block_bytes):
        rows = slice(start, end)
        yield start, _read_column(units[rows], offsets[rows], lengths[rows], sources)


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


def _read_column(
    units: IntArray, offsets: IntArray, lengths: IntArray, sources: Sequence[Source]
) -> pa.LargeBinaryArray:
    """[n] large_binary, the payloads of some records."""
    order = np.lexsort((offsets, units))
    units, offsets, lengths = units[order], offsets[order], lengths[order]
    distinct = run_starts(units, offsets)  # --balance repeats records
    number = np.empty(len(order), np.int64)
    number[order] = np.cumsum(distinct) - 1
    units, offsets, lengths = units[distinct], offsets[distinct], lengths[distinct]

    breaks = run_starts(units)
    breaks[1:] |= offsets[1:] - (offsets + lengths)[:-1] > _LOCAL_GAP_BYTES
    firsts = np.flatnonzero(breaks)
    starts, ends = offsets[firsts], np.maximum.reduceat(offsets + lengths, firsts)
    begins = bounds_of(ends - starts)
    data = b"".join(_read_ranges(units[firsts], starts, ends, sources))
    places = offsets + (begins[:-1] - starts)[np.cumsum(breaks) - 1]
    payloads, damaged = unframe_columns(data, places, lengths, number)
    if damaged >= 0:
        source = sources[int(units[damaged])]
        with source.reporting_damage():
            begin = int(places[damaged])
            unframe(data[begin : begin + int(lengths[damaged])], str(source.place))
            raise DamageError(f"frames overlap in {source.place}")
    return payloads


def _read_ranges(
    units: IntArray, starts: IntArray, ends: IntArray, sources: Sequence[Source]
) -> Iterator[bytes]:
    """The bytes [start, end) of a source each; with zeros in place of what a source lacks."""
    ranges = zip(units.tolist(), starts.tolist(), (ends - starts).tolist(), strict=True)
    for unit, own in itertools.groupby(ranges, key=operator.itemgetter(0)):
        wanted = [(start, size) for _, start, size in own]
        for (_, size), data in zip(wanted, sources[unit].read(wanted), strict=True):
            yield data if len(data) == size else data.ljust(size, b"\0")


def read_frames(
    table: pa.Table, sources: Sequence[Source], block_bytes: int
) -> Iterator[tuple[int, list[bytes]]]:
    """As `read_staged`, but whole frames as bytes, whose checksums are right, in larger blocks."""
    return _read_blocks(table, sources, block_bytes, _checked)


def _checked(framed: bytes, where: str) -> bytes:
    unframe(framed, where)
    return framed


class _Range(NamedTuple):
    """Neighbouring frames of a source, which are read together.

    Attributes:
        frames: (row in the block, offset, length) of each, by offset.
    """

    frames: list[tuple[int, int, int]]

    @property
    def place(self) -> tuple[int, int]:
        """Offset and size; frames overlap only where a record is needed twice."""
        first, (_, offset, length) = self.frames[0][1], self.frames[-1]
        return first, offset + length - first


def _read_blocks(
    table: pa.Table,
    sources: Sequence[Source],
    block_bytes: int,
    take: Callable[[bytes, str], bytes],
) -> Iterator[tuple[int, list[bytes]]]:
    lengths = int64(table["length"])
    gaps = [_REMOTE_GAP_BYTES if one.is_remote else _LOCAL_GAP_BYTES for one in sources]
    remote = _REMOTE_GAP_BYTES in gaps
    if not remote:
        block_bytes = min(block_bytes, _LOCAL_BLOCK_BYTES)
    offsets, units = int64(table["offset"]), int64(table["unit"])

    for start, end in _blocks(lengths, block_bytes):
        payloads: list[bytes] = [b""] * (end - start)

        def read(of: tuple[int, list[_Range]], into: list[bytes] = payloads) -> None:
            source, ranges = sources[of[0]], of[1]
            where, blocks = str(source.place), source.read(one.place for one in ranges)
            with source.reporting_damage():
                for one, data in zip(ranges, blocks, strict=True):
                    first = one.frames[0][1]
                    for row, offset, length in one.frames:
                        into[row] = take(data[offset - first : offset - first + length], where)

        block = slice(start, end)
        needed = _ranges(units[block], offsets[block], lengths[block], gaps)
        for _ in in_parallel(read, needed, remote=remote):
            pass
        yield start, payloads


def _ranges(
    units: IntArray, offsets: IntArray, lengths: IntArray, gaps: Sequence[int]
) -> list[tuple[int, list[_Range]]]:
    """What a block needs of each source, by its number.

    In Python, since a source has few records of a block, for which numpy takes longer.

    Args:
        units: [rows] numbers of sources.
        offsets: [rows] of frames.
        lengths: [rows] of frames.
        gaps: Of each source, the bytes between two frames that are read together.
    """
    # By source and offset: copies of a record break the order of the offsets.
    order = np.lexsort((offsets, units))
    columns = (one.tolist() for one in (order, units[order], offsets[order], lengths[order]))
    needed: list[tuple[int, list[_Range]]] = []
    last, reach = -1, 0
    for row, unit, offset, length in zip(*columns, strict=True):
        if unit != last:
            needed.append((unit, []))
            last, reach = unit, -1
        ranges = needed[-1][1]
        if offset > reach:
            ranges.append(_Range([]))
        ranges[-1].frames.append((row, offset, length))
        reach = offset + length + gaps[unit]
    return needed
