"""`shardmill compact`: all generations of a set become one, and records can be taken out.

Shards are sorted runs, so this is a merge: rows of the index are merged, frames are copied, and
nothing is decoded. The result is written as a set of its own, and `publish_set` puts it in the
place of the old one. Memory does not grow with the number of records, but for the ids to remove.
"""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from beam_jobs import publishing
from beam_jobs.generations import leftovers
from beam_jobs.generations.append import lock_of
from beam_jobs.generations.compacted_split import write_split
from beam_jobs.generations.removal import (
    RECEIPTS_KEY,
    receipt,
    receipts_in,
    removed_records,
)
from beam_jobs.generations.views import known_builds, publish_finished
from beam_jobs.moved_sources import MERGED_KEY, merged_options
from beam_jobs.publishing import publish_set, target_of, write_state
from beam_jobs.record_ids import missing_error
from beam_jobs.staging.item_list import merge_item_lists
from beam_jobs.workspace import Workspace
from foundation import storage
from foundation.storage import Place
from shard_format import (
    InputError,
    Manifest,
    file_info,
    load_build,
    naming,
)
from shard_format.checksums import build_text
from shard_format.compaction import State, digest_of, read_state
from shard_format.croissant import write_croissant
from shard_format.expected_files import FINGERPRINTS_KEY
from shard_format.manifest_file import RECORDS_OF_KEY
from shard_format.removed_records import RemovedRecords, read_removed
from shard_format.tfds_metadata import tfds_files


class Compacted(NamedTuple):
    """The result of `compact`.

    Attributes:
        manifest: Manifest of the set.
        merged: Number of generations that were merged; 1 where there was nothing to merge.
        removed: Records taken out: kept ones, duplicates and rejected ones.
        not_found: Ids that no record of the set has, sorted.
        changed: Whether anything was written.
        receipt: Receipt of the removal, see `removal.receipt`; None if nothing was to be removed.
    """

    manifest: Manifest
    merged: int
    removed: int
    not_found: list[str]
    changed: bool
    receipt: dict[str, Any] | None


def compact(
    directory: Place | str,
    remove: Collection[str] = (),
    on_progress: Callable[[str, int, int], None] = lambda stage, done, total: None,
    on_note: Callable[[str], None] = lambda note: None,
    *,
    missing_ok: bool = False,
) -> Compacted:
    """Merges all generations of a set into balanced, globally shuffled shards.

    Whatever moment it is killed at, there is a whole set, and the same command completes the work.

    Args:
        directory: The set.
        remove: Ids of records to take out of every file of the set.
        on_progress: Called with ("compact", bytes done, bytes in all), from one thread at a time.
        on_note: See `run.preprocess`.
        missing_ok: Whether ids that no record has are left out.

    Raises:
        InputError: No record has one of the ids, or the set does not say how it was built; nothing
            was changed.
        DamageError: A shard is damaged.
    """
    base = storage.place_of(storage.absolute(str(directory)))
    ids = frozenset(remove)
    digest = digest_of(ids)
    with lock_of(base, on_note):
        state = read_state(base)
        if state is not None and state.root_hash:
            manifest = publish_set(base, state)  # another process has written everything
            if state.digest == digest:
                counts = (state.merged, state.removed, state.not_found, True)
                return Compacted(manifest, *counts, _last_receipt(base, digest))
            state = None
        before = publish_finished(base, on_note)
        config = before.config
        vocabulary = config.get("vocabulary") or {}
        packed = config.get("pack") and before.ledger.kept
        has_end = not packed or vocabulary.get("end") is not None
        if not {"seed", "shard_size"} <= config.keys() or not has_end:
            raise InputError(f"{base} does not say how it was built. Build the set again.")
        records = leftovers.find(base, before, ids)
        not_found = sorted(ids - records.ids)
        removed, done = read_removed(base, before), _last_receipt(base, digest)
        # Those that were removed before are no mistake: the same command may have been killed.
        unknown = [name for name in not_found if not (done or removed.has_id(name))]
        if unknown and not missing_ok:
            stripped = frozenset(name.strip() for name in unknown)
            near = leftovers.find(base, before, stripped).ids
            raise missing_error(base, unknown, len(ids), near)
        merged = before.newest + 1
        receipt_of = partial(receipt, digest, len(ids), records, before)
        if merged == 1 and not records.ids:
            publishing.abandon(base)
            nothing = receipt_of(before.root_hash) if ids else None
            return Compacted(before, 1, 0, not_found, False, done or nothing)
        if state is None or state.digest != digest:
            publishing.abandon(base)
        state = State(digest, merged, records.removed, not_found, had_report(base), "")
        write_state(base, state)
        if ids:
            removed = removed.joined(removed_records(base, before, records))
        built = _write_set(base, before, ids, removed, records, receipt_of, on_progress)
        state = state._replace(root_hash=built.root_hash)
        write_state(base, state)
        manifest = publish_set(base, state)
        done = _last_receipt(base, digest)
        return Compacted(manifest, merged, records.removed, not_found, True, done)


