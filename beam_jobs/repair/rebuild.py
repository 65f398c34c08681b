"""A whole build next to a set, where single records are not enough: an index, the quarantine.

The same input and options give the same bytes, so files of that build replace damaged ones if they
match the manifest. A compacted set is built as its first build and appends, and then compacted.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Sequence

from beam_jobs.generations.append import append
from beam_jobs.generations.compact import compact
from beam_jobs.options import PreprocessOptions
from beam_jobs.progress import OnProgress
from beam_jobs.repair.finished import FinishedFiles
from foundation import storage
from foundation.storage import Place
from shard_format import Manifest, ShardmillError, load_manifest, naming
from shard_format.expected_files import Expected


class Rebuild:
    """A build with the options of a set, in its work folder.

    Args:
        out: Directory of the build; an interrupted one is resumed.
        jobs: Options of the set; of a compacted one, those of each build in order.
        removed: Returns the ids of records to leave out of a compacted set, given the builds.
        on_progress: Callback as in `beam_jobs.preprocess`.

    Attributes:
        problem: Reason for which the build failed; "" if it did not.
    """

    def __init__(
        self,
        out: Place,
        jobs: Sequence[PreprocessOptions],
        removed: Callable[[Place], Collection[str]] | None,
        on_progress: OnProgress,
    ) -> None:
        self._out = out
        self._jobs = [
            dataclasses.replace(job, out=str(out), no_report=True, keep_empty=True) for job in jobs
        ]
        self._removed = removed
        self._on_progress = on_progress
        self._manifest: Manifest | None = None
        self.problem = ""

    def manifest(self) -> Manifest | None:
        """Builds the set once; None if that fails."""
        if self._manifest is None and not self.problem:
            if storage.stat(self._out / naming.MANIFEST):  # of a killed repair, from other sources
                storage.delete_tree(self._out)
            try:
                self._build()
                self._manifest = load_manifest(self._out)
            except ShardmillError as error:
                self.problem = str(error)
        return self._manifest

    def _build(self) -> None:
        from beam_jobs.run import preprocess  # Beam, which repairs of single records lack

        first, *others = self._jobs
        preprocess(first, on_progress=self._on_progress)
        for job in others:
            append(dataclasses.replace(job, append=True), on_progress=self._on_progress)
        if self._removed is not None:
            compact(self._out, self._removed(self._out))

    def take(self, wanted: Sequence[Expected], finished: FinishedFiles) -> list[Expected]:
        """Takes the files that match the manifest of the damaged set; returns them."""
        if self.manifest() is None:
            return []
        return [
            one
            for one in wanted
            if storage.stat(self._out / one.file) and finished.move(one, self._out / one.file)
        ]
