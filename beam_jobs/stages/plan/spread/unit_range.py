"""The units of one range: neighbours in the order of their keys, and so of their records."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from beam_jobs.progress import report
from beam_jobs.selection import number_column
from beam_jobs.stages.labels import ClassCounts, class_counts
from beam_jobs.stages.plan.excluded import leave_out_unselected
from beam_jobs.stages.plan.spread.decisions import SpreadPlan
from beam_jobs.staging import UnitSummary
from beam_jobs.staging.assignment import LEFT_OUT, Assignment
from beam_jobs.staging.exchange import Exchange
from beam_jobs.staging.sidecars import Sidecars
from beam_jobs.staging.units import dropping_damaged
from beam_jobs.workspace import Workspace
from foundation.storage import Place
from shard_format import file_sha256, label_column

_UNITS = "units"  # the exchange that has the units of every range
_KEY_BITS = 32  # leading bits of the key of a unit, which is a hash


def store_units(workspace: Workspace, summaries: Iterable[UnitSummary], ranges: int) -> None:
    """Writes which units with records are in which range; each has an even share of the keys."""
    ranged: list[list[tuple[str, int, str]]] = [[] for _ in range(ranges)]
    for summary in summaries:
        if summary.kept:
            number = int(summary.key[: _KEY_BITS // 4], 16) * ranges >> _KEY_BITS
            sha256 = summary.sha256.get("arrow", "")
            ranged[number].append((summary.key, summary.kept, sha256))
    exchange = Exchange(workspace, _UNITS)
    slices = (json.dumps(units).encode() if units else b"" for units in ranged)
    exchange.finish([exchange.write(0, slices)])


class UnitRange:
    """Some units, whose records have numbers of their own, from 0.

    Args:
        plan: The plan.
        number: Number of the range.

    Attributes:
        sidecars: All columns of the units.
    """

    def __init__(self, plan: SpreadPlan, number: int) -> None:
        self._plan = plan
        self._number = number
        units: list[Any] = []
        for _, content in plan.exchange(_UNITS).read(number, sources=1):
            units = json.loads(content)
        self.sidecars = Sidecars(
            plan.workspace,
            [
                UnitSummary(key, kept, kept, {}, {}, False, sha256={"arrow": sha256})
                for key, kept, sha256 in units
            ],
            partial(report, plan.workspace.progress, "plan"),
        )
        if plan.context.options.where is not None and plan.decisions.records:  # it is saved
            self.sidecars.excluded = plan.load(self._excluded, np.bool_)

    def leave_out_unselected(self) -> tuple[int, list[dict[str, Any]]]:
        """Excludes what --where does not select, from now on; the number, and examples."""
        count, examples = leave_out_unselected(self.sidecars, self._plan.context)
        if self.sidecars.excluded is not None:
            self._plan.save(self._excluded, self.sidecars.excluded)
        return count, examples

    def everything(self) -> Assignment:
        """All records that are planned, in one split."""
        assignment = Assignment(np.zeros(self.sidecars.records, np.int8))
        if self.sidecars.excluded is not None:
            assignment.split_of[self.sidecars.excluded] = LEFT_OUT
        return assignment

    def write_columns(self) -> str:
        """Writes the columns that several rounds read, as one file; its checksum."""
        record_type = self._plan.context.record_type
        columns = ["key", "id_hash", "length", "group", "split"]
        columns += [label_column(name) for name in label_names(self._plan)]
        if (by := self._plan.context.options.by) is not None:
            columns.append(number_column(record_type, self._plan.context.options, by, "--by").name)
        columns += [field.name for field in record_type.ledger_columns]
        with self._plan.workspace.write_arrow(self._columns) as sink:
            self.sidecars.join(sink, columns)
        return file_sha256(self._columns)

    @contextmanager
    def columns(self) -> Iterator[Sidecars]:
        """The units with these columns alone."""
        workspace = self._plan.workspace
        if not self.sidecars.records:
            yield self.sidecars
            return
        with workspace.local_copy(self._columns) as path:
            with dropping_damaged(lambda: None):  # every build writes it again
                workspace.check_file(path, self._plan.decisions.columns[self._number])
            yield self.sidecars.joined(path)

    @property
    def _excluded(self) -> str:
        return f"unselected-{self._number:05d}"

    @property
    def _columns(self) -> Place:
        return self._plan.workspace.plan / f"columns-{self._number:05d}.arrow"

    def assignment(self, stage: str) -> Assignment:
        """The splits as some round has left them."""
        split_of = self._plan.load(f"{stage}-{self._number:05d}", np.int8)
        return Assignment(split_of, self._plan.decisions.names)

    def save_splits(self, stage: str, assignment: Assignment) -> None:
        """Saves the splits under a name of the round."""
        self._plan.save(f"{stage}-{self._number:05d}", assignment.split_of)


def label_names(plan: SpreadPlan) -> tuple[str, ...]:
    """Names of the label features."""
    return ("label", *plan.context.options.further_labels)


def counts_of(plan: SpreadPlan, sidecars: Sidecars, assignment: Assignment) -> ClassCounts:
    """How many of the records that are not left out are of each class, by label feature."""
    names: ClassCounts = {feature: Counter() for feature in label_names(plan)}
    for begin, table in sidecars:
        kept = table.filter(assignment.of(begin, table) != LEFT_OUT)
        for feature in names:
            names[feature] += class_counts(kept[label_column(feature)])
    return names


def all_counts(results: Iterable[Mapping[str, Mapping[str, int]]]) -> ClassCounts:
    """The same of all ranges."""
    names: ClassCounts = {}
    for result in results:
        for feature, own in result.items():
            names.setdefault(feature, Counter()).update(own)
    return names
