"""The launcher: checks the options, lists the corpus, runs the pipeline, finishes the build."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from beam_jobs.build import (
    Build,
    begin,
    finish,
    is_whole,
    load_built_id,
    locked_output,
    open_job,
)
from beam_jobs.corpus.record_extractor import ItemExtractor
from beam_jobs.engine.local import num_threads, run_here
from beam_jobs.engine.processes import should_use_processes, worker_processes
from beam_jobs.job_context import JobContext
from beam_jobs.memory import system_memory_pool
from beam_jobs.options import PreprocessOptions
from beam_jobs.papers import renew_papers
from beam_jobs.pipeline import Step, listing_steps, merging_of, steps
from beam_jobs.progress import Follower, OnProgress
from beam_jobs.replacement import FolderReplacement, ReplacementInStore, replacement_at
from beam_jobs.set_warnings import set_warnings
from beam_jobs.stages.list_pieces import PieceTask
from beam_jobs.staging.other_sets import other_corpus, other_sets
from beam_jobs.staging.removed import removed_lists
from beam_jobs.work import kept_error
from beam_jobs.workspace import Workspace
from foundation import storage
from foundation.errors import EmptySetError, file_error
from foundation.storage import Place
from shard_format import InputError, Manifest, UsageError, load_build, load_manifest, naming

# Files of a large corpus, about, from which a pipeline lists faster than the launcher's machine: a
# cluster takes minutes to start one, and a core lists a million files in half a minute.
_WORTH_PIPELINE = 1 << 24
_RENEWED = "the set is there; its license, citation and card become those that are given"
_WORTH_ITEMS = 16  # of a program: of fewer, worker processes may not have one each


class BuildReport(NamedTuple):
    """The result of a job.

    Attributes:
        out: Directory of the set.
        manifest: Manifest of the set.
        build: The content of build.json.
        ignored: Number of hidden files, and of entries of other files, that were not read.
        already_built: Whether the set was complete before, so that nothing had to be done.
    """

    out: Place
    manifest: Manifest
    build: dict[str, Any]
    ignored: int
    already_built: bool

    def summary(self) -> dict[str, Any]:
        """The summary of the manifest, with notes and warnings on the build, for `--json`."""
        return self.manifest.summary() | {
            "units": self.build.get("units", 0),
            "ignored": self.ignored,
            "notes": self.build.get("notes", []),
            "warnings": set_warnings(self.manifest, self.build),
        }


def preprocess(
    options: PreprocessOptions,
    beam_args: Sequence[str] = (),
    on_progress: OnProgress = lambda stage, done, total: None,
    on_note: Callable[[str], None] = lambda note: None,
) -> BuildReport:
    """Builds a shard set, or resumes a build that was interrupted.

    Args:
        options: The job: ImageOptions or TextOptions.
        beam_args: Pipeline options for Beam; none means the local engine.
        on_progress: Called with (stage, records done, records in all) for the stages "list",
            "stage", "plan", "merge" (where units are merged), "shard", "commit" and "report";
            from another thread. For text, "list" counts files, and "stage" their bytes.
        on_note: Called before the work begins with each note on what a look at the corpus has
            decided, such as that folders are splits; build.json has them too. And with the engine,
            if it is not the local one.

    Raises:
        UsageError: An option is wrong.
        InputError: The corpus or the output folder cannot be used.
        EmptySetError: Every record was rejected, and `options.keep_empty` is not set.
    """
    if options.append:
        raise UsageError("append is for beam_jobs.append(options). Call that, or leave it out.")
    if beam_args:
        if options.worker_type != "auto":
            raise UsageError(
                "--worker-type is for jobs without Beam. Leave it out; the flag of Beam's local "
                "engine is --direct_running_mode."
            )
        from beam_jobs.engine.beam_job import check_engine  # loads Beam

        check_engine(options, beam_args)
    context = open_job(options)
    options = context.options
    for note in options.notes:
        on_note(note)
    replacement = replacement_at(storage.place_of(options.out)) if options.overwrite else None
    context = context.with_options(overwrite=False)  # done by this function
    if replacement is None:
        return _build(context, beam_args, None, on_progress, on_note)
    try:
        with replacement.locked():
            kept_out = {*options.kept_out, *removed_lists(replacement.directory)}
            out = str(replacement.new)
            renamed = context.with_options(out=out, kept_out=tuple(sorted(kept_out)))
            return _build(renamed, beam_args, replacement, on_progress, on_note)
    except OSError as error:
        raise file_error(error, str(replacement.directory)) from error


def _build(
    context: JobContext,
    beam_args: Sequence[str],
    replacement: FolderReplacement | ReplacementInStore | None,
    on_progress: OnProgress,
    on_note: Callable[[str], None],
) -> BuildReport:
    workspace = context.workspace
    with system_memory_pool(), locked_output(workspace, on_note):
        unfinished = storage.is_folder(workspace.plan)
        build = begin(
            context,
            lambda done: on_progress("list", done, 0),
            discard=replacement is not None,
            do_tasks=partial(_list_pieces, context, beam_args, on_progress, on_note),
        )
        listing = build.listing
        on_progress("list", listing.items, listing.items)
        if replacement is not None and _is_there(replacement, listing.build_id):
            workspace.remove()
            replacement.delete_new()
            given, wants_card = context.options.papers, not context.options.no_report
            renew_papers(replacement.directory, given, wants_card=wants_card)
            if given:
                on_note(_RENEWED)
            return _report(replacement.directory, listing.ignored, already_built=True)
        if listing.changes:
            on_note(listing.changes)
        if build.complete and context.options.papers:
            on_note(_RENEWED)
        if not build.complete:
            try:
                run_build(context, build, beam_args, on_progress, on_note)
            except EmptySetError as error:
                left = _leave_nothing(context, replacement, unfinished=unfinished)
                raise EmptySetError(f"{error} {left}") from error
        finish(
            context,
            rebuilt=not build.complete,
            on_progress=lambda done: on_progress("report", done, 1),
            replacement=replacement,
        )
        out = workspace.out if replacement is None else replacement.directory
        return _report(out, listing.ignored, already_built=build.complete and replacement is None)


def _leave_nothing(
    context: JobContext,
    replacement: FolderReplacement | ReplacementInStore | None,
    *,
    unfinished: bool,
) -> str:
    """Removes what a build without records has written, and says what is left.

    Args:
        context: The job.
        replacement: Replacement of an old set, which stays.
        unfinished: Whether an earlier build had staged units there, which stay, too.
    """
    options, workspace = context.options, context.workspace
    if unfinished:
        return f"What an interrupted build has staged stays in {workspace.work}."
    workspace.remove()
    staged = f" Staged units stay in {options.staging}." if options.staging else ""
    if replacement is None:
        return f"Nothing was left in {workspace.out}.{staged}"
    replacement.delete_new()
    return f"The set in {replacement.directory} is as it was.{staged}"


def _is_there(replacement: FolderReplacement | ReplacementInStore, build_id: str) -> bool:
    """Whether the old set is the one to build, and whole."""
    there = Workspace(replacement.directory, None)
    return load_built_id(there) == build_id and is_whole(there)


def _report(out: Place, ignored: int, *, already_built: bool) -> BuildReport:
    info = load_build(out)
    return BuildReport(
        out=out,
        manifest=load_manifest(out),
        build=info,
        ignored=ignored + info.get("ignored", 0),
        already_built=already_built,
    )


def run_build(
    context: JobContext,
    build: Build,
    beam_args: Sequence[str],
    on_progress: OnProgress,
    on_note: Callable[[str], None],
) -> None:
    """Runs all steps behind the listing, on the engine that fits; see `preprocess`.

    Args:
        context: The job.
        build: The corpus as it was listed.
        beam_args: Pipeline options for Beam.
        on_progress: See `preprocess`.
        on_note: See `preprocess`.
    """
    record_type, corpus_bytes = context.record_type, build.listing.bytes
    for other in other_sets(context.workspace) if context.options.others else ():
        if other.source and storage.stat(storage.place_of(other.place) / naming.MANIFEST) is None:
            on_note(f"--against {other.source} is staged first: it is no shard set")
            preprocess(other_corpus(context.options, other.source, other.place), beam_args)

    def show(stage: str, done: int, total: int) -> None:
        # An engine that repeats a unit counts it again.
        most = corpus_bytes if stage == "stage" else total
        if stage != "list":  # which is over
            on_progress(stage, min(done, most) if most else done, total)

    on_progress("stage", 0, corpus_bytes)
    with _followed(context, show) as follower:
        if beam_args:
            from beam_jobs.engine.beam_job import run_on_beam  # loads Beam

            run_on_beam(context, build, beam_args, follower, on_note)
        else:
            worth = should_use_processes(record_type.runs_python, corpus_bytes)
            if isinstance(record_type.extractor, ItemExtractor):  # whose sizes say nothing
                worth = build.listing.items >= _WORTH_ITEMS
            work = steps(context, merging_of(context, build), launched=True)
            _run_here(context, work, build, worth=worth)
        if storage.stat(context.workspace.out / naming.MANIFEST) is None:
            raise RuntimeError("The job ended without a set.")  # its tasks had to stop


def _list_pieces(
    context: JobContext,
    beam_args: Sequence[str],
    on_progress: OnProgress,
    on_note: Callable[[str], None],
    tasks: Sequence[PieceTask],
) -> None:
    """Has workers list pieces of a large corpus; see `preprocess` and `list_corpus`."""
    with _followed(context, on_progress) as follower:
        if beam_args and sum(task.weight for task in tasks) >= _WORTH_PIPELINE:
            from beam_jobs.engine.beam_job import list_on_beam  # loads Beam

            list_on_beam(context, tasks, beam_args, follower, on_note)
        else:
            _run_here(context, listing_steps(context), tasks, worth=True)


@contextlib.contextmanager
def _followed(context: JobContext, show: OnProgress) -> Iterator[Follower]:
    """Within this context, what workers report is shown; an error is the one that they kept."""
    follower = Follower(context.workspace.progress, show)
    follower.start()
    try:
        yield follower
    except Exception as error:
        raise kept_error(context) or error from error
    finally:
        follower.stop()


def _run_here(context: JobContext, work: Iterable[Step], first: object, *, worth: bool) -> None:
    """Does some steps on this machine.

    Args:
        context: The job.
        work: The steps.
        first: What the first one gets.
        worth: Whether worker processes are worth their start.
    """
    options, record_type = context.options, context.record_type
    places = map(storage.place_of, (*options.sources, str(context.workspace.units)))
    fetches = record_type.extractor.weight > 1
    remote = options.workers is None and (fetches or not all(map(storage.local_path, places)))
    worth = worth and not fetches  # one process bounds the requests, and waits for most of its time
    workers = num_threads(options.workers, remote=remote)
    if workers > 1 and {"auto": worth, "processes": True}.get(options.worker_type):
        kept = record_type.runs_python  # those kernels take batches
        with worker_processes(options.record_type, workers, keep_memory=kept) as processes:
            run_here(work, first, workers, processes)
    else:
        run_here(work, first, workers)


def check_kept(report: BuildReport) -> None:
    """Checks that there is a record in the set.

    Raises:
        InputError: Every record was rejected, and the set was kept with --keep-empty.
    """
    ledger = report.manifest.ledger
    if not ledger.kept:
        every = "The only record was" if ledger.read == 1 else f"All {ledger.read:,} records were"
        raise InputError(
            f"{every} rejected; see {report.out / naming.QUARANTINE_DIR} "
            f"('shardmill quarantine list {report.out}')."
        )
