"""The files of a set whose size and SHA-256 are known: from its manifest, and from build.json.

build.json has those of `fingerprints/`, which follows from modification times too, so no root hash
may cover it. build.json has a checksum of its own, and is written after these files.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any, NamedTuple

from foundation import storage
from foundation.errors import ShardmillError
from foundation.storage import Place
from shard_format import naming
from shard_format.checksums import check_build
from shard_format.manifest import Manifest
from shard_format.unnamed_files import own_sets

# In build.json: bytes and SHA-256 of each file in that folder, by name. Earlier versions lack it.
FINGERPRINTS_KEY = "fingerprints"


class Expected(NamedTuple):
    """A file as it was written; `split` and `number` of a shard, else "" and 0."""

    file: str
    bytes: int
    sha256: str
    split: str = ""
    number: int = 0


class StoredFiles(NamedTuple):
    """The files in `fingerprints/` of all generations of a set.

    Attributes:
        expected: Those with a checksum.
        absent: Names that no file of the set has.
        notes: Why others cannot be checked.
    """

    expected: list[Expected]
    absent: list[str]
    notes: list[str]


def expected_files(manifest: Manifest) -> list[Expected]:
    """Every file that a manifest names; no shards of a split whose list of them is damaged."""
    shards: list[Expected] = []
    for split, info in manifest.splits.items():
        with contextlib.suppress(ShardmillError):
            shards += [
                Expected(shard.file, shard.bytes, shard.sha256, split, number)
                for number, shard in enumerate(info.shards)
            ]
    others = manifest.files.items()
    return shards + [Expected(file, info["bytes"], info["sha256"]) for file, info in others]


def stored_files(directory: Place, manifest: Manifest) -> StoredFiles:
    """What each build.json of a set says of its `fingerprints/`; reads no other file.

    Args:
        directory: The set.
        manifest: Its manifest.
    """
    stored = StoredFiles([], [], [])
    for own in own_sets(directory, manifest):
        folder = directory / own.folder if own.folder else directory
        content = whole_build(folder)
        has_key = FINGERPRINTS_KEY in content
        named = {one.file: one for one in fingerprint_files(content)}
        for name in naming.FINGERPRINT_FILES:
            file = naming.below(own.folder, name)
            if name in named:
                stored.expected.append(named[name]._replace(file=file))
            elif has_key:
                stored.absent.append(file)
            elif storage.stat(folder / name) is not None:
                why = f"{naming.BUILD} does not have it: an earlier version built the set"
                why = why if content else f"{naming.BUILD} is not whole"
                stored.notes.append(f"{file} has no checksum and was not checked: {why}")
    return stored


def fingerprint_files(build: Mapping[str, Any]) -> list[Expected]:
    """The files in `fingerprints/` that the content of a build.json names."""
    entries = build.get(FINGERPRINTS_KEY, {})
    return [Expected(name, **entries[name]) for name in naming.FINGERPRINT_FILES if name in entries]


def whole_build(directory: Place) -> dict[str, Any]:
    """The content of a build.json that matches its checksum; empty if there is none."""
    try:
        build = check_build(storage.read_bytes(directory / naming.BUILD))
    except OSError:
        return {}
    return build.content if build.has_checksum else {}
