"""What a job counts while it runs, by name; on Beam these are metrics of the pipeline."""

from __future__ import annotations

from collections.abc import Callable

from beam_jobs.stages.shard import ShardResult
from beam_jobs.staging.units import Unit, UnitSummary
from shard_format import Ledger

# Adds to a counter.
Count = Callable[[str, int], None]


def count_unit(count: Count, unit: Unit, summary: UnitSummary) -> None:
    """Counts a unit that is staged now, or was before."""
    count("units_reused" if summary.reused else "units_staged", 1)
    count("bytes_staged", unit.bytes)
    count("records_read", summary.read)
    count("records_staged", summary.kept)
    for reasons in (summary.refused, summary.filtered):
        for reason, records in reasons.items():
            count(f"records_rejected_{reason}", records)


def count_shard(count: Count, result: ShardResult) -> None:
    """Counts a shard that is written now, or was before."""
    count("shards_reused" if result.reused else "shards_written", 1)
    count("records_written", result.info.records)
    count("bytes_written", result.info.bytes)


def count_ledger(count: Count, ledger: Ledger) -> None:
    """Counts what is known of the whole set alone."""
    count("records_kept", ledger.kept)
    count("records_duplicate", ledger.duplicates)


def count_nothing(name: str, value: int) -> None:
    """For workers whose counts nobody reads."""
