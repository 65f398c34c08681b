"""The job as a Beam pipeline: the stages as a table of contents.

What moves through Beam is one small element per unit and per shard. Payload stays in files.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator
from typing import Any

import apache_beam as beam

from beam_jobs.build import (
    Build,
    begin,
    check_owner,
    finish,
    is_complete,
    locked_output,
    output_error,
    resolve,
    workspace_of,
)
from beam_jobs.engine.metrics import count_ledger, count_shard, count_unit
from beam_jobs.engine.work_queue import take
from beam_jobs.options import PreprocessOptions
from beam_jobs.progress import at_work, flush
from beam_jobs.record_types import RECORD_TYPES
from beam_jobs.stages.commit import commit
from beam_jobs.stages.list import largest_first
from beam_jobs.stages.merge import merge
from beam_jobs.stages.plan import (
    Limits,
    MergedRun,
    MergeTask,
    Merging,
    ShardSpec,
    load_merge_plan,
    merge_tasks,
    merged_shards,
    merging_at,
    plan_shards,
)
from beam_jobs.stages.shard import ShardResult, write_shard
from beam_jobs.stages.stage import check_readable, stage_unit
from beam_jobs.staging.units import Unit, UnitSummary
from beam_jobs.workspace import write_json
from shard_format import InputError, ShardmillError, UsageError, load_manifest


class BuildShardSet(beam.PTransform):
    """Builds a shard set: a pipeline in, a PCollection with the root hash of the set out.

        root_hash = pipeline | BuildShardSet(ImageOptions(("photos",), "set"))

    Options are checked when the transform is constructed, on the machine that submits the pipeline;
    the corpus is listed when it runs.

    Args:
        options: The job.
        build: Of a launcher that has listed the corpus, and will finish the build.
        run_id: A name that no other run has.
        merging: Whether and how staged units are merged before shards are written; None to decide
            by where they are, and by the size of the corpus if it is listed.
    """

    def __init__(
        self,
        options: PreprocessOptions,
        build: Build | None = None,
        run_id: str | None = None,
        merging: Merging | None = None,
    ) -> None:
        super().__init__()
        if build is None and options.overwrite:
            raise UsageError(
                "--overwrite needs a launcher that waits for the job, to replace the old set once "
                "the new one is whole. Leave it out, and choose another --out."
            )
        self._options = options if build else resolve(options)
        self._build = build
        self.run_id = run_id or uuid.uuid4().hex
        corpus_bytes = build.listing.bytes if build else None
        self._merging = merging or merging_at(workspace_of(self._options).units, corpus_bytes)
        self._job = (self._options, self.run_id, build is not None)

    def expand(self, root: Any) -> Any:
        """See beam.PTransform."""
        job = self._job
        if self._build:
            builds = root | "ListCorpus" >> beam.Create([self._build])  # Build
        else:
            builds = (
                root
                | "Start" >> beam.Create([None])
                | "ListCorpus" >> beam.ParDo(ListCorpus(*job))
                | "KeepBuild" >> beam.Reshuffle()  # a retry of a later stage must not list again
            )
        units = (
            builds
            | "ListUnits" >> beam.ParDo(ListUnits(*job))
            | "SpreadUnits" >> beam.Reshuffle()  # Unit
        )
        summaries = units | "StageUnits" >> beam.ParDo(StageUnits(*job))  # UnitSummary
        shards = builds | "PlanShards" >> beam.ParDo(
            PlanShards(*job, self._merging), beam.pvalue.AsList(summaries)
        )  # ShardSpec
        if self._merging.most:
            shards = self._with_merged(builds, shards)
        results = (
            shards
            | "SpreadShards" >> beam.Reshuffle()
            | "WriteShards" >> beam.ParDo(WriteShards(*job, self._merging.limits))  # ShardResult
        )
        return builds | "Commit" >> beam.ParDo(
            Commit(*job),
            beam.pvalue.AsList(summaries),
            beam.pvalue.AsList(results),
        )  # root hash

    def _with_merged(self, builds: Any, shards: Any) -> Any:
        """The shards that were planned already, and those that are read from merged runs.

        How many levels there are is known once units are staged, so some of these stages may have
        nothing to do.
        """
        job, limits = self._job, self._merging.limits
        # A level begins when the one before it is done, the first one when there is a plan. Lists
        # as side inputs are barriers on every runner; the local one cannot wait for a Flatten.
        known = [beam.pvalue.AsList(shards)]
        for level in range(1, self._merging.most + 1):
            merged = (
                builds
                | f"PlanMerge{level}" >> beam.ParDo(PlanMerge(*job, level), known[-1])
                | f"SpreadMerge{level}" >> beam.Reshuffle()  # MergeTask
                | f"Merge{level}" >> beam.ParDo(MergeRuns(*job, limits))  # MergedRun
            )
            known.append(beam.pvalue.AsList(merged))
        return builds | "PlanMergedShards" >> beam.ParDo(PlanMergedShards(*job), *known)


# By run id, from workers that are threads of the launcher; others leave a file.
ERRORS: dict[str, ShardmillError] = {}


class _Stage(beam.DoFn):
    """What every stage has: the options, and the workspace and record type made from them.

    Args:
        options: The job.
        run_id: A name that no other run has.
        launched: Whether a launcher waits for errors, and will finish the build.
    """

    def __init__(self, options: PreprocessOptions, run_id: str, launched: bool) -> None:
        super().__init__()
        self._options = options
        self._run_id = run_id
        self._launched = launched

    def setup(self) -> None:
        """Creates what cannot be pickled."""
        self._workspace = workspace_of(self._options)
        self._record_type = RECORD_TYPES[self._options.record_type](self._options)

    def finish_bundle(self) -> None:
        """See beam.DoFn. The launcher may remove the work folder once the last bundle is done."""
        flush(self._workspace.progress)

    @contextlib.contextmanager
    def _reporting_errors(self, *, owned: bool = True) -> Iterator[bool]:
        """Keeps what a user can fix for the launcher: runners wrap exceptions as text.

        In the context is whether there is work to do. There is none after a cancellation, nor where
        another run has taken over: an engine would repeat what fails, and hold its slots.

        Args:
            owned: Whether the output must belong to this run already.
        """
        try:
            with at_work(self._workspace.progress):
                yield not owned or self._is_wanted()
        except ShardmillError as error:
            self._keep(error, final=True)
            raise
        except OSError as error:
            readable = output_error(error, self._workspace)
            self._keep(readable, final=False)  # a worker on another machine may succeed
            raise readable from error

    def _is_wanted(self) -> bool:
        try:
            return check_owner(self._workspace, self._run_id)
        except InputError as error:
            if not self._launched:
                raise
            self._keep(error, final=True)
            return False

    def _keep(self, error: ShardmillError, *, final: bool) -> None:
        ERRORS[self._run_id] = error
        kept = {
            "type": type(error).__name__,
            "message": str(error),
            "final": final,
        }
        with contextlib.suppress(OSError):  # a full disk has no room for this either
            write_json(self._workspace, self._workspace.error(self._run_id), kept)


class ListCorpus(_Stage):
    """Anything in, one Build out, whose records are in the listing."""

    def process(self, _: None) -> Iterator[Build]:
        """See beam.DoFn."""
        with self._reporting_errors(owned=False), locked_output(self._workspace):
            build = begin(self._options, self._record_type, self._workspace, self._run_id)
        yield build


class ListUnits(_Stage):
    """A Build in, every Unit of its listing out, the largest first."""

    def process(self, build: Build) -> Iterator[Unit]:
        """See beam.DoFn."""
        if not Build(*build).complete:
            yield from largest_first(self._workspace)


class StageUnits(_Stage):
    """Unit("3f2a...", 0, 812, ...) in, UnitSummary(key="3f2a...", read=812, kept=810, ...) out."""

    def process(self, assigned: Unit) -> Iterator[UnitSummary]:
        """See beam.DoFn."""
        with self._reporting_errors(owned=False):
            for unit in take(self._run_id, Unit(*assigned), self._workspace):
                if not self._is_wanted():
                    return
                summary = stage_unit(unit, self._options, self._record_type, self._workspace)
                count_unit(unit, summary)
                yield summary


class PlanShards(_Stage):
    """A Build and all UnitSummary in, a ShardSpec for every shard out, or none before a merge."""

    def __init__(
        self, options: PreprocessOptions, run_id: str, launched: bool, merging: Merging
    ) -> None:
        super().__init__(options, run_id, launched)
        self._merging = merging

    def process(self, build: Build, summaries: list[UnitSummary]) -> Iterator[ShardSpec]:
        """See beam.DoFn."""
        if Build(*build).complete:
            return
        with self._reporting_errors() as wanted:
            if not wanted:
                return
            check_readable(summaries)
            self._workspace.mark("plan")
            job = (self._options, self._record_type, self._workspace)
            specs = plan_shards(summaries, *job, self._merging)
            self._workspace.mark("shard" if specs else "merge")
            yield from specs


class PlanMerge(_Stage):
    """A Build in, and what must be done before a level; a MergeTask for each of its runs out."""

    def __init__(self, options: PreprocessOptions, run_id: str, launched: bool, level: int) -> None:
        super().__init__(options, run_id, launched)
        self._level = level

    def process(self, build: Build, before: list[Any]) -> Iterator[MergeTask]:
        """See beam.DoFn."""
        plan = None if Build(*build).complete else load_merge_plan(self._workspace)
        if plan is not None:
            with self._reporting_errors() as wanted:
                if not wanted:
                    return
                runs = [MergedRun(*run) for run in before]
                yield from merge_tasks(plan, self._level, runs)


class _BlockStage(_Stage):
    """A stage that holds a block of staged payload in memory."""

    def __init__(
        self, options: PreprocessOptions, run_id: str, launched: bool, limits: Limits
    ) -> None:
        super().__init__(options, run_id, launched)
        self._block_bytes = limits.block_bytes


class MergeRuns(_BlockStage):
    """MergeTask(level=1, group=7, bucket=0, ...) in, MergedRun(key="3f2a...", ...) out."""

    def process(self, task: MergeTask) -> Iterator[MergedRun]:
        """See beam.DoFn."""
        with self._reporting_errors() as wanted:
            if not wanted:
                return
            yield merge(MergeTask(*task), self._record_type, self._workspace, self._block_bytes)


class PlanMergedShards(_Stage):
    """A Build and the MergedRun of each level in, a ShardSpec for every shard out.

    Of a build that does not merge, the ShardSpec of all shards are in, too.
    """

    def process(
        self, build: Build, specs: list[ShardSpec], *levels: list[MergedRun]
    ) -> Iterator[ShardSpec]:
        """See beam.DoFn."""
        plan = None if Build(*build).complete else load_merge_plan(self._workspace)
        if plan is None:
            yield from specs
            return
        with self._reporting_errors() as wanted:
            if not wanted:
                return
            self._workspace.mark("shard")
            last = levels[len(plan.levels) - 1]
            yield from merged_shards(plan, [MergedRun(*run) for run in last])


class WriteShards(_BlockStage):
    """ShardSpec(split="train", shard=3, ...) in, ShardResult(info=ShardInfo(...), ...) out."""

    def process(self, spec: ShardSpec) -> Iterator[ShardResult]:
        """See beam.DoFn."""
        with self._reporting_errors() as wanted:
            if not wanted:
                return
            job = (self._record_type, self._workspace)
            result = write_shard(ShardSpec(*spec), *job, self._block_bytes)
            count_shard(result)
            yield result


class Commit(_Stage):
    """A Build, all UnitSummary and all ShardResult in, the root hash of the finished set out."""

    def process(
        self, build: Build, summaries: list[UnitSummary], results: list[ShardResult]
    ) -> Iterator[str]:
        """See beam.DoFn."""
        build = Build(*build)
        # A retry finds the set complete, and the work folder removed.
        with self._reporting_errors(owned=False):
            listing = build.listing
            if not is_complete(self._workspace, listing, self._options):
                if not self._is_wanted():
                    return
                job = (self._options, self._record_type, self._workspace)
                commit(summaries, results, listing, build.started, *job)
            if not self._launched:
                finish(self._options, self._workspace, rebuilt=not build.complete)
            manifest = load_manifest(self._workspace.out)
            count_ledger(manifest.ledger)
            yield manifest.root_hash
