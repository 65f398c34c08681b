"""Columns of all staged units, some rows of one unit in memory at a time."""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from beam_jobs import bounds
from beam_jobs.columns import BoolArray, IntArray, bounds_of
from beam_jobs.staging import UnitSummary, forget_unit, unit_files
from beam_jobs.staging.reordering import Partitions, RowFile, RowSorter
from beam_jobs.staging.units import dropping_damaged, read_sidecar
from beam_jobs.workspace import Workspace, read_table
from foundation import storage
from shard_format import decode_example, finish_example, unframe


class Sidecars:
    """The Arrow sidecars of a corpus.

    The number of a staged record is its position when all sidecars are concatenated in the order
    of their unit keys. It depends on how units are cut, so it must not decide anything.

    Args:
        workspace: The build.
        summaries: Summaries of all units.
        on_read: Called with the number of rows after each sidecar.

    Attributes:
        keys: Unit keys, sorted; the number of a unit is its position in this list.
        sha256: Checksum of each sidecar.
        begins: [units + 1] int64, the number of the first record of each unit; last, `records`.
        records: Number of staged records in all units.
        excluded: [records] bool, those that planning must not see; None if there is none.
    """

    _remote = False
    _left_out: IntArray = np.zeros(0, np.int64)
    excluded: BoolArray | None = None
    _edit: Callable[[int, pa.Table], pa.Table] | None = None

    def __init__(
        self,
        workspace: Workspace,
        summaries: Iterable[UnitSummary],
        on_read: Callable[[int], None] = lambda rows: None,
    ) -> None:
        self._workspace = workspace
        self._on_read = on_read
        self._remote = storage.local_path(workspace.units) is None
        kept = {summary.key: summary for summary in summaries if summary.kept}
        self.keys: Sequence[str] = sorted(kept)
        self.sha256: Sequence[str] = [kept[key].sha256.get("arrow", "") for key in self.keys]
        self._copies: _LocalCopies | _JoinedUnits = _LocalCopies(workspace)
        sizes = (kept[key].kept for key in self.keys)
        self.begins: IntArray = np.cumsum([0, *sizes], dtype=np.int64)
        self.records = int(self.begins[-1])

    def table(self, unit: int) -> pa.Table:
        """The sidecar of one unit."""
        table = self._copies.table(self.keys[unit], self.sha256[unit])
        return table if self._edit is None else self._edit(unit, table)

    def fetch(self) -> None:
        """Copies remote sidecars to the local disk, for passes over all of them."""
        if isinstance(self._copies, _LocalCopies):
            self._copies.fetch(self.keys, self.sha256)

    def scratch_file(self) -> Path:
        """A new local path for what does not fit in memory."""
        return self._workspace.scratch_file()

    def partitions(self, dtype: np.dtype[Any], number: int) -> Partitions:
        """Where rows of all units wait for their partition to be complete."""
        return Partitions(self.scratch_file(), dtype, number)

    def row_file(self, dtype: np.dtype[Any]) -> RowFile:
        """Where rows of all units get a number of their own."""
        return RowFile(self.scratch_file(), dtype)

    def sorter(self, schema: pa.Schema, by: Sequence[str]) -> RowSorter:
        """Where rows of all units are brought into another order."""
        return RowSorter(self.scratch_file(), schema, by)

    def without_progress(self) -> Sidecars:
        """The same, for passes that no progress bar counts."""
        same = copy.copy(self)
        same._on_read = lambda rows: None
        return same

    def edited(self, edit: Callable[[int, pa.Table], pa.Table]) -> Sidecars:
        """The same with other columns, for passes that no progress bar counts.

        Args:
            edit: From the number of a unit and its table to the table to use.
        """
        same = self.without_progress()
        same._edit = edit
        return same

    def join(self, sink: pa.NativeFile, columns: Sequence[str]) -> None:
        """Writes some columns of all units, each as a record batch, for `joined`."""
        writer = None
        for unit in range(len(self.keys)):
            table = self.table(unit).select(list(columns))
            plain = pa.schema([(field.name, _plain(field.type)) for field in table.schema])
            (batch,) = table.cast(plain).combine_chunks().to_batches()
            writer = writer or pa.ipc.new_file(sink, plain)
            writer.write_batch(batch)
        if writer is not None:
            writer.close()

    def joined(self, path: Path) -> Sidecars:
        """The same units with the columns that `join` wrote, in a local file that is mapped."""
        same = copy.copy(self)
        same._copies = _JoinedUnits(path, self.keys)
        return same

    def without(self, records: IntArray) -> Sidecars:
        """The same, of which these records, ascending, are not included."""
        same = copy.copy(self)
        same._left_out = records
        return same

    def included(self, begin: int, table: pa.Table) -> BoolArray:
        """Which rows of a part are to be planned."""
        rows = slice(begin, begin + len(table))
        included = np.ones(len(table), bool) if self.excluded is None else ~self.excluded[rows]
        included[rows_among(self._left_out, begin, table)[1]] = False
        return included

    def place_of(self, begin: int) -> tuple[int, int]:
        """The unit of a record, and its row there."""
        unit = int(np.searchsorted(self.begins, begin, side="right")) - 1
        return unit, begin - int(self.begins[unit])

    def examples(self, records: IntArray) -> Iterator[dict[str, Any]]:
        """The staged features of some records, in their order, from the payload.

        A sidecar is opened once, and a record takes a read: for a few thousand at most.
        """
        places = self.take(records, ["offset", "length"])
        units = np.searchsorted(self.begins, records, side="right") - 1
        columns = (units.tolist(), *(places[name].to_pylist() for name in ("offset", "length")))
        for unit, offset, length in zip(*columns, strict=True):
            path = unit_files(self._workspace, self.keys[unit])["tfrecord"]
            framed = storage.read_range(path, offset, length)
            with dropping_damaged(partial(forget_unit, self._workspace, self.keys[unit])):
                payload = unframe(framed, str(path))
            yield dict(decode_example(finish_example(payload)))

    def __iter__(self) -> Iterator[tuple[int, pa.Table]]:
        return self.parts(0, len(self.keys))

    def parts(self, first: int, last: int) -> Iterator[tuple[int, pa.Table]]:
        """The rows of some units in order, in parts: (number of the first record, table) of each.

        Args:
            first: Number of the first unit.
            last: Number behind the last one.
        """
        for unit in range(first, last):
            table = self.table(unit)
            for row in range(0, len(table), bounds.PLANNED_ROWS):
                part = table.slice(row, bounds.PLANNED_ROWS)
                yield int(self.begins[unit]) + row, part
                self._on_read(len(part))

    def take(self, records: IntArray, columns: Sequence[str]) -> pa.Table:
        """Some columns of some records, in the order of `records`.

        Args:
            records: [n] int64, numbers of records.
            columns: Names.
        """
        if not len(records):
            return pa.table({name: pa.array([], pa.null()) for name in columns})
        units = np.searchsorted(self.begins, records, side="right") - 1
        rows = records - self.begins[units]
        return take_rows(
            units, rows, lambda unit: self.table(unit).select(list(columns)), remote=self._remote
        )


