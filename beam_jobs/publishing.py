"""Publishing of a set that was written below the one it replaces: compaction, object stores.

    generations/compacted/   the new set, whole
    generations/compact.json the state of it; while it exists, the next command continues

1. `manifest.json` names the files of the new set where they are.
2. They get their final names too: a link on a disk, a copy elsewhere.
3. `manifest.json` is that of the new set.
4. Everything else is deleted, `compact.json` last.

Before and after each step the manifest names whole files.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import shutil
import uuid
from collections.abc import Callable

from foundation import storage
from foundation.storage import Place
from shard_format import DamageError, Generation, Manifest, load_manifest, naming
from shard_format.checksums import has_own_card
from shard_format.compaction import State, built_names, is_moving, read_state, whole_manifest
from shard_format.dataset_card import write_card
from shard_format.fingerprint_files import files_in
from shard_format.naming import below
from shard_format.set_paths import delete_in_set
from shard_format.shard_list import ShardList

_COPY_BYTES = 4 << 20  # 4 MiB


def target_of(base: Place) -> Place:
    """Returns the folder that the new set is written to."""
    return base / naming.COMPACTED_DIR


def write_state(base: Place, state: State) -> None:
    """Notes that a compaction has begun, or that its set is whole."""
    place = base / naming.COMPACT_STATE
    storage.make_folder(place.parent)
    storage.write_bytes(place, json.dumps(state._asdict()).encode(), durable=True)


def abandon(base: Place) -> None:
    """Forgets a compaction whose set is not whole."""
    storage.delete_tree(target_of(base))
    storage.delete(base / naming.COMPACT_STATE)
    path = storage.local_path(base / naming.GENERATIONS_DIR)
    if path is not None:
        with contextlib.suppress(OSError):  # generations are in it
            path.rmdir()


def recover(base: Place) -> None:
    """Completes a compaction that was killed, or forgets it; for commands that change a set."""
    state = read_state(base)
    if state is None:
        return
    if state.root_hash:
        publish_set(base, state)
    else:
        abandon(base)


def publish_set(base: Place, state: State, *, damaged: bool = False) -> Manifest:
    """Puts the new set in the place of the old one; every step may have been done before.

    Args:
        base: The set.
        state: From `read_state`; its set is whole.
        damaged: Whether to go on without files that are missing, for a repair.

    Raises:
        DamageError: A file of the new set is missing.
    """
    current = whole_manifest(base)
    has_place = current is not None and current.root_hash == state.root_hash
    new = current if current is not None and has_place else _new_manifest(base, current)
    if not has_place:
        _replace(base, _where_it_is(new))
        for name in _names(base, new):
            if not damaged or storage.stat(target_of(base) / name) is not None:
                _give_name(base, name)
        _replace(base, new)
    if storage.stat(target_of(base) / naming.MANIFEST) is not None:
        _delete_others(base, new)
    if state.report:
        from beam_jobs.report import write_report  # loads image libraries

        write_report(base)
    elif has_own_card(base):
        write_card(base, load_manifest(base))
    # From now on there is nothing to delete but what is here.
    storage.delete(target_of(base) / naming.MANIFEST)
    storage.delete_tree(target_of(base))
    storage.delete(base / naming.COMPACT_STATE)
    storage.delete_tree(base / naming.GENERATIONS_DIR)
    return load_manifest(base)


def _new_manifest(base: Place, current: Manifest | None) -> Manifest:
    """The manifest of the new set: from `manifest.json`, if that names its files already."""
    if current is None or not is_moving(current):
        return load_manifest(target_of(base))
    own = _renamed(current, lambda name: name.removeprefix(f"{naming.COMPACTED_DIR}/"), "")
    new = dataclasses.replace(own, generations=(), home="")
    if new.root_hash != current.generations[0].root_hash:
        raise DamageError(
            f"{base / naming.MANIFEST} is not that of a compaction: the set in "
            f"{naming.COMPACTED_DIR} has another root hash. Restore it from a copy, or build the "
            "set again."
        )
    return new


def _where_it_is(new: Manifest) -> Manifest:
    """Returns a manifest of the set that names the new files where they were written."""
    return dataclasses.replace(
        _renamed(new, lambda name: below(naming.COMPACTED_DIR, name), naming.COMPACTED_DIR),
        generations=(Generation(naming.COMPACTED_DIR, new.root_hash, ""),),
        home=naming.COMPACTED_DIR,
    )


def _renamed(manifest: Manifest, name_of: Callable[[str], str], folder: str) -> Manifest:
    """Returns a manifest with other names of all its files, which are in a folder of the set."""
    splits = {
        name: dataclasses.replace(
            split,
            shards=split.shards.below(folder)
            if isinstance(split.shards, ShardList)
            else tuple(
                dataclasses.replace(shard, file=name_of(shard.file)) for shard in split.shards
            ),
            index=tuple(dataclasses.replace(part, file=name_of(part.file)) for part in split.index),
        )
        for name, split in manifest.splits.items()
    }
    files = {name_of(name): info for name, info in manifest.files.items()}
    return dataclasses.replace(manifest, splits=splits, files=files)


def _replace(base: Place, manifest: Manifest) -> None:
    with storage.create(base / naming.MANIFEST, durable=True) as file:
        file.write(manifest.to_text().encode())


def _names(base: Place, new: Manifest) -> list[str]:
    names = [shard.file for split in new.splits.values() for shard in split.shards]
    return [*names, *new.files, *_unnamed(base, new)]


def _unnamed(base: Place, new: Manifest) -> list[str]:
    """Returns the files of the new set that its manifest does not name."""
    tables = (
        file
        for split, info in new.splits.items()
        for file in naming.table_files(split, len(info.index))
    )
    names = (naming.BUILD, naming.CROISSANT, *tables)
    own = [name for name in names if storage.stat(target_of(base) / name) is not None]
    return own + files_in(target_of(base))


def _give_name(base: Place, name: str) -> None:
    """A second name for a file of the new set; in an object store a copy."""
    written, final = target_of(base) / name, base / name
    if storage.stat(written) is None:
        raise DamageError(
            f"{written} is missing. Run 'shardmill repair {base}': it completes the compaction, "
            "and then repairs the file."
        )
    source, path = storage.local_path(written), storage.local_path(final)
    if source is not None and path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
        try:
            os.link(source, temporary)
        except OSError:  # a file system without links
            shutil.copyfile(source, temporary)
        # Two names of one file: a rename would do nothing and leave both.
        if path.exists() and os.path.samefile(path, temporary):
            temporary.unlink()
        else:
            os.replace(temporary, path)
        return
    with storage.open_input(written) as file, storage.create(final) as copy:
        shutil.copyfileobj(file, copy, _COPY_BYTES)


def _delete_others(base: Place, new: Manifest) -> None:
    """Deletes every file of a set that the new one does not have, the state last of all."""
    known = {naming.MANIFEST, *_names(base, new)}
    for name in sorted(set(built_names(base)) - known):
        delete_in_set(base, name)
    path = storage.local_path(base)
    for folder in naming.FOLDERS:
        with contextlib.suppress(OSError):  # the new set has files in it, or there is none
            if path is not None:
                (path / folder).rmdir()
    storage.delete_tree(base / naming.INDEX_DIR / naming.GENERATIONS_DIR)  # exported for others
    for entry in sorted(storage.list_folder(base / naming.GENERATIONS_DIR)):
        name = below(naming.GENERATIONS_DIR, entry.name)
        if name not in (naming.COMPACTED_DIR, naming.COMPACT_STATE):
            delete_in_set(base, f"{name}/" if entry.kind == storage.FOLDER else name)
