"""What is planned so far, from duplicates to the boundaries of shards."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from beam_jobs.columns import IntArray
from beam_jobs.dedup.clusters import Clusters
from beam_jobs.job_context import JobContext
from beam_jobs.record_types import PlannedChanges
from beam_jobs.stages.labels import strata_of
from beam_jobs.stages.plan.against import Matches
from beam_jobs.stages.plan.appending import Earlier
from beam_jobs.stages.plan.balance import Balance
from beam_jobs.stages.plan.excluded import Excluded
from beam_jobs.stages.plan.key_order import SplitKeys
from beam_jobs.staging.assignment import Assignment
from beam_jobs.staging.sidecars import Sidecars


@dataclasses.dataclass
class PlanState:
    """State of planning; each step of `plan_shards` fills in a part.

    Attributes:
        context: The job.
        sidecars: All staged units.
        partition_rows: Number of rows in memory at a time, about.
        excluded: Records that are kept out.
        matches: Records that are in other sets.
        clusters: All duplicates so far.
        earlier: Decisions of earlier generations; None for a set of its own.
        assignment: The split of every record.
        assigned: [splits] int64, records of each before any were left out for their parts.
        class_names: Names of the classes by label feature.
        class_counts: Number of kept records of every class of the main label.
        changes: Changes that the record type planned once splits were known, if any.
        filtered: Number of records left out by a rule of planning, by reason.
        left_out: Examples of the records that --where and --top leave out, see `left_out`.
        balance: How often records of the training split occur; None for once.
        splits: Keys and sizes of the splits, in the order they are written.
        num_shards: Number of shards of every split.
        notes: Notes for the user.
    """

    context: JobContext
    sidecars: Sidecars
    partition_rows: int
    excluded: Excluded
    matches: Matches
    clusters: Clusters
    earlier: Earlier | None
    assignment: Assignment
    assigned: IntArray = dataclasses.field(default_factory=lambda: np.zeros(0, np.int64))
    class_names: dict[str, list[str]] = dataclasses.field(default_factory=dict)
    class_counts: Counter[str] = dataclasses.field(default_factory=Counter)
    changes: PlannedChanges | None = None
    filtered: dict[str, int] = dataclasses.field(default_factory=dict)
    left_out: dict[str, list[dict[str, Any]]] = dataclasses.field(default_factory=dict)
    balance: Balance | None = None
    splits: list[SplitKeys] = dataclasses.field(default_factory=list)
    num_shards: dict[str, int] = dataclasses.field(default_factory=dict)
    notes: list[str] = dataclasses.field(default_factory=list)

    @property
    def strata(self) -> list[str]:
        """The classes by which records are stratified and balanced."""
        schema = self.context.record_type.schema
        return strata_of(schema, self.class_names["label"], self.class_counts)

    @property
    def copies(self) -> int:
        """Number of copies of records of the training split."""
        return self.balance.copies if self.balance is not None else 0

    def recipe_columns(self, units: IntArray, rows: IntArray) -> Mapping[str, pa.Array]:
        """The columns of a recipe that the record type planned, for rows of units."""
        if self.changes is None:
            return {}
        return self.changes.recipe_columns(self.sidecars.begins[units] + rows)
