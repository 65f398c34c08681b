"""The files of a set whose size and SHA-256 are known: from its manifest, and from build.json.

build.json has those of `fingerprints/`, which follows from modification times too, so no root hash
may cover it. build.json has a checksum of its own, and is written after these files.
"""

from __future__ import annotations

import bisect
import functools
import hashlib
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, overload

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from foundation.storage import Place
from shard_format import naming
from shard_format.checksums import whole_build
from shard_format.fingerprint_files import files_in, is_fingerprints
from shard_format.manifest import Manifest
from shard_format.shard_list import ShardInfo, shard_numbers
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


class ExpectedFiles(Sequence[Expected]):
    """Files whose size and SHA-256 are known, shards first; a shard is made where it is asked for.

    In memory are 8 bytes for each shard, once sizes are asked for, and the lists of shards.

    Args:
        manifest: Manifest of the set. No shards of a split count whose list of them is damaged.
        others: Files that the manifest does not name.

    Attributes:
        num_shards: Number of shards.
    """

    def __init__(self, manifest: Manifest, others: Iterable[Expected] = ()) -> None:
        self._shards = [
            (name, split.shards)
            for name, split in manifest.splits.items()
            if split.has_shard_list()
        ]
        self._ends = list(itertools.accumulate(len(shards) for _, shards in self._shards))
        self.num_shards = self._ends[-1] if self._ends else 0
        self._others = [
            Expected(file, info["bytes"], info["sha256"]) for file, info in manifest.files.items()
        ]
        self._others += others

    @functools.cached_property
    def sizes(self) -> npt.NDArray[np.int64]:
        """[files] int64, bytes of each file."""
        sizes = [shard_numbers(shards, "bytes") for _, shards in self._shards]
        return np.concatenate([*sizes, np.array([one.bytes for one in self._others], np.int64)])

    @override
    def __len__(self) -> int:
        return self.num_shards + len(self._others)

    @overload
    def __getitem__(self, place: int) -> Expected: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[Expected]: ...

    @override
    def __getitem__(self, place: int | slice) -> Expected | Sequence[Expected]:
        if isinstance(place, slice):
            return [self[number] for number in range(*place.indices(len(self)))]
        if place >= self.num_shards:
            return self._others[place - self.num_shards]
        at = bisect.bisect_right(self._ends, place)
        split, shards = self._shards[at]
        number = place - (self._ends[at] - len(shards))
        return _shard(split, number, shards[number])

    @override
    def __iter__(self) -> Iterator[Expected]:
        for split, shards in self._shards:
            yield from (_shard(split, number, shard) for number, shard in enumerate(shards))
        yield from self._others


def _shard(split: str, number: int, shard: ShardInfo) -> Expected:
    return Expected(shard.file, shard.bytes, shard.sha256, split, number)


class ChosenFiles:
    """Some of the files, chosen by a hash of their names.

    Args:
        expected: All files.
        share: Least part of their bytes, in [0, 1]; 1 for all files.
        seed: Another one chooses others.

    Attributes:
        files: Number of these files.
        bytes: Their bytes.
    """

    def __init__(self, expected: ExpectedFiles, share: float, seed: int) -> None:
        self._seed = seed
        self._last: int | None = None  # of the ranks; None for all
        self.files, self.bytes = len(expected), int(expected.sizes.sum())
        if share >= 1:
            return
        ranks = np.fromiter((self._rank(one.file) for one in expected), np.uint64)
        order = np.argsort(ranks, kind="stable")
        ends = np.cumsum(expected.sizes[order])
        wanted = share * self.bytes
        # As many as it takes to have the bytes.
        self.files = min(len(ends), int(np.searchsorted(ends, wanted)) + 1) if wanted > 0 else 0
        self.bytes = int(ends[self.files - 1]) if self.files else 0
        self._last = int(ranks[order[self.files - 1]]) if self.files else -1

    def __contains__(self, file: str) -> bool:
        return self._last is None or self._rank(file) <= self._last

    def _rank(self, file: str) -> int:
        digest = hashlib.sha256(f"{self._seed}/{file}".encode()).digest()
        return int.from_bytes(digest[:8], "big")


class StoredFiles(NamedTuple):
    """The files in `fingerprints/` of all generations of a set.

    Attributes:
        expected: Those with a checksum.
        told: Folders of the generations whose build.json says which files there are.
        notes: Why others cannot be checked.
    """

    expected: list[Expected]
    told: list[str]
    notes: list[str]


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
        known = fingerprint_files(content)
        stored.expected.extend(
            one._replace(file=naming.below(own.folder, one.file)) for one in known
        )
        if FINGERPRINTS_KEY in content:
            stored.told.append(own.folder)
            continue
        for name in files_in(folder):
            why = f"{naming.BUILD} does not have it: an earlier version built the set"
            why = why if content else f"{naming.BUILD} is not whole"
            file = naming.below(own.folder, name)
            stored.notes.append(f"{file} has no checksum and was not checked: {why}")
    return stored


def fingerprint_files(build: Mapping[str, Any]) -> list[Expected]:
    """The files in `fingerprints/` that the content of a build.json names."""
    entries = build.get(FINGERPRINTS_KEY, {})
    return [Expected(name, **info) for name, info in entries.items() if is_fingerprints(name, "")]
