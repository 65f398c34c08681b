"""One build of a shard set: its checks, its beginning and its end.

The launcher (`run.py`) and a pipeline that somebody else runs (`pipeline.BuildShardSet`) share it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import stat
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

from beam_jobs.changes import differences
from beam_jobs.job_context import JobContext
from beam_jobs.options import PreprocessOptions
from beam_jobs.options.urls import UrlOptions
from beam_jobs.papers import renew_papers
from beam_jobs.replacement import FolderReplacement, ReplacementInStore, check_own
from beam_jobs.selection import check_selection
from beam_jobs.stages.list import Listing, list_corpus, resolve_options
from beam_jobs.stages.list_pieces import DoTasks
from beam_jobs.stages.plan.against import stored_in
from beam_jobs.staging.other_sets import OtherSet, name_others, other_corpus, write_others
from beam_jobs.staging.removed import collect_removed, obeys
from beam_jobs.staging.units import NOT_READ
from beam_jobs.workspace import Workspace, read_json, write_json
from foundation import storage
from foundation.errors import file_error
from foundation.options import with_absolute_paths
from foundation.storage import Place
from shard_format import (
    InputError,
    Manifest,
    ShardmillError,
    load_build,
    load_manifest,
    naming,
)
from shard_format.checksums import report_problem
from shard_format.unnamed_files import FileSizes

_CANCELLED = "cancelled"  # in place of the id of a run


class Build(NamedTuple):
    """A build whose corpus is listed.

    Attributes:
        listing: The corpus as it was found.
        started: When it began, in seconds since the epoch.
        complete: Whether the output holds this very set already.
    """

    listing: Listing
    started: float
    complete: bool


def open_job(options: PreprocessOptions, workspace: Workspace | None = None) -> JobContext:
    """Resolves and checks the options: absolute paths, expanded globs, the detected source.

    Args:
        options: The options.
        workspace: Other folders than those that the options name.

    Raises:
        UsageError: An option is wrong.
        InputError: A source, the output folder or another file cannot be used.
    """
    options = resolve_options(options)
    options = dataclasses.replace(
        options,
        out=storage.absolute(options.out),
        repaired=tuple(storage.absolute(folder) for folder in options.repaired),
    )
    options = with_absolute_paths(options).with_papers_read()
    context = JobContext.create(options, workspace)
    context.record_type.check()
    chosen = (options.where, options.keep_best, options.by, options.sample_weight)
    if chosen != (None, None, None, None):
        check_selection(options, context.record_type)
    try:
        _check_folders(options)
    except OSError as error:
        raise file_error(error, options.out, resumes=False) from error
    return context


def _check_folders(options: PreprocessOptions) -> None:
    out = storage.place_of(options.out)
    # Asked once: a build that starts at the same moment may make the folder meanwhile.
    if _is_file(out):
        raise InputError(f"--out {out} is a file, not a folder. Choose another --out.")
    places = [("source", source) for source in options.sources] + [("--out", options.out)]
    kept = options.keep_originals if isinstance(options, UrlOptions) else None
    for flag, folder in (("--staging", options.staging), ("--keep-originals", kept)):
        if folder:
            places.append((flag, folder))
    of_input = {"source", "--against"}  # a corpus may contain an evaluation set
    places += [("--against", other) for other in options.others] if options.against else []
    for (what, one), (other, two) in itertools.combinations(places, 2):
        if {what, other} <= of_input:
            continue
        if storage.overlap(storage.place_of(one), storage.place_of(two)):
            raise InputError(
                f"{what} {one} and {other} {two} overlap: one contains the other. Choose another "
                "folder for one of them."
            )
    if not storage.is_folder(out):
        return
    names = sorted(entry.name for entry in storage.list_folder(out))
    if naming.MANIFEST in names or naming.WORK_DIR in names:
        return
    if names:
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        raise InputError(
            f"--out {out} is not empty: it contains {names[0]!r}{more}. Choose an empty or a new "
            "folder."
        )


def _is_file(out: Place) -> bool:
    """Whether something that is no folder has this name."""
    path = storage.local_path(out)
    if path is None:
        return storage.stat(out) is not None
    try:
        return not stat.S_ISDIR(path.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False


@contextlib.contextmanager
def locked_output(
    workspace: Workspace, on_note: Callable[[str], None] = lambda note: None
) -> Iterator[None]:
    """Creates the output folder and locks it; removes it again if nothing was written.

    Args:
        workspace: The build.
        on_note: See Lease.

    Raises:
        InputError: It cannot be written, or another process builds there.
    """
    path = storage.local_path(workspace.out)
    existed = path is None or path.exists()  # an object store has no empty folder
    try:
        storage.make_folder(workspace.out)
        with workspace.lock(on_note):
            yield
    except OSError as error:
        raise output_error(error, workspace) from error
    finally:
        if path is not None and not existed:
            with contextlib.suppress(OSError):  # not empty: it stays
                path.rmdir()


def begin(
    context: JobContext,
    on_progress: Callable[[int], None] = lambda items: None,
    *,
    discard: bool = False,
    do_tasks: DoTasks | None = None,
) -> Build:
    """Takes over the output, which must be locked, and lists the corpus.

    If the corpus is rejected, the output is left as it was; an unfinished build stays.

    Args:
        context: The job.
        on_progress: Called with the number of items found so far.
        discard: Whether another set in the output is deleted: it has never had its final name.
        do_tasks: See `list_corpus`.

    Raises:
        InputError: The corpus cannot be used, or the output holds another set.
    """
    started, workspace = time.time(), context.workspace
    unfinished = storage.is_folder(workspace.plan)
    try:
        workspace.create()
        write_json(workspace, workspace.owner, context.run_id)
        collect_removed(context.options, workspace)
        if context.options.against:
            collect_others(context)
        listing = list_corpus(context, on_progress, do_tasks)
        complete = is_complete(context, listing, discard=discard)
    except (ShardmillError, OSError):
        if not unfinished:
            workspace.remove()
        raise
    return Build(listing, started, complete)


def collect_others(context: JobContext) -> None:
    """Writes into the work folder which sets the build is compared with, see --against.

    A corpus that is no set is listed, so that the build depends on its files, and staged later.

    Raises:
        InputError: There is no such set or corpus, or it cannot be compared.
    """
    workspace, others = context.workspace, list[OtherSet]()
    for name, source in name_others(context.options.others):
        place = storage.place_of(source)
        if storage.is_folder(place) and storage.stat(place / naming.MANIFEST) is not None:
            others.append(OtherSet(name, source, load_manifest(place).root_hash, ""))
            stored_in(others[-1], context)
            continue
        try:
            listed = Workspace(workspace.others / "listing", None)
            listed.create()
            job = open_job(other_corpus(context.options, source, listed.out), listed)
            identity = list_corpus(job).build_id
            storage.delete_tree(listed.out)
        except ShardmillError as error:
            raise InputError(f"--against {source}: {error}") from error
        others.append(OtherSet(name, str(workspace.others / identity), identity, source))
    write_others(workspace, others)


def cancel_tasks(workspace: Workspace) -> None:
    """Lets the tasks of a run do nothing from now on, so that its job ends on any engine.

    Beam's job server for Flink tells the launcher that a batch job is cancelled, and Flink nothing.
    """
    with contextlib.suppress(OSError):
        write_json(workspace, workspace.owner, _CANCELLED)


def check_owner(context: JobContext) -> bool:
    """Whether there is work to do: the output still belongs to this run, which is not cancelled.

    A lock ends with the process that took it, and stages run in many. So each run writes its id
    when it begins, and the last one to do so owns the output.

    Raises:
        InputError: The output was removed, or another build took it over.
    """
    workspace = context.workspace
    owner = read_json(workspace.owner)
    if owner is None:
        raise _removed(workspace)
    if owner not in (context.run_id, _CANCELLED):
        raise InputError(
            f"Another build into {workspace.out} began and took it over. Wait for that one, or "
            "choose another --out."
        )
    return bool(owner == context.run_id)


def _removed(workspace: Workspace) -> InputError:
    return InputError(
        f"{workspace.out} was removed while the build was running. Run the same command again; "
        "only units in a --staging folder are reused."
    )


def work_dir_missing(workspace: Workspace) -> bool:
    """Whether the work folder was removed, as far as that can be said."""
    try:
        return not storage.is_folder(workspace.work)
    except OSError:
        return False


def output_error(error: OSError, workspace: Workspace) -> InputError:
    """The message for a failed file operation of a build."""
    gone = isinstance(error, FileNotFoundError) and work_dir_missing(workspace)
    return _removed(workspace) if gone else file_error(error, str(workspace.out))


def is_complete(context: JobContext, listing: Listing, *, discard: bool = False) -> bool:
    """Whether the output holds the whole set of this very build; if not, it is built again.

    Args:
        context: The job.
        listing: The corpus as it was found.
        discard: See `begin`.

    Raises:
        InputError: It holds another set, or is discarded and has files that are not of its set.
    """
    workspace = context.workspace
    if discard:
        built = load_built_id(workspace)
        if built not in (None, listing.build_id):
            if storage.stat(workspace.out / naming.MANIFEST) is not None:
                check_own(workspace.out)  # else this deletion was killed
            _delete_set(workspace)
        elif built is None or not obeys(workspace):
            storage.delete(workspace.out / naming.MANIFEST)
    if not holds_set(context, listing):
        return False
    if is_whole(workspace) and obeys(workspace):
        return True
    if load_manifest(workspace.out).generations:
        raise InputError(
            f"{workspace.out} has generations, and files are missing ('shardmill verify' names "
            "them) or records are to be removed. Restore the files from a copy, or remove the "
            "folder and build again."
        )
    storage.delete(workspace.out / naming.MANIFEST)
    return False


def _delete_set(workspace: Workspace) -> None:
    """Deletes all but the work folder: what makes it a set first, what says whose it is last."""
    storage.delete(workspace.out / naming.MANIFEST)
    for entry in list(storage.list_folder(workspace.out)):
        if entry.name in (naming.BUILD, naming.WORK_DIR):
            continue
        if entry.kind == storage.FOLDER and not entry.is_link:
            storage.delete_tree(workspace.out / entry.name)
        else:
            storage.delete(workspace.out / entry.name)
    storage.delete(workspace.out / naming.BUILD)


def load_built_id(workspace: Workspace) -> str | None:
    """The build id of the set in the output; None if it does not say."""
    build = read_json(workspace.out / naming.BUILD)
    return build.get("build_id") if isinstance(build, dict) else None


def holds_set(context: JobContext, listing: Listing) -> bool:
    """Whether the output has a manifest, which is that of this very build.

    Raises:
        InputError: It is that of another set.
    """
    workspace = context.workspace
    if storage.stat(workspace.out / naming.MANIFEST) is None:
        return False
    build = load_build(workspace.out)
    if build.get("build_id") != listing.build_id:
        lines = differences(build, listing.inputs, context.options)
        shown = "".join(f"\n  {line}" for line in lines)
        raise InputError(
            f"{workspace.out} holds another set:{shown}\nPass --overwrite to replace it, or choose "
            "another --out."
        )
    return True


def is_whole(workspace: Workspace) -> bool:
    """Whether a set has all its files in full, and no file that may be readable now."""
    manifest = load_manifest(workspace.out)
    if NOT_READ & manifest.ledger.reasons.keys():
        return False  # the files may be readable now, as they were listed
    return has_all_files(workspace.out, manifest)


def has_all_files(directory: Place, manifest: Manifest) -> bool:
    """Whether every file that a manifest names is there and has its size."""
    actual = FileSizes(directory)
    try:
        return all(actual.get(name) == size for name, size in _sizes(manifest))
    except ShardmillError:  # the list of shards is missing or damaged
        return False


def _sizes(manifest: Manifest) -> Iterator[tuple[str, int]]:
    """Yields name and size of every file that a manifest names."""
    for split in manifest.splits.values():
        yield from ((shard.file, shard.bytes) for shard in split.shards)
    yield from ((name, info["bytes"]) for name, info in manifest.files.items())


def has_report(directory: Place) -> bool:
    """Whether a set has a report, and not that of an earlier generation or build."""
    try:
        data = storage.read_bytes(directory / naming.REPORT)
    except FileNotFoundError:
        return False
    return not report_problem(data, load_manifest(directory).root_hash, needs_checksum=False)


def finish(
    context: JobContext,
    *,
    rebuilt: bool,
    on_progress: Callable[[int], None] = lambda done: None,
    replacement: FolderReplacement | ReplacementInStore | None = None,
) -> None:
    """Writes papers and report, if there are none of this set, and removes the work folder.

    Args:
        context: The job.
        rebuilt: Whether anything was built.
        on_progress: Called with 0 and 1, before and after the report.
        replacement: Replacement of an old set; it ends here.
    """
    workspace = context.workspace
    options, scratch = context.options, workspace.scratch_of(workspace.out / naming.REPORT)
    if not rebuilt and not options.base:  # an append renews those of a generation
        renew_papers(workspace.out, options.papers, wants_card=not options.no_report)
    if not options.no_report and (rebuilt or not has_report(workspace.out)):
        from beam_jobs.report import write_report  # loads image libraries

        on_progress(0)
        try:
            write_report(workspace.out, scratch=scratch)
        except InputError as error:
            if isinstance(error.__cause__, OSError):
                raise error.__cause__ from None  # `locked_output` says what to do in a build
            raise
        on_progress(1)
    if replacement is not None:
        replacement.finish()
    workspace.remove()
