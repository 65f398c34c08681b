"""Staged records that a build keeps out or does not select, found before anything else is planned.

So they win no cluster, and give nothing to splits, classes, tokenizers or statistics. A record is
kept out by its id, or by its content under another id. The list of the set grows by the ids of the
latter, and by the content of the former unless a record that stays has it too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_jobs.columns import BoolArray, IntArray
from beam_jobs.corpus.record import FILTER
from beam_jobs.job_context import JobContext
from beam_jobs.options import PreprocessOptions
from beam_jobs.record_types import RecordType
from beam_jobs.selection import where_columns, where_of
from beam_jobs.stages.plan.left_out import LeftOutExamples
from beam_jobs.staging import UnitSummary, forget_unit, unit_files
from beam_jobs.staging.removed import collected, write_planned
from beam_jobs.staging.sidecars import Sidecars
from beam_jobs.staging.stored import StoredRecords
from beam_jobs.staging.units import dropping_damaged
from beam_jobs.workspace import Workspace, read_batches
from foundation import storage
from foundation.wording import counted
from shard_format.removed_records import PRINT_DIGITS, RemovedRecords, id_digest


class Excluded:
    """The records that a build keeps out.

    Attributes:
        staged: Number of staged ones.
        refused: How many could not be used, by reason.
        filtered: How many a cleaning rule left out, by reason.
        notes: What the user should know.
    """

    def __init__(self) -> None:
        self.staged = 0
        self.refused: Counter[str] = Counter()
        self.filtered: Counter[str] = Counter()
        self.notes: list[str] = []


def find_excluded(
    summaries: Sequence[UnitSummary], sidecars: Sidecars, context: JobContext
) -> Excluded:
    """Finds the records to keep out, marks the staged ones, and writes the list for the commit.

    Args:
        summaries: Summaries of all units.
        sidecars: Their staged records; its `excluded` is set if there is any to keep out.
        context: The job.
    """
    workspace = context.workspace
    excluded = Excluded()
    given, removed = collected(workspace)
    if not any(removed):
        write_planned(workspace, removed)
        return excluded
    contents = _Contents(sidecars.without_progress(), removed, context.record_type)
    seen: set[str] = set()  # hashes of ids
    by_id = np.zeros(sidecars.records, bool)
    for begin, table in sidecars.without_progress():
        digests = [id_digest(name) for name in table["record_id"].to_pylist()]
        by_id[begin : begin + len(table)] = [digest in removed.ids for digest in digests]
        seen |= removed.ids.intersection(digests)
    for record_id, stage, reason in _rejected(summaries, workspace):
        digest = id_digest(record_id)
        if digest in removed.ids:
            seen.add(digest)
            (excluded.filtered if stage == FILTER else excluded.refused)[reason] += 1
    by_content = contents.equal_to(removed.contents, ~by_id)
    sidecars.excluded = by_id | by_content
    excluded.staged = int(sidecars.excluded.sum())
    own, same = contents.own(by_id, ~sidecars.excluded, context.options)
    names = sidecars.take(np.flatnonzero(by_content), ["record_id"])["record_id"].to_pylist()
    more = RemovedRecords(frozenset(map(id_digest, names)), own)
    write_planned(workspace, removed.joined(more))
    excluded.notes += _notes(excluded, same, len(given.ids - seen))
    return excluded


def leave_out_unselected(
    sidecars: Sidecars, context: JobContext
) -> tuple[int, list[dict[str, Any]]]:
    """Marks the records that --where does not select as ones that planning must not see.

    Args:
        sidecars: All staged units, or some of them; `excluded` is changed.
        context: The job.

    Returns:
        The number of these that were not excluded before, and examples (`left_out`).
    """
    selects = where_of(context.options, context.record_type)
    if selects is None:
        return 0, []
    examples = LeftOutExamples(where_columns(context.options, context.record_type))
    excluded = np.zeros(sidecars.records, bool) if sidecars.excluded is None else sidecars.excluded
    before = int(excluded.sum())
    for begin, table in sidecars.without_progress():
        own = excluded[begin : begin + len(table)]
        left_out = ~(selects(table) | own)
        examples.add(begin, table, left_out)
        own |= left_out
    sidecars.excluded = excluded
    return int(excluded.sum()) - before, examples.described(sidecars)


def _notes(found: Excluded, same: int, unknown: int) -> list[str]:
    number = found.staged + found.refused.total() + found.filtered.total()
    notes = []
    if number:
        notes.append(
            f"{counted(number, 'record')} kept out: named by --exclude-ids, or removed from the "
            "set before; only a build into another directory takes them back"
        )
    if same:
        notes.append(
            f"{counted(same, 'record')} of the set with the content of one that is kept out by its "
            "id; name their ids too to keep them out"
        )
    if unknown:
        notes.append(f"{counted(unknown, 'id')} of --exclude-ids found in no record of SRC")
    return notes


def _rejected(
    summaries: Sequence[UnitSummary], workspace: Workspace
) -> Iterable[tuple[str, str, str]]:
    """Yields (record id, stage, reason) of all records that staging rejected."""
    columns = ["record_id", "stage", "reason"]
    for summary in summaries:
        if not (summary.refused or summary.filtered):
            continue
        place = unit_files(workspace, summary.key)["rejects"]
        with dropping_damaged(partial(forget_unit, workspace, summary.key)):
            workspace.check_file(place, summary.sha256.get("rejects", ""))
        for table in read_batches(place, columns):
            yield from zip(*(table[name].to_pylist() for name in columns), strict=True)


class _Contents:
    """The content of staged records as the list of a set names it: few are looked at closely."""

    def __init__(
        self, sidecars: Sidecars, removed: RemovedRecords, record_type: RecordType
    ) -> None:
        self._sidecars = sidecars
        self._confirm = record_type.confirm

    def equal_to(self, contents: Iterable[str], among: BoolArray) -> BoolArray:
        """Which records have one of some contents.

        Args:
            contents: As in a list.
            among: Which records to look at.
        """
        contents = frozenset(contents)
        equal = np.zeros(self._sidecars.records, bool)
        if not contents:
            return equal
        for begin, table in self._sidecars:
            hits = _is_in(table["fingerprint"].cast(pa.binary()), contents)
            equal[begin : begin + len(table)] = hits.to_numpy()
        records = np.flatnonzero(equal & among)
        equal[:] = False
        equal[records] = [not contents.isdisjoint(one) for one in self._names(records)]
        return equal

    def own(
        self, excluded: BoolArray, staying: BoolArray, options: PreprocessOptions
    ) -> tuple[frozenset[str], int]:
        """The contents of excluded records that no other record has.

        Returns:
            The contents, and the number of records that stay with one of these of all.
        """
        contents = {one[-1] for one in self._names(np.flatnonzero(excluded))}
        same = self.equal_to(contents, staying)
        kept = {one[-1] for one in self._names(np.flatnonzero(same))}
        if options.base and contents:
            base = storage.place_of(options.base)
            stored = StoredRecords(base, (), complete=False, generation=options.base_generation)
            known = set()
            for table in stored.tables(["fingerprint"]):
                prints = table["fingerprint"].cast(pa.binary())
                known |= {one.hex() for one in prints.filter(_is_in(prints, contents)).to_pylist()}
            kept |= {one for one in contents if one[:PRINT_DIGITS] in known}
        return frozenset(contents - kept), int(same.sum())

    def _names(self, records: IntArray) -> list[tuple[str, ...]]:
        """How a list may name the content of each record, the exact way last."""
        column = self._sidecars.take(records, ["fingerprint"])["fingerprint"]
        prints = [one.hex() for one in column.to_pylist()]
        if self._confirm is None or not prints:
            return [(one,) for one in prints]
        further = map(self._confirm, self._sidecars.examples(records))
        return [(one, one + more.hex()) for one, more in zip(prints, further, strict=True)]


def _is_in(prints: pa.ChunkedArray, contents: Iterable[str]) -> pa.ChunkedArray:
    """Which fingerprints are those of some contents."""
    wanted = sorted({bytes.fromhex(one[:PRINT_DIGITS]) for one in contents})
    return pc.is_in(prints, value_set=pa.array(wanted, pa.binary()))
