"""The files of the sources that a build has read, of a folder that has since grown.

`fingerprints/items.arrow` has hashes of them, which cover modification times. A copy of the sources
has other times, and then the record ids of the set decide: those of the index, the duplicates, the
quarantine and the stored records. These files may be damaged, because what is built of the items is
compared with the manifest in the end.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from beam_jobs.build import open_job
from beam_jobs.moved_sources import MERGED_KEY
from beam_jobs.options import PreprocessOptions
from beam_jobs.stages.list import list_corpus
from beam_jobs.staging.item_list import hashes_in, listed_hashes, write_items
from beam_jobs.staging.listed_items import listed_batches
from beam_jobs.workspace import Workspace, read_table
from foundation import storage
from foundation.storage import Place
from shard_format import (
    DamageError,
    InputError,
    Manifest,
    ShardmillError,
    file_info,
    id_hash,
    load_manifest,
    naming,
    open_index,
)
from shard_format.checksums import whole_build
from shard_format.dropped import quarantine_files, read_columns
from shard_format.duplicates import duplicates_files, read_duplicates
from shard_format.expected_files import Expected, fingerprint_files
from shard_format.fingerprint_files import files_in, whole_file
from shard_format.keys import UInt64Array
from shard_format.removed_records import RemovedRecords


class RecordIds(NamedTuple):
    """Hashes of the ids of records.

    Attributes:
        records: Hashes of the ids themselves.
        begins: Hashes of all possible ids of their items: an id, or its part before any "/".
    """

    records: UInt64Array
    begins: UInt64Array


def items_of_build(
    jobs: Sequence[PreprocessOptions],
    directory: Place,
    read: int | None,
    others: Sequence[Place],
    work: Workspace,
) -> Place:
    """Lists the sources of a build; returns a file with the items that the build has read.

    Args:
        jobs: Options of the build, or of each build that was merged into it.
        directory: Folder of the build.
        read: Number of records that the build has read; None if that is unknown.
        others: Folders of the other builds of the set.
        work: Workspace for the listing and the file.

    Raises:
        ShardmillError: The sources cannot be listed, or have none of the items.
        OSError: They cannot be read.
    """
    hashes, ids = [], []
    for job in jobs:
        work.create()
        job = dataclasses.replace(job, out=str(work.out), base="", base_generation=None)
        list_corpus(open_job(dataclasses.replace(job, only_items=""), work))
        hashes.append(listed_hashes(work))
        names = (table["record_id"].to_pylist() for table in listed_batches(work))
        ids.append(np.array([id_hash(name) for rows in names for name in rows], np.uint64))
    listed, items = np.concatenate(hashes), np.concatenate(ids)
    known = _known_items(directory)
    if len(known) and np.isin(known, listed).all():
        return directory / naming.READ_ITEMS
    records, begins = record_ids(directory)
    chosen = np.isin(listed, known) | np.isin(items, begins)
    is_all = 0 < len(known) <= chosen.sum()
    # Ids of --id-column do not say which item they are of.
    is_partial = read is None or len(records) < read or any(job.id_column for job in jobs)
    if not is_all and (is_partial or MERGED_KEY in whole_build(directory)):
        # Some ids are in damaged files alone, or were removed: all that no other build has read.
        elsewhere = [record_ids(other).begins for other in others]
        chosen |= ~np.isin(items, np.concatenate([np.zeros(0, np.uint64), *elsewhere]))
    if not chosen.any():
        raise InputError(
            f"No file in {', '.join(source for job in jobs for source in job.sources)} is one "
            f"that {directory} was built from."
        )
    final = work.work / "own-items.arrow"
    write_items(work, final, listed[chosen])
    return final


def _known_items(directory: Place) -> UInt64Array:
    """Returns the list of items that a build left; empty if it is damaged or missing."""
    named = fingerprint_files(whole_build(directory))
    own = [one for one in named if whole_file(one.file) == naming.READ_ITEMS]
    whole = bool(own) and all(is_whole(directory, one) for one in own)
    return hashes_in(directory / naming.READ_ITEMS) if whole else np.zeros(0, np.uint64)


def is_whole(directory: Place, one: Expected) -> bool:
    """Returns whether a file has the size and the SHA-256 that were written."""
    place = directory / one.file
    return storage.stat(place) is not None and file_info(place) == {
        "bytes": one.bytes,
        "sha256": one.sha256,
    }


def ids_in(directory: Place, file: str) -> Iterator[pa.Array]:
    """Yields the ids of records in a file of a set; none in one that has none.

    Args:
        directory: Directory of the set.
        file: Name of an index, of a part of the duplicates or the quarantine, or of the stored
            records.
    """
    folder, _, name = file.rpartition("/")
    if folder.endswith(naming.INDEX_DIR) and name.endswith(naming.SHARDS_SUFFIX):
        return
    if folder.endswith(naming.INDEX_DIR) and name.endswith(".arrow"):
        index = open_index(directory / file)
        packed = "documents" in index.column_names
        column = index["documents" if packed else "record_id"]
        column.validate(full=True)  # damaged offsets would be read beyond the file
        yield pc.list_flatten(column) if packed else column
    elif whole_file(file).endswith(naming.STORED_RECORDS):
        column = read_table(directory / file)["record_id"]
        column.validate(full=True)
        yield column
    elif naming.parse_duplicates(file):
        for batch in read_columns(directory, file, ["record_id", "dropped"]):
            yield batch.filter(batch["dropped"])["record_id"]
    elif folder.endswith(naming.QUARANTINE_DIR):
        for batch in read_columns(directory, file, ["record_id"]):
            yield batch["record_id"]
    elif folder.endswith(naming.INDEX_DIR):  # a table for Croissant
        table = pq.ParquetFile(storage.open_arrow(directory / file))
        if "padding" not in table.schema_arrow.names:  # the ids of sequences are no records
            yield table.read(["record_id"])[0]


def record_ids(directory: Place) -> RecordIds:
    """Returns the ids of the records that a build has read, as far as files can be read."""
    folders = (naming.INDEX_DIR, naming.DUPLICATES_DIR, naming.QUARANTINE_DIR)
    files = [naming.DUPLICATES, *files_in(directory, naming.STORED_RECORDS)] + [
        f"{folder}/{entry.name}"
        for folder in folders
        if storage.is_folder(directory / folder)
        for entry in storage.list_folder(directory / folder)
    ]
    records, begins = [np.zeros(0, np.uint64)], [np.zeros(0, np.uint64)]
    for file in files:
        if storage.stat(directory / file) is None:
            continue
        with contextlib.suppress(pa.ArrowException, OSError, ShardmillError, ValueError, KeyError):
            for column in ids_in(directory, file):
                names = column.cast(pa.string()).unique().to_pylist()
                records.append(np.array([id_hash(name) for name in names], np.uint64))
                parents = {name[:at] for name in names for at, one in enumerate(name) if one == "/"}
                begins += [records[-1], np.array([id_hash(name) for name in parents], np.uint64)]
    return RecordIds(np.unique(np.concatenate(records)), np.unique(np.concatenate(begins)))


def listed_ids(rebuilt: Place, removed: RemovedRecords) -> list[str]:
    """Returns the ids of removed records, from the builds that had them."""
    return sorted(name for _, names in _ids_of(rebuilt) for name in names if removed.has_id(name))


def missing_ids(rebuilt: Place, directory: Place, manifest: Manifest | None) -> list[str]:
    """Returns the ids that a compacted set lacks: without a list they were removed.

    Raises:
        DamageError: The set lacks other records than were removed.
    """
    view = load_manifest(rebuilt)
    if manifest is not None and manifest.ledger == view.ledger:
        return []  # whatever a damaged file no longer shows
    known, missing = record_ids(directory).records, set[tuple[str, str]]()
    for file, names in _ids_of(rebuilt):
        hashes = np.array([id_hash(name) for name in names], np.uint64)
        gone = np.flatnonzero(~np.isin(hashes, known))
        missing |= {(file, names[at]) for at in gone.tolist()}
    ids = {name for _, name in missing}
    indexes = set(_index_files(view))
    kept = {name for file, name in missing if file in indexes}
    if manifest is not None and view.ledger.kept - manifest.ledger.kept != len(kept):
        raise DamageError(
            f"{view.ledger.kept - manifest.ledger.kept:,} of {view.ledger.kept:,} records were "
            f"removed from {directory}, and its whole files do not say which"
        )
    # Duplicates of a removed record lose their rows, whether they are removed or not.
    for _, batch in read_duplicates(rebuilt, view, ["record_id", "kept_id", "dropped"]):
        rows = batch.filter(batch["dropped"]).to_pylist()
        ids -= {row["record_id"] for row in rows if row["kept_id"] in kept}
    return sorted(ids)


def _ids_of(directory: Place) -> Iterator[tuple[str, list[str]]]:
    """Yields (file, ids) of all records that a set has read."""
    view = load_manifest(directory)
    for file in (*_index_files(view), *quarantine_files(view), *duplicates_files(view)):
        for ids in ids_in(directory, file):
            yield file, ids.to_pylist()


def _index_files(view: Manifest) -> list[str]:
    """The files of all indexes of a set."""
    return [part.file for split in view.splits for part in view.index_parts(split)]
