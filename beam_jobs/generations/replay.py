"""`quarantine replay` of a set with several generations.

Every generation is built again in its order, from its own sources, with the repaired files, into
OUT.new; then both folders exchange their names. So records that are kept now are in the generation
that rejected them, and the result is that of builds and appends that never failed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from beam_jobs.corpus.replacements import original_path
from beam_jobs.generations.append import append
from beam_jobs.moved_sources import known_sources, replayed_sources
from beam_jobs.options import PreprocessOptions
from beam_jobs.progress import OnProgress
from beam_jobs.quarantine import FILES, replay_options
from beam_jobs.replacement import FolderReplacement, replacement_at
from beam_jobs.run import preprocess
from beam_jobs.staging.removed import removed_lists
from foundation import storage
from foundation.storage import Place
from shard_format import InputError, Manifest, UsageError, load_build, load_manifest, naming
from shard_format.dropped import read_rejected


def replay_generations(
    directory: Place,
    repaired: Place | None = None,
    sources: Sequence[str] = (),
    changes: Mapping[str, Any] | None = None,
    out: str | None = None,
    on_progress: OnProgress = lambda stage, done, total: None,
    on_note: Callable[[str], None] = lambda note: None,
) -> Manifest:
    """Builds all generations of a set again; one that was killed is resumed.

    Args:
        directory: The set.
        repaired: See `replay_options`.
        sources: Where the sources of all generations are now; none if they have not moved.
        changes: Options by field name, for every generation.
        out: Where to build; None replaces the set.
        on_progress: See `run.preprocess`.
        on_note: See `run.preprocess`; called before each generation too.

    Returns:
        The new manifest.

    Raises:
        UsageError: See `replay_options`.
        InputError: A corpus or the output cannot be used.
    """
    jobs = _jobs(directory, repaired, sources, dict(changes or {}))

    def build(place: str, *, resumes: bool) -> None:
        for number, job in enumerate(jobs):
            on_note(f"generation {number} of {len(jobs) - 1}")
            job = dataclasses.replace(job, out=place)
            _build_first(job, on_progress, on_note, resumes=resumes) if not number else append(
                dataclasses.replace(job, append=True), None, (), on_progress, on_note
            )

    if out is not None:
        build(out, resumes=False)
        return load_manifest(storage.place_of(out))
    replacement = replacement_at(directory)
    if not isinstance(replacement, FolderReplacement):
        raise UsageError(
            f"{directory} has several generations and is in an object store, where they are not "
            "built in their place. Pass --out with another place."
        )
    with replacement.locked():
        build(str(replacement.new), resumes=True)
        replacement.finish()
    return load_manifest(directory)


def _jobs(
    directory: Place, repaired: Place | None, sources: Sequence[str], changes: dict[str, Any]
) -> list[PreprocessOptions]:
    generations = load_manifest(directory).generations
    folders = [directory / one.folder if one.folder else directory for one in generations]
    has_repaired = [
        repaired is not None and _rejected(directory, n, repaired) for n in range(len(folders))
    ]
    if repaired is not None and not any(has_repaired):
        raise InputError(
            f"No file in {repaired} has the path of a record that {directory} rejected. "
            "'shardmill quarantine export' writes such a folder."
        )
    known = [known_sources(load_build(folder).get("options")) for folder in folders]
    moved = replayed_sources(directory, known, sources) if sources else known
    kept_out = tuple(removed_lists(directory))
    jobs = []
    for number, folder in enumerate(folders):
        own = repaired if has_repaired[number] else None
        job = dataclasses.replace(
            replay_options(folder, own, (), changes), sources=tuple(moved[number])
        )
        # Of a folder that has grown, what a later generation has read is left to it.
        later = tuple(str(one / naming.READ_ITEMS) for one in folders[number + 1 :])
        jobs.append(
            dataclasses.replace(
                job,
                base="",
                base_generation=None,
                overwrite=False,
                without_items=later,
                keep_empty=True,  # later generations have records
                kept_out=kept_out,
            )
        )
    return jobs


def _rejected(directory: Place, number: int, repaired: Place) -> bool:
    """Whether a folder has a file for a record that a generation rejected, or has replaced."""
    files = repaired / FILES if storage.is_folder(repaired / FILES) else repaired
    folder = directory / naming.generation_folder(number) if number else directory
    options = load_build(folder).get("options")
    if isinstance(options, dict) and storage.absolute(str(files)) in options.get("repaired", ()):
        return True
    own = load_manifest(folder) if number else load_manifest(directory, 0)
    paths = (original_path(files, one.record_id) for one, _ in read_rejected(folder, own))
    return any(storage.exists(path) for path in paths)


def _build_first(
    job: PreprocessOptions,
    on_progress: OnProgress,
    on_note: Callable[[str], None],
    *,
    resumes: bool,
) -> None:
    """Builds the first generation, in the place of what a replay of another kind has left."""
    left = storage.stat(storage.place_of(job.out) / naming.MANIFEST) is not None
    try:
        preprocess(job, (), on_progress, on_note)
    except InputError:
        if not (left and resumes):
            raise
        storage.delete_tree(storage.place_of(job.out))
        preprocess(job, (), on_progress, on_note)
