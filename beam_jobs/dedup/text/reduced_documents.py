"""Documents without their repeated segments: two may be equal now, and some are too short.

What planning removes from a document is not in its sidecar row, which describes the whole document.
So the changed documents are read, described again, and compared with all others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_jobs.columns import IntArray, int64
from beam_jobs.dedup.clusters import (
    MEMBER_COLUMNS,
    NO_NEAR_PAIRS,
    Clusters,
    NearPairs,
    find_clusters,
)
from beam_jobs.dedup.exact import exact_pairs
from beam_jobs.dedup.text.repeated_segments import RemovedSegments
from beam_jobs.dedup.text.segments import remove_segments
from beam_jobs.staging.assignment import LEFT_OUT, Assignment
from beam_jobs.staging.reader import read_staged, unit_sources
from beam_jobs.staging.sidecars import Sidecars
from beam_jobs.workspace import Workspace, read_table
from shard_format import decode_example, finish_example

# Of reasons, for rules that a document did not break as a whole.
WITHOUT_PARTS = "-without-parts"


class TextDescriptions(NamedTuple):
    """Descriptions of n texts, as when they are staged.

    Attributes:
        columns: [n] each, by name: those of the sidecar that duplicates are found by.
        reasons: Reasons of the texts that a rule of length leaves out, by their number.
    """

    columns: Mapping[str, pa.Array]
    reasons: Mapping[int, str]


Describe = Callable[[pa.LargeStringArray], TextDescriptions]
FindNear = Callable[[Sidecars], NearPairs]


class ReducedDocuments:
    """Documents as if segments had been removed before they were staged.

    Args:
        sidecars: All staged units.
        assignment: The splits; documents that are too short now are left out.
        removed: The segments to remove.
        kind: "lines" or "paragraphs".
        describe: Describes texts.
        workspace: Has the documents, and gets a file for each unit with changed ones.

    Attributes:
        sidecars: The sidecars of these documents; "split" is the role of the assigned split.
        filtered: Number of documents left out, by reason.
    """

    def __init__(
        self,
        sidecars: Sidecars,
        assignment: Assignment,
        removed: RemovedSegments,
        kind: str,
        describe: Describe,
        workspace: Workspace,
    ) -> None:
        self.sidecars = sidecars.edited(self._edited)
        self.filtered: Counter[str] = Counter()
        self._original = sidecars
        self._assignment = assignment
        self._files: dict[int, Path] = {}
        roles = [assignment.role(split) for split in range(len(assignment.names))]
        if roles:
            roles[assignment.training] = "train"
        self._roles = pa.array(roles, pa.string())
        for unit in range(len(sidecars.keys)):
            first, last = sidecars.begins[unit : unit + 2].tolist()
            changed = removed.counts(first, last) > 0
            rows = np.flatnonzero(changed & (assignment.split_of[first:last] != LEFT_OUT))
            if len(rows):
                path = workspace.plan_file(f"reduced-{unit}.arrow")
                self._write(unit, rows, removed, kind, describe, workspace, path)

    def _edited(self, unit: int, table: pa.Table) -> pa.Table:
        """Returns the table of a unit with the columns of its documents as they are now."""
        if unit in self._files:
            described = read_table(self._files[unit])
            for name in described.column_names:
                at = table.column_names.index(name)
                table = table.set_column(at, table.schema.field(name), described[name])
        split_of = self._split_of(unit).astype(np.int64)
        roles = self._roles.take(pa.array(split_of, mask=split_of == LEFT_OUT))
        at = table.column_names.index("split")
        return table.set_column(at, table.schema.field("split"), roles)

    def _split_of(self, unit: int) -> npt.NDArray[np.int8]:
        first, last = self._original.begins[unit : unit + 2].tolist()
        return self._assignment.split_of[first:last]

    def _write(
        self,
        unit: int,
        rows: IntArray,
        removed: RemovedSegments,
        kind: str,
        describe: Describe,
        workspace: Workspace,
        path: Path,
    ) -> None:
        """Writes the columns of a unit with those of the changed documents in their rows."""
        original = self._original.table(unit)
        out = removed.of(rows + self._original.begins[unit]).to_pylist()
        texts = self._texts(unit, original, rows, workspace)
        parts: list[pa.Table] = []
        done = 0
        for block in texts:
            left = [
                remove_segments(text, out[done + number], kind) for number, text in enumerate(block)
            ]
            described = describe(pa.array(left, pa.large_string()))
            for number, reason in described.reasons.items():
                self.filtered[reason + WITHOUT_PARTS] += 1
                self._split_of(unit)[rows[done + number]] = LEFT_OUT
            parts.append(pa.table(dict(described.columns)))
            done += len(block)
        changed = pa.concat_tables(parts)
        whole = original.select(changed.column_names)
        position = np.arange(len(whole))
        position[rows] = len(whole) + np.arange(len(rows))
        merged = pa.concat_tables([whole, changed.cast(whole.schema)]).take(pa.array(position))
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, merged.schema) as writer:
            writer.write_table(merged)
        self._files[unit] = path

    def _texts(
        self, unit: int, table: pa.Table, rows: IntArray, workspace: Workspace
    ) -> Iterator[list[str]]:
        """The staged texts of some rows of a unit, block by block."""
        places = pa.table(
            {
                "unit": np.zeros(len(rows), np.int64),
                "offset": int64(table["offset"])[rows],
                "length": int64(table["length"])[rows],
            }
        )
        for _, payloads in read_staged(
            places, unit_sources([self._original.keys[unit]], workspace)
        ):
            yield [_text(payload) for payload in payloads.to_pylist()]


def _text(entries: bytes) -> str:
    example: Mapping[str, Any] = decode_example(finish_example(entries))
    return str(example["text"][0].decode())


def dedup_reduced(
    sidecars: Sidecars,
    assignment: Assignment,
    near: FindNear | None,
    *,
    drop_conflicts: bool,
    best: str | None,
    partition_rows: int,
) -> Clusters:
    """Finds duplicates among the documents in a split, and leaves out all but one of each.

    Args:
        sidecars: The documents as they are now, see `ReducedDocuments`; those in no split are
            excluded from now on.
        assignment: The splits; changed in place.
        near: Finds near duplicates; None for exact ones only.
        drop_conflicts: Leave a whole cluster out if its labels differ.
        best: The column of which the highest value is kept; None without --keep-best.
        partition_rows: About how many rows are compared at a time.
    """
    sidecars.excluded = assignment.split_of == LEFT_OUT
    exact = exact_pairs(sidecars, None, partition_rows)
    pairs = NO_NEAR_PAIRS
    if near is not None and sidecars.records:
        pairs = near(sidecars.without(np.unique(exact[:, 1])))
    columns = [*MEMBER_COLUMNS, *([] if best is None else [best])]
    members_of = partial(sidecars.take, columns=columns)
    clusters = find_clusters(
        members_of, exact, pairs, keep_all=False, drop_conflicts=drop_conflicts, best=best
    )
    assignment.split_of[clusters.dropped] = LEFT_OUT
    return clusters
