"""Records one by one, in shuffle order: pictures, each of which may fill the memory of a worker."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from beam_jobs.corpus.record import Rejection
from beam_jobs.preparing import Preparer
from beam_jobs.progress import report
from beam_jobs.record_types import SingleRecords
from beam_jobs.sources import Item, Raw, Source
from beam_jobs.staging.units import SIDECAR_FIELDS, Sinks
from shard_format import encode_features, frame, id_hash, shuffle_keys

_REPORT_RECORDS = 32  # how often progress is reported: some milliseconds apart, at no cost


class _Todo(NamedTuple):
    """A record of the unit; sorted, these are in shuffle order."""

    key: int
    record_id: str  # breaks the tie of two equal keys, so the order never depends on the unit
    id_hash: int
    position: int  # in the unit, as listed
    item: Item


class _Staged(NamedTuple):
    todo: _Todo
    raw: Raw  # without its bytes
    fingerprint: bytes
    statistics: Mapping[str, Any]
    length: int  # of the frame


def _in_key_order(items: list[Item], seed: int) -> list[_Todo]:
    """The records of a unit in shuffle order.

    The key is a function of the record id alone, so the order is known before anything is read,
    and payload goes straight to disk: a worker never holds more than one record.
    """
    hashes = [id_hash(item.record_id) for item in items]
    keys = shuffle_keys(hashes, seed).tolist()
    return sorted(
        _Todo(key, item.record_id, hashed, position, item)
        for position, (key, hashed, item) in enumerate(zip(keys, hashes, items, strict=True))
    )


def stage_one_by_one(
    items: list[Item], source: Source, record_type: SingleRecords, sinks: Sinks
) -> tuple[int, pa.Table]:
    """Prepares every record of a unit; how many it had, and the sidecar of those that are kept.

    Args:
        items: All records of the unit, in listing order.
        source: How a record is read.
        record_type: How a record is prepared.
        sinks: Where payload and refused records go.

    Raises:
        InputError: A record is refused and the job is to fail then.
    """
    todos = _in_key_order(items, source.options.seed)
    scratch = sinks.workspace.temporary(sinks.workspace.units)
    with source.open(items, scratch) as read:
        job = _Unit(Preparer(source.options, read, record_type), record_type, sinks)
        staged = job.prepare_all(todos)
    return len(items), _sidecar(staged, record_type)


class _Unit(NamedTuple):
    """A unit at work: where its records come from and where they go."""

    prepare: Preparer
    record_type: SingleRecords
    sinks: Sinks

    def prepare_all(self, todos: list[_Todo]) -> list[_Staged]:
        """Prepares every record, and writes what is kept and what is refused as it goes."""
        staged: list[_Staged] = []
        features = self.record_type.staged_features
        for done, todo in enumerate(todos, 1):
            raw, outcome = self.prepare(todo.item)
            if isinstance(outcome, Rejection):
                self._refuse(todo, raw, outcome)
            else:
                framed = frame(encode_features(features, outcome.values))
                self.sinks.payload.write(framed)
                staged.append(
                    _Staged(todo, raw, outcome.fingerprint, outcome.statistics, len(framed))
                )
            if done % _REPORT_RECORDS == 0:
                report(self.sinks.workspace.progress, "stage", _REPORT_RECORDS)
        report(self.sinks.workspace.progress, "stage", len(todos) % _REPORT_RECORDS)
        return staged

    def _refuse(self, todo: _Todo, raw: Raw, reject: Rejection) -> None:
        self.sinks.refuse(todo.position, todo.record_id, raw.label, reject)


def _sidecar(staged: list[_Staged], record_type: SingleRecords) -> pa.Table:
    length = np.array([record.length for record in staged], np.int64)
    columns: dict[str, Any] = {
        "key": [record.todo.key for record in staged],
        "id_hash": [record.todo.id_hash for record in staged],
        "offset": np.cumsum(length) - length,
        "length": length,
        "record_id": [record.todo.record_id for record in staged],
        "label": [record.raw.label for record in staged],
        "fingerprint": [record.fingerprint for record in staged],
        "group": [
            None if record.raw.group is None else id_hash(record.raw.group) for record in staged
        ],
        "split": [record.raw.split for record in staged],
    }
    fields = record_type.staged_columns
    for field in fields:
        columns[field.name] = [record.statistics[field.name] for record in staged]
    return pa.table(columns, schema=pa.schema([*SIDECAR_FIELDS, *fields]))
