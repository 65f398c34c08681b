"""What a job would do: the corpus is listed, and a sample of it staged in a temporary folder."""

from __future__ import annotations

import dataclasses
import math
import shutil
import tempfile
from collections import Counter
from collections.abc import Collection
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_jobs.build import collect_others, holds_set, is_whole, load_built_id, open_job
from beam_jobs.columns import int64
from beam_jobs.corpus.item_table import endings
from beam_jobs.corpus.record import LABEL_SEPARATOR
from beam_jobs.generations.append import generation_job, generation_with
from beam_jobs.job_context import JobContext
from beam_jobs.options import PreprocessOptions
from beam_jobs.options.values import DEFAULT_SPLIT
from beam_jobs.progress import OnProgress
from beam_jobs.stages.list import Listing, list_corpus
from beam_jobs.stages.plan.appending import find_earlier
from beam_jobs.stages.plan.excluded import find_excluded, leave_out_unselected
from beam_jobs.stages.plan.find_duplicates import find_duplicates
from beam_jobs.stages.trial import TRIAL_UNIT, StagingTrial, stage_trial
from beam_jobs.staging import UnitSummary
from beam_jobs.staging.removed import collect_removed
from beam_jobs.staging.reordering import rows_of_partition
from beam_jobs.staging.sidecars import Sidecars
from beam_jobs.staging.units import listed_pieces
from beam_jobs.workspace import Workspace, read_table
from foundation import storage
from foundation.errors import file_error
from foundation.machine import usable_cores
from foundation.options import declared
from foundation.storage import Place
from shard_format import load_manifest

# Of the duration of a build, with images and with text, on 2 cores: planning, writing and the
# report take the rest (build.json has the stages of any build).
_STAGING_SHARE = 0.8


class RejectedItems(NamedTuple):
    """Items that listing rejects for one reason; the first of them with what was found."""

    items: int
    record_id: str
    detail: str


class Estimate(NamedTuple):
    """What the sample makes expect of the whole corpus, before duplicates are dropped.

    Attributes:
        records: Number of records that are read.
        kept: Number of them in the set.
        set_bytes: Size of the set.
        disk_bytes: Needed for the set and for what is staged, until the build ends.
        seconds: Duration of the build, less what is staged already.
    """

    records: int
    kept: int
    set_bytes: int
    disk_bytes: int
    seconds: float


class Growth(NamedTuple):
    """What `--append` would do.

    Attributes:
        base: The set.
        generation: Number of the generation that it would add, or that has these sources.
        already_built: Whether a generation has these sources, so that there is nothing to do.
        known: Items that a generation has read without change, and that are not read again.
        known_bytes: Their bytes.
        new: Records of the sample that the set would keep.
        duplicates: Records of the sample that are duplicates of one in the set.
        repeated: Records of the sample that are duplicates of another one in it.
        excluded: Records of the sample that are kept out: they were removed from the set before.
    """

    base: str
    generation: int
    already_built: bool
    known: int
    known_bytes: int
    new: int
    duplicates: int
    repeated: int
    excluded: int


class DryRun(NamedTuple):
    """What a job would do.

    Attributes:
        options: The options in effect, with everything resolved.
        given: Options that were given and differ from their defaults, by name.
        detected: Options that were found by a look at the corpus, by name.
        state: State of the output: "new", "unfinished" (the job resumes) or "complete" (no work).
        files: Number of files.
        items: Number of files, members of archives and parts of large files.
        bytes: Their size.
        kinds: Number of items by the ending of their names.
        ignored: Number of hidden files that are left out.
        rejected: Items that cannot be used, by reason.
        classes: Number of items by class, where folders, tables or archives name it; else empty.
        workers: Parallel workers of the local engine.
        units: Number of work units.
        units_staged: Number of them that an earlier build has staged.
        unit_bytes: Mean size of a unit.
        trial: A sample of records, as they were staged.
        estimate: For the whole corpus; None if the sample does not tell.
        free_bytes: On the file system of the output; None in an object store.
        growth: With --append: what would be added; else None.
    """

    options: PreprocessOptions
    given: dict[str, Any]
    detected: dict[str, Any]
    state: str
    files: int
    items: int
    bytes: int
    kinds: dict[str, int]
    ignored: int
    rejected: dict[str, RejectedItems]
    classes: dict[str, int]
    workers: int
    units: int
    units_staged: int
    unit_bytes: int
    trial: StagingTrial
    estimate: Estimate | None
    free_bytes: int | None
    growth: Growth | None = None

    def as_json(self) -> dict[str, Any]:
        """All of it, as values of JSON."""
        return self._asdict() | {
            "options": dataclasses.asdict(self.options),
            "rejected": {name: items._asdict() for name, items in self.rejected.items()},
            "trial": self.trial._asdict(),
            "estimate": self.estimate and self.estimate._asdict(),
            "growth": self.growth and self.growth._asdict(),
        }


