"""The records that a build keeps out: those that --exclude-ids names, or its set has lost before.

They are collected into the work folder when a build begins, so that all workers have the same ones.
Planning completes them, and the commit writes them as `removed.txt`.
"""

from __future__ import annotations

from beam_jobs.options import PreprocessOptions
from beam_jobs.record_ids import read_ids
from beam_jobs.workspace import Workspace
from foundation import storage
from foundation.storage import Place
from shard_format import ShardmillError, load_manifest, naming
from shard_format.compaction import whole_manifest
from shard_format.removed_records import (
    RemovedRecords,
    id_digest,
    parse_removed,
    read_removed,
    removed_files,
)

_EXCLUDED = "excluded.txt"  # in the work folder: the digests of the ids of --exclude-ids


def excluded_by(options: PreprocessOptions) -> RemovedRecords:
    """The records that --exclude-ids names.

    Raises:
        InputError: The file cannot be read, or is malformed.
    """
    if options.exclude_ids is None:
        return RemovedRecords()
    ids = read_ids(storage.place_of(options.exclude_ids))
    return RemovedRecords(frozenset(map(id_digest, ids)))


def collect_removed(options: PreprocessOptions, workspace: Workspace) -> None:
    """Writes into the work folder which records the build keeps out.

    Raises:
        DamageError: The list of the set is missing or damaged.
        InputError: The file of --exclude-ids cannot be read.
    """
    given = excluded_by(options)
    removed = given.joined(_own(workspace.out))
    if options.base:
        removed = removed.joined(removed_before(options))
    for name in options.kept_out:
        place = storage.place_of(name)
        removed = removed.joined(parse_removed(storage.read_bytes(place), name))
    _write(workspace, workspace.work / _EXCLUDED, given)
    _write(workspace, workspace.work / naming.REMOVED, removed)


def _own(out: Place) -> RemovedRecords:
    """Of the output, whose files may have been lost, or whose build was killed."""
    manifest = whole_manifest(out)
    if manifest is not None:
        return read_removed(out, manifest)
    return _read(out / naming.REMOVED)


def removed_before(options: PreprocessOptions) -> RemovedRecords:
    """What the set that a generation is added to keeps out already."""
    base = storage.place_of(options.base)
    return read_removed(base, load_manifest(base, options.base_generation))


def removed_lists(directory: Place) -> list[str]:
    """The files with the records that a set keeps out, for a set that takes its place.

    Raises:
        DamageError: One is missing or damaged.
    """
    manifest = load_manifest(directory)
    read_removed(directory, manifest)
    return [str(directory / name) for name in removed_files(manifest)]


def collected(workspace: Workspace) -> tuple[RemovedRecords, RemovedRecords]:
    """The records that --exclude-ids names, and all that the build keeps out."""
    return _read(workspace.work / _EXCLUDED), _read(workspace.work / naming.REMOVED)


def obeys(workspace: Workspace) -> bool:
    """Whether the set in the output keeps out all that was collected."""
    try:
        known = read_removed(workspace.out, load_manifest(workspace.out))
    except ShardmillError:
        return False
    return not any(collected(workspace)[1].without(known))


def write_planned(workspace: Workspace, removed: RemovedRecords) -> None:
    """Writes what the set will keep out."""
    _write(workspace, workspace.plan / naming.REMOVED, removed)


def read_planned(workspace: Workspace) -> RemovedRecords:
    """What the set will keep out."""
    return _read(workspace.plan / naming.REMOVED)


def _write(workspace: Workspace, place: Place, removed: RemovedRecords) -> None:
    if not any(removed):
        storage.delete(place)
        return
    with workspace.write(place) as file:
        file.write(removed.to_bytes())


def _read(place: Place) -> RemovedRecords:
    try:
        return parse_removed(storage.read_bytes(place), str(place))
    except FileNotFoundError:
        return RemovedRecords()
