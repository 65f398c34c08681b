"""Stage 1, list: the corpus as a table of records, cut into work units.

The table is a file; a unit is a range of its rows. So a million paths never pass through Beam.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from beam_jobs.columns import int64
from beam_jobs.options import PreprocessOptions
from beam_jobs.options.values import splits_are_given
from beam_jobs.record_types import RecordType
from beam_jobs.repairs import with_repaired
from beam_jobs.sources import SOURCES, BatchSource, Item
from beam_jobs.staging.units import Unit
from beam_jobs.workspace import Workspace, publish, read_table, write_table
from shard_format import InputError, id_hash
from shard_format.wording import parse_size

# Raised whenever the files of a staged unit change their layout.
UNIT_VERSION = 2

SCHEMA = pa.schema(
    [
        pa.field("record_id", pa.string(), nullable=False),
        pa.field("path", pa.binary(), nullable=False),
        pa.field("label", pa.string()),
        pa.field("size", pa.int64(), nullable=False),
        pa.field("mtime_ns", pa.int64(), nullable=False),
        pa.field("refused", pa.string(), nullable=False),
        pa.field("locator", pa.string(), nullable=False),
        pa.field("block", pa.int64(), nullable=False),
        pa.field("group", pa.string()),
        pa.field("split", pa.string()),
        pa.field("repaired", pa.binary(), nullable=False),
    ]
)

_BATCH_ROWS = 8192  # rows per Arrow record batch: about a megabyte of paths
_MIN_UNIT_BYTES = 2 << 20  # 2 MiB: under this, opening files costs more than reading them
_MAX_UNIT_BYTES = 32 << 20  # 32 MiB: about what a worker has to redo after a crash
_LONGEST_UNIT = 3  # times the aim: a unit ends there though no record's hash says so
_UNITS_PER_CORPUS = 64  # aimed at for small corpora, so that every worker has some
_MAX_UNIT_RECORDS = 1 << 16  # bounds the sidecar of a unit of tiny files


class Listing(NamedTuple):
    """What was found.

    Attributes:
        units: How many.
        records: Number of records, refused ones included.
        bytes: Their bytes.
        ignored: Hidden files that were left out.
        build_id: Content address of the whole input with all options.
    """

    units: int
    records: int
    bytes: int
    ignored: int
    build_id: str


def list_corpus(
    options: PreprocessOptions,
    record_type: RecordType,
    workspace: Workspace,
    on_progress: Callable[[int], None] = lambda records: None,
) -> Listing:
    """Lists the sources into the workspace and cuts the listing into units.

    Args:
        options: The job.
        record_type: Its parsed record type.
        workspace: Where the listing is written.
        on_progress: Called with the number of records found so far.

    Raises:
        InputError: A source is missing, or there is nothing in it that could be used.
    """
    ignored: list[str] = []
    source = SOURCES[options.source](options)
    items = source.items([Path(path) for path in options.sources], ignored.append)
    if options.repaired and not isinstance(source, BatchSource):  # which does it by itself
        items = with_repaired(items, [Path(folder) for folder in options.repaired])
    records, usable, total_bytes = _write_listing(items, workspace, on_progress)
    _check_not_empty(options, records, usable, workspace)
    unit_bytes = (
        parse_size("--unit-size", options.unit_size)
        if options.unit_size is not None
        else _unit_bytes(total_bytes)
    )
    stage_options = {
        "unit_version": UNIT_VERSION,
        "record_type": options.record_type,
        "version": record_type.version,
        "seed": options.seed,
        "source": [options.source, *(getattr(options, name) for name in options.READING)],
        # Fractions are for planning: other ones find the staged units as they are.
        "split": options.split if splits_are_given(options.split) else "",
        **record_type.stage_options(),
    }
    # What the whole build is made of: its options, and the same rows that its units are made of,
    # but not how they are cut.
    build = hashlib.blake2b(digest_size=16)
    build.update(json.dumps([options.config(), options.name, stage_options]).encode())
    units = _write_units(_cut(workspace.listing, unit_bytes, stage_options, build), workspace)
    workspace.mark("stage")
    return Listing(units, records, total_bytes, len(ignored), build.hexdigest())


def read_units(workspace: Workspace) -> Iterator[Unit]:
    """All units, in the order of the listing."""
    return _units(read_table(workspace.unit_table))


def largest_first(workspace: Workspace) -> Iterator[Unit]:
    """All units in the order to hand them out, so that the small ones fill the gaps at the end."""
    table = read_table(workspace.unit_table)
    return _units(table.take(pa.array(np.argsort(-int64(table["bytes"]), kind="stable"))))


def _units(table: pa.Table) -> Iterator[Unit]:
    for batch in table.to_batches(max_chunksize=_BATCH_ROWS):
        for values in batch.to_pylist():
            yield Unit(**values)


def read_unit(listing: Path, unit: Unit) -> Iterator[Item]:
    """The records of one unit, in listing order."""
    rows = read_table(listing).slice(unit.start, unit.end - unit.start)
    for values in zip(*(column.to_pylist() for column in rows.columns), strict=True):
        yield Item(*values)


def _write_units(units: Iterator[Unit], workspace: Workspace) -> int:
    rows = [unit._asdict() for unit in units]
    write_table(workspace, workspace.unit_table, pa.Table.from_pylist(rows))
    return len(rows)


def _write_listing(
    items: Iterator[Item], workspace: Workspace, on_progress: Callable[[int], None]
) -> tuple[int, int, int]:
    records = usable = total_bytes = 0
    temporary = workspace.temporary(workspace.work)
    with pa.OSFile(str(temporary), "wb") as sink, pa.ipc.new_file(sink, SCHEMA) as writer:
        rows: list[Item] = []
        for item in items:
            rows.append(item)
            usable += not item.refused
            total_bytes += item.size
            if len(rows) == _BATCH_ROWS:
                _write_batch(writer, rows)
                records += len(rows)
                rows.clear()
                on_progress(records)
        _write_batch(writer, rows)
        records += len(rows)
        on_progress(records)
    publish(temporary, workspace.listing)
    return records, usable, total_bytes


def _write_batch(writer: Any, rows: list[Item]) -> None:
    if rows:
        columns = [
            pa.array(column, field.type)
            for column, field in zip(zip(*rows, strict=True), SCHEMA, strict=True)
        ]
        writer.write_batch(pa.record_batch(columns, schema=SCHEMA))


def _check_not_empty(
    options: PreprocessOptions, records: int, usable: int, workspace: Workspace
) -> None:
    where = ", ".join(options.sources)
    if not records:
        raise InputError(
            f"a source must hold files, got none in {where}. Check the path; files whose name "
            "begins with a dot are not read."
        )
    if not usable:
        first = next(_batches(workspace.listing))["refused"][0].as_py()
        if options.record_type == "text":
            hint = "With class folders, make one folder per class (SRC/pos/1.txt), or name the "
            hint += "folder above; without labels, say --no-labels."
        else:
            hint = "With class folders, make one folder per class (SRC/hat/1.jpg), or name the "
            hint += "folder above; with a table of labels, say --labels FILE; without labels, say "
            hint += "--no-labels."
        raise InputError(
            f"a source must hold records that can be used, got {records} entries and none usable "
            f"in {where}; the first is '{first}'. {hint}"
        )


def _unit_bytes(total_bytes: int) -> int:
    """A power of two, so that a growing corpus rarely changes it and staged units stay useful."""
    aimed = max(1, total_bytes // _UNITS_PER_CORPUS)
    return min(_MAX_UNIT_BYTES, max(_MIN_UNIT_BYTES, 1 << (aimed - 1).bit_length()))


def _batches(listing: Path) -> Iterator[pa.RecordBatch]:
    file = pa.ipc.open_file(pa.memory_map(str(listing)))
    for number in range(file.num_record_batches):
        yield file.get_batch(number)


def _cut(
    listing: Path, unit_bytes: int, stage_options: dict[str, Any], build: hashlib.blake2b
) -> Iterator[Unit]:
    """Cuts where a hash of the record id says so, not every N bytes.

    So a file that is added or removed changes the unit it falls in and no other, and a later build
    finds the other units done (content-defined chunking; Muthitacharoen, Chen, Mazieres: LBFS, SOSP
    2001, section 3.1). A record ends a unit with a chance of its size / the aim, whatever came
    before: a least size would be kinder to the file system, but cuts would then depend on cuts.
    """
    prefix = json.dumps(stage_options, sort_keys=True).encode()
    digest, start, position, size = hashlib.blake2b(prefix, digest_size=16), 0, 0, 0
    ends, block = False, 0  # whether the unit is to end, and the block that it must not cut
    for batch in _batches(listing):
        for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            item = Item(*row)
            if ends and (not block or item.block != block):
                yield Unit(digest.hexdigest(), start, position, size)
                digest, start, size = hashlib.blake2b(prefix, digest_size=16), position, 0
                ends = False
            # Without paths: the corpus may be mounted elsewhere the next time.
            repaired = b"repaired" if item.repaired else b""
            identity = repr(item._replace(path=b"", block=0, repaired=repaired)).encode()
            digest.update(identity)
            build.update(identity)
            position += 1
            size += item.size
            block = item.block
            full = size >= _LONGEST_UNIT * unit_bytes or position - start >= _MAX_UNIT_RECORDS
            ends |= full or id_hash(item.record_id) / 2**64 < item.size / unit_bytes
    if position > start:
        yield Unit(digest.hexdigest(), start, position, size)