class _LocalCopies:
    """Copies of remote sidecars on the local disk: planning passes over all of them many times.

    They are removed with the last use of this object.
    """

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._remote = storage.local_path(workspace.units) is None
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def fetch(self, keys: Sequence[str], sha256: Sequence[str]) -> None:
        """Copies the sidecars of these units, each in one request, many at a time.

        Raises:
            InputError: One does not have its checksum.
        """
        if not self._remote or self._folder is not None:
            return
        folder = tempfile.TemporaryDirectory(dir=self._workspace.scratch_file().parent)

        def copy_one(unit: tuple[str, str]) -> None:
            key, digest = unit
            copied = Path(folder.name) / key
            storage.write_bytes(
                copied, storage.read_bytes(unit_files(self._workspace, key)["arrow"])
            )
            with dropping_damaged(lambda: forget_unit(self._workspace, key)):
                self._workspace.check_file(copied, digest)

        for _ in storage.in_parallel(copy_one, zip(keys, sha256, strict=True), remote=True):
            pass
        self._folder = folder

    def table(self, key: str, sha256: str) -> pa.Table:
        """The sidecar of a unit."""
        if self._folder is not None:
            return read_table(Path(self._folder.name) / key)
        return read_sidecar(self._workspace, key, sha256)


class _JoinedUnits:
    """Columns of units in one file, in which each has a record batch."""

    def __init__(self, path: Path, keys: Sequence[str]) -> None:
        self._reader = pa.ipc.open_file(pa.memory_map(str(path)))
        self._numbers = {key: number for number, key in enumerate(keys)}

    def table(self, key: str, sha256: str) -> pa.Table:
        """The columns of a unit; those of all units were compared with a checksum."""
        return pa.Table.from_batches([self._reader.get_batch(self._numbers[key])])


def _plain(kind: pa.DataType) -> pa.DataType:
    """The type without a dictionary, which may differ from unit to unit."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def rows_among(records: IntArray, begin: int, table: pa.Table) -> tuple[slice, IntArray]:
    """Which of some records, ascending, are in a part of the sidecars, and their rows there."""
    first, last = np.searchsorted(records, [begin, begin + len(table)]).tolist()
    return slice(first, last), records[first:last] - begin


def take_rows(
    units: IntArray,
    rows: IntArray,
    table_of: Callable[[int], pa.Table],
    *,
    remote: bool = False,
) -> pa.Table:
    """Rows of some units in the order given; every unit is opened once.

    Args:
        units: [n] int64, numbers of units; at least one.
        rows: [n] int64, the row of each in its unit.
        table_of: From the number of a unit to its columns.
        remote: Whether that takes long, so that many are read at a time.
    """
    order = np.lexsort((rows, units))
    runs = np.split(order, np.flatnonzero(np.diff(units[order])) + 1)

    def take(run: IntArray) -> pa.Table:
        return _take_ascending(table_of(int(units[run[0]])), rows[run])

    parts = list(_joined(storage.in_parallel(take, runs, remote=remote)))
    back = np.empty(len(order), np.int64)
    back[order] = np.arange(len(order))
    return pa.concat_tables(parts).take(pa.array(back))


def _joined(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """The same rows in fewer tables: the columns of one of few rows take more than these."""
    arriving, rows = list[pa.Table](), 0
    for table in tables:
        arriving.append(table)
        rows += len(table)
        if rows >= bounds.JOINED_ROWS:
            yield pa.concat_tables(arriving).combine_chunks()
            arriving, rows = [], 0
    if arriving:
        yield pa.concat_tables(arriving)


def _take_ascending(table: pa.Table, rows: IntArray) -> pa.Table:
    """Rows of a table, batch by batch: Arrow would first copy the whole columns, to join chunks."""
    batches = table.to_batches()
    begins = bounds_of(np.array([len(batch) for batch in batches], np.int64))
    edges = np.searchsorted(rows, begins).tolist()
    parts = [
        batch.take(pa.array(rows[first:last] - begin))
        for batch, begin, first, last in zip(
            batches, begins[:-1].tolist(), edges[:-1], edges[1:], strict=True
        )
        if first < last
    ]
    return pa.Table.from_batches(parts, table.schema)
