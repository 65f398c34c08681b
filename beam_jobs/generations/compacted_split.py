"""The shards and the index of a split in a compacted set.

Where shards begin is decided as in a build, in passes over the keys. Then rows in the order of
their keys go to the shards, of which some are written at a time.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_jobs import bounds
from beam_jobs.columns import Columns, IntArray, int64, uint64
from beam_jobs.counters import summarize_column
from beam_jobs.generations.packed import packing_statistics, without_documents
from beam_jobs.generations.sorted_rows import SortedRows
from beam_jobs.images.statistics import merge_pixels
from beam_jobs.stages.commit.statistics import class_statistics
from beam_jobs.stages.plan.key_order import SplitKeys
from beam_jobs.stages.plan.quantiles import Quantiles, histogram_bits
from beam_jobs.staging.reader import Source, read_frames
from beam_jobs.workspace import Workspace, columns_of, read_json, write_json
from foundation import storage
from foundation.machine import usable_cores
from foundation.storage import Place
from shard_format import (
    FRAME_BYTES,
    LABELS_FIELD,
    DamageError,
    Feature,
    Manifest,
    ShardInfo,
    SplitInfo,
    encode_features,
    file_info,
    label_column,
    naming,
)
from shard_format.index_parts import index_tables, plan_parts, write_index
from shard_format.keys import UInt64Array
from shard_format.shard_list import ShardList, shard_list_writer

_VARINT_BYTES = 5  # of the length of an example, at most
_CACHED_LABELS = 1 << 16  # whose sizes are known: a record may have any of a million combinations


class _ShardSource(Source):
    """A shard of the set to read frames from."""

    @contextlib.contextmanager
    def reporting_damage(self) -> Iterator[None]:
        """Damage is for the user: nothing can make a shard again here."""
        yield


def write_split(
    base: Place,
    before: Manifest,
    name: str,
    ids: frozenset[str],
    workspace: Workspace,
    on_bytes: Callable[[int], None],
) -> SplitInfo:
    """Writes the shards and the index of a split.

    Args:
        base: The set.
        before: Manifest of the set.
        name: Name of the split.
        ids: Ids of the records that are removed.
        workspace: Its output is the compacted set.
        on_bytes: Called with the size of every block that was copied, from several threads.

    Raises:
        DamageError: A shard or the index is damaged.
    """
    files = _Frames(base, before.splits[name].shards, workspace, on_bytes)
    rows = _remaining(base, before, name, ids, files)
    cut = _cut(rows, name, before)
    count = len(cut.records)
    by = ["key"] if "documents" in rows.schema.names else ["key", "record_id"]

    def write(shard: tuple[int, pa.Table]) -> tuple[ShardInfo, pa.Table]:
        number, own = shard
        info = files.copy(own, naming.shard_file(before.name, name, number, count))
        return info, _placed(own, number)

    shards = enumerate(_by_shard(rows.in_order(by), cut.begins, count, rows.schema))
    threads = _threads(before, name, count)
    written = storage.in_parallel(write, shards, remote=True, at_a_time=threads)
    info = _write_index(name, cut.records, written, rows.schema, workspace)
    parts = [part.file for part in info.index] or [naming.index_file(name)]
    columns = columns_of([workspace.out / part for part in parts])
    statistics = _statistics(before.splits[name], columns, rows.schema, before, workspace)
    return dataclasses.replace(info, statistics=statistics)


def _threads(before: Manifest, name: str, count: int) -> int:
    """How many shards are written at a time: one per core, unless their rows are too large."""
    index = sum(int(before.files[part.file]["bytes"]) for part in before.index_parts(name))
    fitting = bounds.BLOCK_ROW_BYTES * count // max(1, index)
    return max(1, min(math.ceil(usable_cores()), fitting))


def _remaining(
    base: Place, before: Manifest, name: str, ids: frozenset[str], files: _Frames
) -> SortedRows:
    """The rows of a split without some records."""
    rows = SortedRows(base, before, name, files.workspace)
    if not ids:
        return rows
    if "documents" in rows.schema.names:
        tables = index_tables(base, before, name)
        job = (files.places, files.added_number, ids, before, files.added)
        changed = without_documents(tables, *job)
        return SortedRows(base, before, name, files.workspace, *changed)
    wanted = pa.array(sorted(ids), pa.string())
    numbers, first = [np.zeros(0, np.int64)], 0
    for table in index_tables(base, before, name, ["record_id"]):
        hits = pc.is_in(table["record_id"], value_set=wanted)
        numbers.append(np.flatnonzero(hits.to_numpy()) + first)
        first += len(table)
    return SortedRows(base, before, name, files.workspace, np.concatenate(numbers))


class _Cut(NamedTuple):
    """Where shards begin.

    Attributes:
        begins: [num_shards - 1] uint64, the first key of every shard but the first, ascending.
        records: [num_shards] int64, number of records of each.
    """

    begins: UInt64Array
    records: IntArray


def _cut(rows: SortedRows, name: str, manifest: Manifest) -> _Cut:
    """Cuts shards as a build of these records does; equal keys are in one shard."""
    bits = histogram_bits(manifest.splits[name].records)
    keys = SplitKeys(name, Quantiles(bits))
    staged = _StagedLengths(manifest)
    _check_columns(rows.schema, staged.columns)
    for table in rows.scan(["key", *staged.columns]):
        keys.keys.count(uint64(table["key"]))
        keys.bytes += int(staged(table).sum())
    count = _num_shards(manifest, keys.records, keys.bytes)
    records = np.zeros(count, np.int64)
    if not count:
        return _Cut(np.zeros(0, np.uint64), records)
    keys.cut(count)
    for table in rows.scan(["key"]):
        keys.keys.collect(uint64(table["key"]))
    begins = keys.begins()
    for table in rows.scan(["key"]):
        np.add.at(records, np.searchsorted(begins, uint64(table["key"]), side="right"), 1)
    return _Cut(begins, records)


def _num_shards(manifest: Manifest, records: int, staged: int) -> int:
    """As many as a build of these records has."""
    config = manifest.config
    if not records:
        return 0
    if config.get("num_shards") is not None:
        return min(records, int(config["num_shards"]))
    return min(records, max(1, round(staged / int(config["shard_size"]))))


class _StagedLengths:
    """Computes the bytes of the frames of records without their labels.

    Labels are the last features of an example, and are not staged. Token ids are of other lengths
    than the texts that were staged; for those these are the lengths of the examples.

    Args:
        manifest: Manifest of the set.

    Attributes:
        columns: Names of the columns that are needed.
    """

    def __init__(self, manifest: Manifest) -> None:
        cached = functools.lru_cache(_CACHED_LABELS)
        self._labels = {
            LABELS_FIELD.name if feature.shape else label_column(feature.name): cached(
                partial(_label_bytes, feature)
            )
            for feature in manifest.schema.labels
        }
        self.columns = ["length", *self._labels]

    def __call__(self, rows: pa.Table) -> IntArray:
        """[n] int64."""
        example = int64(rows["length"]) - FRAME_BYTES
        entries = example - 2
        for size in range(1, _VARINT_BYTES + 1):
            entries = np.where(entries >= 1 << (7 * size), example - 2 - size, entries)
        for column, bytes_of_label in self._labels.items():
            values = rows[column].to_pylist()
            if column == LABELS_FIELD.name:
                values = [tuple(one or ()) for one in values]
            entries = entries - np.array([bytes_of_label(value) for value in values], np.int64)
        return entries + FRAME_BYTES


def _label_bytes(feature: Feature, value: int | tuple[int, ...] | None) -> int:
    """Bytes of a label in an example."""
    return len(encode_features([feature], {feature.name: value})) if value is not None else 0


def _by_shard(
    tables: Iterable[pa.Table], begins: UInt64Array, count: int, schema: pa.Schema
) -> Iterator[pa.Table]:
    """Yields the rows of each of so many shards, from rows in the order of their keys."""
    number, held = 0, [schema.empty_table()]
    for table in tables:
        shard_of = np.searchsorted(begins, uint64(table["key"]), side="right")
        while True:
            end = int(np.searchsorted(shard_of, number, side="right"))
            held.append(table.slice(0, end))
            table, shard_of = table.slice(end), shard_of[end:]
            if not len(table):
                break
            yield pa.concat_tables(held).combine_chunks()
            number, held = number + 1, [schema.empty_table()]
    for _ in range(number, count):
        yield pa.concat_tables(held).combine_chunks()
        held = [schema.empty_table()]


class _Frames:
    """The frames of a split, which are copied to new shards.

    Args:
        base: The set.
        shards: Its shards.
        workspace: Its output is the compacted set.
        on_bytes: See `write_split`.

    Attributes:
        added: File of frames that no shard has; its number is that of the shard behind the last.
        workspace: The workspace.
    """

    def __init__(
        self,
        base: Place,
        shards: Sequence[ShardInfo],
        workspace: Workspace,
        on_bytes: Callable[[int], None],
    ) -> None:
        self._base, self._shards, self._on_bytes = base, shards, on_bytes
        self.workspace = workspace
        self.added = workspace.scratch_file()

    @property
    def added_number(self) -> int:
        """Number of the file in the place of a shard."""
        return len(self._shards)

    def places(self, rows: pa.Table) -> tuple[pa.Table, list[Source]]:
        """Where the frames of rows are, as `read_frames` takes it."""
        used, unit = np.unique(int64(rows["shard"]), return_inverse=True)
        files = [
            self._base / self._shards[number].file if number < len(self._shards) else self.added
            for number in used.tolist()
        ]
        table = pa.table({"unit": unit, "offset": rows["offset"], "length": rows["length"]})
        return table, [_ShardSource(file, 0, lambda: None, None) for file in files]

    def copy(self, rows: pa.Table, file: str) -> ShardInfo:
        """Copies the frames of a shard, unless a killed run has."""
        workspace, (table, sources) = self.workspace, self.places(rows)
        plan = hashlib.blake2b(digest_size=16)
        for column in table.columns:
            plan.update(int64(column).tobytes())
        plan.update(json.dumps([str(source.place) for source in sources]).encode())
        marker = workspace.work / f"{file}.json"
        size = int(int64(rows["length"]).sum())
        done = read_json(marker)
        if done is not None and done["plan"] == plan.hexdigest():
            written = storage.stat(workspace.out / file)
            if written is not None and written.size == size:
                self._on_bytes(size)
                return ShardInfo(**done["info"])
        storage.delete(marker)
        digest = hashlib.sha256()
        with workspace.write(workspace.out / file, durable=True) as sink:
            for _, frames in read_frames(table, sources, bounds.COPIED_FRAME_BYTES):
                block = b"".join(frames)
                digest.update(block)
                sink.write(block)
                self._on_bytes(len(block))
        info = ShardInfo(file, len(rows), size, digest.hexdigest())
        write_json(workspace, marker, {"plan": plan.hexdigest(), "info": dataclasses.asdict(info)})
        return info


def _write_index(
    name: str,
    records: IntArray,
    written: Iterable[tuple[ShardInfo, pa.Table]],
    schema: pa.Schema,
    workspace: Workspace,
) -> SplitInfo:
    """Writes the index of a split, and of a large one the list of its shards, as they come.

    Returns:
        The split without statistics.
    """
    place = workspace.out / naming.shards_file(name)
    scratch = workspace.scratch_of(place)
    in_parts = len(plan_parts(records)) > 1
    shards: list[ShardInfo] = []
    size = 0

    def tables(append: Callable[[ShardInfo], None]) -> Iterator[pa.Table]:
        nonlocal size
        for info, own in written:
            size += info.bytes
            append(info)
            yield own

    with contextlib.ExitStack() as stack:
        append = shards.append
        if in_parts:
            append = stack.enter_context(shard_list_writer(place, scratch=scratch))
        rows = tables(append)
        parts = write_index(workspace.out, name, records.tolist(), rows, schema, scratch=scratch)
    if not in_parts:
        return SplitInfo(tuple(shards), {})
    numbers = (len(records), int(records.sum()), size)
    return SplitInfo(ShardList(place, *numbers, file_info(place)["sha256"]), {}, parts)


def _placed(rows: pa.Table, shard: int) -> pa.Table:
    """Returns rows of the index with their places in a new shard."""
    lengths = int64(rows["length"])
    columns = {
        "shard": pa.array(np.full(len(rows), shard), pa.int32()),
        "offset": pa.array(np.cumsum(lengths) - lengths),
    }
    for name, values in columns.items():
        at = rows.column_names.index(name)
        rows = rows.set_column(at, rows.schema.field(name), values)
    return rows


def _check_columns(index: pa.Schema, names: Sequence[str]) -> None:
    """Checks that the index of a split has some columns.

    Raises:
        DamageError: It lacks one.
    """
    if missing := set(names) - set(index.names):
        raise DamageError(
            f"The index has no column {min(missing)!r}, which the schema of the set asks for. "
            "Build the set again."
        )


def _statistics(
    before: SplitInfo, index: Columns, schema: pa.Schema, manifest: Manifest, workspace: Workspace
) -> dict[str, Any]:
    """Of all records of a split; what only their content shows, as it was."""
    known = before.statistics
    training = bool(known.keys() - {"class_counts", "labels"})

    def columns(names: Sequence[str]) -> Iterable[pa.Table]:
        _check_columns(schema, names)
        return index(names)

    several = LABELS_FIELD.name in schema.names
    labels = {
        feature.name: class_statistics(
            columns,
            feature.name,
            feature.class_names,
            several=several and feature.name == "label",
            training=training,
        )
        for feature in manifest.schema.labels
    }
    statistics: dict[str, Any] = dict(labels.pop("label", {}))
    if labels:
        statistics["labels"] = labels
    for name, value in known.items():
        if name in statistics or name in ("class_counts", "class_weights", "labels"):
            continue
        if name == "pixels":
            value = merge_pixels(columns)
        elif name == "packing" and "documents" in schema.names:
            length = int(manifest.config.get("pack") or 0)
            value = packing_statistics(columns, length, workspace.scratch_file())
        elif isinstance(value, dict) and "histogram" in value and name in schema.names:
            value = summarize_column(columns, name)
        if value:
            statistics[name] = value
    return statistics
