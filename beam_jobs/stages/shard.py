"""Stage 4, shard: a recipe, or cells of merged runs, become a shard.

A shard is a range of the key space and every unit is sorted by key, so its records are contiguous
in each unit: they are read in blocks of neighbouring bytes, merged and written in order. From local
units, a block is as large as a batch of the record type. Where a read is a request, a shard is one
block of up to 512 MiB in memory: 128 MiB in at most 16 reads of 8 MiB if units were merged, else
one from each unit.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_jobs.columns import IntArray, bytes_of
from beam_jobs.job_context import JobContext
from beam_jobs.progress import report
from beam_jobs.selection import weights_of
from beam_jobs.stages.labels import Labels
from beam_jobs.stages.plan import LIMITS, ShardSpec, load_plan
from beam_jobs.staging.examples import BuiltBlock, StagedBlock
from beam_jobs.staging.reader import Source, read_staged, unit_sources
from beam_jobs.staging.recipes import read_recipe, recipe_rows
from beam_jobs.staging.runs import Cell, read_cells
from beam_jobs.staging.units import dropping_damaged, kept_column
from beam_jobs.workspace import (
    Workspace,
    read_marker,
    read_planned_marker,
    write_marker,
    write_table,
)
from foundation import storage
from foundation.storage import Place
from shard_format import DamageError, ShardInfo, file_sha256, frame_columns, index_schema

# A row of the table of a shard is in memory for so many bytes of a block: 4,096 of images, 16,384
# of texts. With the blocks and rows of images, shards of texts took a third more CPU time.
_BLOCK_BYTES_PER_ROW = 256


class WrittenShard(NamedTuple):
    """A finished shard; its index rows wait for the commit.

    Attributes:
        info: What the manifest says of it.
        reused: Whether it was found done.
        index_sha256: Checksum of its rows of the index.
        counters_sha256: Checksum of its counters; "" if there are none.
    """

    info: ShardInfo
    reused: bool
    index_sha256: str
    counters_sha256: str

    def done(self, spec: ShardSpec) -> bytes:
        """What leaves the worker, see `ShardDone`."""
        return ShardDone(spec.split, spec.shard, self.info.records).pack()


class ShardDone(NamedTuple):
    """What a worker returns for a finished shard; its other values are stored with its rows.

    A corpus of 1,000 TB has seven million shards, and one worker has all of these.

    Attributes:
        split: The split it belongs to.
        shard: Its number.
        records: Number of its records.
    """

    split: str
    shard: int
    records: int

    def pack(self) -> bytes:
        """These values as a few bytes, a fifth of what a tuple of them takes."""
        return _PACKED.pack(self.shard, self.records) + self.split.encode()

    @classmethod
    def unpack(cls, packed: bytes) -> ShardDone:
        """The inverse of `pack`."""
        shard, records = _PACKED.unpack_from(packed)
        return cls(packed[_PACKED.size :].decode(), shard, records)


_PACKED = struct.Struct("<qq")


def read_index_part(file: str, workspace: Workspace) -> tuple[WrittenShard, pa.Table]:
    """A finished shard, and the rows of the index that it has left for the commit.

    Args:
        file: Name of the shard.
        workspace: The build.

    Raises:
        InputError: They are damaged, and the shard is written again by the next build.
    """
    shard = _written(read_planned_marker(_marker(workspace, file)))
    with dropping_damaged(partial(storage.delete, _marker(workspace, file))):
        return shard, workspace.read_checked(_index_part(workspace, file), shard.index_sha256)


def read_counters(shard: WrittenShard, workspace: Workspace) -> pa.Table | None:
    """The counters of a shard, if it has any.

    Raises:
        InputError: As of `read_index_part`.
    """
    file = shard.info.file
    if not shard.counters_sha256:
        return None
    with dropping_damaged(partial(storage.delete, _marker(workspace, file))):
        return workspace.read_checked(_counters_part(workspace, file), shard.counters_sha256)


def _index_part(workspace: Workspace, file: str) -> Place:
    return workspace.shards / f"{file}.arrow"


def _counters_part(workspace: Workspace, file: str) -> Place:
    return workspace.shards / f"{file}.counters"


def _marker(workspace: Workspace, file: str) -> Place:
    """What marks a shard as done."""
    return workspace.shards / f"{file}.json"


def write_shard(
    spec: ShardSpec, context: JobContext, block_bytes: int = LIMITS.block_bytes
) -> WrittenShard:
    """Writes one shard and its part of the index, or finds that it was done before.

    Args:
        spec: What to write.
        context: The job.
        block_bytes: Payload in memory at a time where a read takes long.

    Raises:
        InputError: A staged unit is damaged, or was removed during the build.
    """
    record_type, workspace = context.record_type, context.workspace
    marker = _marker(workspace, spec.file)
    done = _done_before(spec, marker, workspace)
    if done is not None:
        report(workspace.progress, "shard", spec.records)
        return done
    # The marker describes a shard that is about to be replaced.
    storage.delete(marker)
    plan = load_plan(workspace)
    builder = record_type.example_builder(workspace, spec.split)
    schema = index_schema(record_type.index_columns)
    part = _index_part(workspace, spec.file)
    rows = workspace.drafts({"rows": part})["rows"]
    # Under its final name: without a manifest, OUT is not a shard set yet.
    with (
        workspace.write(workspace.out / spec.file, durable=True) as file,
        workspace.write_arrow(rows) as sink,
        pa.ipc.new_file(sink, schema) as index,
    ):
        shard = _ShardFile(spec.shard, file, index, schema)
        whole = builder.joins_records
        has_weights = context.options.sample_weight is not None
        weights_of_rows = weights_of(context.options, record_type) if has_weights else None
        for table, sources in _tables(spec, context, block_bytes, whole=whole):
            weights = weights_of_rows and weights_of_rows(table)
            labels = Labels(table, record_type.schema, plan.class_names, weights)
            payloads = read_staged(table, sources, block_bytes, record_type.batch_bytes)
            staged = _staged(payloads, labels, workspace)
            shard.write(table, labels, builder.build_blocks(table, staged))
            del table, labels, payloads, staged  # else they are in memory with the next ones
    info = ShardInfo(spec.file, shard.records, shard.bytes, shard.digest.hexdigest())
    digests = [file_sha256(rows), ""]
    workspace.publish({rows: part})
    counters = builder.counters()
    if counters is not None:
        counted = _counters_part(workspace, spec.file)
        write_table(workspace, counted, counters)
        digests[1] = file_sha256(counted)
    said = {"recipe_key": spec.recipe_key, "info": info.__dict__, "sha256": digests}
    write_marker(workspace, marker, said)
    return WrittenShard(info, False, *digests)


def _tables(
    spec: ShardSpec, context: JobContext, block_bytes: int, *, whole: bool
) -> Iterator[tuple[pa.Table, list[Source]]]:
    """The rows of the shard in order, some at a time, and where their payload is.

    A shard of tiny records has a hundred thousand rows, of some hundred bytes each.
    """
    record_type, workspace = context.record_type, context.workspace
    rows_at_once = record_type.batch_bytes // _BLOCK_BYTES_PER_ROW
    if spec.cells:
        cells = [Cell(*cell) for cell in spec.cells]
        table, sources = read_cells(cells, workspace, block_bytes)
        step = len(table) if whole else rows_at_once
        for start in range(0, len(table), step):
            yield table.slice(start, step), sources
        return
    recipe = read_recipe(storage.place_of(spec.recipe))
    sources = unit_sources([unit.key for unit in recipe.units], workspace)
    remote = storage.local_path(workspace.units) is None  # where every look at a unit is a request
    step = len(recipe.rows) if whole or remote else rows_at_once
    for start in range(0, len(recipe.rows), step):
        some = recipe._replace(rows=recipe.rows.slice(start, step))
        yield recipe_rows(some, record_type.planning_columns, workspace), sources


def _done_before(spec: ShardSpec, marker: Place, workspace: Workspace) -> WrittenShard | None:
    done = read_marker(marker)
    if done is None or done["recipe_key"] != spec.recipe_key:
        return None
    shard = _written(done)
    written = storage.stat(workspace.out / spec.file)
    if written is None or written.size != shard.info.bytes:
        return None
    try:
        workspace.check_file(_index_part(workspace, spec.file), shard.index_sha256)
        workspace.check_file(_counters_part(workspace, spec.file), shard.counters_sha256)
    except (FileNotFoundError, DamageError):
        return None
    return shard


def _written(marker: dict[str, Any]) -> WrittenShard:
    """The shard that a marker describes, which was written before."""
    return WrittenShard(ShardInfo(**marker["info"]), True, *marker["sha256"])


def _staged(
    payloads: Iterable[tuple[int, pa.LargeBinaryArray]], labels: Labels, workspace: Workspace
) -> Iterator[StagedBlock]:
    """The records of the shard with their payload, in final order."""
    for start, block in payloads:
        yield StagedBlock(start, block, labels.entries(start, start + len(block)))
        report(workspace.progress, "shard", len(block))


class _ShardFile:
    """A shard and its part of the index, while they are written.

    Attributes:
        records: Examples so far.
        bytes: Size of the shard so far.
        digest: SHA-256 of them.
    """

    def __init__(
        self, number: int, file: BinaryIO, index: pa.RecordBatchWriter, schema: pa.Schema
    ) -> None:
        self.records = self.bytes = 0
        self.digest = hashlib.sha256()
        self._number = number
        self._file = file
        self._index = index
        self._schema = schema

    def write(self, table: pa.Table, labels: Labels, blocks: Iterator[BuiltBlock]) -> None:
        """Adds the examples that become of some rows of the shard."""
        written = _WrittenShard(self._schema)
        for built in blocks:
            frames = frame_columns(built.examples)
            data = bytes_of(frames)
            self.digest.update(data)
            self._file.write(data)
            written.append(built, frames)
            del built, frames, data  # else they are in memory while the next ones are made
        self._index.write_table(written.index_rows(self._number, self.bytes, table, labels))
        self.records += len(written.lengths)
        self.bytes += int(written.lengths.sum())


class _WrittenShard:
    """The rows of a table that go to the index, and the columns that differ there."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._rows: list[IntArray] = [np.zeros(0, np.int64)]
        self._lengths: list[IntArray] = [np.zeros(0, np.int64)]
        self._changed: dict[str, list[Any]] = {}

    def append(self, built: BuiltBlock, frames: pa.LargeBinaryArray) -> None:
        self._rows.append(built.rows)
        self._lengths.append(np.asarray(pc.binary_length(frames), np.int64))
        for name, values in built.columns.items():
            self._changed.setdefault(name, []).extend(values)

    @property
    def lengths(self) -> IntArray:
        """[n] int64, bytes of every frame."""
        return np.concatenate(self._lengths)

    def index_rows(self, shard: int, begin: int, table: pa.Table, labels: Labels) -> pa.Table:
        """The rows of the index.

        Args:
            shard: Number of the shard.
            begin: Position in it of the first frame.
            table: The rows of the records.
            labels: Their labels.
        """
        length = self.lengths
        schema = self._schema
        present = set(table.column_names)
        staged = {
            name: kept_column(name) if kept_column(name) in present else name
            for name in schema.names
        }
        columns = {name: table[own] for name, own in staged.items() if own in present}
        columns |= {name: pa.chunked_array([values]) for name, values in labels.columns().items()}
        rows = np.concatenate(self._rows)
        if len(rows) != len(table) or np.any(np.diff(rows) != 1):
            columns = {name: column.take(pa.array(rows)) for name, column in columns.items()}
        changed = {
            name: pa.array(values, schema.field(name).type)
            for name, values in self._changed.items()
        }
        place = {
            "shard": np.full(len(length), shard, np.int32),
            "offset": begin + np.cumsum(length) - length,
            "length": length,
        }
        return pa.table(columns | changed | place).select(schema.names).cast(schema)
