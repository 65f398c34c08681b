"""The rounds of a job, and how one is done."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

from beam_jobs.job_context import JobContext
from beam_jobs.options.values import splits_are_given
from beam_jobs.progress import report
from beam_jobs.stages.plan.left_out import first_examples
from beam_jobs.stages.plan.merge_levels import Merging
from beam_jobs.stages.plan.plan import check_complete
from beam_jobs.stages.plan.splits import named_splits
from beam_jobs.stages.plan.spread import (
    components,
    duplicates,
    groups,
    listing,
    near,
    repeated_ids,
    shards,
    splits,
    top,
)
from beam_jobs.stages.plan.spread.decisions import (
    Decisions,
    SpreadPlan,
    load_decisions,
    store_decisions,
)
from beam_jobs.stages.plan.spread.unit_range import UnitRange, all_counts, counts_of, store_units
from beam_jobs.staging import UnitSummary
from beam_jobs.staging.removed import collected
from shard_format import InputError


class RangeTask(NamedTuple):
    """What a worker does in a round.

    Attributes:
        round: Number of the round.
        number: Number of the range, of units or of hashes.
    """

    round: int
    number: int


class RangeResult(NamedTuple):
    """What the worker that decides needs to know of it.

    Attributes:
        round: Number of the round.
        number: Number of the range.
        values: By name; small.
    """

    round: int
    number: int
    values: dict[str, Any]


class Round(NamedTuple):
    """A round of planning.

    Attributes:
        name: As a step of the pipeline.
        work: What is done with a range; returns what is needed to decide, and "sizes" of what it
            has sent, by exchange.
        decide: Decides from the results of all ranges, in their order; what they sent can be read
            then.
    """

    name: str
    work: Callable[[SpreadPlan, int], dict[str, Any]]
    decide: Callable[[SpreadPlan, list[dict[str, Any]]], None] = lambda plan, results: None


def _rounds(context: JobContext) -> list[Round]:
    """The rounds of a job, each over all ranges of units or of hashes."""
    options = context.options
    rounds = [Round("ReadUnits", read_units, after_units)]  # units
    if options.id_column is not None:
        rounds.append(Round("CompareIds", repeated_ids.compare_ids))  # ids
    rounds += _duplicates(context)
    name_groups = top.after_duplicates if options.top else splits.after_duplicates
    rounds.append(Round("LeaveOut", splits.leave_out_duplicates, name_groups))
    if options.top:
        for what in ("Values", "Ties"):
            rounds += [
                Round(f"Count{what}", top.count_keys, top.after_count),
                Round(f"Collect{what}", top.collect_keys, top.after_collection),
            ]
        rounds.append(Round("LeaveOutRest", top.leave_out_rest, splits.after_duplicates))
    given, grouped = splits_are_given(options.split), options.has_groups
    if options.stratify and not given:
        if grouped:
            rounds += [
                Round("SendGroups", splits.send_groups),
                Round("ChooseLabels", groups.choose_labels, groups.after_labels),  # groups
            ]
        rounds += [
            Round("CountClasses", splits.count_classes, splits.after_counts),
            Round("CollectClasses", splits.collect_classes, splits.after_collection),
        ]
    rounds.append(Round("AssignSplits", splits.assign_splits, splits.after_splits))
    if given and grouped:
        rounds.append(Round("CompareSplits", groups.compare_splits, groups.after_comparison))
    if options.balance != "none":
        rounds.append(Round("BalanceClasses", splits.balance_classes, splits.after_balance))
    return [
        *rounds,
        Round("OrderKeys", shards.order_keys, shards.after_keys),
        Round("CutShards", shards.cut_shards, shards.after_cut),  # keys
        Round("WriteRecipes", shards.write_recipes, shards.after_recipes),  # units
    ]


def _duplicates(context: JobContext) -> list[Round]:
    """The rounds that find duplicates."""
    search = context.record_type.near_search if context.options.dedup == "near" else None
    if context.options.dedup == "off":
        return []
    exact = [
        Round("FindRepeats", duplicates.find_repeats),  # fingerprints
        Round("DescribeRepeats", duplicates.describe_repeats),  # units
    ]
    listed = Round("ListDuplicates", listing.list_duplicates)
    if search is None:
        join = Round("JoinClusters", duplicates.join_clusters, duplicates.after_clusters)
        return [*exact, join, listed]
    exchanges = near.pair_exchanges(search)
    turns = range(components.TURNS)
    return [
        *exact,
        Round("PairRepeats", near.pair_repeats),  # fingerprints
        *(Round(one.name, near.search_round(one), near.after_search) for one in search.rounds),
        Round("LinkPairs", partial(components.link_pairs, exchanges), components.after_edges(0)),
        *(one for turn in turns for one in _contraction(turn)),  # records
        *(Round(f"NameRoots{one}", partial(components.name_roots, one)) for one in turns[::-1]),
        Round("SendRoots", components.send_roots),
        Round("DescribeClusters", partial(near.describe_clusters, search)),  # units
        Round("JoinClusters", near.join_clusters, duplicates.after_clusters),  # records
        listed,
    ]


def _contraction(turn: int) -> tuple[Round, Round]:
    """The rounds of one turn of `components`."""
    return (
        Round(f"HookNodes{turn}", partial(components.hook_nodes, turn), components.after_hooks),
        Round(
            f"Contract{turn}",
            partial(components.contract, turn),
            components.after_edges(turn + 1),
        ),
    )


def round_names(context: JobContext) -> list[str]:
    """The names of the rounds of a job, in order."""
    return [one.name for one in _rounds(context)]


def is_spread(context: JobContext, merging: Merging) -> bool:
    """Whether a job is planned in rounds, once its corpus is staged.

    Not with duplicates that are kept together, generations, records that are kept out or compared
    with other sets, or changes that a record type plans.
    """
    options = context.options
    return (
        merging.ranges > 1
        and (options.dedup != "near" or context.record_type.near_search is not None)
        and options.duplicates != "keep"
        and not options.base
        and not any(collected(context.workspace)[1])
        and not (options.others or options.matched)
        and not context.record_type.plans_at_once
    )


def begin_rounds(
    summaries: Sequence[UnitSummary], context: JobContext, merging: Merging
) -> list[RangeTask]:
    """The tasks of the first round.

    Raises:
        InputError: A runner lost a unit.
    """
    check_complete(summaries, context.workspace)
    plan = SpreadPlan(context, merging, Decisions())
    store_units(context.workspace, summaries, merging.ranges)
    return _tasks(plan, 0)


def do_round(task: RangeTask, context: JobContext, merging: Merging) -> RangeResult:
    """Does a task of a round; doing it again changes nothing.

    Raises:
        InputError: A staged unit was damaged or removed.
    """
    plan = SpreadPlan(context, merging, load_decisions(context.workspace, task.round))
    work = _rounds(context)[task.round].work
    return RangeResult(*task, work(plan, task.number))


def decide_round(
    results: Iterable[RangeResult], context: JobContext, merging: Merging
) -> list[RangeTask]:
    """Decides what a round was for; the tasks of the next one, none behind the last.

    Raises:
        InputError: A runner lost a result, or what the job asks for cannot be done.
    """
    ranged = sorted(results, key=lambda result: result.number)
    number = ranged[0].round
    if [result.number for result in ranged] != list(range(merging.ranges)):
        raise InputError(
            f"The Beam runner lost or repeated work: {len(ranged)} results for {merging.ranges} "
            "ranges. Run the same command again, or without the Beam options that cause this."
        )
    plan = SpreadPlan(context, merging, load_decisions(context.workspace, number))
    rounds = _rounds(context)
    values = [result.values for result in ranged]
    for exchange in values[0].get("sizes", ()):
        plan.exchange(exchange).finish([value["sizes"][exchange] for value in values])
    rounds[number].decide(plan, values)
    return _tasks(plan, number + 1) if number + 1 < len(rounds) else []


def _tasks(plan: SpreadPlan, number: int) -> list[RangeTask]:
    store_decisions(plan, number)
    return [RangeTask(number, one) for one in range(plan.ranges)]


def read_units(plan: SpreadPlan, number: int) -> dict[str, Any]:
    """Reads all sidecars of a range once, for the columns and what else later rounds need."""
    units = UnitRange(plan, number)
    sidecars = units.sidecars
    sidecars.fetch()
    unselected, left_out = units.leave_out_unselected()
    sizes: dict[str, bytes] = {}
    if plan.context.options.dedup != "off":
        sizes |= duplicates.send_fingerprints(plan, number, sidecars)
    if plan.context.options.id_column is not None:
        sizes |= repeated_ids.send_ids(plan, number, sidecars)
    row_bytes = sum(table.nbytes for _, table in sidecars.without_progress())
    written = units.write_columns() if sidecars.records else ""
    plan.decisions.columns = [written] * plan.ranges
    with units.columns() as columns:
        return {
            "units": len(sidecars.keys),
            "records": sidecars.records,
            "columns": written,
            "row_bytes": row_bytes,
            "named": list(named_splits(columns)),
            "staged": counts_of(plan, columns, units.everything()),
            "unselected": unselected,
            "left_out": left_out,
            "sizes": sizes,
        }


def after_units(plan: SpreadPlan, results: list[dict[str, Any]]) -> None:
    """Numbers all records."""
    decisions = plan.decisions
    decisions.units = [result["units"] for result in results]
    decisions.records = [result["records"] for result in results]
    decisions.columns = [result["columns"] for result in results]
    decisions.row_bytes = sum(result["row_bytes"] for result in results)
    decisions.named = list({name for result in results for name in result["named"]})
    staged = all_counts(result["staged"] for result in results)
    decisions.staged = {feature: dict(own) for feature, own in staged.items()}
    decisions.filtered["where"] = sum(result["unselected"] for result in results)
    if plan.context.options.where is not None:
        decisions.left_out["where"] = first_examples(result["left_out"] for result in results)
    passes = len(_rounds(plan.context)) - 1
    report(plan.workspace.progress, "plan", total=plan.records * passes)
