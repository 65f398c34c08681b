"""The repair of a set with several generations.

Each generation is a build that was planned against those before it, so they are repaired in order.
The view of a generation, its manifest and index of all records so far, is computed from them.

If manifest.json is lost, a whole view names all generations before it, with their root hashes.
Later views are made from the manifests of the generations themselves. A generation that cannot be
read is never left out: the manifest would say that its records were never in the set.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from beam_jobs.generations.views import make_view
from beam_jobs.repair.build_repair import BuildRepair
from beam_jobs.repair.finished import make_room
from beam_jobs.repair.jobs import RepairJob
from beam_jobs.repair.read_items import is_whole
from foundation import storage
from foundation.storage import Place
from shard_format import (
    DamageError,
    Generation,
    InputError,
    Manifest,
    ShardmillError,
    naming,
    parse_manifest,
)
from shard_format.checksums import described_set, whole_build
from shard_format.expected_files import Expected
from shard_format.generation_folders import generation_numbers, is_unfinished
from shard_format.naming import below


def repair_generations(job: RepairJob, manifest: Manifest, names: set[str]) -> list[BuildRepair]:
    """Repairs every generation, and the view of each.

    Args:
        job: Common state of the repair.
        manifest: Manifest of the newest view.
        names: All damaged files, relative to the set, and no others.

    Raises:
        InputError: A compaction of the set is not at its end.
    """
    if manifest.generations[0].folder:
        raise InputError(
            f"A compaction of {job.directory} is not at its end. Run 'shardmill compact "
            f"{job.directory}' first."
        )
    parts: list[BuildRepair] = []
    before: Manifest | None = None
    blocked = ""
    for number, one in enumerate(manifest.generations):
        part = BuildRepair(job, number, blocked)
        parts.append(part)
        own = _own_manifest(job, number, one, manifest, names, part)
        if own is None:
            blocked = f"it needs generation {number}, whose manifest cannot be had"
            continue
        part_names = _names_of(number, names)
        part.restore(own, part_names)
        if part.unrecovered:
            blocked = blocked or f"it needs generation {number}, which cannot be had"
        if number and before is not None:
            before = _repair_view(job, number, before, own, manifest, names, part)
        else:
            before = None if number else own
        if before is None:
            blocked = blocked or f"it needs the view of generation {number}, which cannot be had"
    return parts


def _names_of(number: int, names: set[str]) -> set[str]:
    """Returns the damaged files of a generation, relative to its folder."""
    if not number:
        return {name for name in names if not name.startswith(f"{naming.GENERATIONS_DIR}/")}
    prefix = f"{naming.generation_folder(number)}/"
    return {name.removeprefix(prefix) for name in names if name.startswith(prefix)}


def _own_manifest(
    job: RepairJob,
    number: int,
    one: Generation,
    manifest: Manifest,
    names: set[str],
    part: BuildRepair,
) -> Manifest | None:
    """Returns the manifest of a generation alone; None if it cannot be restored."""
    folder = naming.generation_folder(number)
    file = naming.below(folder, naming.MANIFEST) if number else naming.view_file(0)
    if file not in names:
        return _read_manifest(job.directory, file, folder if number else "")
    built = part.built(None, one.root_hash, naming.MANIFEST)
    return built if built is not None and _take(job, manifest, {file: built}, part) else None


def _repair_view(
    job: RepairJob,
    number: int,
    before: Manifest,
    own: Manifest,
    manifest: Manifest,
    names: set[str],
    part: BuildRepair,
) -> Manifest | None:
    """Restores the view of a generation; returns its manifest, or None if that is impossible.

    Args:
        job: Common state of the repair.
        number: Number of the generation.
        before: View of the generation before it.
        own: Manifest of the generation alone.
        manifest: Manifest of the newest view.
        names: All damaged files.
        part: Repair of the generation.
    """
    file, home = naming.view_file(number), naming.view_folder(number)
    damaged = {name for name in names if name == file or name.startswith(f"{home}/")}
    is_newest = number == manifest.newest
    if is_newest and file in damaged:  # the one file that the manifest does not name
        make_room(job.directory / file)
        storage.write_bytes(job.directory / file, manifest.to_text().encode(), durable=True)
        part.repaired.append(file)
        damaged.remove(file)
    if not damaged:
        return manifest if is_newest else _read_manifest(job.directory, file)
    if any(one.file.startswith(naming.INDEX_DIR) for one in part.unrecovered):
        return None
    work = job.work / f"view-{number:04d}"
    view = make_view(job.directory, number, before, own, work)
    contents: dict[str, Manifest | Place] = {
        name: view if name == file else work / name.removeprefix(f"{home}/")
        for name in sorted(damaged)
    }
    return view if _take(job, manifest, contents, part) else None


def _take(
    job: RepairJob, manifest: Manifest, contents: Mapping[str, Manifest | Place], part: BuildRepair
) -> bool:
    """Replaces files whose new content has their SHA-256; returns whether all have been replaced.

    Args:
        job: Common state of the repair.
        manifest: Manifest of the newest view, which names the files.
        contents: Manifests, and files to copy, by the name of the file to replace.
        part: Repair of the generation.
    """
    ready = []
    for name, content in contents.items():
        wanted = Expected(name, **manifest.files[name])
        if isinstance(content, Manifest):
            is_right = job.finished.write(wanted, [content.to_text().encode()])
        else:
            is_right = job.finished.copy(wanted, content)
        if is_right:
            ready.append(wanted)
    job.finished.replace(ready, job.directory)
    part.repaired += [one.file for one in ready]
    return len(ready) == len(contents)


def newest_view(directory: Place, work: Place, first: Callable[[], Manifest]) -> Manifest:
    """Returns the manifest that belongs in a set.

    Args:
        directory: Directory of the set.
        work: Folder for temporary indexes.
        first: Returns the manifest of the first build from another source than a view.

    Raises:
        DamageError: A generation cannot be read, or is missing.
    """
    numbers = [
        number
        for number in generation_numbers(directory)
        if not is_unfinished(directory / naming.generation_folder(number))
    ]
    if not numbers:
        return first()
    if numbers[-1] == 0:
        raise _lost(directory, f"{directory / naming.generation_folder(1)} is missing")
    views = ((number, _parsed(directory, naming.view_file(number))) for number in numbers[::-1])
    known = next(((number, view) for number, view in views if view is not None), None)
    newest, view = known if known is not None else (0, first())
    for number in range(newest + 1, numbers[-1] + 1):
        view = _next_view(directory, number, view, work / f"view-{number:04d}")
    _check_report(directory, view)
    return view


def _next_view(directory: Place, number: int, before: Manifest, work: Place) -> Manifest:
    """Makes the view of a generation from the view before it and the generation's own manifest."""
    folder = naming.generation_folder(number)
    place = directory / folder / naming.MANIFEST
    own = _parsed(directory, below(folder, naming.MANIFEST), folder)
    if own is None:
        raise _lost(directory, f"{place} is missing or damaged")
    built = whole_build(directory / folder).get("root_hash", own.root_hash)
    if built != own.root_hash:
        raise _lost(directory, f"{place} is that of another set, with root hash {own.root_hash}")
    for home, manifest in (("", before), (folder, own)):
        for split in manifest.splits:
            for file in manifest.index_files(split):
                index = Expected(below(home, file), **manifest.files[file])
                if not is_whole(directory, index):
                    raise _lost(directory, f"{directory / index.file} is missing or damaged")
    return make_view(directory, number, before, own, work)


def _check_report(directory: Place, view: Manifest) -> None:
    """Checks that the report is not of a set with generations that are missing here."""
    try:
        described = described_set(storage.read_bytes(directory / naming.REPORT))
    except OSError:
        return
    views = {one.view for one in view.generations} | {view.root_hash}
    if described and described not in views:
        raise _lost(
            directory,
            f"{directory / naming.REPORT} is of a set with root hash {described}, which has "
            "generations that are not there",
        )


def _lost(directory: Place, fact: str) -> DamageError:
    return DamageError(
        f"{directory / naming.MANIFEST} is missing or damaged, and cannot be had: {fact}. Restore "
        f"one of the two from a copy, or the newest {naming.GENERATIONS_DIR}/NNNN/view.json."
    )


def _read_manifest(directory: Place, file: str, folder: str = "") -> Manifest:
    """The manifest in a file of a set; its names are relative to a folder of the set."""
    root = directory / folder if folder else directory
    return parse_manifest(storage.read_bytes(directory / file), str(directory / file), root)


def _parsed(directory: Place, file: str, folder: str = "") -> Manifest | None:
    try:
        return _read_manifest(directory, file, folder)
    except (ShardmillError, OSError):
        return None
