"""A few records of a corpus, staged to see what the others will cost; nothing of it is kept."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator
from contextlib import closing
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_jobs.columns import int64
from beam_jobs.corpus.codecs import codec_of
from beam_jobs.corpus.item_table import items_in
from beam_jobs.corpus.reading import CorpusReader, stored_range
from beam_jobs.corpus.record import RawRecord, ReadResult, SourceItem, UnusableRecord
from beam_jobs.corpus.sniffing import HEAD_BYTES
from beam_jobs.corpus.source_io import UnreadableError
from beam_jobs.corpus.streams import FileRange, opened
from beam_jobs.job_context import JobContext
from beam_jobs.rejects import RejectWriter
from beam_jobs.stages.stage import UnitAtWork
from beam_jobs.staging.units import unit_files
from beam_jobs.workspace import read_table
from foundation import storage
from shard_format import InputError

_ITEMS = 64
_SECONDS = 2.0  # for all of them
_BYTES = 256 << 20  # 256 MiB of originals


TRIAL_UNIT = "trial"  # key of the staged sample


class StagingTrial(NamedTuple):
    """What staging a few records gave.

    Attributes:
        read: Number of records.
        kept: Number of staged ones.
        reasons: How many were rejected or filtered, by reason.
        labels: How many have a label, by label.
        item_bytes: Size of their items in the listing, as far as they were read; None where that
            is not known, because the middle of a compressed file was reached.
        one_per_item: Whether every item was a record.
        staged_bytes: Size of the staged payload.
        rejected_bytes: Size of the rejected originals.
        seconds: It took, on one core, without loading libraries.
    """

    read: int
    kept: int
    reasons: dict[str, int]
    labels: dict[str, int]
    item_bytes: int | None
    one_per_item: bool
    staged_bytes: int
    rejected_bytes: int
    seconds: float


def stage_trial(listing: pa.Table, context: JobContext) -> StagingTrial:
    """Stages random items of a listing as the unit TRIAL_UNIT, for about two seconds.

    Args:
        listing: Rows of ITEM_SCHEMA, at least one of them usable.
        context: The job, with a temporary workspace.

    Raises:
        InputError: A file cannot be read because of an I/O error.
    """
    options = dataclasses.replace(context.options, on_bad="quarantine")
    context, workspace = dataclasses.replace(context, options=options), context.workspace
    rejects_path = workspace.scratch_file()
    with (
        workspace.write_arrow(rejects_path) as sink,
        RejectWriter(sink) as rejects,
        closing(UnitAtWork(context, rejects)) as unit,
        CorpusReader(options, context.record_type.extractor, workspace.scratch_file()) as reader,
    ):
        work = _TimedWork(unit)
        try:
            for item in storage.ahead(_sample(listing, options.seed), stored_range):
                if not work.take(item, reader):
                    break
        except UnreadableError as error:
            raise InputError(
                f"Cannot read a source: {error}. Nothing was written. Run the same command again "
                "when it can be read, or with --on-unreadable quarantine."
            ) from error
        files = unit_files(workspace, TRIAL_UNIT)
        with (
            workspace.write(files["tfrecord"]) as payload,
            workspace.write_arrow(files["arrow"]) as sidecar,
        ):
            unit.write_in_shuffle_order(payload, sidecar)
            staged_bytes = payload.tell()
    labels = pc.value_counts(read_table(files["arrow"])["label"].drop_null()).to_pylist()
    return StagingTrial(
        read=unit.read,
        kept=unit.kept,
        reasons=dict(rejects.refused + rejects.filtered),
        labels={one["values"]: one["counts"] for one in labels},
        item_bytes=work.item_bytes,
        one_per_item=work.one_per_item,
        staged_bytes=staged_bytes,
        rejected_bytes=work.rejected_bytes,
        seconds=work.seconds,
    )


class _TimedWork:
    """Items on their way through staging, with a clock.

    Attributes:
        unit: The records.
        item_bytes: See StagingTrial.
        one_per_item: See StagingTrial.
        rejected_bytes: See StagingTrial.
        seconds: Since the first record was prepared, which loads libraries and models.
    """

    def __init__(self, unit: UnitAtWork) -> None:
        self.unit = unit
        self.item_bytes: int | None = 0
        self.one_per_item = True
        self.rejected_bytes = 0
        self._original_bytes = 0
        self._began: float | None = None

    @property
    def seconds(self) -> float:
        return 0.0 if self._began is None else time.perf_counter() - self._began

    def take(self, item: SourceItem, reader: CorpusReader) -> bool:
        """Takes the records of an item; False if there was no time for all of them."""
        records, original_bytes = self.unit.read, self._original_bytes
        for result in reader.read(item):
            self._add(result)
            if self.seconds >= _SECONDS or self._original_bytes >= _BYTES:
                break
        whole = self.seconds < _SECONDS and self._original_bytes < _BYTES
        self.unit.flush()
        self.one_per_item &= self.unit.read == records + 1
        if whole or (self.one_per_item and not item.locator.is_split):
            self._count(item.size)
        elif item.locator.container or (not item.locator.is_split and _is_compressed(item)):
            self._count(None)
        else:
            self._count(min(item.size, self._original_bytes - original_bytes))
        return whole

    def _add(self, result: ReadResult) -> None:
        self.unit.add(result)
        if isinstance(result, RawRecord):
            self._original_bytes += len(result.original)
        elif isinstance(result, UnusableRecord):
            self.rejected_bytes += len(result.rejection.data or b"")
            self._original_bytes += len(result.rejection.data or b"")
        if self._began is None:
            self.unit.flush()
            self._began = time.perf_counter()

    def _count(self, size: int | None) -> None:
        known = self.item_bytes is not None and size is not None
        self.item_bytes = (self.item_bytes or 0) + (size or 0) if known else None


def _is_compressed(item: SourceItem) -> bool:
    with opened(FileRange(item.replacement or item.path)) as file:
        return bool(codec_of(file.head(HEAD_BYTES)))


def _sample(listing: pa.Table, seed: int) -> Iterator[SourceItem]:
    """Random usable items; of a compressed archive, which is read from its start, the first ones.

    Items of archives come last and in their order.
    """
    usable = np.flatnonzero(pc.equal(listing["reason"], "").to_numpy())
    blocks = int64(listing["block"])[usable]
    starts = np.flatnonzero(np.r_[True, blocks[1:] != blocks[:-1]])
    place = np.arange(len(usable)) - np.repeat(starts, np.diff(np.r_[starts, len(usable)]))
    usable = usable[(blocks == 0) | (place < _ITEMS)]
    chosen = np.random.default_rng(seed).permutation(usable)[:_ITEMS]
    blocks = int64(listing["block"])[chosen]
    rank = np.where(blocks == 0, np.arange(len(chosen)), chosen)
    for row in chosen[np.lexsort((rank, blocks))].tolist():
        yield from items_in(listing.slice(row, 1))
