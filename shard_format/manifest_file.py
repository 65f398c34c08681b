"""Reads manifest.json and build.json: all that they say is checked before anybody relies on it.

Root hash and types are compared, and no name may lead out of the set.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from foundation import storage
from foundation.errors import DamageError, ShardSetError, UsageError
from foundation.storage import Place
from shard_format import naming
from shard_format.manifest import (
    FORMAT_VERSION,
    GENERATIONS_VERSION,
    PARTS_VERSION,
    Generation,
    IndexPart,
    Ledger,
    Manifest,
    SplitInfo,
    root_hash_of,
)
from shard_format.manifest_types import WrongType, check_build_types, check_manifest
from shard_format.schema import Schema
from shard_format.set_paths import is_in_set
from shard_format.shard_list import ShardInfo, ShardList

# In build.json: root hash of the set that was compacted to this one, record for record.
RECORDS_OF_KEY = "records_of"

_VERSIONS = (FORMAT_VERSION, GENERATIONS_VERSION, PARTS_VERSION)
_SHOWN_CHARACTERS = 60  # of a wrong name
_RESTORE = "Restore it from a copy, or build the set again."


def load_manifest(directory: Place | str, generation: int | None = None) -> Manifest:
    """The manifest of a shard set, after a check of its root hash and types.

    Args:
        directory: The set.
        generation: Number of a generation of the set, to open the set as it was then; None for the
            newest one.

    Raises:
        UsageError: There is no such generation.
        ShardSetError: The directory is not a shard set, or one of another format version.
        DamageError: The manifest is not as shardmill writes them.
    """
    directory = storage.place_of(directory)
    newest = _load(directory, directory / naming.MANIFEST)
    if generation is None or generation == newest.newest:
        return newest
    if not 0 <= generation < newest.newest:
        raise UsageError(
            f"{directory} has no generation {generation}: its newest is {newest.newest}. "
            "'shardmill log' lists them; 'shardmill compact' merges them into one."
        )
    place = directory / naming.view_file(generation)
    manifest = _load(directory, place)
    if manifest.root_hash != newest.generations[generation].view:
        raise DamageError(
            f"{place} is not that of generation {generation}: its root hash is "
            f"{manifest.root_hash}. {_RESTORE}"
        )
    return manifest


def manifest_with(directory: Place, root_hash: str) -> Manifest | None:
    """The manifest of a set with this root hash: of the newest generation, or of an older one."""
    newest = load_manifest(directory)
    if newest.root_hash == root_hash:
        return newest
    views = [one.view for one in newest.generations]
    return load_manifest(directory, views.index(root_hash)) if root_hash in views else None


def has_records_of(directory: Place, root_hash: str, earlier: str) -> bool:
    """Whether the set of a root hash was compacted from an earlier one and has its records."""
    build = load_build(directory)
    return (build.get("root_hash"), build.get(RECORDS_OF_KEY)) == (root_hash, earlier)


def _load(directory: Place, path: Place) -> Manifest:
    try:
        return parse_manifest(storage.read_bytes(path), str(path), directory)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise ShardSetError(_why_no_set(directory)) from error
    except OSError as error:
        raise ShardSetError(
            f"Cannot read {path}: {error.strerror}. Give permission, or check the path."
        ) from error


def load_build(directory: Place) -> dict[str, Any]:
    """The content of build.json; empty if it is missing or damaged: a set is whole without it."""
    try:
        return parse_build(storage.read_bytes(directory / naming.BUILD))
    except (OSError, WrongType):
        return {}


def parse_build(text: bytes) -> dict[str, Any]:
    """The content of a build.json, after a check of its types.

    Raises:
        WrongType: It is not a build.json as shardmill writes them.
    """
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict) or not value:
        raise WrongType("it", "a JSON object", value)
    check_build_types(value, "")
    return value


def parse_manifest(text: bytes, path: str, root: Place) -> Manifest:
    """The manifest in the bytes of a manifest.json, after a check of its root hash and types.

    Args:
        text: The bytes.
        path: Path of the file, for messages.
        root: The set, which the names in it are relative to.

    Raises:
        ShardSetError: It is of another format version.
        DamageError: It is not a manifest as shardmill writes them.
    """
    try:
        raw = json.loads(text.decode())
        version = raw.get("format_version") if isinstance(raw, dict) else None
        if version not in _VERSIONS:
            if _is_readable(raw):
                raise DamageError(
                    f"{path} was changed: its root hash is that of a format version that this "
                    f"version reads, but it says version {version!r}. {_RESTORE}"
                )
            raise ShardSetError(
                f"{path} says format version {version!r}; this version reads {FORMAT_VERSION} to "
                f"{PARTS_VERSION}. "
                "Install the version of shardmill that wrote the set, or build it again."
            )
        stored = raw.pop("root_hash", None)
        computed = root_hash_of(raw)
    except RecursionError as error:
        raise DamageError(
            f"{path} is not a manifest: its JSON is nested too deep. {_RESTORE}"
        ) from error
    except ValueError as error:
        raise DamageError(f"{path} is not JSON: {error}. {_RESTORE}") from error
    if stored != computed:
        raise DamageError(
            f"{path} was changed: its root hash is {computed}, but it says {stored!r}. {_RESTORE}"
        )
    try:
        check_manifest(raw, "")
    except WrongType as error:
        raise DamageError(f"{path} is not a manifest: {error}. {_RESTORE}") from error
    manifest = _from_json(raw, root)
    if version != manifest.format_version:
        raise DamageError(
            f"{path} says format version {version} and {len(manifest.generations)} generations, "
            f"and is of version {manifest.format_version}, which no version wrote. {_RESTORE}"
        )
    _check_paths(manifest, path)
    _check_parts(manifest, path)
    return manifest


def _is_readable(raw: Any) -> bool:
    """Whether only the format version of a manifest was changed."""
    if not isinstance(raw, dict) or "root_hash" not in raw:
        return False
    if "format_version" not in raw:
        return True  # every version has that key
    content = {name: value for name, value in raw.items() if name != "root_hash"}
    return str(raw["root_hash"]) in {
        root_hash_of({**content, "format_version": version}) for version in _VERSIONS
    }


def _check_paths(manifest: Manifest, path: str) -> None:
    """Checks that every path in a manifest, or made of names in it, lies in the set.

    Otherwise whoever wrote a set could make a command read, replace or delete other files of the
    machine.

    Raises:
        DamageError: One of them does not, or is not where a set of this version has such a file.
    """
    numbered = range(1, len(manifest.generations))
    folders = ["", *map(naming.generation_folder, numbered)] if numbered else []
    home = naming.view_folder(manifest.newest) if numbered else ""
    if len(manifest.generations) == 1:  # a compaction that is not at its end
        folders, home = [naming.COMPACTED_DIR], naming.COMPACTED_DIR
    named = [one.folder for one in manifest.generations]
    for folder, right in zip([*named, manifest.home], [*folders, home], strict=True):
        if folder != right:
            _refuse(path, f"the folder {_shown(folder)}, not {right!r}")
    for name in (manifest.name, *manifest.splits):
        if not naming.is_name(name):
            _refuse(path, f"a set or split {_shown(name)}, which cannot be part of a file name")
    classes = [one.name for one in manifest.schema.features if one.kind == "class_label"]
    labels = [f"{name}{naming.LABELS_SUFFIX}" for name in classes]
    # Those of a file are checked where they are read.
    listed = [split.shards for split in manifest.splits.values() if not split.index]
    shards = [shard.file for own in listed for shard in own]
    indexes = [file for split in manifest.splits for file in manifest.index_files(split)]
    compacted = [naming.shard_file(manifest.name, split, 0, 1) for split in manifest.splits]
    for file in (*shards, *manifest.files, *indexes, *labels, *compacted):
        if not is_in_set(file):
            _refuse(path, f"a file outside of its set: {_shown(file)}")


def _check_parts(manifest: Manifest, path: str) -> None:
    """Checks that the parts of every index have all shards, and that their files are named.

    Raises:
        DamageError: They do not, or are not.
    """
    for name, split in manifest.splits.items():
        unnamed = [file for file in manifest.index_files(name) if file not in manifest.files]
        shards = sum(part.shards for part in split.index)
        if isinstance(split.shards, ShardList) != bool(split.index) or (
            split.index and (unnamed or shards != len(split.shards))
        ):
            raise DamageError(
                f"{path} is not a manifest: the index of split {name} has {shards} of its "
                f"{len(split.shards)} shards, and no checksum of {unnamed}. {_RESTORE}"
            )


def _refuse(path: str, what: str) -> NoReturn:
    raise DamageError(
        f"{path} names {what}. Do not use this set unless you know who wrote it; build it again."
    )


def _shown(name: str) -> str:
    return repr(name if len(name) <= _SHOWN_CHARACTERS else f"{name[:_SHOWN_CHARACTERS]}...")


def _why_no_set(directory: Place) -> str:
    try:
        present = {entry.name for entry in storage.list_folder(directory)}
    except OSError:
        return f"There is no directory {directory}. Check the path."
    if naming.WORK_DIR in present:
        return (
            f"{directory} has an unfinished build and no {naming.MANIFEST} yet. Run the same "
            "'shardmill preprocess' command again; it resumes."
        )
    return (
        f"{directory} is not a shard set: it has no {naming.MANIFEST}. Build one with "
        f"'shardmill preprocess images|text SRC --out {directory}'."
    )


def _from_json(raw: Mapping[str, Any], root: Place) -> Manifest:
    home = raw.get("generations", {}).get("home", "")
    return Manifest(
        name=raw["name"],
        schema=Schema.from_json(raw["schema"]),
        splits={
            name: SplitInfo(
                _shards_from_json(naming.below(home, naming.shards_file(name)), raw, split, root),
                split["statistics"],
                tuple(IndexPart(**part) for part in split.get("index", ())),
            )
            for name, split in raw["splits"].items()
        },
        ledger=Ledger(**raw["ledger"]),
        config=raw["config"],
        files=raw["files"],
        generations=tuple(Generation(**one) for one in raw.get("generations", {}).get("sets", ())),
        home=home,
    )


def _shards_from_json(
    file: str, raw: Mapping[str, Any], split: Mapping[str, Any], root: Place
) -> Sequence[ShardInfo]:
    if not isinstance(split["shards"], int):
        return tuple(ShardInfo(**shard) for shard in split["shards"])
    sha256 = raw["files"].get(file, {}).get("sha256", "")
    # The list of a compacted set stays what it is while the set gets its place.
    folder = naming.COMPACTED_DIR if file.startswith(f"{naming.COMPACTED_DIR}/") else ""
    shards, records, size = (split[name] for name in ("shards", "records", "bytes"))
    return ShardList(root / file, shards, records, size, sha256, folder)
