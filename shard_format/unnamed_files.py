"""Files in the folder of a set that its manifest does not name: its own, and those of others."""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import NamedTuple

import numpy as np

from foundation import storage
from foundation.errors import ShardmillError
from foundation.storage import Place
from shard_format import naming
from shard_format.checksums import CheckedBuild, card_set, check_build, report_problem
from shard_format.compaction import State, replaced_names
from shard_format.damaged_records import Damage
from shard_format.fingerprint_files import is_fingerprints
from shard_format.keys import UInt64Array, id_hash
from shard_format.manifest import Manifest
from shard_format.manifest_file import parse_manifest
from shard_format.naming import below
from shard_format.papers import PAPERS_KEY
from shard_format.set_paths import linked_folders

_GENERATION = re.compile(rf"{naming.GENERATIONS_DIR}/\d{{4,}}/")
# Sets have build.json, except golden ones of the first version, which lacked this option.
_LATER_OPTION = "conflicts"


class StoredNames(NamedTuple):
    """Names, relative to a set, of the files in `fingerprints/` of all its generations.

    Attributes:
        named: Those that a build.json names.
        told: Folders of the generations that have no others.
    """

    named: set[str]
    told: set[str]


class OwnSet(NamedTuple):
    """A build, in a folder of the set: all of it, or a generation.

    Attributes:
        folder: Relative to the set; empty for the set itself.
        manifest: Manifest of the build.
        manifest_file: Where that is, relative to the set.
        described: The root hash in a report of the folder.
        newest: The folder of the newest build, whose options say whether there is a report.
        earlier: Root hashes of the set at its earlier generations.
    """

    folder: str
    manifest: Manifest
    manifest_file: str
    described: str
    newest: str = ""
    earlier: tuple[str, ...] = ()


def own_sets(directory: Place, manifest: Manifest) -> Iterator[OwnSet]:
    """Yields the builds that a set consists of, but for those whose manifest is damaged."""
    root_hash, views = manifest.root_hash, tuple(one.view for one in manifest.generations[:-1])
    if not manifest.generations:
        yield OwnSet("", manifest, naming.MANIFEST, root_hash)
    for one in manifest.generations:
        file = below(one.folder, naming.MANIFEST) if one.folder else naming.view_file(0)
        with contextlib.suppress(ShardmillError, OSError):
            root = directory / one.folder if one.folder else directory
            own = parse_manifest(storage.read_bytes(directory / file), file, root)
            described = one.root_hash if one.folder else root_hash
            yield OwnSet(one.folder, own, file, described, manifest.generations[-1].folder, views)


def own_damages(base: Place, own: OwnSet, *, read: bool, is_strange: bool) -> Iterator[Damage]:
    """Yields damage of the files that the manifest of a build does not name, and of its own bytes.

    Names are relative to the folder of the build.

    Args:
        base: The set.
        own: The build.
        read: Whether to read these files.
        is_strange: Whether most shards are of another set, so that the manifest is the wrong file.
    """
    directory = base / own.folder if own.folder else base
    manifest = own.manifest
    build = CheckedBuild("", False, {})
    stat = storage.stat(directory / naming.BUILD)
    if stat is None and _LATER_OPTION in manifest.config:
        yield Damage(naming.BUILD, "is missing")
    if stat is not None and read:
        try:
            build = check_build(storage.read_bytes(directory / naming.BUILD))
        except OSError as error:
            build = CheckedBuild(f"cannot be read: {error.strerror}", False, {})
        if build.problem:
            yield Damage(naming.BUILD, build.problem)
        elif build.has_checksum and (built := build.content["root_hash"]) != manifest.root_hash:
            other = f"with root hash {manifest.root_hash if is_strange else built}"
            file = naming.MANIFEST if is_strange else naming.BUILD
            yield Damage(file, f"is that of another set, {other}")
        elif build.has_checksum and build.content["manifest_sha256"] != _sha256_of(
            base / own.manifest_file
        ):
            yield Damage(
                naming.MANIFEST,
                f"has its root hash, but not the bytes that {naming.BUILD} says: the order of its "
                "keys was changed",
            )
    yield from _report_damages(base, own, build, read=read)
    if read and not own.folder:
        yield from _card_damages(base, own, build)


