"""The last steps of `compact`: a new set takes the place of an old one in the same folder.

    generations/compacted/   the new set, whole
    generations/compact.json the state of it; while it exists, the next command continues

1. `manifest.json` names the files of the new set where they are.
2. They get their final names too: a link on a disk, a copy elsewhere.
3. `manifest.json` is that of the new set.
4. Everything else is deleted, `compact.json` last.

Before and after each step the manifest names whole files.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shutil
import uuid
from collections.abc import Iterator
from typing import NamedTuple

from beam_jobs.workspace import read_json
from shard_format import Generation, Manifest, load_manifest, naming, storage
from shard_format.naming import below
from shard_format.storage import Place

COMPACTED = f"{naming.GENERATIONS_DIR}/compacted"
_STATE = f"{naming.GENERATIONS_DIR}/compact.json"
_COPY_BYTES = 4 << 20  # 4 MiB


class State(NamedTuple):
    """A compaction that is not at its end.

    Attributes:
        digest: Of the ids to remove.
        merged: Number of generations that are merged.
        removed: Number of records that are taken out.
        not_found: Ids that no record has.
        report: Whether to write a report.
        root_hash: Of the new set once it is whole; empty before.
    """

    digest: str
    merged: int
    removed: int
    not_found: list[str]
    report: bool
    root_hash: str


def target_of(base: Place) -> Place:
    """Where the new set is written."""
    return base / COMPACTED


def read_state(base: Place) -> State | None:
    """The compaction of a set that is not at its end."""
    found = read_json(base / _STATE)
    return None if found is None else State(**found)


def write_state(base: Place, state: State) -> None:
    """Notes that a compaction has begun, or that its set is whole."""
    storage.make_folder((base / _STATE).parent)
    storage.write_bytes(base / _STATE, json.dumps(state._asdict()).encode())


def abandon(base: Place) -> None:
    """Forgets a compaction whose set is not whole."""
    storage.delete_tree(target_of(base))
    storage.delete(base / _STATE)


def recover(base: Place) -> None:
    """Completes a compaction that was killed, or forgets it; for commands that change a set."""
    state = read_state(base)
    if state is None:
        return
    if state.root_hash:
        settle(base, state)
    else:
        abandon(base)


def settle(base: Place, state: State) -> Manifest:
    """Puts the new set in the place of the old one; every step may have been done before."""
    new = current = load_manifest(base)
    if current.root_hash != state.root_hash:
        new = load_manifest(target_of(base))
        _replace(base, _where_it_is(new))
        for name in _names(base, new):
            _give_name(base / COMPACTED / name, base / name)
        _replace(base, new)
    if storage.stat(target_of(base) / naming.MANIFEST) is not None:
        _delete_others(base, new)
    if state.report:
        from beam_jobs.report import write_report  # loads image libraries

        write_report(base)
    # From now on there is nothing to delete but what is here.
    storage.delete(target_of(base) / naming.MANIFEST)
    storage.delete_tree(target_of(base))
    storage.delete(base / _STATE)
    storage.delete_tree(base / naming.GENERATIONS_DIR)
    return new


def _where_it_is(new: Manifest) -> Manifest:
    """A manifest of the set that names the new files where they were written."""
    splits = {
        name: dataclasses.replace(
            split,
            shards=tuple(
                dataclasses.replace(shard, file=below(COMPACTED, shard.file))
                for shard in split.shards
            ),
        )
        for name, split in new.splits.items()
    }
    return dataclasses.replace(
        new,
        splits=splits,
        files={below(COMPACTED, name): info for name, info in new.files.items()},
        generations=(Generation(COMPACTED, new.root_hash, ""),),
        home=COMPACTED,
    )


def _replace(base: Place, manifest: Manifest) -> None:
    with storage.create(base / naming.MANIFEST, durable=True) as file:
        file.write(manifest.to_text().encode())


def _names(base: Place, new: Manifest) -> list[str]:
    names = [shard.file for split in new.splits.values() for shard in split.shards]
    return [*names, *new.files, *_unnamed(base, new)]


def _unnamed(base: Place, new: Manifest) -> list[str]:
    """The files of the new set that its manifest does not name."""
    tables = map(naming.table_file, new.splits)
    fingerprints = (naming.STORED_RECORDS, naming.READ_ITEMS)
    found = (naming.BUILD, naming.CROISSANT, *tables, *fingerprints)
    return [name for name in found if storage.stat(target_of(base) / name) is not None]


def _give_name(written: Place, final: Place) -> None:
    """A second name for a file; in an object store a copy."""
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
    for name in sorted(set(_present(base)) - known):
        storage.delete(base / name)
    storage.delete_tree(base / naming.INDEX_DIR / naming.GENERATIONS_DIR)  # exported for others
    for entry in sorted(storage.list_folder(base / naming.GENERATIONS_DIR)):
        if entry.name not in ("compacted", "compact.json"):
            storage.delete_tree(base / naming.GENERATIONS_DIR / entry.name)


def _present(base: Place) -> Iterator[str]:
    """Names, relative to the set, of the files that builds and exports write."""
    for entry in storage.list_folder(base):
        shard = naming.parse_shard_file(entry.name)
        if shard or entry.name.endswith(naming.LABELS_SUFFIX) or _is_temporary(entry.name):
            yield entry.name
    yield from (naming.DUPLICATES, naming.REPORT, naming.CROISSANT, *naming.TOKENIZERS.values())
    for folder in (naming.INDEX_DIR, naming.QUARANTINE_DIR, naming.FINGERPRINTS_DIR):
        if storage.is_folder(base / folder):
            for name, _ in storage.list_tree(base / folder):
                yield f"{folder}/{name}"


def _is_temporary(name: str) -> bool:
    """Whether a file is one that a killed process was about to name."""
    return re.fullmatch(r"\.(.+\.)?[0-9a-f]{32}(\.part)?", name) is not None
