"""Stage 2, stage: one unit of raw records becomes a key-sorted run of finished payloads.

A staged unit is four files under one content address:

    KEY.tfrecord   frames with the features known so far, in shuffle-key order
    KEY.arrow      one row per frame: key, offset, length, record id, label, statistics
    KEY.rejects    Arrow: what was refused, with its bytes and the reason
    KEY.json       the summary; written last, so that it marks the unit as done
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import pyarrow as pa

from beam_jobs.listing import Unit, read_unit
from beam_jobs.progress import report
from beam_jobs.record_types import Prepared, RecordType
from beam_jobs.refusal import Refusal
from beam_jobs.rejects import Reject, RejectWriter
from beam_jobs.sources import Item
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
)
_REPORT_RECORDS = 32  # how often progress is reported: some milliseconds apart, at no cost
_BLOCK_BYTES = 1 << 20  # 1 MiB a system call
# A larger file is refused unread, and not copied to quarantine either: a worker would hold it.
MAX_FILE_BYTES = 512 << 20  # 512 MiB


class UnitSummary(NamedTuple):
    """All that leaves a worker about a unit.

    Attributes:
        key: The unit.
        read: Records it had.
        kept: Records it staged.
        refused: How many were refused, by reason.
        reused: True when it was found done.
    """

    key: str
    read: int
    kept: int
    refused: dict[str, int]
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
    unit: Unit, record_type: RecordType, workspace: Workspace, seed: int, on_bad: str
) -> UnitSummary:
    """Stages a unit, or finds that it was done before.

    Args:
        unit: Which rows of the listing.
        record_type: How a record is prepared.
        workspace: Where the listing is and where the unit goes.
        seed: Of the shuffle key.
        on_bad: "quarantine" or "fail".

    Raises:
        InputError: A record is refused and `on_bad` is "fail".
    """
    done = _done_before(unit, workspace)
    if done is not None:
        report(workspace.progress, "stage", done.read)
        return done
    files = unit_files(workspace, unit.key)
    payload, refused = (workspace.temporary(workspace.units) for _ in range(2))
    with payload.open("wb", buffering=_BLOCK_BYTES) as file, RejectWriter(refused) as rejects:
        todos = _in_key_order(unit, workspace, seed)
        staged = _prepare_all(todos, record_type, file, rejects, workspace, on_bad)
    publish(payload, files["tfrecord"])
    publish(refused, files["rejects"])
    write_table(workspace, files["arrow"], _sidecar(staged, record_type))
    summary = UnitSummary(
        key=unit.key,
        read=unit.end - unit.start,
        kept=len(staged),
        refused=dict(sorted(rejects.reasons.items())),
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


def _in_key_order(unit: Unit, workspace: Workspace, seed: int) -> list[_Todo]:
    """The records of a unit in shuffle order.

    The key is a function of the record id alone, so the order is known before anything is read,
    and payload goes straight to disk: a worker never holds more than one record.
    """
    items = list(read_unit(workspace.listing, unit))
    hashes = [id_hash(item.record_id) for item in items]
    keys = shuffle_keys(hashes, seed).tolist()
    return sorted(
        _Todo(key, item.record_id, hashed, position, item)
        for position, (key, hashed, item) in enumerate(zip(keys, hashes, items, strict=True))
    )


def _prepare_all(
    todos: list[_Todo],
    record_type: RecordType,
    payload: BinaryIO,
    rejects: RejectWriter,
    workspace: Workspace,
    on_bad: str,
) -> list[_Staged]:
    """Prepares every record, and writes what is kept and what is refused as it goes."""
    staged: list[_Staged] = []
    features = [feature for feature in record_type.schema.features if not feature.late]
    for done, todo in enumerate(todos, 1):
        outcome = _prepare(todo.item, record_type)
        if isinstance(outcome, Reject):
            if on_bad == "fail":
                raise InputError(
                    f"with --on-bad fail every file must be usable, got {outcome.reason} in "
                    f"{todo.record_id}: {outcome.detail}. Mend or remove the file, or use --on-bad "
                    "quarantine."
                )
            rejects.append(todo.position, todo.record_id, todo.item.label, outcome)
        else:
            framed = frame(encode_features(features, outcome.values))
            payload.write(framed)
            staged.append(_Staged(todo, outcome.fingerprint, outcome.statistics, len(framed)))
        if done % _REPORT_RECORDS == 0:
            report(workspace.progress, "stage", _REPORT_RECORDS)
    report(workspace.progress, "stage", len(todos) % _REPORT_RECORDS)
    return staged


def _prepare(item: Item, record_type: RecordType) -> Prepared | Reject:
    if item.refused:
        reason, _, detail = item.refused.partition(": ")
        return Reject("list", reason, detail, _bytes_if_readable(item))
    if item.size > MAX_FILE_BYTES:
        detail = f"the file has {item.size} bytes, more than {MAX_FILE_BYTES}"
        return Reject("read", "file-too-large", detail, None)
    try:
        data = _read(item)
    except OSError as error:
        detail = f"reading it failed: {error.strerror}"
        return Reject("read", "unreadable", detail, None)
    if len(data) > MAX_FILE_BYTES:
        return Reject("read", "file-too-large", "the file grew while it was read", None)
    try:
        return record_type.prepare(item.record_id, data)
    except Refusal as refusal:
        return Reject("prepare", refusal.reason, refusal.detail, data)


def _read(item: Item) -> bytes:
    """The whole file, with three system calls where `open` and `read` make seven.

    Every system call gives up the interpreter's lock, and with several threads taking it back
    costs more than the call.
    """
    descriptor = os.open(item.path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        data = os.read(descriptor, item.size + 1)
        # It has changed since it was listed, or came in pieces.
        while len(data) != item.size and len(data) <= MAX_FILE_BYTES:
            more = os.read(descriptor, _BLOCK_BYTES)
            if not more:
                break
            data += more
    finally:
        os.close(descriptor)
    return data


def _bytes_if_readable(item: Item) -> bytes | None:
    """The bytes of a file that the listing refused; None for pipes, broken links and the like."""
    if not os.path.isfile(item.path) or item.size > MAX_FILE_BYTES:
        return None
    try:
        return _read(item)
    except OSError:
        return None


def _sidecar(staged: list[_Staged], record_type: RecordType) -> pa.Table:
    length = np.array([record.length for record in staged], np.int64)
    columns: dict[str, Any] = {
        "key": [record.todo.key for record in staged],
        "id_hash": [record.todo.id_hash for record in staged],
        "offset": np.cumsum(length) - length,
        "length": length,
        "record_id": [record.todo.record_id for record in staged],
        "label": [record.todo.item.label for record in staged],
        "fingerprint": [record.fingerprint for record in staged],
    }
    for field in record_type.statistics:
        columns[field.name] = [record.statistics[field.name] for record in staged]
    return pa.table(columns, schema=pa.schema([*SIDECAR_FIELDS, *record_type.statistics]))
