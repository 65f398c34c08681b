"""The job as a Beam pipeline: the five stages as a table of contents.

What moves through Beam is one small element per unit and per shard. Payload stays in files.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import apache_beam as beam

from beam_jobs.engine.work_queue import take
from beam_jobs.options import PreprocessOptions
from beam_jobs.record_types import RECORD_TYPES
from beam_jobs.stages.commit import commit
from beam_jobs.stages.list import Unit, largest_first
from beam_jobs.stages.plan import ShardSpec, plan_shards
from beam_jobs.stages.shard import ShardResult, write_shard
from beam_jobs.stages.stage import stage_unit
from beam_jobs.staging import UnitSummary
from beam_jobs.workspace import Workspace, write_json
from shard_format import InputError, ShardmillError


class BuildShardSet(beam.PTransform):
    """Builds the shard set of a corpus that was listed; its output is the root hash.

    Args:
        options: The job.
        build_id: Content address of the listed corpus and the options.
        run_id: Names this run of the job, as no other run is named.
        started: When it began, in seconds since the epoch.
    """

    def __init__(
        self, options: PreprocessOptions, build_id: str, run_id: str, started: float
    ) -> None:
        super().__init__()
        self._options = options
        self._build_id = build_id
        self.run_id = run_id
        self._started = started

    def expand(self, root: Any) -> Any:
        """See beam.PTransform."""
        options, run_id = self._options, self.run_id
        units = (
            root
            | "Start" >> beam.Create([None])
            | "ListUnits" >> beam.ParDo(ListUnits(options, run_id))  # Unit
            | "SpreadUnits" >> beam.Reshuffle()
        )
        summaries = units | "StageUnits" >> beam.ParDo(StageUnits(options, run_id))  # UnitSummary
        shards = (
            root
            | "StartPlan" >> beam.Create([None])
            | "PlanShards" >> beam.ParDo(PlanShards(options, run_id), beam.pvalue.AsList(summaries))
            | "SpreadShards" >> beam.Reshuffle()  # ShardSpec
        )
        results = shards | "WriteShards" >> beam.ParDo(WriteShards(options, run_id))  # ShardResult
        return (
            root
            | "StartCommit" >> beam.Create([None])
            | "Commit"
            >> beam.ParDo(
                Commit(options, run_id, self._build_id, self._started),
                beam.pvalue.AsList(summaries),
                beam.pvalue.AsList(results),
            )  # root hash
        )


# By run id, from workers that are threads of the launcher; others leave a file.
NOTES: dict[str, ShardmillError] = {}


class _Stage(beam.DoFn):
    """What every stage has: the options, and the workspace and record type made from them."""

    def __init__(self, options: PreprocessOptions, run_id: str) -> None:
        super().__init__()
        self._options = options
        self._run_id = run_id

    def setup(self) -> None:
        """Makes what is not to be pickled."""
        self._workspace = workspace_of(self._options)
        self._record_type = RECORD_TYPES[self._options.record_type](self._options)

    @contextlib.contextmanager
    def _tell_launcher(self) -> Iterator[None]:
        """Leaves a note of what a user can mend: runners pass exceptions on as wrapped text."""
        try:
            yield
        except ShardmillError as error:
            self._note(error)
            raise
        except OSError as error:
            told = file_error(error, self._options.out)
            self._note(told)
            raise told from error

    def _note(self, error: ShardmillError) -> None:
        NOTES[self._run_id] = error
        note = {"type": type(error).__name__, "message": str(error)}
        with contextlib.suppress(OSError):  # a full disk does not take this note either
            write_json(self._workspace, self._workspace.error, note)


class ListUnits(_Stage):
    """Anything in, every Unit of the listing out, the largest first."""

    def process(self, _: None) -> Iterator[Unit]:
        """See beam.DoFn."""
        yield from largest_first(self._workspace)


class StageUnits(_Stage):
    """Unit("3f2a...", 0, 812, ...) in, UnitSummary(key="3f2a...", read=812, kept=810, ...) out."""

    def process(self, given: Unit) -> Iterator[UnitSummary]:
        """See beam.DoFn."""
        with self._tell_launcher():
            for unit in take(self._run_id, Unit(*given), self._workspace):
                yield stage_unit(unit, self._options, self._record_type, self._workspace)


class PlanShards(_Stage):
    """All UnitSummary in, a ShardSpec for every shard out."""

    def process(self, _: None, summaries: list[UnitSummary]) -> Iterator[ShardSpec]:
        """See beam.DoFn."""
        with self._tell_launcher():
            check_readable(summaries)
            self._workspace.mark("plan")
            specs = plan_shards(summaries, self._options, self._record_type, self._workspace)
            self._workspace.mark("shard")
            yield from specs


def check_readable(summaries: Sequence[UnitSummary]) -> None:
    """Returns if every unit was staged.

    Raises:
        InputError: Files could not be read because of I/O errors.
    """
    failed = [summary for summary in summaries if summary.unreadable]
    if failed:
        files = sum(summary.unreadable for summary in failed)
        raise InputError(
            f"{files:,} source files cannot be read. The first error: {failed[0].error}. Nothing "
            "was committed, and what was staged is kept. Run the same command again when they can "
            "be read; it resumes. --on-unreadable quarantine goes on without them."
        )


class WriteShards(_Stage):
    """ShardSpec(split="train", shard=3, ...) in, ShardResult(info=ShardInfo(...), ...) out."""

    def process(self, spec: ShardSpec) -> Iterator[ShardResult]:
        """See beam.DoFn."""
        with self._tell_launcher():
            yield write_shard(ShardSpec(*spec), self._record_type, self._workspace)


class Commit(_Stage):
    """All UnitSummary and ShardResult in, the root hash of the finished set out."""

    def __init__(
        self, options: PreprocessOptions, run_id: str, build_id: str, started: float
    ) -> None:
        super().__init__(options, run_id)
        self._build_id = build_id
        self._started = started

    def process(
        self, _: None, summaries: list[UnitSummary], results: list[ShardResult]
    ) -> Iterator[str]:
        """See beam.DoFn."""
        with self._tell_launcher():
            manifest = commit(
                summaries,
                results,
                self._build_id,
                self._started,
                self._options,
                self._record_type,
                self._workspace,
            )
            yield manifest.root_hash


def file_error(error: OSError, where: str) -> InputError:
    """What a user can mend of a failed file operation."""
    name = error.filename if error.filename is not None else where
    name = name if isinstance(name, bytes) else os.fsencode(name)
    # A file name may be no text at all, and this one will be printed, stored and sent.
    readable = name.decode("utf-8", "backslashreplace")
    return InputError(
        f"source, output and staging must be files and folders that can be read and written, got "
        f"'{error.strerror}' for {readable}. Make room or give permission, then run the same "
        "command again: it goes on where it stopped."
    )


def workspace_of(options: PreprocessOptions) -> Workspace:
    """The folders of a job."""
    return Workspace(Path(options.out), Path(options.staging) if options.staging else None)
