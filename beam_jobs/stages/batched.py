"""Records many at a time, as columns: documents, which are small.

Their ids are known only once they are read. So payload is spooled as it comes and put in shuffle
order at the end.
"""

from __future__ import annotations

from typing import Any, BinaryIO, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_jobs.columns import int64
from beam_jobs.corpus.record import Rejection
from beam_jobs.documents.base import DOCUMENT_FIELDS, KEPT_PREFIX, Document, Ignored
from beam_jobs.documents.reading import ReadDocument
from beam_jobs.options.values import parse_kept
from beam_jobs.preparing import check_placed
from beam_jobs.progress import report
from beam_jobs.record_types import BatchRecords
from beam_jobs.sources import BatchSource, Item, Source
from beam_jobs.staging.spool import Spool
from beam_jobs.staging.units import SIDECAR_FIELDS, Sinks
from shard_format import encode_features, frame, id_hash, shuffle_keys

_BATCH_BYTES = 4 << 20  # 4 MiB of originals, or one document if it is larger
_BATCH_RECORDS = 4096
_KINDS = {"text": pa.large_string(), "int64": pa.int64(), "float32": pa.float32()}


def stage_in_batches(
    items: list[Item], source: Source, record_type: BatchRecords, sinks: Sinks
) -> tuple[int, pa.Table]:
    """Prepares every document of a unit; how many it had, and the sidecar of those kept.

    Args:
        items: Files or stretches of files, in listing order.
        source: How they are read.
        record_type: How documents are prepared.
        sinks: Where payload and refused documents go.

    Raises:
        InputError: A document is refused and the job is to fail then.
    """
    if not isinstance(source, BatchSource):
        raise TypeError(f"{type(source).__name__} does not read documents")
    workspace = sinks.workspace
    place, scratch = (workspace.temporary(workspace.units) for _ in range(2))
    with Spool(place) as spool:
        unit = _Unit(record_type, sinks, spool)
        with source.open_documents(items, scratch) as documents_of:
            for item in items:
                for document in documents_of(item):
                    unit.add(document)
                report(workspace.progress, "stage", item.size)
            unit.flush()
        return unit.read, _in_shuffle_order(unit.sidecar(), spool, sinks.payload)


class _Waiting(NamedTuple):
    position: int  # in the unit, as read
    record_id: str
    original: bytes
    document: Document


