"""Files in the folder of a set that its manifest does not name: its own, and those of others."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from shard_format import naming, storage
from shard_format.damaged_records import Damage
from shard_format.manifest import Manifest
from shard_format.own_checksums import CheckedBuild, check_build, report_problem
from shard_format.storage import Place

# Sets have build.json, except golden ones of the first version, which lacked this option.
_LATER_OPTION = "conflicts"


def own_damages(
    directory: Place, manifest: Manifest, *, read: bool, is_strange: bool
) -> Iterator[Damage]:
    """Yields damage of the files that the manifest does not name, and of its own bytes.

    Args:
        directory: The set.
        manifest: Its manifest.
        read: Whether to read these files.
        is_strange: x the manifest.
    """
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
            directory / naming.MANIFEST
        ):
            yield Damage(
                naming.MANIFEST,
                f"has its root hash, but not the bytes that {naming.BUILD} says: the order of its "
                "keys was changed",
            )
    yield from _report_damages(directory, manifest, build, read=read)


def _sha256_of(place: Place) -> str:
    return hashlib.sha256(storage.read_bytes(place)).hexdigest()


def _report_damages(
    directory: Place, manifest: Manifest, build: CheckedBuild, *, read: bool
) -> Iterator[Damage]:
    place = directory / naming.REPORT
    if storage.stat(place) is None:
        options = build.content.get("options", {})
        if build.has_checksum and not options.get("no_report", True):
            yield Damage(naming.REPORT, "is missing; 'shardmill report' writes it again")
        return
    if not read:
        return
    try:
        data = storage.read_bytes(place)
    except OSError as error:
        yield Damage(naming.REPORT, f"cannot be read: {error.strerror}")
        return
    problem = report_problem(data, manifest.root_hash, needs_checksum=build.has_checksum)
    if problem:
        yield Damage(naming.REPORT, problem)


def extra_names(directory: Place, named: set[str]) -> Iterator[tuple[str, int | None]]:
    """Yields (name, size) of all that is not part of the set; of a folder, its name alone.

    Args:
        directory: The set.
        named: The files that its manifest names.
    """
    known = named | {naming.MANIFEST, naming.BUILD, naming.REPORT}
    shards = [name for name in named if naming.parse_shard_file(name)]
    known |= {f"{naming.INDEX_DIR}/{shard}{naming.EXPORTED_SUFFIX}" for shard in shards}
    folders = {name.rpartition("/")[0] for name in known} - {""}
    for folder in ("", *sorted(folders)):
        place = directory / folder if folder else directory
        try:
            entries = list(storage.list_folder(place))
        except OSError:  # it is missing, with the files in it
            continue
        for entry in entries:
            name = f"{folder}/{entry.name}" if folder else entry.name
            if entry.kind == storage.FOLDER:
                if name not in folders and name != naming.WORK_DIR:
                    yield f"{name}/", None
            elif name not in known:
                yield name, entry.stat.size if entry.kind == storage.FILE else None
