"""A compaction, or a replacement in an object store, that is not at its end.

    generations/compacted/    the new set
    generations/compact.json  its state

`beam_jobs/publishing.py` has the steps. The state of a set follows from its manifests if
the file is damaged, so a state that cannot be read never makes a set unusable.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from foundation import storage
from foundation.errors import ShardmillError
from foundation.storage import Place
from shard_format import naming
from shard_format.manifest import Manifest
from shard_format.manifest_file import load_manifest
from shard_format.manifest_types import (
    WrongType,
    count,
    flag,
    list_of,
    object_of,
    sha256_or_empty,
    text,
)

REPLACEMENT = "a set that replaces this one"  # in place of the digest of the ids to remove


class State(NamedTuple):
    """A compaction that is not at its end.

    Attributes:
        digest: From `digest_of`, or `REPLACEMENT`.
        merged: Number of generations that are merged.
        removed: Number of records that are taken out.
        not_found: Ids that no record has.
        report: Whether to write a report.
        root_hash: Root hash of the new set once it is whole; empty before.
    """

    digest: str
    merged: int
    removed: int
    not_found: list[str]
    report: bool
    root_hash: str


_check_state = object_of(
    {
        "digest": text,
        "merged": count,
        "removed": count,
        "not_found": list_of(text),
        "report": flag,
        "root_hash": sha256_or_empty,
    }
)


def digest_of(ids: frozenset[str]) -> str:
    """Says which records a compaction takes out."""
    return hashlib.sha256(json.dumps(sorted(ids)).encode()).hexdigest()


def read_state(directory: Place) -> State | None:
    """The compaction of a set that is not at its end; None if there is none.

    `root_hash` is that of a set that is really there.
    """
    place = directory / naming.COMPACT_STATE
    is_there = storage.stat(place) is not None
    if not is_there and not storage.is_folder(directory / naming.COMPACTED_DIR):
        return None
    current, new = whole_manifest(directory), whole_manifest(directory / naming.COMPACTED_DIR)
    written = _parsed(storage.read_bytes(place)) if is_there else None
    # The result of a compaction has no generations: those of another set are never deleted.
    whole = {one.root_hash for one in (current, new) if one is not None and not one.generations}
    if current is not None and is_moving(current):
        root_hash = current.generations[0].root_hash
    elif written is not None:
        root_hash = written.root_hash if written.root_hash in whole else ""
    else:
        are_equal = current and new and current.root_hash == new.root_hash
        root_hash = whole.pop() if are_equal and whole else ""
    if written is None:
        has_report = storage.stat(directory / naming.REPORT) is not None
        written = State("", 1, 0, [], has_report, "")
    return written._replace(root_hash=root_hash)


def is_moving(manifest: Manifest) -> bool:
    """Whether a manifest names the files of a compacted set where they were written."""
    return manifest.home == naming.COMPACTED_DIR


def note_of(directory: Place, state: State) -> str:
    """What verification says of a compaction, and how it is completed."""
    if state.digest == REPLACEMENT and not state.root_hash:
        what, command = "replacement", "the same 'shardmill preprocess --overwrite' command again"
    elif state.root_hash or state.digest == digest_of(frozenset()):
        what, command = "compaction", f"'shardmill compact {directory}'"
    else:
        what, command = "compaction", "the same 'shardmill compact' command again"
    return (
        f"a {what} was interrupted, or is still running; until it is complete, its files and those "
        f"it replaces are in the folder. If no command is running, run {command}"
    )


def built_names(directory: Place) -> Iterator[str]:
    """Yields names, relative to a set, of the files that builds and exports write.

    A compaction deletes those that the new set does not have.
    """
    for entry in storage.list_folder(directory):
        shard = naming.parse_shard_file(entry.name)
        labels = entry.name.endswith(naming.LABELS_SUFFIX)
        if shard or labels or naming.is_temporary(entry.name):
            yield entry.name
    yield from (naming.DUPLICATES, naming.REPORT, naming.CROISSANT, *naming.TOKENIZERS.values())
    for folder in naming.FOLDERS:
        if storage.is_folder(directory / folder):
            for name, _ in storage.list_tree(directory / folder):
                file = f"{folder}/{name}"
                if folder != naming.DUPLICATES_DIR or naming.DUPLICATES_PART.fullmatch(file):
                    yield file


def replaced_names(directory: Place, manifest: Manifest) -> set[str]:
    """Names of what the last steps of a compaction replace or delete; folders end with a slash.

    Args:
        directory: The set.
        manifest: Its manifest, of any of these steps.
    """
    files = {*manifest.files, naming.BUILD, *built_names(directory)}
    final = {name.removeprefix(f"{naming.COMPACTED_DIR}/") for name in files}
    return {*final, *(f"{folder}/" for folder in naming.FOLDERS)}


def whole_manifest(directory: Place) -> Manifest | None:
    """The manifest of a set; None if there is none that can be read."""
    try:
        return load_manifest(directory)
    except ShardmillError:
        return None


def _parsed(data: bytes) -> State | None:
    try:
        value: Any = json.loads(data)
        _check_state(value, "")
    except (ValueError, RecursionError, WrongType):
        return None
    return State(**value)
