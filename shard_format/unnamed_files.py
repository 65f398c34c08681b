"""Files in the folder of a set that its manifest does not name: its own, and those of others."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
from collections.abc import Collection, Iterator
from pathlib import PurePosixPath
from typing import NamedTuple

from shard_format import naming, storage
from shard_format.damaged_records import Damage
from shard_format.errors import ShardmillError
from shard_format.manifest import Manifest, parse_manifest
from shard_format.naming import below
from shard_format.own_checksums import CheckedBuild, check_build, report_problem
from shard_format.storage import Place

# Sets have build.json, except golden ones of the first version, which lacked this option.
_LATER_OPTION = "conflicts"


class OwnSet(NamedTuple):
    """A build, in a folder of the set: all of it, or a generation.

    Attributes:
        folder: Relative to the set; empty for the set itself.
        manifest: Of the build.
        manifest_file: Where that is, relative to the set.
        described: The root hash in a report of the folder.
        newest: The folder of the newest build, whose options say whether there is a report.
    """

    folder: str
    manifest: Manifest
    manifest_file: str
    described: str
    newest: str = ""


def own_sets(directory: Place, manifest: Manifest) -> Iterator[OwnSet]:
    """Yields the builds that a set consists of, but for those whose manifest is damaged."""
    root_hash = manifest.root_hash
    if not manifest.generations:
        yield OwnSet("", manifest, naming.MANIFEST, root_hash)
    for one in manifest.generations:
        file = below(one.folder, naming.MANIFEST) if one.folder else naming.view_file(0)
        with contextlib.suppress(ShardmillError, OSError):
            own = parse_manifest(storage.read_bytes(directory / file), file)
            described = one.root_hash if one.folder else root_hash
            yield OwnSet(one.folder, own, file, described, manifest.generations[-1].folder)


def own_damages(directory: Place, own: OwnSet, *, read: bool, is_strange: bool) -> Iterator[Damage]:
    """Yields damage of the files that the manifest of a build does not name, and of its own bytes.

    Args:
        directory: The set.
        own: The build.
        read: Whether to read these files.
        is_strange: Whether most shards are of another set, so that the manifest is the wrong file.
    """
    for damage in _own_damages(directory, own, read=read, is_strange=is_strange):
        yield dataclasses.replace(damage, file=below(own.folder, damage.file))


def _own_damages(base: Place, own: OwnSet, *, read: bool, is_strange: bool) -> Iterator[Damage]:
    """As `own_damages`, with names relative to the folder."""
    directory = base / own.folder if own.folder else base
    manifest = own.manifest
    build = CheckedBuild("", False, {})
    found = storage.stat(directory / naming.BUILD)
    if found is None and _LATER_OPTION in manifest.config:
        yield Damage(naming.BUILD, "is missing")
    if found is not None and read:
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


def _sha256_of(place: Place) -> str:
    return hashlib.sha256(storage.read_bytes(place)).hexdigest()


def _report_damages(
    base: Place, own: OwnSet, build: CheckedBuild, *, read: bool
) -> Iterator[Damage]:
    place = (base / own.folder if own.folder else base) / naming.REPORT
    if storage.stat(place) is None:
        if read and _has_report(base, own, build):
            yield Damage(naming.REPORT, "is missing; 'shardmill report' writes it again")
        return
    if not read:
        return
    try:
        data = storage.read_bytes(place)
    except OSError as error:
        yield Damage(naming.REPORT, f"cannot be read: {error.strerror}")
        return
    problem = report_problem(data, own.described, needs_checksum=build.has_checksum)
    if problem:
        yield Damage(naming.REPORT, problem)


def _has_report(base: Place, own: OwnSet, build: CheckedBuild) -> bool:
    """Whether the newest build wrote the report, which is in the folder of the first one."""
    if own.folder:
        return False
    if own.newest:
        with contextlib.suppress(OSError):
            build = check_build(storage.read_bytes(base / own.newest / naming.BUILD))
    options = build.content.get("options", {})
    return build.has_checksum and not options.get("no_report", True)


def extra_names(
    directory: Place, manifest: Manifest, absent: Collection[str] = ()
) -> Iterator[tuple[str, int | None]]:
    """Yields (name, size) of all that is not part of the set; of a folder, its name alone.

    Args:
        directory: The set.
        manifest: Its manifest.
        absent: Names of files that a set may have, and this one lacks.
    """
    shards = [shard.file for split in manifest.splits.values() for shard in split.shards]
    known = {*shards, *manifest.files, naming.MANIFEST}
    if manifest.generations:
        known.add(naming.view_file(manifest.newest))
    for folder in [one.folder for one in manifest.generations] or [""]:
        files: tuple[str, ...] = (naming.BUILD, naming.REPORT, naming.CROISSANT)
        files += (naming.STORED_RECORDS, naming.READ_ITEMS)
        known |= {below(folder, name) for name in files}
        known |= {below(folder, naming.table_file(split)) for split in manifest.splits}
    known |= {f"{naming.INDEX_DIR}/{shard}{naming.EXPORTED_SUFFIX}" for shard in shards}
    known -= set(absent)
    folders = {str(parent) for name in known for parent in PurePosixPath(name).parents} - {"."}
    for folder in ("", *sorted(folders)):
        place = directory / folder if folder else directory
        try:
            entries = list(storage.list_folder(place))
        except OSError:  # it is missing, with the files in it
            continue
        for entry in entries:
            name = below(folder, entry.name)
            is_generations = naming.GENERATIONS_DIR in (folder, name)
            if is_generations and name not in folders:
                continue  # of an append or a compaction that is not at its end
            if entry.kind == storage.FOLDER:
                if name not in folders and entry.name != naming.WORK_DIR:
                    yield f"{name}/", None
            elif name not in known:
                yield name, entry.stat.size if entry.kind == storage.FILE else None
