"""The jobs that made one build of a set, with the current paths of their sources.

Their options are those in build.json, as far as they agree with the manifest. A compacted set was
made by several jobs, each with sources of its own; build.json has them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from beam_jobs.build import open_job
from beam_jobs.like import options_of_config
from beam_jobs.moved_sources import (
    MERGED_KEY,
    OF_SOURCES,
    known_sources,
    merged_options,
    sources_now,
)
from beam_jobs.options import OPTIONS, PreprocessOptions
from beam_jobs.progress import OnProgress
from beam_jobs.record_types import RECORD_TYPES
from beam_jobs.repair.finished import FinishedFiles
from beam_jobs.repair.read_items import items_of_build
from beam_jobs.stages.list import Listing, list_corpus
from beam_jobs.workspace import Workspace
from foundation import storage
from foundation.options import declared, has_type, with_absolute_paths
from foundation.storage import Place
from shard_format import Manifest, ShardmillError, load_build, naming
from shard_format.checksums import whole_build
from shard_format.generation_folders import generation_numbers
from shard_format.schema import KEPT_IN_INDEX

# The manifest has the hash of a tokenizer and the applied cleaning steps, not the given options.
_REPLACED = {"clean", "tokenizer"}


class RepairJob(NamedTuple):
    """What all parts of a repair share.

    Attributes:
        directory: Directory of the set.
        work: Folder for builds and listings.
        sources: Current paths of the corpus; empty if it has not moved.
        finished: Files that are ready to replace damaged ones.
        on_progress: Callback as in `repair`.
        on_note: Callback as in `repair`.
    """

    directory: Place
    work: Place
    sources: Sequence[str]
    finished: FinishedFiles
    on_progress: OnProgress
    on_note: Callable[[str], None]


class BuildJobs:
    """The jobs of one build of a set.

    Args:
        repair: Common state of the repair.
        directory: Folder of the build.
        number: Number of the generation; None if the set has only one.
        work: Folder for listings.
    """

    def __init__(
        self, repair: RepairJob, directory: Place, number: int | None, work: Place
    ) -> None:
        self._repair = repair
        self._directory = directory
        self._number = number
        self._work = work
        self._items: Place | None = None  # the list of items that the build has read

    @property
    def is_compacted(self) -> bool:
        """Whether the build was made of several, or records were removed from it."""
        return MERGED_KEY in whole_build(self._directory)

    def first(self, manifest: Manifest | None) -> PreprocessOptions | None:
        """Returns the job with all options of the build; None if they are unknown.

        Args:
            manifest: Manifest of the build; None if it is damaged, and then build.json must be
                whole.
        """
        build = whole_build if manifest is None else load_build
        saved = build(self._directory).get("options", {})
        given: list[Mapping[str, Any]] = [saved]
        sources = self._sources()
        if manifest is not None:
            of_config = options_of_config(manifest.config)
            given += [_as_in(manifest, saved), _as_in(manifest, of_config)]
            sources = sources or known_sources(saved)
        kept = bool((saved if manifest is None else manifest.config).get(KEPT_IN_INDEX))
        for values in given:
            own = {**values, KEPT_IN_INDEX: kept}
            job = _job(own, self._directory, sources)
            if job is not None and (manifest is None or _agrees(job, manifest)):
                job = dataclasses.replace(
                    job,
                    index_in_one=not self._has_parts(manifest),
                    duplicates_in_one=self._has_one_file(manifest),
                )
                if not self._number:
                    return job
                base = str(self._repair.directory)
                return dataclasses.replace(job, base=base, base_generation=self._number - 1)
        return None

    def _has_parts(self, manifest: Manifest | None) -> bool:
        """Whether the build knows of parts of an index: others have one file for any split."""
        if manifest is not None:
            return any(split.index for split in manifest.splits.values())
        files = storage.list_folder(self._directory / naming.INDEX_DIR)
        return any(file.name.endswith(naming.SHARDS_SUFFIX) for file in files)

    def _has_one_file(self, manifest: Manifest | None) -> bool:
        """Whether the build has one file of duplicates, as any build before there were parts."""
        if manifest is not None:
            return naming.DUPLICATES in manifest.files
        return storage.stat(self._directory / naming.DUPLICATES) is not None

    def all(self, first: PreprocessOptions) -> list[PreprocessOptions]:
        """Returns the jobs that were merged into the build in order; one if nothing was merged."""
        if not self.is_compacted:
            return [first]
        jobs = []
        for own in merged_options(whole_build(self._directory)):
            given = sources_now({"options": own}, self._repair.sources)
            values = {name: own[name] for name in OF_SOURCES if name in own}
            values["sources"] = tuple(given or own.get("sources", ()))
            jobs.append(dataclasses.replace(first, **values))
        return jobs

    def as_read(
        self, jobs: Sequence[PreprocessOptions], manifest: Manifest | None
    ) -> list[PreprocessOptions]:
        """Returns the jobs, restricted to the files that the build has read.

        Files that were added since belong to later generations, or to none.

        Raises:
            ShardmillError: The sources cannot be listed, or have none of the files.
            OSError: They cannot be read.
        """
        if self._items is None:
            base, own = self._repair.directory, self._number or 0
            others = [
                base / naming.generation_folder(other) if other else base
                for other in generation_numbers(base)
                if other != own
            ]
            read = None if manifest is None else manifest.ledger.read
            work = Workspace(self._work / "items", None)
            self._items = items_of_build(jobs, self._directory, read, others, work)
        return [dataclasses.replace(job, only_items=str(self._items)) for job in jobs]

    def listed(self, first: PreprocessOptions, manifest: Manifest) -> tuple[Listing, Workspace]:
        """Lists the sources; returns the listing and its workspace.

        Raises:
            ShardmillError: The sources cannot be listed, or have none of the files.
            OSError: They cannot be read.
        """
        (job,) = self.as_read([first], manifest)
        work = Workspace(self._work / "listing", None)
        work.create()
        return list_corpus(open_job(dataclasses.replace(job, out=str(work.out)), work)), work

    def why_none(self, manifest: Manifest | None) -> str:
        """Returns why there are no options of the build."""
        known = load_build(self._directory).get("options")
        if known or (manifest is not None and options_of_config(manifest.config)):
            return "no source is known; name SRC"
        return (
            f"{self._directory / naming.BUILD} does not say how the set was built, and the "
            "manifest has too little. Restore it from a copy; or build the set again into another "
            "folder, with the same command, and copy it from there if the root hash is the same"
        )

    def _sources(self) -> Sequence[str]:
        """Returns the current paths of the sources, matched by name; empty if none has moved."""
        given = self._repair.sources
        build = load_build(self._directory)
        if not given or (len(build.get("compacted", ())) > 1 and MERGED_KEY not in build):
            return given  # an earlier version compacted the set, and did not write whose they are
        now = sources_now(build, given)
        return now or given if self._number is None else now


def _as_in(manifest: Manifest, values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns options, such as those of another set, overridden by those in the manifest."""
    own = dict(values)
    for name, value in manifest.config.items():
        if name == "split" and isinstance(value, dict):
            value = ",".join(f"{split}={share!r}" for split, share in value.items())
        if name in own and name not in _REPLACED:
            own[name] = str(value) if isinstance(own[name], str) and value is not None else value
    return own | {"name": manifest.name}


