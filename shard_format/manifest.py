"""The manifest: the root of a shard set. No manifest, no data set.

It holds everything that is a function of the input and the options and nothing else: no time
stamp, host name, absolute path or version. `root_hash` covers all of it, and it names the SHA-256
of every other file, so two sets with one root hash are the same to the byte.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from shard_format import naming
from shard_format.errors import DamageError, ShardSetError
from shard_format.schema import Schema

FORMAT_VERSION = 1


@dataclasses.dataclass(frozen=True)
class ShardInfo:
    """One shard: file name relative to the set, number of records, bytes, SHA-256 in hex."""

    file: str
    records: int
    bytes: int
    sha256: str


@dataclasses.dataclass(frozen=True)
class SplitInfo:
    """The shards of one split in reading order, and what was counted over its records."""

    shards: tuple[ShardInfo, ...]
    statistics: Mapping[str, Any]

    @property
    def records(self) -> int:
        """Number of records over all shards."""
        return sum(shard.records for shard in self.shards)

    @property
    def bytes(self) -> int:
        """Bytes of all shards."""
        return sum(shard.bytes for shard in self.shards)


@dataclasses.dataclass(frozen=True)
class Ledger:
    """Where every record that was read has gone.

    Attributes:
        read: Records found by the source.
        kept: Records in the shards.
        duplicates: Records left out because another one is equal.
        filtered: Records left out by a cleaning rule.
        quarantined: Records refused because they could not be read; their bytes are kept.
        reasons: For every reason to filter or to refuse, how many.
        repeated: Copies of records of small classes, in the shards beside those kept.
    """

    read: int
    kept: int
    duplicates: int
    filtered: int
    quarantined: int
    reasons: Mapping[str, int]
    repeated: int = 0

    def __post_init__(self) -> None:
        if self.read != self.kept + self.duplicates + self.filtered + self.quarantined:
            raise DamageError(
                f"read must equal kept + duplicates + filtered + quarantined, got {self.read} != "
                f"{self.kept} + {self.duplicates} + {self.filtered} + {self.quarantined}. "
                "This is a bug of shardmill: please report it with the command you ran."
            )


@dataclasses.dataclass(frozen=True)
class Manifest:
    """Everything a shard set promises.

    Attributes:
        name: The first part of every shard's file name.
        schema: The features of an example.
        splits: By name, in the order the user gave.
        ledger: Where every record went.
        config: Every option that has an effect on the bytes.
        files: SHA-256 and size of every other file of the set, by name relative to it.
    """

    name: str
    schema: Schema
    splits: Mapping[str, SplitInfo]
    ledger: Ledger
    config: Mapping[str, Any]
    files: Mapping[str, Mapping[str, Any]]

    @property
    def root_hash(self) -> str:
        """SHA-256 in hex over the canonical JSON of everything else."""
        return _root_hash(self._content())

    def _content(self) -> dict[str, Any]:
        return {
            "format_version": FORMAT_VERSION,
            "name": self.name,
            "schema": self.schema.to_json(),
            "splits": {
                name: {
                    "records": split.records,
                    "bytes": split.bytes,
                    "statistics": dict(split.statistics),
                    "shards": [dataclasses.asdict(shard) for shard in split.shards],
                }
                for name, split in self.splits.items()
            },
            "ledger": self._ledger(),
            "config": dict(self.config),
            "files": {name: dict(info) for name, info in sorted(self.files.items())},
        }

    def _ledger(self) -> dict[str, Any]:
        ledger = dataclasses.asdict(self.ledger)
        if not self.ledger.repeated:  # sets were written before there was such a thing
            del ledger["repeated"]
        return ledger

    def to_text(self) -> str:
        """The content of manifest.json."""
        return json.dumps({**self._content(), "root_hash": self.root_hash}, indent=1) + "\n"

    def summary(self) -> dict[str, Any]:
        """What `--json` prints: the ledger, the root hash, records, shards and bytes per split."""
        ledger = dataclasses.asdict(self.ledger)
        return {
            **ledger,
            "root_hash": self.root_hash,
            "splits": {
                name: {"records": split.records, "shards": len(split.shards), "bytes": split.bytes}
                for name, split in self.splits.items()
            },
        }


def _root_hash(content: Mapping[str, Any]) -> str:
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(canonical.encode()).hexdigest()


def load_manifest(directory: Path) -> Manifest:
    """The manifest of a shard set, its root hash checked.

    Raises:
        ShardSetError: There is no set in this directory, or one of another format version.
        DamageError: The manifest is not what was written.
    """
    path = directory / naming.MANIFEST
    try:
        return parse_manifest(path.read_bytes(), str(path))
    except (FileNotFoundError, NotADirectoryError) as error:
        raise ShardSetError(_why_no_set(directory)) from error
    except OSError as error:
        raise ShardSetError(
            f"a manifest must be a file that can be read, got '{error.strerror}' for {path}. "
            "Give permission, or check the path."
        ) from error


def parse_manifest(text: bytes, path: str) -> Manifest:
    """The manifest in the bytes of a manifest.json, its root hash checked.

    Args:
        text: The bytes.
        path: Where they come from, for messages.

    Raises:
        ShardSetError: It is of another format version.
        DamageError: It is not what was written.
    """
    try:
        raw = json.loads(text.decode())
    except ValueError as error:
        raise DamageError(
            f"a manifest must be JSON, got {error} in {path}. Restore it or build the set again."
        ) from error
    if not isinstance(raw, dict) or raw.get("format_version") != FORMAT_VERSION:
        found = raw.get("format_version") if isinstance(raw, dict) else type(raw).__name__
        raise ShardSetError(
            f"this version reads shard sets of format {FORMAT_VERSION}, got {found!r} in {path}. "
            "Install the version of shardmill that wrote the set, or build it again."
        )
    stored = raw.pop("root_hash", None)
    if stored != _root_hash(raw):
        raise DamageError(
            f"the root hash must match the manifest, got {stored} in {path}, computed "
            f"{_root_hash(raw)}. Restore the manifest or build the set again."
        )
    try:
        manifest = _from_json(raw)
        _check_files(manifest, path)
    except (KeyError, TypeError, AttributeError) as error:
        raise ShardSetError(
            f"a manifest must have the fields of FORMAT.md, got {error!r} in {path}. "
            "Build the set again."
        ) from error
    return manifest


def _check_files(manifest: Manifest, path: str) -> None:
    """Returns if all files that a manifest names lie in the set.

    Whoever wrote a set could else have files of the reader's machine read, verified, or, as copies
    of a set at a URL, written.

    Raises:
        DamageError: One does not.
    """
    shards = [shard.file for split in manifest.splits.values() for shard in split.shards]
    for file in (*shards, *manifest.files, *map(naming.index_file, manifest.splits)):
        parts = PurePosixPath(file).parts
        if not parts or file != "/".join(parts) or ".." in parts or "\0" in file:
            raise DamageError(
                f"a manifest must name files inside of its set, got {file!r} in {path}. Do not "
                "use this set, unless you know who wrote it: build it again."
            )


def _why_no_set(directory: Path) -> str:
    if not directory.exists():
        return f"a shard set must exist, got no directory {directory}. Check the path."
    if (directory / naming.WORK_DIR).exists():
        return (
            f"a shard set has a {naming.MANIFEST}, got an unfinished build in {directory}. "
            "Run the same 'shardmill preprocess' command again: it goes on where it stopped."
        )
    return (
        f"a shard set has a {naming.MANIFEST}, got none in {directory}. "
        f"Build one with 'shardmill preprocess images|text SRC --out {directory}'."
    )


def _from_json(raw: Mapping[str, Any]) -> Manifest:
    return Manifest(
        name=raw["name"],
        schema=Schema.from_json(raw["schema"]),
        splits={
            name: SplitInfo(
                shards=tuple(ShardInfo(**shard) for shard in split["shards"]),
                statistics=split["statistics"],
            )
            for name, split in raw["splits"].items()
        },
        ledger=Ledger(**raw["ledger"]),
        config=raw["config"],
        files=raw["files"],
    )
