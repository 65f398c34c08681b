"""Notes on what staging has counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from beam_jobs.job_context import JobContext
from beam_jobs.options.values import parse_kept
from beam_jobs.stages.list import Listing
from beam_jobs.staging import UnitSummary
from foundation.options import flag_of
from foundation.wording import counted


def staging_notes(
    summaries: Sequence[UnitSummary], listing: Listing, context: JobContext
) -> list[str]:
    """Notes for the user: files left out, kept columns that some records lack, and further ones."""
    options = context.options
    noted, staged = Counter[str](), 0
    for summary in summaries:
        noted.update(summary.noted)
        staged += summary.kept
    empty = [
        f"--keep-columns {name}: {count:,} of {staged:,} records have no value, and store an empty "
        "text"
        for name, _ in parse_kept(options.keep_columns)
        if 0 < (count := noted[f"empty {name}"]) < staged
    ]
    flags = [flag_of(name) for name in ("include", "exclude") if getattr(options, name)]
    left_out = f"{' and '.join(flags)} left out {counted(listing.unselected, 'file')}"
    unselected = [left_out] if listing.unselected else []
    return [*unselected, *empty, *context.record_type.notes(noted, staged)]
