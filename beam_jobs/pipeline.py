"""The job as a pipeline: the stages as a table of contents, for Beam and for threads alike.

What moves between steps is one small element per unit and per shard. Payload stays in files.
Nothing here loads Beam, whose import takes longer than many a job.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from typing_extensions import override

from beam_jobs.build import Build, begin, finish, is_complete, locked_output
from beam_jobs.job_context import JobContext
from beam_jobs.progress import report
from beam_jobs.stages.commit import commit
from beam_jobs.stages.commit.index import write_index
from beam_jobs.stages.commit.parts import (
    PartResult,
    PartTask,
    part_tasks,
    write_part,
    written_parts,
)
from beam_jobs.stages.commit.quarantine_parts import RejectTask, measure_rejects, reject_tasks
from beam_jobs.stages.commit.shard_set import WrittenParts
from beam_jobs.stages.list_pieces import PieceTask, do_piece
from beam_jobs.stages.merge import merge
from beam_jobs.stages.plan import (
    MergedRun,
    MergeLimits,
    MergeTask,
    Merging,
    ShardSpec,
    load_merge_plan,
    merge_tasks,
    merged_shards,
    merging_at,
    plan_shards,
)
from beam_jobs.stages.plan.spread import (
    RangeResult,
    RangeTask,
    begin_rounds,
    decide_round,
    do_round,
    is_spread,
    round_names,
)
from beam_jobs.stages.shard import WrittenShard, write_shard
from beam_jobs.stages.stage import check_readable, stage_unit
from beam_jobs.staging.other_sets import check_sets
from beam_jobs.staging.units import Unit, UnitSummary, largest_first
from beam_jobs.work import Count, Work
from shard_format import load_manifest


class Step(NamedTuple):
    """A step of the job: what a worker does, and with what.

    Attributes:
        name: Its label.
        work: What is done with an element.
        each: The step whose elements it takes, one at a time; BUILDS for the listed corpus.
        whole: Steps of which it takes all elements, as lists, once there will be no more.
        spread: Label of the step in between that spreads the elements over the workers; "" where
            there is one element, or where a worker keeps its own.
    """

    name: str
    work: Work
    each: str
    whole: tuple[str, ...] = ()
    spread: str = ""


# In place of a step: the one Build.
BUILDS = "ListCorpus"


def steps(context: JobContext, merging: Merging, *, launched: bool) -> Iterator[Step]:
    """The job, in an order in which it can be done; the last step makes the root hash.

    `transform` gives it to an engine of Beam, `engine.local` does it on this machine.

    Args:
        context: The job.
        merging: Whether and how staged units are merged before shards are written.
        launched: Whether a launcher waits for errors, and will finish the build.
    """
    job = (context, launched)
    yield Step("ListUnits", ListUnits(*job), BUILDS)  # Unit
    yield Step("StageUnits", StageUnits(*job), "ListUnits", spread="SpreadUnits")  # UnitSummary
    planned = "StageUnits"
    for name in round_names(context) if merging.ranges > 1 else ():
        # A large corpus is planned in rounds, each a step of one worker and one of all.
        begin = f"Begin{name}"
        yield Step(begin, BeginRound(*job, merging), BUILDS, (planned,))  # RangeTask
        yield Step(name, DoRound(*job, merging), begin, spread=f"Spread{name}")  # RangeResult
        planned = name
    summaries = ("StageUnits",) if planned == "StageUnits" else ("StageUnits", planned)
    yield Step("PlanShards", PlanShards(*job, merging), BUILDS, summaries)  # ShardSpec
    shards = "PlanShards"
    if merging.max_levels:
        # How many levels there are is known once units are staged, so some of these steps may have
        # nothing to do. A level begins when the one before it is done, the first one when there is
        # a plan.
        known = [shards]
        for level in range(1, merging.max_levels + 1):
            plan, merged = f"PlanMerge{level}", f"Merge{level}"
            yield Step(plan, PlanMerge(*job, level), BUILDS, (known[-1],))  # MergeTask
            runs = MergeRuns(*job, merging.limits)
            yield Step(merged, runs, plan, spread=f"SpreadMerge{level}")  # MergedRun
            known.append(merged)
        shards = "PlanMergedShards"
        yield Step(shards, PlanMergedShards(*job), BUILDS, tuple(known))  # ShardSpec
    written = WriteShards(*job, merging.limits)
    yield Step("WriteShards", written, shards, spread="SpreadShards")  # ShardDone
    last = "WriteShards"
    if merging.max_levels:  # so large may be the files of the set, too
        known = [last]
        if merging.ranges > 1:
            yield Step("PlanRejects", PlanRejects(*job, merging), BUILDS, ("StageUnits",))
            rejects = ReadRejects(*job)
            yield Step("ReadRejects", rejects, "PlanRejects", spread="SpreadRejects")  # int
            known.append("ReadRejects")
        yield Step("PlanParts", PlanParts(*job), BUILDS, tuple(known))  # PartTask
        yield Step("WriteParts", WriteParts(*job), "PlanParts", spread="SpreadParts")  # PartResult
        last = "WriteParts"
    yield Step("Commit", Commit(*job, merging), BUILDS, ("StageUnits", last))  # root hash


def listing_steps(context: JobContext) -> list[Step]:
    """Tasks of a launcher that lists a large corpus, in place of the Build; see `steps`."""
    job = (context, True)
    return [
        Step("ListTasks", ListTasks(*job), BUILDS),  # PieceTask
        Step("ListPieces", ListPieces(*job), "ListTasks", spread="SpreadPieces"),
    ]


def merging_of(context: JobContext, build: Build | None) -> Merging:
    """Whether and how a job merges: by where its units are, and by the size of a listed corpus."""
    return merging_at(context.workspace.units, build.listing.bytes if build else None)


class ListCorpus(Work):
    """Anything in, one Build out, whose records are in the listing."""

    @override
    def process(self, _: None) -> Iterator[Build]:
        with self._reporting_errors(owned=False), locked_output(self._context.workspace):
            build = begin(self._context)
            check_sets(self._context.workspace)
        yield build


class ListTasks(Work):
    """All PieceTask in, one after the other out."""

    @override
    def process(self, tasks: Sequence[PieceTask]) -> Iterator[PieceTask]:
        yield from tasks


class ListPieces(Work):
    """PieceTask(number=17, weight=1000, ...) in; what is made of it stays in the workspace."""

    @override
    def process(self, task: PieceTask) -> Iterator[None]:
        with self._reporting_errors() as wanted:
            if wanted:
                do_piece(PieceTask(*task), self._context)
        yield from ()


class ListUnits(Work):
    """A Build in, every Unit of its listing out, the largest first."""

    @override
    def process(self, build: Build) -> Iterator[Unit]:
        if not Build(*build).complete:
            yield from largest_first(self._context.workspace)


class StageUnits(Work):
    """Unit("3f2a...", 0, 812, ...) in, UnitSummary(key="3f2a...", read=812, kept=810, ...) out."""

    @override
    def process(self, element: Unit) -> Iterator[UnitSummary]:
        with self._reporting_errors() as wanted:
            if not wanted:
                return
            unit = Unit(*element)
            summary = stage_unit(unit, self._context)
            _count_unit(self._count, unit, summary)
            yield summary


class _ScaledWork(Work):
    """Work that depends on how large the corpus is."""

    def __init__(self, context: JobContext, launched: bool, merging: Merging) -> None:
        super().__init__(context, launched)
        self._merging = merging

    def _begin(self, summaries: list[UnitSummary]) -> None:
        check_readable(summaries)
        self._context.workspace.mark("plan")
        report(self._context.workspace.progress, "plan")  # nothing is counted for some time


class BeginRound(_ScaledWork):
    """A Build and all that was made before in, a RangeTask for each range out.

    Before the first round these are UnitSummary, then the RangeResult of the round before. None are
    out for a job that one worker plans.
    """

    @override
    def process(self, build: Build, before: list[Any]) -> Iterator[RangeTask]:
        if Build(*build).complete or not before:
            return
        with self._reporting_errors() as wanted:
            if not wanted:
                return
            job = (self._context, self._merging)
            if isinstance(before[0], RangeResult):
                yield from decide_round([RangeResult(*one) for one in before], *job)
            elif is_spread(*job):
                self._begin(before)
                yield from begin_rounds(before, *job)


class DoRound(_ScaledWork):
    """RangeTask(round=2, number=17) in, RangeResult(round=2, number=17, ...) out."""

    @override
    def process(self, task: RangeTask) -> Iterator[RangeResult]:
        with self._reporting_errors() as wanted:
            if wanted:
                yield do_round(RangeTask(*task), self._context, self._merging)


class PlanShards(_ScaledWork):
    """A Build and all UnitSummary in, a ShardSpec for every shard out, or none before a merge.

    Of a job that is planned in rounds, the RangeResult of the last one are in, too.
    """

    @override
    def process(
        self, build: Build, summaries: list[UnitSummary], *last: list[RangeResult]
    ) -> Iterator[ShardSpec]:
        if Build(*build).complete:
            return
        with self._reporting_errors() as wanted:
            if not wanted:
                return
            workspace = self._context.workspace
            results = [RangeResult(*one) for results in last for one in results]
            if results:
                decide_round(results, self._context, self._merging)
                workspace.mark("merge")
                return
            self._begin(summaries)
            specs = plan_shards(summaries, self._context, self._merging)
            workspace.mark("shard" if specs else "merge")
            yield from specs


class PlanMerge(Work):
    """Plans the tasks of one merge level: a Build in, a MergeTask for each of its runs out."""

    def __init__(self, context: JobContext, launched: bool, level: int) -> None:
        super().__init__(context, launched)
        self._level = level

    @override
    def process(self, build: Build, before: list[Any]) -> Iterator[MergeTask]:
        plan = None if Build(*build).complete else load_merge_plan(self._context.workspace)
        if plan is not None:
            with self._reporting_errors() as wanted:
                if not wanted:
                    return
                runs = [MergedRun(*run) for run in before]
                yield from merge_tasks(plan, self._level, runs)


class _BlockStage(Work):
    """A stage that holds a block of staged payload in memory."""

    def __init__(self, context: JobContext, launched: bool, limits: MergeLimits) -> None:
        super().__init__(context, launched)
        self._block_bytes = limits.block_bytes


class MergeRuns(_BlockStage):
    """MergeTask(level=1, group=7, bucket=0, ...) in, MergedRun(key="3f2a...", ...) out."""

    @override
    def process(self, task: MergeTask) -> Iterator[MergedRun]:
        with self._reporting_errors() as wanted:
            if not wanted:
                return
            yield merge(MergeTask(*task), self._context, self._block_bytes)


class PlanMergedShards(Work):
    """A Build and the MergedRun of each level in, a ShardSpec for every shard out.

    Of a build that does not merge, the ShardSpec of all shards are in, too.
    """

    @override
    def process(
        self, build: Build, specs: list[ShardSpec], *levels: list[MergedRun]
    ) -> Iterator[ShardSpec]:
        plan = None if Build(*build).complete else load_merge_plan(self._context.workspace)
        if plan is None:
            yield from specs
            return
        with self._reporting_errors() as wanted:
            if not wanted:
                return
            self._context.workspace.mark("shard")
            last = levels[len(plan.levels) - 1]
            yield from merged_shards(plan, [MergedRun(*run) for run in last])


class WriteShards(_BlockStage):
    """ShardSpec(split="train", shard=3, ...) in, a packed ShardDone("train", 3, 812) out."""

    @override
    def process(self, spec: ShardSpec) -> Iterator[bytes]:
        with self._reporting_errors() as wanted:
            if not wanted:
                return
            spec = ShardSpec(*spec)
            shard = write_shard(spec, self._context, self._block_bytes)
            _count_shard(self._count, shard)
            yield shard.done(spec)


class PlanRejects(_ScaledWork):
    """A Build and all UnitSummary in, a RejectTask for every range of units out."""

    @override
    def process(self, build: Build, summaries: list[UnitSummary]) -> Iterator[RejectTask]:
        if not Build(*build).complete:
            with self._reporting_errors() as wanted:
                if wanted:
                    workspace = self._context.workspace
                    yield from reject_tasks(summaries, workspace, self._merging.ranges)


class ReadRejects(Work):
    """RejectTask(number=17, units=[...]) in, its number out."""

    @override
    def process(self, task: RejectTask) -> Iterator[int]:
        with self._reporting_errors() as wanted:
            if wanted:
                yield measure_rejects(RejectTask(*task), self._context)


class PlanParts(Work):
    """A Build and the ShardDone of all shards in, a PartTask for every part of a file out.

    Of a large corpus, the numbers of all RejectTask are in, too.
    """

    @override
    def process(
        self, build: Build, done: list[bytes], measured: list[int] | None = None
    ) -> Iterator[PartTask]:
        if not Build(*build).complete:
            with self._reporting_errors() as wanted:
                if wanted:
                    yield from part_tasks(done, measured, self._context)


class WriteParts(Work):
    """PartTask("index", ("train", ...)) in, PartResult("index", (..., bytes=..., ...)) out."""

    @override
    def process(self, task: PartTask) -> Iterator[PartResult]:
        with self._reporting_errors() as wanted:
            if wanted:
                yield write_part(PartTask(*task), self._context)


class Commit(_ScaledWork):
    """A Build, all UnitSummary and all PartResult in, the root hash of the finished set out.

    Of a job that writes the index here, the ShardDone of all shards are in.
    """

    @override
    def process(self, build: Build, summaries: list[UnitSummary], last: list[Any]) -> Iterator[str]:
        build, context = Build(*build), self._context
        # A retry finds the set complete, and the work folder removed.
        with self._reporting_errors(owned=False):
            listing = build.listing
            if not is_complete(context, listing):
                if not self._is_wanted():
                    return
                commit(summaries, self._parts(last), listing, build.started, context)
            if not self._launched:
                finish(context, rebuilt=not build.complete)
            manifest = load_manifest(context.workspace.out)
            self._count("records_kept", manifest.ledger.kept)
            self._count("records_duplicate", manifest.ledger.duplicates)
            yield manifest.root_hash

    def _parts(self, last: list[Any]) -> WrittenParts:
        """What the steps before have written; else what is written here."""
        if not self._merging.max_levels:
            return WrittenParts(write_index(last, self._context))
        results = [PartResult(*one) for one in last]
        return written_parts(results, others=self._merging.ranges > 1)


def _count_unit(count: Count, unit: Unit, summary: UnitSummary) -> None:
    """Counts a unit that is staged now, or was before."""
    count("units_reused" if summary.reused else "units_staged", 1)
    count("bytes_staged", unit.bytes)
    count("records_read", summary.read)
    count("records_staged", summary.kept)
    for reasons in (summary.refused, summary.filtered):
        for reason, records in reasons.items():
            count(f"records_rejected_{reason}", records)


def _count_shard(count: Count, shard: WrittenShard) -> None:
    """Counts a shard that is written now, or was before."""
    count("shards_reused" if shard.reused else "shards_written", 1)
    count("records_written", shard.info.records)
    count("bytes_written", shard.info.bytes)
