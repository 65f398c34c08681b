"""The manifest of a set with generations whose manifest.json is lost.

A whole view names all generations before it, with their root hashes. Later views are made from the
manifests of the generations themselves. A generation that cannot be read is never left out: the
manifest would say that its records were never in the set.
"""

from __future__ import annotations

from collections.abc import Callable

from beam_jobs.generations.views import make_view
from beam_jobs.repair.read_items import is_whole
from foundation import storage
from foundation.storage import Place
from shard_format import DamageError, Manifest, ShardmillError, naming, parse_manifest
from shard_format.checksums import described_set
from shard_format.expected_files import Expected, whole_build
from shard_format.generation_folders import generation_numbers, is_unfinished
from shard_format.naming import below


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
    views = ((number, _parsed(directory / naming.view_file(number))) for number in numbers[::-1])
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
    own = _parsed(place)
    if own is None:
        raise _lost(directory, f"{place} is missing or damaged")
    built = whole_build(directory / folder).get("root_hash", own.root_hash)
    if built != own.root_hash:
        raise _lost(directory, f"{place} is that of another set, with root hash {own.root_hash}")
    for home, manifest in (("", before), (folder, own)):
        for split in manifest.splits:
            file = manifest.index_file(split)
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


def _parsed(place: Place) -> Manifest | None:
    try:
        return parse_manifest(storage.read_bytes(place), str(place))
    except (ShardmillError, OSError):
        return None
