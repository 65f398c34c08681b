"""The damaged records of shards, read again from the sources or from staged units.

The index has the id, the offset and the label of every record of a shard, and the payload of a
record does not depend on others. So only units with damaged records are staged, and whole records
are copied. An assembled shard must have the SHA-256 of the manifest.
"""

from __future__ import annotations

import dataclasses
import math
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_jobs.build import open_job
from beam_jobs.columns import int64
from beam_jobs.options import PreprocessOptions
from beam_jobs.record_types import RECORD_TYPES, RecordType
from beam_jobs.record_types.base import WEIGHT
from beam_jobs.repair.finished import FinishedFiles
from beam_jobs.stages.list import list_corpus
from beam_jobs.stages.stage import stage_unit
from beam_jobs.staging import unit_files
from beam_jobs.staging.examples import StagedRecord
from beam_jobs.staging.units import Unit, done_before, forget_unit, listed_pieces, read_units
from beam_jobs.workspace import Workspace, read_table
from foundation import storage
from foundation.machine import usable_cores
from foundation.storage import Place
from shard_format import (
    LABELS_FIELD,
    Manifest,
    ShardmillError,
    encode_features,
    frame,
    label_column,
    naming,
    unframe,
)
from shard_format.damaged_records import whole_frames
from shard_format.expected_files import Expected
from shard_format.index_parts import open_shard_rows

OnBytes = Callable[[int, int], None]
_Row = dict[str, Any]  # of an index


class LostRecord(NamedTuple):
    """A record that could not be restored.

    Attributes:
        file: Name of the shard.
        offset: First byte of the frame in the shard.
        record_id: Id of the record.
        why: Reason for which no source gives the record.
    """

    file: str
    offset: int
    record_id: str
    why: str


def has_own_records(manifest: Manifest) -> bool:
    """Returns whether an example depends on one record of the corpus alone."""
    config = manifest.config
    return not config.get("pack") and config.get("dedup_parts", "off") == "off"