def dry_run(
    options: PreprocessOptions,
    on_progress: OnProgress = lambda stage, done, total: None,
    given: Collection[str] | None = None,
) -> DryRun:
    """Finds out what `preprocess` or `append` would do, and writes nothing into output or staging.

    Args:
        options: The job.
        on_progress: Called with (stage, done, in all) for the stages "list", in items, and
            "sample".
        given: With `append`: names of the options that the user gave, see `append`.

    Raises:
        UsageError: An option is wrong.
        InputError: The corpus or the output folder cannot be used, or the set not be appended to.
    """
    asked, base = options, None
    if options.append:
        base = storage.place_of(storage.absolute(options.out))
        options = generation_job(options, base, given)
    context = open_job(options)
    try:
        with tempfile.TemporaryDirectory(prefix="shardmill-") as folder:
            scratch = Workspace(Path(folder), None)
            scratch.create()
            return _look(asked, context, base, scratch, on_progress)
    except OSError as error:
        raise file_error(error, tempfile.gettempdir(), resumes=False) from error


def _look(
    asked: PreprocessOptions,
    context: JobContext,
    base: Place | None,
    scratch: Workspace,
    on_progress: OnProgress,
) -> DryRun:
    options, workspace = context.options, context.workspace
    sampled = dataclasses.replace(context, workspace=scratch)
    if options.others:
        collect_others(sampled)
    listed = list_corpus(sampled, lambda done: on_progress("list", done, 0))
    on_progress("list", listed.items, listed.items)
    units = read_table(scratch.unit_table)
    pieces = map(scratch.listing_of, listed_pieces(scratch))
    listing = pa.concat_tables(map(read_table, pieces))
    complete = _holds(context, listed) and is_whole(workspace)
    unfinished = storage.is_folder(workspace.plan)
    staged, left_bytes = _staged(units, workspace)
    on_progress("sample", 0, 1)
    trial = stage_trial(listing, sampled)
    on_progress("sample", 1, 1)
    workers = options.workers or math.ceil(usable_cores())
    usable = listing.filter(pc.equal(listing["reason"], ""))
    growth = _growth(base, listed, trial, sampled) if base else None
    complete = growth.already_built if growth is not None else complete
    return DryRun(
        options=options,
        given=_given(asked),
        detected={} if base else _detected(asked, options),
        state="complete" if complete else "unfinished" if unfinished else "new",
        files=len(pc.unique(listing["path"])),
        items=listed.items,
        bytes=listed.bytes,
        kinds=_counts(endings(listing["record_id"])),
        ignored=listed.ignored,
        rejected=_rejected(listing),
        classes=_classes(usable["label"]),
        workers=workers,
        units=len(units),
        units_staged=staged,
        unit_bytes=listed.bytes // max(1, len(units)),
        trial=trial,
        estimate=_estimate(trial, usable, left_bytes / max(1, listed.bytes), workers),
        free_bytes=_free_bytes(workspace.out),
        growth=growth,
    )


