"""The records that were removed from a compacted set: those of its builds that its list names.

build.json has the sources of the merged builds, and no id of a removed record. If the list is
damaged too, the removed records are those that the files of the set lack, if their numbers agree
with the ledgers.
"""

from __future__ import annotations

from beam_jobs.repair.own_items import ids_in, record_ids
from foundation.storage import Place
from shard_format import DamageError, Manifest, id_hash, load_manifest
from shard_format.dropped import duplicates_files, quarantine_files, read_columns
from shard_format.removed_records import RemovedRecords


def removed_ids(
    rebuilt: Place, directory: Place, manifest: Manifest | None, listed: RemovedRecords | None
) -> list[str]:
    """Returns the ids to remove from the builds of a compacted set.

    Args:
        rebuilt: Directory of the builds, as generations of a set.
        directory: Directory of the compacted set.
        manifest: Manifest of the compacted set; None if it is lost.
        listed: Records that the set keeps out; None if their list is damaged.

    Raises:
        DamageError: The removed records do not follow from the whole files of the set.
    """
    view = load_manifest(rebuilt)
    if listed is not None:
        indexes = [view.index_file(split) for split in view.splits]
        files = [*indexes, *quarantine_files(view), *duplicates_files(view)]
        columns = (one for file in files for one in ids_in(rebuilt, file))
        return sorted({name for one in columns for name in one.to_pylist() if listed.has_id(name)})
    known = set(record_ids(directory, manifest).records.tolist())
    indexes = [view.index_file(split) for split in view.splits]
    kept = _missing(rebuilt, indexes, known)
    rejected = _missing(rebuilt, quarantine_files(view), known)
    dropped = _missing(rebuilt, duplicates_files(view), known)
    # Duplicates of a removed record lose their rows, whether they are removed or not.
    own = dropped - _duplicates_of(rebuilt, view, kept | dropped)
    if manifest is None:
        return sorted(kept | rejected | own)
    before, after = view.ledger, manifest.ledger
    left_out = before.quarantined + before.filtered - after.quarantined - after.filtered
    removed = _if_count(before.kept - after.kept, kept)
    removed |= _if_count(left_out, rejected)
    # Earlier versions did not count the duplicates of a removed record.
    if before.duplicates - after.duplicates in (len(own), len(dropped)):
        removed |= own
    number = before.read - after.read + after.excluded - before.excluded
    if number not in (len(removed), len(removed | dropped)):
        raise DamageError(
            f"{number:,} of {before.read:,} records were removed from {directory}"
            ", and its whole files do not say which"
        )
    return sorted(removed)


def _missing(rebuilt: Place, files: list[str], known: set[int]) -> set[str]:
    """Returns the ids in some files that the compacted set lacks."""
    columns = (one for file in files for one in ids_in(rebuilt, file))
    return {name for one in columns for name in one.to_pylist() if id_hash(name) not in known}


def _if_count(number: int, ids: set[str]) -> set[str]:
    """Returns the ids if there are this many, else none."""
    return ids if len(ids) == number else set()


def _duplicates_of(rebuilt: Place, view: Manifest, removed: set[str]) -> set[str]:
    """Returns the ids of the duplicates in place of which some records were kept."""
    duplicates = set()
    for file in duplicates_files(view):
        for batch in read_columns(rebuilt, file, ["record_id", "kept_id", "dropped"]):
            for row in batch.filter(batch["dropped"]).to_pylist():
                if row["kept_id"] in removed:
                    duplicates.add(row["record_id"])
    return duplicates
