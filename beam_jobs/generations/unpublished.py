"""Generations that are built, and that the manifest of their set does not name.

Either their append was killed before its last step, or the manifest is older than the set. Both are
completed: a folder that has the records of an append is never built over.
"""

from __future__ import annotations

from collections.abc import Callable

from beam_jobs.build import has_all_files
from beam_jobs.generations.views import publish
from beam_jobs.workspace import Workspace
from foundation import storage
from foundation.storage import Place
from shard_format import InputError, Manifest, ShardmillError, load_manifest, naming, parse_manifest
from shard_format.generation_folders import unnamed_generations


def publish_finished(base: Place, on_note: Callable[[str], None]) -> Manifest:
    """Publishes every finished generation; of a set that must be locked.

    Returns:
        The manifest of the set.

    Raises:
        InputError: There is another folder in the place of a generation.
    """
    manifest = load_manifest(base)
    for number in unnamed_generations(base, manifest):
        folder = base / naming.generation_folder(number)
        problem = _problem(base, number, manifest)
        if problem:
            raise InputError(
                f"{folder} is there, and {base / naming.MANIFEST} does not name it: {problem}. "
                f"Restore {naming.MANIFEST}, or the files of this folder, from a copy; or move the "
                "folder out of the set."
            )
        on_note(f"publishing generation {number}, which was finished before")
        Workspace(folder, None).remove()
        manifest = publish(base, number)
    return manifest


def _problem(base: Place, number: int, manifest: Manifest) -> str:
    """Returns why the folder of a generation cannot be published; "" if it can."""
    folder = base / naming.generation_folder(number)
    try:
        own = load_manifest(folder)
    except ShardmillError as error:
        return str(error).rstrip(".")
    if number != manifest.newest + 1:
        return f"generation {manifest.newest + 1} is missing"
    if not has_all_files(folder, own):
        return "files of it are missing, or have other sizes"
    place = base / naming.view_file(number)
    if storage.stat(place) is not None:
        try:
            view = parse_manifest(storage.read_bytes(place), str(place))
        except ShardmillError:
            return ""  # it is written again
        if len(view.generations) != number + 1 or view.generations[-2].view != manifest.root_hash:
            return "it was appended to another set"
    return ""
