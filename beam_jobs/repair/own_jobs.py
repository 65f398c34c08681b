"""The jobs that made one build of a set, with the current paths of their sources.

A compacted set was made by several jobs, each with sources of its own; build.json has them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import NamedTuple

from beam_jobs.build import open_job
from beam_jobs.like import options_of_config
from beam_jobs.moved_sources import MERGED_KEY, OF_SOURCES, merged_options, sources_now
from beam_jobs.options import PreprocessOptions
from beam_jobs.progress import OnProgress
from beam_jobs.repair.finished import FinishedFiles
from beam_jobs.repair.job import job_of
from beam_jobs.repair.own_items import items_of_build, other_builds
from beam_jobs.stages.list import Listing, list_corpus
from beam_jobs.workspace import Workspace
from foundation.storage import Place
from shard_format import Manifest, load_build, naming
from shard_format.expected_files import whole_build


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


class OwnJobs:
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
        """Returns the job with all options of the build; None if they are unknown."""
        job = job_of(self._directory, manifest, self._sources())
        if job is None or not self._number:
            return job
        base = str(self._repair.directory)
        return dataclasses.replace(job, base=base, base_generation=self._number - 1)

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
            others = other_builds(self._repair.directory, self._number or 0)
            work = Workspace(self._work / "items", None)
            self._items = items_of_build(jobs, self._directory, manifest, others, work)
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
        known = isinstance(load_build(self._directory).get("options"), dict)
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
