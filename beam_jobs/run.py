"""Runs a preprocessing job: checks, list, pipeline, clean up."""

from __future__ import annotations

import contextlib
import gc
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import apache_beam as beam

from beam_jobs.dealing import dealt_here
from beam_jobs.listing import Listing, largest_first, list_corpus
from beam_jobs.options import PreprocessOptions
from beam_jobs.pipeline import BuildShardSet, workspace_of
from beam_jobs.progress import Follower, OnProgress
from beam_jobs.record_types import RECORD_TYPES
from beam_jobs.runners import choose_runner
from beam_jobs.storage import Workspace, read_json
from shard_format import InputError, Manifest, ShardmillError, errors, load_manifest, naming


class BuildReport(NamedTuple):
    """What came out of a job.

    Attributes:
        manifest: Of the set.
        build: The content of build.json.
        ignored: Hidden files that were not read.
        already_built: True when the set was complete before and nothing had to be done.
    """

    manifest: Manifest
    build: dict[str, Any]
    ignored: int
    already_built: bool


def run_preprocess(
    options: PreprocessOptions,
    beam_args: Sequence[str] = (),
    on_progress: OnProgress = lambda stage, done, total: None,
) -> BuildReport:
    """Builds a shard set, or goes on with one that was interrupted.

    Args:
        options: The job.
        beam_args: Pipeline options for Beam.
        on_progress: Called with (stage, records done, records in all) for the stages "list",
            "stage" and "shard"; from another thread.

    Raises:
        UsageError: An option is wrong.
        InputError: The corpus or the output folder cannot be used as it is.
    """
    record_type = RECORD_TYPES[options.record_type](options)
    runner, beam_options = choose_runner(beam_args, options.workers)
    out = Path(options.out)
    _check_places(out, [Path(source) for source in options.sources])
    workspace = workspace_of(options)
    with _output(workspace), workspace.lock():
        with _undone_if_refused(workspace):
            workspace.create()
            listing = list_corpus(
                options, record_type, workspace, lambda n: on_progress("list", n, 0)
            )
            already_built = _is_built(workspace, listing)
        if not already_built:
            _run_pipeline(options, listing, workspace, runner, beam_options, on_progress)
        report = BuildReport(
            manifest=load_manifest(out),
            build=read_json(out / naming.BUILD) or {},
            ignored=listing.ignored,
            already_built=already_built,
        )
        workspace.remove()
    return report


@contextlib.contextmanager
def _output(workspace: Workspace) -> Iterator[None]:
    """Removes an output folder that was made here and in which nothing was begun."""
    existed = workspace.out.exists()
    try:
        workspace.out.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        raise InputError(
            f"the output must be a folder that can be written to, got '{error.strerror}' for "
            f"{error.filename or workspace.out}. Make room or give permission, or choose another "
            "--out."
        ) from error
    finally:
        if not existed:
            with contextlib.suppress(OSError):  # it holds something now, so it stays
                workspace.out.rmdir()


@contextlib.contextmanager
def _undone_if_refused(workspace: Workspace) -> Iterator[None]:
    """Leaves the output as it was when the input is refused; an unfinished build is kept."""
    unfinished = workspace.plan.exists()
    try:
        yield
    except ShardmillError:
        if not unfinished:
            workspace.remove()
        raise


def _check_places(out: Path, sources: Sequence[Path]) -> None:
    if out.exists() and not out.is_dir():
        raise InputError(f"--out must be a folder, got the file {out}. Choose another --out.")
    for source in sources:
        inside = out.resolve().is_relative_to(source.resolve())
        if inside or source.resolve().is_relative_to(out.resolve()):
            raise InputError(
                f"source and output must lie apart, got {source} and {out}, one inside the other. "
                "Choose another --out."
            )
    if not out.is_dir() or (out / naming.MANIFEST).exists() or (out / naming.WORK_DIR).exists():
        return
    found = sorted(os.listdir(out))
    if found:
        raise InputError(
            f"--out must be an empty or a new folder, got one that holds {found[0]!r}"
            f"{f' and {len(found) - 1} more' if len(found) > 1 else ''} in {out}. "
            "Choose another --out."
        )


def _is_built(workspace: Workspace, listing: Listing) -> bool:
    """Whether this very build is complete.

    Raises:
        InputError: Another set is in the output folder.
    """
    if not (workspace.out / naming.MANIFEST).exists():
        return False
    build = read_json(workspace.out / naming.BUILD) or {}
    if build.get("build_id") != listing.build_id:
        raise InputError(
            f"--out must not hold another set, got one in {workspace.out} that was built from "
            "other files or with other options. Choose another --out, or remove that folder."
        )
    return True


def _run_pipeline(
    options: PreprocessOptions,
    listing: Listing,
    workspace: Workspace,
    runner: Any,
    beam_options: Any,
    on_progress: OnProgress,
) -> None:
    follower = Follower(workspace.progress, on_progress)
    on_progress("stage", 0, listing.records)
    follower.start()
    pipeline = beam.Pipeline(runner=runner, options=beam_options)
    _ = pipeline | "BuildShardSet" >> BuildShardSet(options, listing.build_id)
    # What is alive now stays alive: the collector need not visit it again and again while workers
    # of the local engine, threads of this process, make many small objects. Measured: 1 to 2 %.
    gc.collect()
    gc.freeze()
    try:
        with dealt_here(listing.build_id, largest_first(workspace)):
            pipeline.run().wait_until_finish()
    except Exception as error:
        raise _cause(workspace, error) from error
    finally:
        gc.unfreeze()
        follower.stop()


def _cause(workspace: Workspace, error: Exception) -> Exception:
    """What a worker said the user can mend, or the error as it is: then it is a bug."""
    note = read_json(workspace.error)
    if note is None:
        return error
    kind: Callable[[str], Exception] = getattr(errors, note["type"])
    return kind(note["message"])
