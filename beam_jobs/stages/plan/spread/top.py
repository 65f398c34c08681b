"""The records with the highest values of a column, by ranges of units: see `stages.plan.top`.

A part of what is decided there takes two rounds, one that counts and one that collects.
"""

from __future__ import annotations

from typing import Any

from beam_jobs.stages.plan.quantiles import Quantiles
from beam_jobs.stages.plan.spread.decisions import SpreadPlan
from beam_jobs.stages.plan.spread.splits import (
    KEPT,
    add_up,
    collected,
    joined,
    kept_counts,
    summed,
    wanted_bins,
    wanting,
)
from beam_jobs.stages.plan.spread.unit_range import UnitRange, all_counts
from beam_jobs.stages.plan.top import Top, top_of


def after_duplicates(plan: SpreadPlan, results: list[dict[str, Any]]) -> None:
    """Names the groups, of each of which there is a top."""
    classes = all_counts(result["kept"] for result in results)["label"]
    plan.decisions.top = top_of(plan.context, classes)._asdict()


def count_keys(plan: SpreadPlan, number: int) -> dict[str, Any]:
    """Counts the keys of the records of a range."""
    top, units = _top(plan), UnitRange(plan, number)
    quantiles = top.quantiles(plan.records)
    with units.columns() as columns:
        for keys, groups in top.keys(units.assignment(KEPT), columns):
            quantiles.count(keys, groups)
    plan.save(f"{_name(top)}-{number:05d}", quantiles.histogram)
    return {}


def after_count(plan: SpreadPlan, results: list[dict[str, Any]]) -> None:
    """Chooses places among all keys."""
    top, quantiles = _top(plan), _quantiles(plan)
    add_up(plan, _name(top), quantiles)
    top.choose(quantiles)
    plan.decisions.wanted = wanted_bins(quantiles)


def collect_keys(plan: SpreadPlan, number: int) -> dict[str, Any]:
    """Collects the keys near these places."""
    top, units = _top(plan), UnitRange(plan, number)
    quantiles = wanting(plan, _quantiles(plan))
    with units.columns() as columns:
        for keys, groups in top.keys(units.assignment(KEPT), columns):
            quantiles.collect_distinct(keys, groups)
    return collected(quantiles)


def after_collection(plan: SpreadPlan, results: list[dict[str, Any]]) -> None:
    """Decides a part."""
    top = _top(plan)
    quantiles = summed(plan, _name(top), _quantiles(plan))
    top.choose(quantiles)
    quantiles.collected = joined(results)
    plan.decisions.top = top.decided(quantiles)._asdict()


def leave_out_rest(plan: SpreadPlan, number: int) -> dict[str, Any]:
    """Leaves out the records that are not in the top; returns the class names of the others."""
    units = UnitRange(plan, number)
    assignment = units.assignment(KEPT)
    with units.columns() as columns:
        left_out, examples = _top(plan).leave_out(assignment, columns)
    values = {"not_in_top": left_out, "left_out": examples.described(units.sidecars)}
    return kept_counts(plan, units, assignment) | values


def _top(plan: SpreadPlan) -> Top:
    return Top(**plan.decisions.top)


def _quantiles(plan: SpreadPlan) -> Quantiles:
    return _top(plan).quantiles(plan.records)


def _name(top: Top) -> str:
    """The histogram of what is decided next."""
    return "top-ties" if len(top.last) else "top-values"
