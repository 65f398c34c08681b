"""Rows that the tasks of one round of planning have for the tasks of the next one.

Each source writes one object, with a slice for every destination. Once all are written, a table
says where the slices of each destination are, so it reads what is for it, and nothing else. A slice
is some pieces, of which one is in memory at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_jobs import bounds
from beam_jobs.columns import int64
from beam_jobs.staging.reordering import Partitions
from beam_jobs.staging.units import dropping_damaged
from beam_jobs.workspace import Workspace
from foundation import storage
from foundation.storage import Place
from shard_format import FRAME_BYTES, frame, unframe, unframe_all

_PLACE = np.dtype([("begin", "<i8"), ("size", "<i8")])


class Exchange:
    """Slices of bytes, from some sources to some destinations.

    Args:
        workspace: The build.
        name: A name that no other exchange of the folder has.
        folder: Where its files are; None for the folder of the plan.
    """

    def __init__(self, workspace: Workspace, name: str, folder: Place | None = None) -> None:
        self._workspace = workspace
        self._name = name
        self._folder = folder or workspace.plan

    def write(self, source: int, slices: Iterable[bytes]) -> bytes:
        """Writes the slices of a source, one for each destination, and returns their sizes.

        Writing them again has no effect on who reads them meanwhile.
        """
        return self.write_pieces(source, enumerate(slices))

    def write_rows(self, source: int, rows: Partitions) -> bytes:
        """As `write`, of rows for each destination that need not fit in memory."""
        return self.write_pieces(source, _row_pieces(rows))

    def write_pieces(
        self, source: int, pieces: Iterable[tuple[int, bytes]], destinations: int = 0
    ) -> bytes:
        """As `write`, of slices in pieces.

        Args:
            source: Its number.
            pieces: Each with the number of its destination, ascending.
            destinations: How many there are at least.
        """
        sizes = [0] * destinations
        with self._workspace.write(self._of(source)) as file:
            for number, content in pieces:
                sizes += [0] * (number + 1 - len(sizes))
                sizes[number] += file.write(frame(content)) if content else 0
        return np.array(sizes, "<i8").tobytes()

    def finish(self, sizes: Sequence[bytes]) -> None:
        """Writes where the slices are, from the sizes that every source returned, in order."""
        by_source = np.stack([np.frombuffer(one, "<i8") for one in sizes])
        places = np.empty(by_source.T.shape, _PLACE)
        places["size"] = by_source.T
        places["begin"] = (np.cumsum(by_source, axis=1) - by_source).T
        with self._workspace.write(self._places()) as file:
            for destination in places:
                file.write(frame(destination.tobytes()))

    def read(self, destination: int, sources: int) -> Iterator[tuple[int, bytes]]:
        """The pieces of the slices for a destination, each with the number of its source.

        Args:
            destination: Its number.
            sources: How many sources there are.

        Raises:
            InputError: A slice is damaged.
        """
        places = self._places_of(destination, sources)
        remote = storage.local_path(self._folder) is None
        blocks = storage.in_parallel(self._block, _blocks(places), remote=remote)
        ends = np.cumsum(places["size"])
        where = f"what {self._places()} has for {destination}"
        with dropping_damaged(lambda: None):  # every build writes its exchanges again
            for begin, content in unframe_all(_Joined(blocks), where):
                yield int(np.searchsorted(ends, begin, side="right")), content

    def rows(
        self, destination: int, sources: int, dtype: npt.DTypeLike
    ) -> Iterator[tuple[int, npt.NDArray[Any]]]:
        """As `read`, of slices that are arrays."""
        for source, content in self.read(destination, sources):
            yield source, np.frombuffer(content, dtype)

    def count(self, destination: int, sources: int, dtype: np.dtype[Any]) -> int:
        """Number of the rows for a destination that `write_rows` wrote."""
        sizes = self._places_of(destination, sources)["size"]
        frames = -(-sizes // (FRAME_BYTES + _rows_of_frame(dtype) * dtype.itemsize))
        return int((sizes - frames * FRAME_BYTES).sum()) // dtype.itemsize

    def _places_of(self, destination: int, sources: int) -> npt.NDArray[np.void]:
        """[sources] where the slices for a destination are."""
        size = FRAME_BYTES + sources * _PLACE.itemsize
        with dropping_damaged(lambda: None):
            table = storage.read_range(self._places(), destination * size, size)
            return np.frombuffer(unframe(table, self._places()), _PLACE)

    def tables(self, destination: int, sources: int) -> Iterator[pa.Table]:
        """As `read`, of slices whose pieces are those of `table_pieces`."""
        for _, content in self.read(destination, sources):
            yield pa.ipc.open_stream(content).read_all()

    def _block(self, block: tuple[int, int, int]) -> bytes:
        source, begin, size = block
        return storage.read_range(self._of(source), begin, size)

    def _of(self, source: int) -> Place:
        return self._folder / f"{self._name}-{source:05d}.slices"

    def _places(self) -> Place:
        return self._folder / f"{self._name}.places"


def table_pieces(tables: Iterable[pa.Table], by: str) -> Iterator[tuple[int, bytes]]:
    """Yields rows as pieces of slices, without the column that they are sorted by.

    Args:
        tables: Rows in the order of that column.
        by: Name of the column with the number of the destination of each row.
    """
    for table in tables:
        numbers = int64(table[by])
        for number in np.unique(numbers).tolist():
            first, last = np.searchsorted(numbers, [number, number + 1]).tolist()
            rows = table.slice(first, last - first).drop_columns([by])
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, rows.schema) as writer:
                writer.write_table(rows)
            yield number, sink.getvalue().to_pybytes()


def _row_pieces(rows: Partitions) -> Iterator[tuple[int, bytes]]:
    """Yields all partitions as pieces of slices, at least one of each."""
    for number, part in enumerate(rows.take_by(_rows_of_frame(rows.dtype))):
        yield number, b""
        for piece in part:
            yield number, piece.tobytes()


def _rows_of_frame(dtype: np.dtype[Any]) -> int:
    return max(1, bounds.EXCHANGED_BYTES // dtype.itemsize)


def _blocks(places: npt.NDArray[np.void]) -> Iterator[tuple[int, int, int]]:
    """Yields source, begin and size of the bytes that are read at a time."""
    for source in np.flatnonzero(places["size"]).tolist():
        begin, size = places[source].tolist()
        for at in range(begin, begin + size, bounds.EXCHANGED_BYTES):
            yield source, at, min(bounds.EXCHANGED_BYTES, begin + size - at)


class _Joined:
    """Blocks of bytes as a file.

    Args:
        blocks: In order.
    """

    def __init__(self, blocks: Iterator[bytes]) -> None:
        self._blocks = blocks
        self._rest = memoryview(b"")

    def read(self, size: int, /) -> bytes:
        """The next bytes, at most `size`."""
        parts: list[memoryview] = []
        while size:
            if not self._rest:
                self._rest = memoryview(next(self._blocks, b""))
            if not self._rest:
                break
            parts.append(self._rest[:size])
            self._rest = self._rest[size:]
            size -= len(parts[-1])
        return b"".join(parts)
