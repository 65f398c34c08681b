"""Stage 3, plan: which record goes to which shard, from the sidecars alone.

A recipe is written for every shard: (unit, row) of its records in final order. No payload is read
and there is never one Python object per record; memory is bounded by PARTITION_ROWS.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from beam_jobs.boundaries import Quantiles, histogram_bits
from beam_jobs.columns import IntArray, int64, uint64
from beam_jobs.duplicates import PARTITION_ROWS, Dropped, find_duplicates
from beam_jobs.listing import read_units
from beam_jobs.option_values import parse_size, parse_splits
from beam_jobs.options import PreprocessOptions
from beam_jobs.progress import report
from beam_jobs.recipes import RecipeWriter, ShardSpec
from beam_jobs.record_types import RecordType
from beam_jobs.sidecars import Sidecars
from beam_jobs.staging import UnitSummary
from beam_jobs.storage import Workspace, write_json
from shard_format import InputError, split_positions

# Raised whenever the same plan would be written as other bytes by `sharding`.
SHARD_VERSION = 1


class Plan(NamedTuple):
    """What the later stages need to know of all shards; kept as plan.json.

    Attributes:
        num_shards: Per split, in the order of the options.
        class_names: Of the label, sorted; a label is an index into it.
        duplicates: Records left out.
        notes: What the user should be told.
    """

    num_shards: dict[str, int]
    class_names: list[str]
    duplicates: int
    notes: list[str]


@dataclasses.dataclass
class _Split:
    name: str
    quantiles: Quantiles
    bytes: int = 0


def plan_shards(
    summaries: Sequence[UnitSummary],
    options: PreprocessOptions,
    record_type: RecordType,
    workspace: Workspace,
    partition_rows: int = PARTITION_ROWS,
) -> list[ShardSpec]:
    """Plans every shard and writes its recipe.

    Args:
        summaries: Of all units.
        options: The job.
        record_type: Its record type.
        workspace: Where the sidecars are and the plan goes.
        partition_rows: About how many rows are held in memory at a time.
    """
    _check_complete(summaries, workspace)
    sidecars = Sidecars(workspace, summaries)
    dropped = find_duplicates(sidecars, partition_rows) if options.dedup == "exact" else {}
    fractions = parse_splits(options.split)
    bits = histogram_bits(sidecars.records)
    splits = [_Split(name, Quantiles(bits)) for name in fractions]
    thresholds = np.cumsum(list(fractions.values()))[:-1]

    class_names: set[str] = set()
    for table, keys, split_of in _kept(sidecars, dropped, thresholds):
        lengths = int64(table["length"])
        class_names.update(pc.unique(table["label"]).drop_null().to_pylist())
        for number, split in enumerate(splits):
            inside = split_of == number
            split.quantiles.count(keys[inside])
            split.bytes += int(lengths[inside].sum())

    notes: list[str] = []
    num_shards = {split.name: _num_shards(split, options, notes) for split in splits}
    for split in splits:
        split.quantiles.choose(num_shards[split.name])
    for _, keys, split_of in _kept(sidecars, dropped, thresholds):
        for number, split in enumerate(splits):
            split.quantiles.collect(keys[split_of == number])

    plan = Plan(
        num_shards=num_shards,
        class_names=sorted(class_names),
        duplicates=sum(len(rows) for rows in dropped.values()),
        notes=notes,
    )
    write_json(workspace, workspace.plan / "plan.json", plan._asdict())
    report(workspace.progress, "shard", total=sidecars.records - plan.duplicates)
    salt = [SHARD_VERSION, record_type.version, options.name, plan.class_names, num_shards]
    writer = RecipeWriter(
        workspace, options.name, num_shards, sidecars.keys, json.dumps(salt).encode()
    )
    begins = [split.quantiles.keys() for split in splits]
    for rows in _sorted_partitions(sidecars, dropped, splits, thresholds, partition_rows):
        for number, split in enumerate(splits):
            inside = rows.split == number
            shard_of = np.searchsorted(begins[number], rows.key[inside], side="right")
            writer.append(split.name, shard_of, rows.unit[inside], rows.row[inside])
    return writer.finish()


def _check_complete(summaries: Sequence[UnitSummary], workspace: Workspace) -> None:
    """A runner that loses or repeats an element must not lose or repeat records unnoticed."""
    listed = sorted(unit.key for unit in read_units(workspace))
    staged = sorted(summary.key for summary in summaries)
    if listed != staged:
        raise InputError(
            f"every unit must be staged once, got {len(staged)} results for {len(listed)} units. "
            "The Beam runner lost or repeated work: run the same command again, or without the "
            "Beam options that make it do so."
        )


def load_plan(workspace: Workspace) -> Plan:
    """The plan that `plan_shards` wrote."""
    text = (workspace.plan / "plan.json").read_text(encoding="utf-8")
    return Plan(**json.loads(text))


def _kept(
    sidecars: Sidecars, dropped: Dropped, thresholds: npt.NDArray[np.float64]
) -> Iterator[tuple[pa.Table, npt.NDArray[np.uint64], IntArray]]:
    """(sidecar, [n] keys, [n] number of the split) of every unit, duplicates left out."""
    for unit, table in sidecars:
        if unit in dropped:
            mask = np.ones(len(table), bool)
            mask[dropped[unit]] = False
            table = table.filter(pa.array(mask))
        yield table, uint64(table["key"]), _split_numbers(table["id_hash"], thresholds)


def _split_numbers(id_hashes: pa.ChunkedArray, thresholds: npt.NDArray[np.float64]) -> IntArray:
    return np.searchsorted(thresholds, split_positions(uint64(id_hashes)), side="right")


def _num_shards(split: _Split, options: PreprocessOptions, notes: list[str]) -> int:
    records = split.quantiles.records
    if not records:
        notes.append(f"split {split.name!r} got no record, so it has no shard")
        return 0
    if options.num_shards is None:
        shard_bytes = parse_size("--shard-size", options.shard_size)
        return min(records, max(1, round(split.bytes / shard_bytes)))
    if records < options.num_shards:
        notes.append(
            f"split {split.name!r} has {records} records, so {records} shards are written instead "
            f"of {options.num_shards}: no shard is empty"
        )
    return min(records, options.num_shards)


class _Rows(NamedTuple):
    key: npt.NDArray[np.uint64]
    split: IntArray
    unit: IntArray
    row: IntArray


def _sorted_partitions(
    sidecars: Sidecars,
    dropped: Dropped,
    splits: Sequence[_Split],
    thresholds: npt.NDArray[np.float64],
    partition_rows: int,
) -> Iterator[_Rows]:
    """All kept rows in key order, a range of keys at a time.

    A unit is sorted by key, so a range of keys is one slice of it.
    """
    for start, end in _key_ranges(splits, partition_rows):
        parts = []
        for unit, table in sidecars:
            keys = uint64(table["key"])
            first, last = np.searchsorted(keys, np.array([start, end], np.uint64), side="left")
            last = len(keys) if end == _LAST_KEY else last
            row = np.arange(first, last)
            if unit in dropped:
                row = np.setdiff1d(row, dropped[unit], assume_unique=True)
            split = _split_numbers(table["id_hash"].take(pa.array(row)), thresholds)
            parts.append(_Rows(keys[row], split, np.full(len(row), unit), row))
        if parts:
            rows = _Rows(
                np.concatenate([part.key for part in parts]),
                np.concatenate([part.split for part in parts]),
                np.concatenate([part.unit for part in parts]),
                np.concatenate([part.row for part in parts]),
            )
            order = _order(rows, sidecars)
            yield _Rows(rows.key[order], rows.split[order], rows.unit[order], rows.row[order])


_LAST_KEY = (1 << 64) - 1  # stands for "to the end"


def _key_ranges(splits: Sequence[_Split], partition_rows: int) -> Iterator[tuple[int, int]]:
    """Ranges [start, end) of the key space with about `partition_rows` records each."""
    histogram = np.sum([split.quantiles.histogram for split in splits], axis=0)
    shift = 64 - (len(histogram).bit_length() - 1)
    partition = np.cumsum(histogram) // partition_rows
    first_bins = np.flatnonzero(np.diff(partition, prepend=-1)).tolist()
    starts = [0, *(bin_number << shift for bin_number in first_bins[1:])]
    yield from zip(starts, [*starts[1:], _LAST_KEY], strict=True)


def _order(rows: _Rows, sidecars: Sidecars) -> IntArray:
    """The order of the rows by (key, record id)."""
    order = np.argsort(rows.key, kind="stable")
    keys = rows.key[order]
    equal = np.flatnonzero(keys[1:] == keys[:-1])
    if len(equal):
        # Some 64-bit keys collide. Only then are record ids needed, and only for those rows.
        for start in equal.tolist():
            if start and keys[start - 1] == keys[start]:
                continue  # inside a run that was sorted with its first row
            end = start + int(np.searchsorted(keys[start:], keys[start], side="right"))
            tied = order[start:end]
            ids = [_record_id(sidecars, rows, position) for position in tied.tolist()]
            order[start:end] = tied[sorted(range(len(ids)), key=ids.__getitem__)]
    return order


def _record_id(sidecars: Sidecars, rows: _Rows, position: int) -> str:
    table = sidecars.table(int(rows.unit[position]))
    return str(table["record_id"][int(rows.row[position])].as_py())