def _job(
    values: Mapping[str, Any], directory: Place, sources: Sequence[str]
) -> PreprocessOptions | None:
    kind = OPTIONS.get(str(values.get("record_type")))
    if kind is None:
        return None
    known = {field.name for field in dataclasses.fields(kind)}
    own: dict[str, Any] = {**kind.absent(), **values}
    own = {name: value for name, value in own.items() if name in known}
    if not all(has_type(field, own.get(field.name, field.default)) for field in declared(kind)):
        return None  # a damaged build.json, or a manifest that no version wrote
    own["sources"] = tuple(sources or own.get("sources") or ())
    own["repaired"] = tuple(own.get("repaired") or ())
    own |= {"out": str(directory), "notes": (), "kept_out": (), "matched": ()}
    excluded = own.get("exclude_ids")
    if excluded and not storage.exists(storage.place_of(str(excluded))):
        own["exclude_ids"] = None
    if not own["sources"]:
        return None
    for name in naming.TOKENIZERS.values():
        given = own.get("tokenizer")
        if given and not storage.exists(storage.place_of(str(given))):
            if storage.stat(directory / name):
                own["tokenizer"] = str(directory / name)  # its copy: the original is gone
    staging = own.get("staging")
    # A folder without units is none: nothing is made in one that a build.json happens to name.
    if staging and not storage.is_folder(storage.place_of(str(staging)) / "units"):
        own["staging"] = None
    try:
        return with_absolute_paths(kind(**own))
    except (ShardmillError, TypeError, ValueError, AttributeError):
        return None


def _agrees(job: PreprocessOptions, manifest: Manifest) -> bool:
    """Returns whether options, such as those of a damaged build.json, are those in the manifest."""
    try:
        config = job.config() | RECORD_TYPES[job.record_type](job).config()
    except (ShardmillError, OSError):
        return False
    return job.name == manifest.name and all(
        manifest.config.get(name, value) == value
        for name, value in config.items()
        if name not in _REPLACED or name == "clean"
    )
