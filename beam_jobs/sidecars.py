"""Columns of all staged units, one unit in memory at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from beam_jobs.staging import UnitSummary, unit_files
from beam_jobs.storage import Workspace, read_table


class Sidecars:
    """The Arrow sidecars of a corpus.

    Attributes:
        keys: Unit keys, sorted; a unit is named by its position in this list.
        records: Staged records over all units.
    """

    def __init__(self, workspace: Workspace, summaries: Iterable[UnitSummary]) -> None:
        self._workspace = workspace
        kept = {summary.key: summary.kept for summary in summaries if summary.kept}
        self.keys: Sequence[str] = sorted(kept)
        self.records = sum(kept.values())

    def table(self, unit: int) -> pa.Table:
        """The sidecar of one unit."""
        return read_table(unit_files(self._workspace, self.keys[unit])["arrow"])

    def __iter__(self) -> Iterator[tuple[int, pa.Table]]:
        for unit in range(len(self.keys)):
            yield unit, self.table(unit)