def _sha256_of(place: Place) -> str:
    return hashlib.sha256(storage.read_bytes(place)).hexdigest()


def _report_damages(
    base: Place, own: OwnSet, build: CheckedBuild, *, read: bool
) -> Iterator[Damage]:
    place = (base / own.folder if own.folder else base) / naming.REPORT
    if storage.stat(place) is None:
        if read and _has_report(base, own, build):
            problem = f"is missing; 'shardmill report {base}' writes it again"
            yield Damage(naming.REPORT, problem, is_note=True)
        return
    if not read:
        return
    try:
        data = storage.read_bytes(place)
    except OSError as error:
        yield Damage(naming.REPORT, f"cannot be read: {error.strerror}")
        return
    needs_checksum = build.has_checksum
    problem = report_problem(data, own.described, needs_checksum=needs_checksum)
    if problem and not all(
        report_problem(data, one, needs_checksum=needs_checksum) for one in own.earlier
    ):
        problem = f"is that of an earlier generation; 'shardmill report {base}' writes it again"
        yield Damage(naming.REPORT, problem, is_note=True)
    elif problem:
        yield Damage(naming.REPORT, problem)


def _card_damages(base: Place, own: OwnSet, build: CheckedBuild) -> Iterator[Damage]:
    """Yields what there is to say of README.md, which may be edited, so that nothing is damage."""
    again = f"'shardmill report {base}' writes it again"
    try:
        data = storage.read_bytes(base / naming.CARD)
    except FileNotFoundError:
        if PAPERS_KEY in build.content.get("options", {}) and _has_report(base, own, build):
            yield Damage(naming.CARD, f"is missing; {again}", is_note=True)
        return
    except OSError as error:
        yield Damage(naming.CARD, f"cannot be read: {error.strerror}")
        return
    described = card_set(data)
    if not described:
        problem = "was changed after it was written, by hand or by damage, and stays as it is; "
        yield Damage(naming.CARD, f"{problem}without it, {again}", is_note=True)
    elif described != own.described:
        yield Damage(naming.CARD, f"is that of another generation or set; {again}", is_note=True)


def _has_report(base: Place, own: OwnSet, build: CheckedBuild) -> bool:
    """Whether the newest build wrote the report, which is in the folder of the first one."""
    if own.folder:
        return False
    if own.newest:
        with contextlib.suppress(OSError):
            build = check_build(storage.read_bytes(base / own.newest / naming.BUILD))
    options = build.content.get("options", {})
    return build.has_checksum and not options.get("no_report", True)


def extra_files(
    directory: Place, manifest: Manifest, stored: StoredNames, state: State | None
) -> Iterator[tuple[Damage, int | None]]:
    """Yields what is not part of the set, and its size; of a folder None.

    Args:
        directory: The set.
        manifest: Its manifest.
        stored: The files in `fingerprints/`.
        state: State of a compaction that is not at its end.
    """
    if not manifest.has_shard_lists():  # each shard would seem to be a stranger
        return
    known = _KnownNames(manifest, stored)
    folders = known.folders
    moved = replaced_names(directory, manifest) if state is not None and state.root_hash else set()
    linked = set(linked_folders(directory))
    for folder in ("", *sorted({*folders, naming.GENERATIONS_DIR})):
        if any(folder == one or folder.startswith(f"{one}/") for one in linked):
            continue  # what it leads to is not of the set
        for entry in _listed(directory / folder if folder else directory):
            name = below(folder, entry.name)
            if entry.kind != storage.FOLDER:
                if name not in known and name not in moved and name != naming.COMPACT_STATE:
                    size = entry.stat.size if entry.kind == storage.FILE else None
                    yield _extra(name, directory), size
            elif name == naming.COMPACTED_DIR or (state and folder == naming.GENERATIONS_DIR):
                continue
            elif name not in {*folders, naming.GENERATIONS_DIR} and f"{name}/" not in moved:
                if entry.name != naming.WORK_DIR:
                    yield _extra(f"{name}/", directory), None
    for name in sorted(linked):
        problem = "is a symbolic link: other files in it are not looked for, and no command changes"
        where = f"{problem} the set until the folder itself is in its place"
        yield Damage(name, where, is_note=True), None


