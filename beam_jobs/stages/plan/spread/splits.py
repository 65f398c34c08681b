"""Classes, splits and balance by ranges of units.

What depends on the whole corpus, such as where a fraction of a class ends, takes two rounds: one
counts, one collects what is near the wanted places.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from beam_jobs.options.values import parse_splits, splits_are_given
from beam_jobs.stages.labels import name_classes, strata_of
from beam_jobs.stages.plan.balance import (
    balance_notes,
    choose_balance,
    hashes_by_class,
    training_hashes,
)
from beam_jobs.stages.plan.left_out import first_examples
from beam_jobs.stages.plan.plan import trains
from beam_jobs.stages.plan.quantiles import COLLECTED, Quantiles
from beam_jobs.stages.plan.splits import (
    Identity,
    Strata,
    by_corpus,
    by_fraction,
    choose_thresholds,
    given_names,
    positions_by_class,
)
from beam_jobs.stages.plan.spread import groups
from beam_jobs.stages.plan.spread.decisions import SpreadPlan
from beam_jobs.stages.plan.spread.duplicates import outcomes
from beam_jobs.stages.plan.spread.listing import save_kept_records
from beam_jobs.stages.plan.spread.unit_range import UnitRange, all_counts, counts_of
from beam_jobs.stages.plan.top import NOT_IN_TOP
from beam_jobs.staging.assignment import LEFT_OUT, Assignment
from beam_jobs.staging.reordering import StructuredArray
from beam_jobs.staging.sidecars import Sidecars

# What the splits are called as a round leaves them.
KEPT, _ASSIGNED = "kept", "assigned"


def leave_out_duplicates(plan: SpreadPlan, number: int) -> dict[str, Any]:
    """Leaves duplicates out; returns the class names of the others."""
    units = UnitRange(plan, number)
    assignment = units.everything()
    if plan.context.options.dedup != "off":
        dropped, kept = outcomes(plan, number)
        assignment.split_of[dropped] = LEFT_OUT
        save_kept_records(plan, number, kept)
    return kept_counts(plan, units, assignment)


def kept_counts(plan: SpreadPlan, units: UnitRange, assignment: Assignment) -> dict[str, Any]:
    """Saves which records of a range are left; the class names of these."""
    units.save_splits(KEPT, assignment)
    with units.columns() as columns:
        return {"kept": counts_of(plan, columns, assignment)}


def after_duplicates(plan: SpreadPlan, results: list[dict[str, Any]]) -> None:
    """Names the classes and the splits."""
    decisions, options = plan.decisions, plan.context.options
    staged = all_counts([decisions.staged])
    kept = all_counts(result["kept"] for result in results)
    decisions.class_names, decisions.notes = name_classes(staged, kept, top=options.top)
    if options.top is not None:
        decisions.filtered[NOT_IN_TOP] = sum(result["not_in_top"] for result in results)
        decisions.left_out[NOT_IN_TOP] = first_examples(result["left_out"] for result in results)
    schema = plan.context.record_type.schema
    decisions.strata = strata_of(schema, decisions.class_names["label"], kept["label"])
    if splits_are_given(options.split):
        decisions.names = given_names(set(decisions.named)) or ["train"]
    else:
        decisions.names = list(parse_splits(options.split))


def send_groups(plan: SpreadPlan, number: int) -> dict[str, Any]:
    """Sends the labels of records that must stay together."""
    units = UnitRange(plan, number)
    with units.columns() as columns:
        assignment = units.assignment(KEPT)
        strata = Strata(assignment, columns, Identity(columns, None), plan.decisions.strata)
        return groups.send_labels(plan, number, strata)


def count_classes(plan: SpreadPlan, number: int) -> dict[str, Any]:
    """Counts the positions of records by class."""
    positions = _positions(plan)
    units = UnitRange(plan, number)
    with units.columns() as columns:
        _strata(plan, number, columns, units.assignment(KEPT)).count(positions)
    for rows in _own_groups(plan, number):
        positions.count(rows["key"], rows["label"], rows["count"])
    plan.save(f"positions-{number:05d}", positions.histogram)
    return {}


def after_counts(plan: SpreadPlan, results: list[dict[str, Any]]) -> None:
    """Chooses where splits begin among the positions of each class."""
    positions = _positions(plan)
    add_up(plan, "positions", positions)
    choose_thresholds(positions, parse_splits(plan.context.options.split))
    plan.decisions.wanted = wanted_bins(positions)


def collect_classes(plan: SpreadPlan, number: int) -> dict[str, Any]:
    """Collects the positions near these places."""
    positions = wanting(plan, _positions(plan))
    units = UnitRange(plan, number)
    with units.columns() as columns:
        _strata(plan, number, columns, units.assignment(KEPT)).collect(positions)
    for rows in _own_groups(plan, number):
        positions.collect(rows["key"], rows["label"], rows["count"])
    return collected(positions)


def after_collection(plan: SpreadPlan, results: list[dict[str, Any]]) -> None:
    """Decides where splits begin."""
    positions = summed(plan, "positions", _positions(plan))
    choose_thresholds(positions, parse_splits(plan.context.options.split))
    positions.collected = joined(results)
    plan.decisions.begins = [keys.tolist() for keys in positions.keys()]


def assign_splits(plan: SpreadPlan, number: int) -> dict[str, Any]:
    """Assigns the splits, and counts what they are balanced by."""
    options, decisions = plan.context.options, plan.decisions
    units = UnitRange(plan, number)
    assignment = units.assignment(KEPT)
    sizes: dict[str, bytes] = {}
    with units.columns() as columns:
        if splits_are_given(options.split):
            grouped = by_corpus(assignment, columns, set(decisions.named))
            if options.has_groups:
                sizes = groups.send_splits(plan, number, *grouped)
        elif options.stratify:
            begins = np.array(decisions.begins, np.uint64)
            _strata(plan, number, columns, assignment).assign(begins)
        else:
            identity = Identity(columns, None)
            by_fraction(assignment, columns, identity, parse_splits(options.split))
        units.save_splits(_ASSIGNED, assignment)
        assignment.names = decisions.names
        if options.balance != "none":
            hashes = _hashes(plan)
            for own, labels in training_hashes(assignment, columns, plan.decisions.strata):
                hashes.count(own, labels)
            plan.save(f"hashes-{number:05d}", hashes.histogram)
    return {"sizes": sizes}


def after_splits(plan: SpreadPlan, results: list[dict[str, Any]]) -> None:
    """Chooses how often records of each class occur."""
    options, decisions = plan.context.options, plan.decisions
    empty = Assignment(np.zeros(0, np.int8), decisions.names)
    if options.balance == "none" or not trains(empty, options):
        return
    hashes = _hashes(plan)
    add_up(plan, "hashes", hashes)
    rule = choose_balance(options.balance, hashes, empty.training, plan.decisions.strata)
    if rule is not None:
        decisions.rule = rule
        decisions.wanted = wanted_bins(hashes)


def balance_classes(plan: SpreadPlan, number: int) -> dict[str, Any]:
    """Collects the hashes near the places where a class ends to be repeated or left out."""
    hashes = _hashes(plan)
    if plan.decisions.rule is not None:
        wanting(plan, hashes)
        units = UnitRange(plan, number)
        with units.columns() as columns:
            assignment = units.assignment(_ASSIGNED)
            for own, labels in training_hashes(assignment, columns, plan.decisions.strata):
                hashes.collect(own, labels)
    return collected(hashes)


def after_balance(plan: SpreadPlan, results: list[dict[str, Any]]) -> None:
    """Decides which records occur more often, or not at all."""
    options, decisions = plan.context.options, plan.decisions
    if decisions.rule is not None:
        hashes = summed(plan, "hashes", _hashes(plan))
        rule = choose_balance(options.balance, hashes, decisions.rule.split, plan.decisions.strata)
        hashes.collected = joined(results)
        if rule is not None:
            decisions.rule = rule.with_boundaries(hashes)
    decisions.notes += balance_notes(decisions.rule, appended=False)


def final_splits(plan: SpreadPlan, units: UnitRange, columns: Sidecars) -> Assignment:
    """The splits, from which the balance has taken records."""
    assignment = units.assignment(_ASSIGNED)
    if plan.decisions.rule is not None:
        plan.decisions.rule.leave_out(assignment, columns)
    return assignment


def _positions(plan: SpreadPlan) -> Quantiles:
    return positions_by_class(plan.records, plan.decisions.strata)


def _hashes(plan: SpreadPlan) -> Quantiles:
    return hashes_by_class(plan.records, plan.decisions.strata)


def _strata(plan: SpreadPlan, number: int, columns: Sidecars, assignment: Assignment) -> Strata:
    """The positions of a range of units, of groups only their labels."""
    strata = Strata(assignment, columns, Identity(columns, None), plan.decisions.strata)
    if plan.context.options.has_groups:
        strata.joined = groups.chosen_labels(plan, number)
    return strata


def _own_groups(plan: SpreadPlan, number: int) -> Iterator[StructuredArray]:
    """The groups whose positions a range counts, each of them in one."""
    if plan.context.options.has_groups:
        yield from groups.own_groups(plan, number)


def add_up(plan: SpreadPlan, name: str, quantiles: Quantiles) -> None:
    """Adds up the histograms of all ranges, and saves the sum for the round after the next one."""
    for number in range(plan.ranges):
        own = plan.load(f"{name}-{number:05d}", np.int64)
        quantiles.histogram += own.reshape(quantiles.histogram.shape)
    plan.save(name, quantiles.histogram)


def summed(plan: SpreadPlan, name: str, quantiles: Quantiles) -> Quantiles:
    """With the sum that `add_up` saved."""
    quantiles.histogram += plan.load(name, np.int64).reshape(quantiles.histogram.shape)
    return quantiles


def wanted_bins(quantiles: Quantiles) -> list[int]:
    """The bins whose keys the tasks of the next round collect."""
    return list(np.flatnonzero(quantiles.wanted).tolist())


def wanting(plan: SpreadPlan, quantiles: Quantiles) -> Quantiles:
    """With these bins."""
    quantiles.wanted.reshape(-1)[plan.decisions.wanted] = True
    return quantiles


def collected(quantiles: Quantiles) -> dict[str, Any]:
    """What a task has collected, as its result."""
    return {"collected": b"".join(rows.tobytes() for rows in quantiles.collected)}


def joined(results: list[dict[str, Any]]) -> list[Any]:
    """What all tasks have collected."""
    return [np.frombuffer(result["collected"], COLLECTED) for result in results]
