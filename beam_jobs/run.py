"""Runs a preprocessing job: checks, list, pipeline, clean up."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import os
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import apache_beam as beam

from beam_jobs.engine.runners import choose_mode, choose_runner, deals_here
from beam_jobs.engine.work_queue import dealt_here
from beam_jobs.options import PreprocessOptions
from beam_jobs.pipeline import NOTES, BuildShardSet, file_error, workspace_of
from beam_jobs.progress import Follower, OnProgress
from beam_jobs.record_types import RECORD_TYPES
from beam_jobs.report import write_report
from beam_jobs.stages.list import Listing, list_corpus, resolve_options
from beam_jobs.staging.units import UNREADABLE
from beam_jobs.workspace import Workspace, read_json
from shard_format import InputError, Manifest, ShardmillError, errors, load_manifest, naming

# What Beam's local engine says when a process that worked for it is gone.
_LOST_WORKER = "Channel closed prematurely"


class BuildReport(NamedTuple):
    """What came out of a job.

    Attributes:
        manifest: Of the set.
        build: The content of build.json.
        ignored: Hidden files that were not read, and what in others is no record.
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
            "stage", "plan", "shard", "commit" and "report"; from another thread. Of documents
            "list" counts files, and "stage" their bytes.

    Raises:
        UsageError: An option is wrong.
        InputError: The corpus or the output folder cannot be used as it is.
    """
    started = time.time()
    options = _absolute(resolve_options(options))
    record_type = RECORD_TYPES[options.record_type](options)
    record_type.check()
    runner, beam_options = choose_runner(beam_args, options.workers)
    _check_places(options)
    workspace = workspace_of(options)
    with _output(workspace), workspace.lock():
        with _undone_if_refused(workspace):
            workspace.create()
            listing = list_corpus(
                options, record_type, workspace, lambda n: on_progress("list", n, 0)
            )
            on_progress("list", listing.items, listing.items)
            already_built = _is_built(workspace, listing)
        if not already_built:
            job = BuildShardSet(options, listing.build_id, uuid.uuid4().hex, started)
            choose_mode(
                beam_options,
                beam_args,
                runs_python=record_type.runs_python,
                corpus_bytes=listing.bytes,
            )
            on_progress("stage", 0, listing.bytes)
            _run_pipeline(job, workspace, runner, beam_options, on_progress)
        if not options.no_report and not (already_built and _has_report(workspace)):
            on_progress("report", 0, 1)
            write_report(workspace.out)
            on_progress("report", 1, 1)
        build = read_json(workspace.out / naming.BUILD) or {}
        report = BuildReport(
            manifest=load_manifest(workspace.out),
            build=build,
            ignored=listing.ignored + build.get("ignored", 0),
            already_built=already_built,
        )
        workspace.remove()
    return report


def _has_report(workspace: Workspace) -> bool:
    return (workspace.out / naming.REPORT).exists()


def check_kept(report: BuildReport) -> None:
    """Returns if there is something in the set.

    Raises:
        InputError: Every record was refused. The set is there all the same, with the evidence.
    """
    ledger = report.manifest.ledger
    if not ledger.kept:
        raise InputError(
            f"a corpus must have a record that can be used, got none among {ledger.read}. What was "
            "refused lies in the folder 'quarantine' of the output, each with its reason."
        )


def _absolute(options: PreprocessOptions) -> PreprocessOptions:
    """The options with paths that mean the same in every process."""
    files: dict[str, Any] = {}
    for field in dataclasses.fields(options):
        metavar, value = field.metadata.get("metavar"), getattr(options, field.name)
        if metavar == "FILE" and value:
            files[field.name] = os.path.abspath(value)
        elif metavar == "FILE,..." and value:
            files[field.name] = ",".join(map(os.path.abspath, value.split(",")))
    return dataclasses.replace(
        options,
        out=os.path.abspath(options.out),
        staging=os.path.abspath(options.staging) if options.staging else None,
        repaired=tuple(os.path.abspath(folder) for folder in options.repaired),
        **files,
    )


@contextlib.contextmanager
def _output(workspace: Workspace) -> Iterator[None]:
    """Removes an output folder that was made here and in which nothing was begun."""
    existed = workspace.out.exists()
    try:
        workspace.out.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        raise file_error(error, str(workspace.out)) from error
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
    except (ShardmillError, OSError):
        if not unfinished:
            workspace.remove()
        raise


def _check_places(options: PreprocessOptions) -> None:
    out = Path(options.out)
    if out.exists() and not out.is_dir():
        raise InputError(f"--out must be a folder, got the file {out}. Choose another --out.")
    places = [("source", source) for source in options.sources] + [("--out", options.out)]
    if options.staging:
        places.append(("--staging", options.staging))
    for (what, one), (other, two) in itertools.combinations(places, 2):
        first, second = Path(one).resolve(), Path(two).resolve()
        if (what, other) == ("source", "source"):
            continue
        if first.is_relative_to(second) or second.is_relative_to(first):
            raise InputError(
                f"source, output and staging must lie apart, got {what} {one} and {other} {two}, "
                "one inside the other. Choose another place for one of them."
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
    path = workspace.out / naming.MANIFEST
    if not path.exists():
        return False
    build = read_json(workspace.out / naming.BUILD) or {}
    if build.get("build_id") != listing.build_id:
        raise InputError(
            f"--out must not hold another set, got one in {workspace.out} that was built with "
            "other options, or from other files (their names, sizes or times of change differ). "
            "Choose another --out, or remove that folder."
        )
    manifest = load_manifest(workspace.out)
    if UNREADABLE in manifest.ledger.reasons:
        path.unlink()  # --on-unreadable quarantine: files that may be readable now
        return False
    sizes = {
        shard.file: shard.bytes for split in manifest.splits.values() for shard in split.shards
    }
    sizes |= {name: info["bytes"] for name, info in manifest.files.items()}
    files = {workspace.out / name: size for name, size in sizes.items()}
    if all(file.is_file() and file.stat().st_size == size for file, size in files.items()):
        return True
    path.unlink()  # files are missing or cut: the set is built again
    return False


def _run_pipeline(
    job: BuildShardSet,
    workspace: Workspace,
    runner: Any,
    beam_options: Any,
    on_progress: OnProgress,
) -> None:
    follower = Follower(workspace.progress, on_progress)
    follower.start()
    pipeline = beam.Pipeline(runner=runner, options=beam_options)
    _ = pipeline | "BuildShardSet" >> job
    deals = deals_here(runner, beam_options)
    try:
        with dealt_here(job.run_id, workspace) if deals else contextlib.nullcontext():
            pipeline.run().wait_until_finish()
    except Exception as error:
        raise _cause(job, workspace, error) from error
    finally:
        follower.stop()


def _cause(job: BuildShardSet, workspace: Workspace, error: Exception) -> Exception:
    """What a worker said the user can mend, or the error as it is: then it is a bug."""
    here = NOTES.pop(job.run_id, None)
    if here is not None:
        return here
    note = read_json(workspace.error)
    if note is None and _LOST_WORKER in str(error):
        return InputError(
            "every worker process must live until its work is done, got one that ended early: it "
            "was killed, perhaps for want of memory. Run the same command again, it goes on where "
            "it stopped; with fewer --workers it needs less memory."
        )
    if note is None:
        return error
    kind: Callable[[str], Exception] = getattr(errors, note["type"])
    return kind(note["message"])