def _extra(name: str, directory: Place) -> Damage:
    if naming.is_temporary(PurePosixPath(name).name):
        return Damage(
            name,
            "is a temporary file of a command that was killed, or is running. If none is running, "
            f"'shardmill repair {directory} --delete-extra' deletes it",
            is_extra=True,
            is_note=True,
        )
    if _GENERATION.fullmatch(name):
        problem = "is of an append that was interrupted, or is running; the same command again"
        return Damage(name, f"{problem} completes it", is_note=True)
    return Damage(name, "is not part of the set", is_extra=True)


def _listed(folder: Place) -> Iterator[storage.Entry]:
    """What is in a folder, which may be missing with the files in it."""
    with contextlib.suppress(OSError):
        yield from storage.list_folder(folder)


class FileSizes:
    """The sizes of the files of a set, by name.

    Those of a set in an object store come from one listing, 16 bytes each: a look at a single file
    is a request.

    Args:
        directory: The set.
    """

    def __init__(self, directory: Place) -> None:
        self._directory = directory
        self._is_local = storage.local_path(directory) is not None
        entry = np.dtype([("hash", np.uint64), ("size", np.int64)])
        listed = storage.list_tree(directory) if not self._is_local else ()
        files = ((id_hash(name), stat.size) for name, stat in listed)
        self._files = np.sort(np.fromiter(files, entry), order="hash")

    def get(self, name: str) -> int | None:
        """The size of a regular file; None if there is none of this name."""
        if self._is_local:
            stat = storage.stat(self._directory / name)
            return stat.size if stat is not None else None
        at = _place_of(name, self._files["hash"])
        return int(self._files["size"][at]) if at is not None else None


def _place_of(name: str, hashes: UInt64Array) -> int | None:
    """Where the hash of a name is among others, which ascend; None if it is not."""
    own = id_hash(name)
    at = int(np.searchsorted(hashes, np.uint64(own)))
    return at if at < len(hashes) and int(hashes[at]) == own else None


class _KnownNames:
    """The names of all files that a set may have; of shards, 64-bit hashes are in memory.

    Args:
        manifest: Manifest of the set.
        stored: The files in `fingerprints/`.

    Attributes:
        folders: The folders that they are in.
    """

    def __init__(self, manifest: Manifest, stored: StoredNames) -> None:
        names = {*manifest.files, naming.MANIFEST, naming.CARD}
        self._untold: list[str] = []
        if manifest.newest:
            names.add(naming.view_file(manifest.newest))
        for folder in [one.folder for one in manifest.generations] or [""]:
            files: tuple[str, ...] = (naming.MANIFEST, naming.BUILD, naming.REPORT)
            files += (naming.CROISSANT,)
            if folder not in stored.told:
                files += naming.FINGERPRINT_FILES
                self._untold.append(folder)
            names |= {below(folder, name) for name in files}
            for split, info in manifest.splits.items():
                tables = [*naming.table_files(split), *naming.table_files(split, len(info.index))]
                names |= {below(folder, table) for table in tables}
        self._names = names | stored.named
        shards = [split.shards for split in manifest.splits.values()]
        hashes = (id_hash(shard.file) for own in shards for shard in own)
        self._shards = np.sort(np.fromiter(hashes, np.uint64))
        homes = {shard.file.rpartition("/")[0] for own in shards for shard in own}
        exported = {below(naming.INDEX_DIR, f"{home}/-" if home else "-") for home in homes}
        paths = map(PurePosixPath, (*self._names, *(f"{home}/-" for home in homes), *exported))
        self.folders = {str(one) for path in paths for one in path.parents} - {".", "/"}

    def __contains__(self, name: str) -> bool:
        if name in self._names or is_fingerprints(name, *self._untold):
            return True
        if name.startswith(f"{naming.INDEX_DIR}/") and name.endswith(naming.EXPORTED_SUFFIX):
            name = name.removeprefix(f"{naming.INDEX_DIR}/").removesuffix(naming.EXPORTED_SUFFIX)
        return _place_of(name, self._shards) is not None
