"""Stage 2, stage: one unit of raw records becomes a key-sorted run of finished payloads.

A staged unit is four files under one content address:

    KEY.tfrecord   frames with the features known so far, in shuffle-key order
    KEY.arrow      one row per frame: key, offset, length, record id, label, statistics
    KEY.rejects    Arrow: what was refused, with its bytes and the reason
    KEY.json       the summary; written last, so that it marks the unit as done
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import pyarrow as pa

from beam_jobs.listing import Unit, read_unit
from beam_jobs.preparing import Preparer
from beam_jobs.progress import report
from beam_jobs.record_types import RecordType
from beam_jobs.rejects import FILTER, Reject, RejectWriter
from beam_jobs.sources import Item, Raw, Source
from beam_jobs.storage import Workspace, publish, read_json, write_json, write_table
from shard_format import (
    InputError,
    encode_features,
    file_sha256,
    frame,
    id_hash,
    shuffle_keys,
)

SIDECAR_FIELDS = (
    pa.field("key", pa.uint64(), nullable=False),
    pa.field("id_hash", pa.uint64(), nullable=False),
    pa.field("offset", pa.int64(), nullable=False),
    pa.field("length", pa.int64(), nullable=False),  # of the frame
    pa.field("record_id", pa.string(), nullable=False),
    pa.field("label", pa.string()),
    pa.field("fingerprint", pa.binary(16), nullable=False),
    pa.field("group", pa.uint64()),  # hash of what --group-by says
    pa.field("split", pa.string()),  # where the source says
)
_REPORT_RECORDS = 32  # how often progress is reported: some milliseconds apart, at no cost
_BLOCK_BYTES = 1 << 20  # 1 MiB a system call


class UnitSummary(NamedTuple):
    """All that leaves a worker about a unit.

    Attributes:
        key: The unit.
        read: Records it had.
        kept: Records it staged.
        refused: How many could not be used, by reason.
        filtered: How many a cleaning rule left out, by reason.
        reused: True when it was found done.
    """

    key: str
    read: int
    kept: int
    refused: dict[str, int]
    filtered: dict[str, int]
    reused: bool


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


def unit_files(workspace: Workspace, key: str) -> dict[str, Path]:
    """The four files of a unit, by their suffix."""
    return {
        suffix: workspace.units / f"{key}.{suffix}"
        for suffix in ("tfrecord", "arrow", "rejects", "json")
    }


def stage_unit(
    unit: Unit, source: Source, record_type: RecordType, workspace: Workspace
) -> UnitSummary:
    """Stages a unit, or finds that it was done before.

    Args:
        unit: Which rows of the listing.
        source: How a record is read.
        record_type: How a record is prepared.
        workspace: Where the listing is and where the unit goes.

    Raises:
        InputError: A record is refused and the job is to fail then.
    """
    done = _done_before(unit, workspace)
    if done is not None:
        report(workspace.progress, "stage", done.read)
        return done
    files = unit_files(workspace, unit.key)
    payload, refused = (workspace.temporary(workspace.units) for _ in range(2))
    items = list(read_unit(workspace.listing, unit))
    todos = _in_key_order(items, source.options.seed)
    scratch = workspace.temporary(workspace.units)
    with (
        payload.open("wb", buffering=_BLOCK_BYTES) as file,
        RejectWriter(refused) as rejects,
        source.open(items, scratch) as read,
    ):
        prepare = Preparer(source.options, read, record_type)
        job = _Unit(prepare, workspace, file, rejects)
        staged = job.prepare_all(todos)
    publish(payload, files["tfrecord"])
    publish(refused, files["rejects"])
    write_table(workspace, files["arrow"], _sidecar(staged, record_type))
    summary = UnitSummary(
        key=unit.key,
        read=unit.end - unit.start,
        kept=len(staged),
        refused=dict(sorted(rejects.refused.items())),
        filtered=dict(sorted(rejects.filtered.items())),
        reused=False,
    )
    write_json(
        workspace,
        files["json"],
        {
            "summary": summary._asdict(),
            "payload_bytes": files["tfrecord"].stat().st_size,
            "sha256": {suffix: file_sha256(files[suffix]) for suffix in ("arrow", "rejects")},
        },
    )
    return summary


def _done_before(unit: Unit, workspace: Workspace) -> UnitSummary | None:
    """The summary of a unit whose files are as they were written; a staging folder may be old.

    Of the payload only the size is checked here: each of its records has a checksum of its own.
    """
    files = unit_files(workspace, unit.key)
    marker = read_json(files["json"])
    try:
        if marker is None or files["tfrecord"].stat().st_size != marker["payload_bytes"]:
            return None
        if any(file_sha256(files[suffix]) != sha for suffix, sha in marker["sha256"].items()):
            return None
        return UnitSummary(**{**marker["summary"], "reused": True})
    except (OSError, KeyError, TypeError, AttributeError):
        return None  # a file is missing, or the marker is none of ours


def forget_unit(workspace: Workspace, key: str) -> None:
    """Has a unit staged again by the next build."""
    unit_files(workspace, key)["json"].unlink(missing_ok=True)


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


class _Unit(NamedTuple):
    """A unit at work: where its records come from and where they go."""

    prepare: Preparer
    workspace: Workspace
    payload: BinaryIO
    rejects: RejectWriter

    def prepare_all(self, todos: list[_Todo]) -> list[_Staged]:
        """Prepares every record, and writes what is kept and what is refused as it goes."""
        staged: list[_Staged] = []
        features = [item for item in self.prepare.record_type.schema.features if not item.late]
        for done, todo in enumerate(todos, 1):
            raw, outcome = self.prepare(todo.item)
            if isinstance(outcome, Reject):
                self._refuse(todo, raw, outcome)
            else:
                framed = frame(encode_features(features, outcome.values))
                self.payload.write(framed)
                staged.append(
                    _Staged(todo, raw, outcome.fingerprint, outcome.statistics, len(framed))
                )
            if done % _REPORT_RECORDS == 0:
                report(self.workspace.progress, "stage", _REPORT_RECORDS)
        report(self.workspace.progress, "stage", len(todos) % _REPORT_RECORDS)
        return staged

    def _refuse(self, todo: _Todo, raw: Raw, reject: Reject) -> None:
        if self.prepare.options.on_bad == "fail" and reject.stage != FILTER:
            raise InputError(
                f"with --on-bad fail every file must be usable, got {reject.reason} in "
                f"{todo.record_id}: {reject.detail}. Mend or remove the file, or use --on-bad "
                "quarantine."
            )
        self.rejects.append(todo.position, todo.record_id, raw.label, reject)


def _sidecar(staged: list[_Staged], record_type: RecordType) -> pa.Table:
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
    fields = (*record_type.statistics, *record_type.evidence)
    for field in fields:
        columns[field.name] = [record.statistics[field.name] for record in staged]
    return pa.table(columns, schema=pa.schema([*SIDECAR_FIELDS, *fields]))