def _growth(
    base: Place,
    listing: Listing,
    trial: StagingTrial,
    context: JobContext,
) -> Growth:
    """Compares the staged sample with the records of the set, as planning would.

    Raises:
        InputError: An id is taken, or the set has not stored what is needed.
    """
    manifest = load_manifest(base)
    known = generation_with(base, manifest, listing)
    sample = UnitSummary(TRIAL_UNIT, trial.read, trial.kept, {}, {}, reused=False)
    sidecars = Sidecars(context.workspace, [sample])
    collect_removed(context.options, context.workspace)
    excluded = find_excluded([sample], sidecars, context).staged
    unselected, _ = leave_out_unselected(sidecars, context)
    rows = rows_of_partition(sidecars.records)
    clusters = find_duplicates(sidecars, context, rows)
    related = find_earlier(sidecars, clusters, context).related
    dropped = related.clusters.dropped
    of_set = int(np.isin(dropped, related.records).sum())
    return Growth(
        base=str(base),
        generation=manifest.newest + 1 if known is None else known,
        already_built=known is not None,
        known=listing.known,
        known_bytes=listing.known_bytes,
        new=trial.kept - len(dropped) - excluded - unselected,
        duplicates=of_set,
        repeated=len(dropped) - of_set,
        excluded=excluded,
    )


def _holds(context: JobContext, listing: Listing) -> bool:
    """Whether the output holds the set already; another one may be about to be replaced."""
    if context.options.overwrite and load_built_id(context.workspace) != listing.build_id:
        return False
    return holds_set(context, listing)


def _given(options: PreprocessOptions) -> dict[str, Any]:
    return {
        field.name: getattr(options, field.name)
        for field in declared(options)
        if getattr(options, field.name) != field.default
    }


def _detected(asked: PreprocessOptions, options: PreprocessOptions) -> dict[str, Any]:
    """Options that differ from what was asked for, but for paths, which were made absolute."""
    detected = {
        field.name: getattr(options, field.name)
        for field in declared(options)
        if getattr(options, field.name) != getattr(asked, field.name) and not field.metadata["form"]
    }
    if detected.get("split") == DEFAULT_SPLIT:  # nothing was found
        del detected["split"]
    return detected


def _staged(units: pa.Table, workspace: Workspace) -> tuple[int, int]:
    """(number of units that are staged, bytes of the others); by names alone, which is cheap."""
    names = set()
    if storage.is_folder(workspace.units):
        names = {entry.name for entry in storage.list_folder(workspace.units)}
    done = np.array([f"{key}.json" in names for key in units["key"].to_pylist()], bool)
    return int(done.sum()), int(int64(units["bytes"])[~done].sum())


def _classes(labels: pa.ChunkedArray) -> dict[str, int]:
    """Number of items by class, the largest first; one of several classes counts for each."""
    classes: Counter[str] = Counter()
    for label, count in _counts(labels.drop_null()).items():
        for name in label.split(LABEL_SEPARATOR) if label else ():
            classes[name] += count
    return dict(classes.most_common())


def _counts(values: pa.ChunkedArray) -> dict[str, int]:
    counts = {one["values"]: one["counts"] for one in pc.value_counts(values).to_pylist()}
    return dict(sorted(counts.items(), key=lambda one: (-one[1], one[0])))


def _rejected(listing: pa.Table) -> dict[str, RejectedItems]:
    table = listing.select(["reason", "record_id", "detail"])
    table = table.filter(pc.not_equal(table["reason"], ""))
    rejected = {}
    for reason, count in _counts(table["reason"]).items():
        first = table.slice(pc.index(table["reason"], reason).as_py(), 1).to_pylist()[0]
        rejected[reason] = RejectedItems(count, first["record_id"], first["detail"])
    return rejected


def _estimate(trial: StagingTrial, usable: pa.Table, left: float, workers: int) -> Estimate | None:
    """The sample, scaled to the corpus; `left` is the share that is not staged yet."""
    if trial.one_per_item:
        records = len(usable)
    elif trial.item_bytes:
        records = round(trial.read * int64(usable["size"]).sum() / trial.item_bytes)
    else:
        return None
    if not trial.read:
        return None
    scale = records / trial.read
    set_bytes = round(trial.staged_bytes * scale)
    seconds = trial.seconds * scale * left / min(workers, usable_cores()) / _STAGING_SHARE
    return Estimate(
        records=records,
        kept=round(trial.kept * scale),
        set_bytes=set_bytes,
        disk_bytes=2 * set_bytes + round(2 * trial.rejected_bytes * scale),
        seconds=seconds,
    )


def _free_bytes(out: Place) -> int | None:
    """On the file system that the output is, or would be, on; None for an object store."""
    path = storage.local_path(out)
    if path is None:
        return None
    while not path.exists():
        path = path.parent
    return shutil.disk_usage(path).free
