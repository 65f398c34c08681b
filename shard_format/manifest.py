"""The manifest, the root of a shard set. A folder without one is not a shard set.

It is a function of the input and the options alone: it has no time stamp, host name, absolute path
or version. `root_hash` covers all of it, and it has the SHA-256 of every other file, so two sets
with the same root hash have the same bytes.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn

from foundation import storage
from foundation.errors import DamageError, ShardmillError, ShardSetError, UsageError
from foundation.storage import Place
from shard_format import naming
from shard_format.manifest_types import WrongType, check_build_types, check_manifest
from shard_format.schema import Schema
from shard_format.set_paths import is_in_set
from shard_format.shard_list import ShardInfo as ShardInfo
from shard_format.shard_list import ShardList

FORMAT_VERSION = 1
# Of a set with generations: a reader that knows version 1 alone would look for its index elsewhere.
GENERATIONS_VERSION = 2
# Of a set that has the index of a split or its duplicates in parts, with generations or without.
PARTS_VERSION = 3
_VERSIONS = (FORMAT_VERSION, GENERATIONS_VERSION, PARTS_VERSION)

# Of build.json: root hash of the set that was compacted to this one, record for record.
RECORDS_OF_KEY = "records_of"

_SHOWN_CHARACTERS = 60  # of a wrong name
_RESTORE = "Restore it from a copy, or build the set again."


@dataclasses.dataclass(frozen=True)
class IndexPart:
    """A file of an index, relative to the set, and the number of shards whose rows it has."""

    file: str
    shards: int


@dataclasses.dataclass(frozen=True)
class SplitInfo:
    """The shards of one split in reading order, and the statistics of its records.

    Attributes:
        shards: The shards; of a large split they are read from a file where they are asked for.
        statistics: Statistics of the records.
        index: Parts of the index of a large split, in the order of their shards; empty where the
            index is one file.
    """

    shards: Sequence[ShardInfo]
    statistics: Mapping[str, Any]
    index: tuple[IndexPart, ...] = ()

    @property
    def records(self) -> int:
        """Number of records in all shards."""
        if isinstance(self.shards, ShardList):
            return self.shards.records
        return sum(shard.records for shard in self.shards)

    @property
    def bytes(self) -> int:
        """Bytes of all shards."""
        if isinstance(self.shards, ShardList):
            return self.shards.bytes
        return sum(shard.bytes for shard in self.shards)


@dataclasses.dataclass(frozen=True)
class Ledger:
    """What became of every record that was read.

    Attributes:
        read: Records found by the source.
        kept: Records in the shards.
        duplicates: Records dropped because an equal or similar one is kept.
        filtered: Records dropped by a cleaning rule.
        quarantined: Records that could not be used; their bytes are kept.
        reasons: Number of records by the reason to filter or to quarantine them.
        repeated: Additional copies of records of small classes.
        not_enlarged: Kept images that are smaller than --resize asks, and were not scaled up.
        excluded: Records that were removed from the set, or kept out of it; see `removed_records`.
    """

    read: int
    kept: int
    duplicates: int
    filtered: int
    quarantined: int
    reasons: Mapping[str, int]
    repeated: int = 0
    not_enlarged: int = 0
    excluded: int = 0

    def __post_init__(self) -> None:
        left_out = self.duplicates + self.filtered + self.quarantined + self.excluded
        if self.read != self.kept + left_out:
            raise DamageError(
                "The ledger does not add up: read != kept + duplicates + filtered + quarantined + "
                f"excluded, {self.read} != {self.kept} + {self.duplicates} + {self.filtered} + "
                f"{self.quarantined} + {self.excluded}. In a build this is a bug: please report it "
                "with the command."
            )


@dataclasses.dataclass(frozen=True)
class Generation:
    """One build that a set with generations consists of.

    Attributes:
        folder: Folder of its own shard set, relative to the set; empty for the first one.
        root_hash: Root hash of its own manifest.
        view: Root hash of the set when this was its newest generation; empty for the newest one,
            whose view is the manifest that says so.
    """

    folder: str
    root_hash: str
    view: str


@dataclasses.dataclass(frozen=True)
class Manifest:
    """The content of manifest.json.

    Attributes:
        name: The first part of every shard's file name.
        schema: The features of an example.
        splits: By name, in the order the user gave.
        ledger: What became of every record.
        config: Every option that has an effect on the bytes.
        files: SHA-256 and size of every other file of the set, by name relative to it.
        generations: The builds that the set consists of, the first one first; empty for a set that
            was never appended to.
        home: Folder of the indexes, relative to the set; empty for the set itself.
    """

    name: str
    schema: Schema
    splits: Mapping[str, SplitInfo]
    ledger: Ledger
    config: Mapping[str, Any]
    files: Mapping[str, Mapping[str, Any]]
    generations: tuple[Generation, ...] = ()
    home: str = ""

    def index_file(self, split: str) -> str:
        """The index of a split, or the first part of it, relative to the set."""
        return self.index_parts(split)[0].file

    def index_parts(self, split: str) -> tuple[IndexPart, ...]:
        """The files of the index of a split, in the order of their shards; one, or several."""
        info, file = self.splits[split], naming.below(self.home, naming.index_file(split))
        return info.index or (IndexPart(file, len(info.shards)),)

    def shards_by_part(self, split: str) -> Iterator[tuple[IndexPart, range]]:
        """Yields the files of the index of a split, and the shards whose rows each has."""
        first = 0
        for part in self.index_parts(split):
            yield part, range(first, first + part.shards)
            first += part.shards

    def index_part_of(self, split: str, shard: int) -> str:
        """The file of the index that has the rows of a shard, relative to the set."""
        return next(part.file for part, own in self.shards_by_part(split) if shard in own)

    def index_files(self, split: str) -> list[str]:
        """The files that lead to the records of a split: its index, and the list of its shards."""
        files = [part.file for part in self.index_parts(split)]
        return [*files, self.shards_file(split)] if self.splits[split].index else files

    def shards_file(self, split: str) -> str:
        """The list of the shards of a split whose index is in parts, relative to the set."""
        return naming.below(self.home, naming.shards_file(split))

    def has_shard_lists(self) -> bool:
        """Whether the shards of every split can be read; they are damaged with their file."""
        try:
            for split in self.splits.values():
                for _ in split.shards:
                    pass
        except ShardmillError:
            return False
        return True

    @property
    def format_version(self) -> int:
        """The first version that has such sets."""
        duplicates_in_parts = any(map(naming.DUPLICATES_PART.fullmatch, self.files))
        if duplicates_in_parts or any(split.index for split in self.splits.values()):
            return PARTS_VERSION
        return GENERATIONS_VERSION if self.generations else FORMAT_VERSION

    @property
    def newest(self) -> int:
        """Number of the newest generation; 0 for a set that was never appended to."""
        return max(0, len(self.generations) - 1)

    @property
    def root_hash(self) -> str:
        """SHA-256 in hex over the canonical JSON of everything else."""
        return _root_hash(self._content())

    def _content(self) -> dict[str, Any]:
        return {
            "format_version": self.format_version,
            "name": self.name,
            "schema": self.schema.to_json(),
            "splits": {
                name: {
                    "records": split.records,
                    "bytes": split.bytes,
                    "statistics": dict(split.statistics),
                    **_shards(split),
                }
                for name, split in self.splits.items()
            },
            "ledger": self._ledger(),
            "config": dict(self.config),
            "files": {name: dict(info) for name, info in sorted(self.files.items())},
            **self._generations(),
        }

    def _generations(self) -> dict[str, Any]:
        if not self.generations:
            return {}
        sets = [dataclasses.asdict(one) for one in self.generations]
        return {"generations": {"home": self.home, "sets": sets}}

    def _ledger(self) -> dict[str, Any]:
        ledger = dataclasses.asdict(self.ledger)
        for name in ("repeated", "not_enlarged", "excluded"):  # older sets do not have these keys
            if not ledger[name]:
                del ledger[name]
        return ledger

    def to_text(self) -> str:
        """The content of manifest.json."""
        return json.dumps({**self._content(), "root_hash": self.root_hash}, indent=1) + "\n"

    def summary(self) -> dict[str, Any]:
        """The ledger, the root hash, and records, shards and bytes per split, for `--json`."""
        ledger = dataclasses.asdict(self.ledger)
        return {
            **ledger,
            "root_hash": self.root_hash,
            "splits": {
                name: {"records": split.records, "shards": len(split.shards), "bytes": split.bytes}
                for name, split in self.splits.items()
            },
        }


def _shards(split: SplitInfo) -> dict[str, Any]:
    if not split.index:
        return {"shards": [dataclasses.asdict(shard) for shard in split.shards]}
    parts = [dataclasses.asdict(part) for part in split.index]
    return {"shards": len(split.shards), "index": parts}


def _root_hash(content: Mapping[str, Any]) -> str:
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(canonical.encode()).hexdigest()


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


def cleaning_steps(config: Mapping[str, Any]) -> list[tuple[str, str]]:
    """(name, "parameter=value, ...") of every step in order; empty if the config has no list.

    Args:
        config: Options in the manifest; "clean" is a list of {"step": name, parameter: value, ...}.
    """
    steps = config.get("clean")
    if not isinstance(steps, list) or not all(isinstance(step, dict) for step in steps):
        return []
    return [(str(step.get("step", "")), _parameters(step)) for step in steps]


def _parameters(step: Mapping[str, Any]) -> str:
    values = {name: value for name, value in step.items() if name != "step"}
    written = (f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in values.items())
    return ", ".join(written)


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
        computed = _root_hash(raw)
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
        _root_hash({**content, "format_version": version}) for version in _VERSIONS
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
