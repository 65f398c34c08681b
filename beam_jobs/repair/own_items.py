"""The files of the sources that a build has read, of a folder that has since grown.

`fingerprints/items.arrow` has hashes of them, which cover modification times. A copy of the sources
has other times, and then the record ids of the set decide: those of the index, the duplicates, the
quarantine and the stored records.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from beam_jobs.build import open_job
from beam_jobs.moved_sources import MERGED_KEY
from beam_jobs.options import PreprocessOptions
from beam_jobs.stages.list import list_corpus
from beam_jobs.staging.read_items import hashes_in, listed_hashes, write_items
from beam_jobs.workspace import Workspace, read_batches, read_table
from foundation import storage
from foundation.storage import Place
from shard_format import (
    InputError,
    Manifest,
    ShardmillError,
    file_info,
    id_hash,
    naming,
    open_index,
    parse_manifest,
)
from shard_format.dropped import read_columns
from shard_format.expected_files import Expected, expected_files, fingerprint_files, whole_build
from shard_format.generation_folders import generation_numbers
from shard_format.keys import UInt64Array


class OwnBuild(NamedTuple):
    """A build of a set: its folder, and the manifest of the build alone."""

    directory: Place
    manifest: Manifest


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
    manifest: Manifest | None,
    others: Iterable[OwnBuild],
    work: Workspace,
) -> Place:
    """Lists the sources of a build; returns a file with the items that the build has read.

    Args:
        jobs: Options of the build, or of each build that was merged into it.
        directory: Folder of the build.
        manifest: Manifest of the build; None if it is lost.
        others: Other builds of the set.
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
        names = (table["record_id"].to_pylist() for table in read_batches(work.listing))
        ids.append(np.array([id_hash(name) for rows in names for name in rows], np.uint64))
    listed, items = np.concatenate(hashes), np.concatenate(ids)
    known = _read_items(directory)
    if len(known) and np.isin(known, listed).all():
        return directory / naming.READ_ITEMS
    records, begins = record_ids(directory, manifest)
    chosen = np.isin(listed, known) | np.isin(items, begins)
    is_all = 0 < len(known) <= chosen.sum()
    is_partial = manifest is None or len(records) < manifest.ledger.read
    if not is_all and (is_partial or MERGED_KEY in whole_build(directory)):
        # Some ids are in damaged files alone, or were removed: all that no other build has read.
        elsewhere = [record_ids(*other).begins for other in others]
        chosen |= ~np.isin(items, np.concatenate([np.zeros(0, np.uint64), *elsewhere]))
    if not chosen.any():
        raise InputError(
            f"No file in {', '.join(source for job in jobs for source in job.sources)} is one "
            f"that {directory} was built from."
        )
    final = work.work / "own-items.arrow"
    write_items(work, final, listed[chosen])
    return final


def other_builds(base: Place, number: int) -> Iterator[OwnBuild]:
    """Yields all builds of a set except one, as far as their manifests are whole."""
    for other in generation_numbers(base):
        folder = base / naming.generation_folder(other) if other else base
        place = folder / naming.MANIFEST if other else base / naming.view_file(0)
        if other != number:
            with contextlib.suppress(ShardmillError, OSError):
                manifest = parse_manifest(storage.read_bytes(place), str(place))
                yield OwnBuild(folder, manifest)


def _read_items(directory: Place) -> UInt64Array:
    """Returns the list of items that a build left; empty if it is damaged or missing."""
    named = {one.file: one for one in fingerprint_files(whole_build(directory))}
    one = named.get(naming.READ_ITEMS)
    whole = one is not None and is_whole(directory, one)
    return hashes_in(directory / naming.READ_ITEMS) if whole else np.zeros(0, np.uint64)


def is_whole(directory: Place, one: Expected) -> bool:
    """Returns whether a file has the size and the SHA-256 that were written."""
    place = directory / one.file
    return storage.stat(place) is not None and file_info(place) == {
        "bytes": one.bytes,
        "sha256": one.sha256,
    }


def record_ids(directory: Place, manifest: Manifest | None) -> RecordIds:
    """Returns the ids of the records that a build has read, as far as whole files have them.

    Args:
        directory: Folder of the build.
        manifest: Manifest of the build; None if it is lost, and then all readable files count.
    """
    if manifest is None:
        return _hashes(_readable_ids(directory))
    build = whole_build(directory)
    expected = [*expected_files(manifest), *fingerprint_files(build)]
    whole = [one.file for one in expected if not one.split and is_whole(directory, one)]
    tables = [
        naming.table_file(split)
        for split in manifest.splits
        if manifest.index_file(split) not in whole
    ]
    columns = (ids for file in whole for ids in ids_in(directory, file))
    return _hashes(itertools.chain(columns, _readable_ids(directory, tables)))


def ids_in(directory: Place, file: str) -> Iterator[pa.Array]:
    """Yields the ids of records in a file of a set; none in one that has none.

    Args:
        directory: Directory of the set.
        file: Name of an index, the duplicates, a part of the quarantine, or the stored records.
    """
    folder, _, name = file.rpartition("/")
    if folder.endswith(naming.INDEX_DIR) and name.endswith(".arrow"):
        index = open_index(directory / file)
        packed = "documents" in index.column_names
        yield pc.list_flatten(index["documents"]) if packed else index["record_id"]
    elif file.endswith(naming.STORED_RECORDS):
        yield read_table(directory / file)["record_id"]
    elif name == naming.DUPLICATES:
        for batch in read_columns(directory, file, ["record_id", "dropped"]):
            yield batch.filter(batch["dropped"])["record_id"]
    elif folder.endswith(naming.QUARANTINE_DIR):
        for batch in read_columns(directory, file, ["record_id"]):
            yield batch["record_id"]
    elif folder.endswith(naming.INDEX_DIR):  # a table for Croissant
        yield pq.read_table(storage.open_arrow(directory / file), columns=["record_id"])[0]


def _readable_ids(directory: Place, files: Iterable[str] | None = None) -> Iterator[pa.Array]:
    """Yields ids in files that may be damaged; the repaired files are compared in the end."""
    if files is None:
        folders = (naming.INDEX_DIR, naming.QUARANTINE_DIR)
        there = [folder for folder in folders if storage.is_folder(directory / folder)]
        names = [
            f"{folder}/{entry.name}"
            for folder in there
            for entry in storage.list_folder(directory / folder)
        ]
        files = [naming.DUPLICATES, naming.STORED_RECORDS, *names]
    for file in files:
        if storage.stat(directory / file) is not None:
            with contextlib.suppress(pa.ArrowException, OSError, ShardmillError):
                yield from ids_in(directory, file)


def _hashes(columns: Iterable[pa.ChunkedArray | pa.Array]) -> RecordIds:
    records, begins = [np.zeros(0, np.uint64)], [np.zeros(0, np.uint64)]
    for column in columns:
        names = column.unique().to_pylist()
        records.append(np.array([id_hash(name) for name in names], np.uint64))
        parents = {name[:at] for name in names for at, one in enumerate(name) if one == "/"}
        begins += [records[-1], np.array([id_hash(name) for name in parents], np.uint64)]
    return RecordIds(np.unique(np.concatenate(records)), np.unique(np.concatenate(begins)))
