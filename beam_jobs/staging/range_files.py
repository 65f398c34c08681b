"""Files by which the tasks of planning in rounds work, and hand rows to those of later rounds."""

from __future__ import annotations

import abc
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from beam_jobs.columns import IntArray, bounds_of
from beam_jobs.staging.exchange import Exchange
from beam_jobs.staging.reordering import (
    Partitions,
    RowFile,
    RowSorter,
    StoredRows,
    StructuredArray,
)
from beam_jobs.staging.units import dropping_damaged
from beam_jobs.workspace import Workspace
from foundation import storage
from foundation.storage import Place
from shard_format import file_sha256, frame, unframe


class RangeFiles(abc.ABC):
    """Files of a build that is planned by ranges."""

    @property
    @abc.abstractmethod
    def workspace(self) -> Workspace:
        """The folders of the build."""

    @property
    @abc.abstractmethod
    def records_by_range(self) -> Sequence[int]:
        """Number of the records in each range of units."""

    @property
    def ranges(self) -> int:
        """Number of ranges of units, and of hashes."""
        return len(self.records_by_range)

    @property
    def begins(self) -> IntArray:
        """[ranges + 1] int64, the number of the first record of each range of units."""
        return bounds_of(np.array(self.records_by_range, np.int64))

    def sources(self, records: IntArray) -> IntArray:
        """[n] int64, the range of units that has each record."""
        return np.searchsorted(self.begins, records, side="right") - 1

    def exchange(self, name: str) -> Exchange:
        """What one round writes, and the next one reads."""
        return Exchange(self.workspace, name)

    def received(
        self, name: str, number: int, dtype: np.dtype[Any]
    ) -> Iterator[tuple[int, StructuredArray]]:
        """(source, rows) of an exchange whose sources are all ranges, some at a time."""
        return self.exchange(name).rows(number, self.ranges, dtype)

    @contextmanager
    def sent(self, name: str, number: int, dtype: np.dtype[Any], sizes: dict[str, bytes]) -> Any:
        """Partitions by range, which are sent as an exchange at the end.

        Args:
            name: The exchange.
            number: The range that sends.
            dtype: Structured type of a row.
            sizes: Gets the sizes of the slices.
        """
        with self.partitions(dtype, self.ranges) as rows:
            yield rows
            sizes[name] = self.exchange(name).write_rows(number, rows)

    @contextmanager
    def partitions(self, dtype: np.dtype[Any], number: int) -> Iterator[Partitions]:
        """Where rows wait for their partition to be complete."""
        with closing(Partitions(self.workspace.scratch_file(), dtype, number)) as partitions:
            yield partitions

    def sorter(self, *schema_and_order: Any) -> RowSorter:
        """Where rows are brought into another order."""
        return RowSorter(self.workspace.scratch_file(), *schema_and_order)

    def row_file(self, dtype: np.dtype[Any]) -> RowFile:
        """Where rows get a number of their own."""
        return RowFile(self.workspace.scratch_file(), dtype)

    def save(self, name: str, array: npt.NDArray[Any]) -> None:
        """Writes an array for later rounds."""
        with self.workspace.write(self._place(name)) as file:
            file.write(frame(array.tobytes()))

    def load(self, name: str, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """[n] a writable copy of an array that was saved.

        Raises:
            InputError: It was damaged since.
        """
        place = self._place(name)
        with dropping_damaged(lambda: storage.delete(place)):
            content = unframe(storage.read_bytes(place), str(place))
        return np.frombuffer(content, dtype).copy()

    def _place(self, name: str) -> Place:
        return self.workspace.plan / f"{name}.array"

    @contextmanager
    def writing_rows(self, name: str, number: int, checksums: dict[str, str]) -> Iterator[Any]:
        """A file to which rows of a range are written for its tasks of later rounds.

        Args:
            name: What they are.
            number: The range.
            checksums: Gets the checksum of the file.
        """
        place = self._rows_place(name, number)
        with self.workspace.write(place) as file:
            yield file
        checksums[name] = file_sha256(place)

    @contextmanager
    def written_rows(
        self, name: str, number: int, dtype: np.dtype[Any], sha256: str
    ) -> Iterator[StoredRows]:
        """The rows of such a file.

        Raises:
            InputError: It was damaged since.
        """
        with self.workspace.local_copy(self._rows_place(name, number)) as path:
            with dropping_damaged(lambda: None):  # every build writes it again
                self.workspace.check_file(path, sha256)
            with closing(StoredRows(path, dtype)) as rows:
                yield rows

    def _rows_place(self, name: str, number: int) -> Place:
        return self.workspace.plan / f"{name}-{number:05d}.rows"