class RecordRepair:
    """Assembles damaged shards from their whole records and from the corpus.

    Args:
        directory: Directory of the set, whose indexes of the damaged shards are whole.
        manifest: Manifest of the set.
        shards: Damaged shards.
        workspace: Scratch workspace for records and units, local or remote.
    """

    def __init__(
        self, directory: Place, manifest: Manifest, shards: Sequence[Expected], workspace: Workspace
    ) -> None:
        self._directory = directory
        self._manifest = manifest
        self._workspace = workspace
        self._shards: list[tuple[Expected, pa.Table, list[_Row]]] = []  # with index, damaged rows
        self._wanted: dict[str, tuple[str, _Row]] = {}  # by record id: split, row of the index
        self._restored: dict[str, tuple[int, int]] = {}  # record id -> (begin, size) in the spool
        self._changed: set[str] = set()  # ids whose source gives other bytes
        self._lock = threading.Lock()
        workspace.create()
        self._spool = workspace.scratch_file()
        self._spool.touch()
        for one in shards:
            rows = open_shard_rows(directory, manifest, one.split, one.number)
            frames = enumerate(self._frames(one, rows))
            numbers = [number for number, whole in frames if not isinstance(whole, bytes)]
            damaged = rows.take(pa.array(numbers, pa.int64())).to_pylist()
            self._shards.append((one, rows, damaged))
            self._wanted |= {row["record_id"]: (one.split, row) for row in damaged}
        self._ids = pa.array(sorted(self._wanted), pa.string())

    @property
    def missing(self) -> set[str]:
        """Ids of records that were not found yet."""
        return self._wanted.keys() - self._restored.keys()

    def _frames(self, one: Expected, rows: pa.Table) -> Iterator[bytes | str]:
        """Yields the frames of a shard; for each that is damaged, a description of the damage."""
        place = self._directory / one.file
        try:
            if storage.stat(place) is None:
                yield from ["the file is missing"] * len(rows)
                return
            yield from whole_frames(place, rows)
        except OSError as error:
            yield from [str(error.strerror)] * len(rows)

    # From the corpus

    def take_from_sources(self, job: PreprocessOptions, on_bytes: OnBytes) -> str:
        """Stages the units that have missing records; returns why the corpus is unreadable, or "".

        Args:
            job: Options of the build.
            on_bytes: Called with (bytes of units staged, bytes of units to stage).
        """
        try:
            out = str(self._workspace.out)
            job = dataclasses.replace(job, out=out, on_bad="quarantine", on_unreadable="stop")
            # Items are found by their ids here, also those of a copy, which has other times.
            job = dataclasses.replace(job, only_items="")
            context = open_job(job, self._workspace)
            list_corpus(context)
        except ShardmillError as error:
            return str(error)
        except OSError as error:
            return f"{error.filename}: {error.strerror}"
        self._provide_tokenizer()
        # Ids of --id-column do not say which unit they are of.
        likely = read_units(self._workspace) if job.id_column else self._units_with(self.missing)
        units = list(likely)
        total, done = sum(unit.bytes for unit in units), 0
        own = {entry.name for entry in storage.list_folder(self._workspace.units)}

        def stage(unit: Unit) -> int:
            if not self.missing:
                return unit.bytes
            summary = stage_unit(unit, context)
            if summary.kept:
                self._take_unit(unit.key, context.record_type)
            if f"{unit.key}.json" not in own:  # do not fill the disk
                forget_unit(self._workspace, unit.key)
                for place in unit_files(self._workspace, unit.key).values():
                    storage.delete(place)
            return unit.bytes

        with ThreadPoolExecutor(math.ceil(usable_cores())) as pool:
            for size in pool.map(stage, units):
                done += size
                on_bytes(done, total)
        return ""

    def take_from_staging(self, job: PreprocessOptions) -> None:
        """Takes missing records from any units that a --staging folder still has."""
        if job.staging is None:
            return
        self._provide_tokenizer()
        record_type = RECORD_TYPES[job.record_type](job)
        for entry in sorted(storage.list_folder(self._workspace.units)):
            key, _, suffix = entry.name.rpartition(".")
            if suffix == "json" and self.missing:
                try:
                    if done_before(key, self._workspace) is not None:
                        self._take_unit(key, record_type)
                except (OSError, pa.ArrowException, ShardmillError, KeyError):
                    continue  # a unit of another job, or one whose payload is damaged

    def _provide_tokenizer(self) -> None:
        """Copies the tokenizer of the set to where the record type expects it."""
        for name in naming.TOKENIZERS.values():
            if name in self._manifest.files and storage.stat(self._directory / name):
                content = storage.read_bytes(self._directory / name)
                storage.make_folder(self._workspace.shared)
                storage.write_bytes(self._workspace.shared / "tokenizer", content)

    def _units_with(self, ids: Iterable[str]) -> Iterator[Unit]:
        """Yields the units that may have some records: their ids begin with that of an item."""
        begins: set[str] = set()
        for record_id in ids:
            parts = record_id.split("/")
            begins |= {"/".join(parts[:end]) for end in range(1, len(parts) + 1)}
        wanted, rows_of = pa.array(sorted(begins), pa.string()), {}
        for piece in listed_pieces(self._workspace):
            listed = read_table(self._workspace.listing_of(piece))["record_id"]
            rows_of[piece] = np.flatnonzero(pc.is_in(listed, value_set=wanted).to_numpy())
        for unit in read_units(self._workspace):
            rows = rows_of[unit.piece]
            first = np.searchsorted(rows, unit.start)
            if first < len(rows) and rows[first] < unit.end:
                yield unit

    def _take_unit(self, key: str, record_type: RecordType) -> None:
        files = unit_files(self._workspace, key)
        table = read_table(files["arrow"])
        table = table.filter(pc.is_in(table["record_id"], value_set=self._ids))
        if not len(table):
            return
        ids, prints = table["record_id"].to_pylist(), table["fingerprint"].to_pylist()
        ranges = zip(int64(table["offset"]).tolist(), int64(table["length"]).tolist(), strict=True)
        staged = storage.read_ranges(files["tfrecord"], ranges)
        for number, framed in enumerate(staged):
            if ids[number] in self._restored:
                continue
            split, row = self._wanted[ids[number]]
            builder = record_type.example_builder(self._workspace, split)
            payload = unframe(framed, str(files["tfrecord"]))
            record = StagedRecord(0, payload, self._labels(row))
            (built,) = builder.build(table.slice(number, 1), iter([record]))
            framed = frame(built.example)
            if prints[number] != row["fingerprint"] or len(framed) != row["length"]:
                self._changed.add(ids[number])
                continue
            with self._lock, self._spool.open("ab") as file:
                self._restored[ids[number]] = (file.tell(), len(framed))
                file.write(framed)

    def _labels(self, row: _Row) -> bytes:
        """Returns the encoded labels and the weight of a record, as the index has them."""
        entries = b""
        for feature in self._manifest.schema.labels:
            column = LABELS_FIELD.name if feature.shape else label_column(feature.name)
            value = row.get(column)
            if value is not None:
                value = tuple(value) if feature.shape else value
                entries += encode_features([feature], {feature.name: value})
        if self._manifest.config.get(WEIGHT.name) is not None:
            entries += encode_features([WEIGHT], {WEIGHT.name: row[WEIGHT.name]})
        return entries

    # The result

    def doubt_whole_records(self, finished: FinishedFiles) -> None:
        """Wants all records of each shard that is another one with the restored records.

        A whole record of it may be of another build: under the same id, and as long.

        Args:
            finished: Files that are ready to replace damaged ones; shards that are right come here.
        """
        for one, rows, damaged in self._shards:
            lacks = self.missing.intersection(row["record_id"] for row in damaged)
            if not lacks and not finished.write(one, self._joined(one, rows)):
                every = {row["record_id"]: (one.split, row) for row in rows.to_pylist()}
                self._wanted = every | self._wanted
        self._ids = pa.array(sorted(self._wanted), pa.string())

    def finish(
        self, finished: FinishedFiles, reason: str
    ) -> tuple[list[Expected], list[LostRecord]]:
        """Assembles every shard that has all its records.

        Args:
            finished: Files that are ready to replace damaged ones.
            reason: Reason for which the corpus could not be read; "" if it was.

        Returns:
            The shards that are ready, and the records that the others lack.
        """
        ready, lost = [], []
        for one, rows, damaged in self._shards:
            lacks = [row for row in damaged if row["record_id"] not in self._restored]
            if not lacks and (finished.has(one) or finished.write(one, self._joined(one, rows))):
                ready.append(one)
                continue
            for row in lacks or damaged:
                why = reason or "no source has it any more"
                if not lacks or row["record_id"] in self._changed:
                    why = (
                        "its source gives other bytes now: it was changed, or libraries were "
                        "updated"
                    )
                lost.append(LostRecord(one.file, row["offset"], row["record_id"], why))
        return ready, lost

    def _joined(self, one: Expected, rows: pa.Table) -> Iterator[bytes]:
        """Yields the frames of a shard, those that are damaged as they were restored."""
        ids = rows["record_id"].to_pylist()
        with self._spool.open("rb") as spool:
            for record_id, whole in zip(ids, self._frames(one, rows), strict=True):
                if record_id in self._restored:
                    begin, size = self._restored[record_id]
                    spool.seek(begin)
                    yield spool.read(size)
                elif isinstance(whole, bytes):
                    yield whole
