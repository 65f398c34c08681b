"""Notes on what staging has counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from beam_jobs.options import PreprocessOptions
from beam_jobs.options.values import parse_kept
from beam_jobs.record_types import RecordType
from beam_jobs.staging import UnitSummary


def staging_notes(
    summaries: Sequence[UnitSummary], options: PreprocessOptions, record_type: RecordType
) -> list[str]:
    """Notes for the user: kept columns that some records lack, and those of the record type."""
    noted, staged = Counter[str](), 0
    for summary in summaries:
        noted.update(summary.noted)
        staged += summary.kept
    empty = [
        f"--keep-columns {name}: {count:,} of {staged:,} records have no value, and store an empty "
        "text"
        for name, _ in parse_kept(options.keep_columns)
        if (count := noted[f"empty {name}"])
    ]
    return [*empty, *record_type.notes(noted, staged)]