class _Unit:
    """A unit at work."""

    def __init__(self, record_type: BatchRecords, sinks: Sinks, spool: Spool) -> None:
        self.read = 0
        self._record_type = record_type
        self._sinks = sinks
        self._spool = spool
        self._seed = sinks.options.seed
        self._kept = parse_kept(getattr(sinks.options, "keep_columns", None))
        self._features = record_type.staged_features
        self._waiting: list[_Waiting] = []
        self._waiting_bytes = 0
        self._tables: list[pa.Table] = []

    def add(self, read: ReadDocument) -> None:
        """Takes one document in, or puts it aside."""
        outcome = read.outcome
        if isinstance(outcome, Ignored):
            self._sinks.rejects.ignored += 1
            return
        position = self.read
        self.read += 1
        if isinstance(outcome, Document):
            try:
                check_placed(outcome.label, outcome.split, self._sinks.options)
                outcome = _with_kept(outcome, self._kept)
            except Rejection as refusal:
                reject = Rejection(
                    refusal.reason, refusal.detail, stage="prepare", data=read.original
                )
                self._sinks.refuse(position, read.record_id, outcome.label, reject)
                return
            self._waiting.append(_Waiting(position, read.record_id, read.original, outcome))
            self._waiting_bytes += len(read.original)
            if self._waiting_bytes >= _BATCH_BYTES or len(self._waiting) == _BATCH_RECORDS:
                self.flush()
        else:
            self._sinks.refuse(position, read.record_id, None, outcome)

    def flush(self) -> None:
        """Prepares what is waiting, spools it, and keeps its rows of the sidecar."""
        if not self._waiting:
            return
        waiting, self._waiting, self._waiting_bytes = self._waiting, [], 0
        prepared = self._record_type.prepare_batch(_columns(waiting, self._kept))
        for row, reject in prepared.rejects:
            one = waiting[row]
            self._sinks.refuse(one.position, one.record_id, one.document.label, reject)
        rows = [waiting[row] for row in prepared.rows.tolist()]
        lengths = []
        names = list(prepared.values)
        for values in zip(*prepared.values.values(), strict=True):
            framed = frame(encode_features(self._features, dict(zip(names, values, strict=True))))
            self._spool.append(framed)
            lengths.append(len(framed))
        ids = [one.record_id for one in rows]
        hashes = [id_hash(record_id) for record_id in ids]
        groups = [one.document.group for one in rows]
        columns: dict[str, Any] = {
            "key": shuffle_keys(hashes, self._seed),
            "id_hash": pa.array(hashes, pa.uint64()),
            "offset": np.zeros(len(rows), np.int64),  # until the order is known
            "length": pa.array(lengths, pa.int64()),
            "record_id": ids,
            "label": [one.document.label for one in rows],
            "fingerprint": prepared.fingerprints,
            "group": [None if group is None else id_hash(group) for group in groups],
            "split": [one.document.split for one in rows],
        }
        fields = self._record_type.staged_columns
        columns |= {field.name: prepared.statistics[field.name] for field in fields}
        self._tables.append(pa.table(columns, schema=pa.schema([*SIDECAR_FIELDS, *fields])))

    def sidecar(self) -> pa.Table:
        """All rows, in the order in which they were read."""
        fields = self._record_type.staged_columns
        empty = pa.schema([*SIDECAR_FIELDS, *fields]).empty_table()
        return pa.concat_tables([empty, *self._tables])


def _with_kept(document: Document, kept: tuple[tuple[str, str], ...]) -> Document:
    """The document; one of a format without columns with what a row has that lacks them.

    Raises:
        Rejection: A kept column is to hold numbers.
    """
    if len(document.kept) == len(kept):
        return document
    for name, kind in kept:
        if kind != "text":
            detail = f"the kept column {name!r} must hold {kind}, got a document without columns"
            raise Rejection("bad-value", detail)
    return document._replace(kept=("",) * len(kept))


def _columns(waiting: list[_Waiting], kept: tuple[tuple[str, str], ...]) -> pa.RecordBatch:
    """The documents as columns, with those that are kept."""
    _, ids, originals, documents = zip(*waiting, strict=True)
    columns = dict(zip(Document._fields, zip(*documents, strict=True), strict=True))
    values = columns.pop("kept")
    columns |= {"record_id": ids, "original": originals}
    fields = list(DOCUMENT_FIELDS)
    for number, (name, kind) in enumerate(kept):
        columns[KEPT_PREFIX + name] = tuple(value[number] for value in values)
        fields.append(pa.field(KEPT_PREFIX + name, _KINDS[kind]))
    return pa.record_batch(columns, schema=pa.schema(fields))


def _in_shuffle_order(sidecar: pa.Table, spool: Spool, payload: BinaryIO) -> pa.Table:
    """Copies the payload in shuffle order; the sidecar in that order."""
    # The record id breaks the tie of two equal keys, so the order never depends on the unit.
    order = pc.sort_indices(
        sidecar, sort_keys=[("key", "ascending"), ("record_id", "ascending")]
    ).to_numpy()
    payload.writelines(spool.take(order.tolist()))
    sidecar = sidecar.take(pa.array(order))
    placed = int64(sidecar["length"])
    at = sidecar.column_names.index("offset")
    field = sidecar.schema.field("offset")
    return sidecar.set_column(at, field, pa.array(np.cumsum(placed) - placed)).combine_chunks()