def _last_receipt(base: Place, digest: str) -> dict[str, Any] | None:
    """Returns the receipt of the removal of some ids."""
    known = [one for one in receipts_in([load_build(base)]) if one.get("ids_sha256") == digest]
    return known[-1] if known else None


def had_report(base: Place) -> bool:
    """Returns whether the set has a report, which is then written again."""
    return storage.stat(base / naming.REPORT) is not None


def _write_set(
    base: Place,
    before: Manifest,
    ids: frozenset[str],
    removed: RemovedRecords,
    found: leftovers.Found,
    receipt_of: Callable[[str], dict[str, Any]],
    on_progress: Callable[[str, int, int], None],
) -> Manifest:
    """Writes the set that is to be, with its manifest last."""
    out = target_of(base)
    workspace = Workspace(out, None)
    workspace.create()
    storage.make_folder(out / naming.INDEX_DIR)
    total = sum(split.bytes for split in before.splits.values())
    done, lock = 0, threading.Lock()

    def count(size: int) -> None:
        nonlocal done
        with lock:
            done += size
            on_progress("compact", done, total)

    splits = {
        name: write_split(base, before, name, ids, workspace, count) for name in before.splits
    }
    on_progress("compact", done, done)  # removed records were part of the total
    contents = tfds_files(before.name, before.schema, splits)
    for name in naming.TOKENIZERS.values():
        if storage.stat(base / name) is not None:
            contents[name] = storage.read_bytes(base / name)
    if any(removed):
        contents |= dict.fromkeys((naming.REMOVED, naming.REMOVED_COPY), removed.to_bytes())
    for name, content in contents.items():
        with workspace.write(out / name, durable=True) as file:
            file.write(content)
    files = [*contents]
    files += leftovers.write(base, before, ids, workspace)
    manifest = dataclasses.replace(
        before,
        splits=splits,
        ledger=found.ledger(before.ledger),
        files={},
        generations=(),
        home="",
    )
    files += [file for name in splits for file in manifest.index_files(name)]
    manifest = dataclasses.replace(manifest, files={name: file_info(out / name) for name in files})
    fingerprints = leftovers.write_stored(base, before, ids, workspace)
    fingerprints |= merge_item_lists(base, before, workspace)
    own = [receipt_of(manifest.root_hash)] if ids else []
    _write_build(base, before, manifest, fingerprints, own, workspace)
    write_croissant(out, manifest, workspace.scratch_of)
    with workspace.write(out / naming.MANIFEST, durable=True) as file:
        file.write(manifest.to_text().encode())
    workspace.remove()
    return manifest


def _write_build(
    base: Place,
    before: Manifest,
    manifest: Manifest,
    fingerprints: Mapping[str, Any],
    receipts: Sequence[Mapping[str, Any]],
    workspace: Workspace,
) -> None:
    """build.json: the options of the first build, which sources the set has, and all receipts.

    Notes of the builds are left out: they may name records that are removed.
    """
    folders = [one.folder for one in before.generations] or [""]
    builds = [load_build(base / folder if folder else base) for folder in folders]
    known = [one for build in builds for one in known_builds(build)]
    kept = {name: builds[0][name] for name in ("options", "packages") if name in builds[0]}
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    value: dict[str, Any] = {"build_id": "", "started": now, "compacted": known, "notes": []}
    if manifest.ledger.kept == before.ledger.kept:
        value[RECORDS_OF_KEY] = before.root_hash
    value[MERGED_KEY] = [own for build in builds for own in merged_options(build)]
    if done := [*receipts_in(builds), *receipts]:
        value[RECEIPTS_KEY] = done
    value[FINGERPRINTS_KEY] = fingerprints
    with workspace.write(workspace.out / naming.BUILD, durable=True) as file:
        file.write(build_text(value | kept, manifest))
