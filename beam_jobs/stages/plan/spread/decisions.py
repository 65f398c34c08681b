"""What is decided of a plan so far, as the tasks of the next round read it."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from typing_extensions import override

from beam_jobs.job_context import JobContext
from beam_jobs.stages.plan.balance import Balance
from beam_jobs.stages.plan.merge_levels import Merging
from beam_jobs.staging.range_files import RangeFiles
from beam_jobs.workspace import Workspace, read_planned_marker, write_marker
from foundation.storage import Place


@dataclasses.dataclass
class Decisions:
    """Decisions that are small, whatever the corpus; stored as JSON behind every round.

    Attributes:
        units: Number of units with records in each range of them.
        records: Number of their records.
        columns: Checksum of the columns of each range.
        row_bytes: Bytes of all sidecar rows.
        named: The splits that the source names; None is among them if a record has none.
        staged: Number of all records of each class, by label feature.
        noted: What tasks that find near duplicates noted, by name, in the order of ranges.
        turns: Contractions of the graph of near duplicates; None before the last one is done.
        dropped: Number of duplicates to leave out.
        clusters: Number of clusters of duplicates.
        conflicts: Clusters whose records have different labels.
        lost_to_conflict: Records left out only for that.
        cluster_files: Files with the clusters of each range of fingerprints, with their SHA-256.
        previewed: Kept ids of the clusters that have previews.
        duplicates_parts: See `Plan`.
        filtered: Number of records that planning leaves out, by reason.
        left_out: Examples of the records that --where and --top leave out, see `left_out`.
        top: Fields of a Top; empty without --top.
        class_names: Names of the classes by label feature.
        strata: See `PlanState.strata`.
        notes: Notes for the user.
        wanted: Bins of `Quantiles` whose keys the next round collects.
        begins: By class, the positions where splits begin.
        names: Names of the splits.
        balance: Fields of a Balance; None if every record occurs once.
        records_of: By split, the number of records in each range of keys.
        bytes_of: By split, bytes of its records.
        kept: By split, the number of records, without copies.
        counted: See `Plan`.
        num_shards: Number of shards by split.
        groups: Number of groups of the first merge level in each range of units.
        levels: (groups, buckets) of all merge levels.
        salt: What decides the bytes of every shard, besides its records; hexadecimal.
    """

    units: list[int] = dataclasses.field(default_factory=list)
    records: list[int] = dataclasses.field(default_factory=list)
    columns: list[str] = dataclasses.field(default_factory=list)
    row_bytes: int = 0
    named: list[str | None] = dataclasses.field(default_factory=list)
    staged: dict[str, dict[str, int]] = dataclasses.field(default_factory=dict)
    noted: dict[str, list[Any]] = dataclasses.field(default_factory=dict)
    turns: int | None = None
    dropped: int = 0
    clusters: int = 0
    conflicts: int = 0
    lost_to_conflict: int = 0
    cluster_files: dict[str, str] = dataclasses.field(default_factory=dict)
    previewed: list[str] = dataclasses.field(default_factory=list)
    duplicates_parts: int = 0
    filtered: dict[str, int] = dataclasses.field(default_factory=dict)
    left_out: dict[str, list[dict[str, Any]]] = dataclasses.field(default_factory=dict)
    top: dict[str, Any] = dataclasses.field(default_factory=dict)
    class_names: dict[str, list[str]] = dataclasses.field(default_factory=dict)
    strata: list[str] = dataclasses.field(default_factory=list)
    notes: list[str] = dataclasses.field(default_factory=list)
    wanted: list[int] = dataclasses.field(default_factory=list)
    begins: list[list[int]] = dataclasses.field(default_factory=list)
    names: list[str] = dataclasses.field(default_factory=list)
    balance: dict[str, Any] | None = None
    records_of: list[list[int]] = dataclasses.field(default_factory=list)
    bytes_of: list[int] = dataclasses.field(default_factory=list)
    kept: list[int] = dataclasses.field(default_factory=list)
    counted: dict[str, int] = dataclasses.field(default_factory=dict)
    num_shards: dict[str, int] = dataclasses.field(default_factory=dict)
    groups: list[int] = dataclasses.field(default_factory=list)
    levels: list[tuple[int, int]] = dataclasses.field(default_factory=list)
    salt: str = ""

    @property
    def rule(self) -> Balance | None:
        """How often records occur; None for once."""
        if self.balance is None:
            return None
        kinds = {"often": np.int64, "below": np.uint64, "counts": np.int64}
        arrays = {name: np.array(self.balance[name], kind) for name, kind in kinds.items()}
        return Balance(**{**self.balance, **arrays})

    @rule.setter
    def rule(self, rule: Balance) -> None:
        fields = rule._asdict().items()
        self.balance = {
            name: value.tolist() if isinstance(value, np.ndarray) else value
            for name, value in fields
        }


@dataclasses.dataclass
class SpreadPlan(RangeFiles):
    """A plan in the making, as a task or the worker that decides sees it.

    Attributes:
        context: The job.
        merging: How units are merged; its `ranges` is the number of ranges of units and of hashes.
        decisions: What is decided so far.
    """

    context: JobContext
    merging: Merging
    decisions: Decisions

    @property
    @override
    def workspace(self) -> Workspace:
        return self.context.workspace

    @property
    @override
    def records_by_range(self) -> list[int]:
        return self.decisions.records

    @property
    @override
    def ranges(self) -> int:
        return self.merging.ranges  # known before any record is

    @property
    def records(self) -> int:
        """Number of all staged records."""
        return sum(self.decisions.records)


def store_decisions(plan: SpreadPlan, number: int) -> None:
    """Writes what the tasks of a round read."""
    write_marker(plan.workspace, _place(plan.workspace, number), dataclasses.asdict(plan.decisions))


def load_decisions(workspace: Workspace, number: int) -> Decisions:
    """What `store_decisions` wrote.

    Raises:
        InputError: It was damaged since.
    """
    return Decisions(**read_planned_marker(_place(workspace, number)))


def _place(workspace: Workspace, number: int) -> Place:
    return workspace.plan / f"decisions-{number:02d}.json"
