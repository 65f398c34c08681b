"""Counters of a job as Beam metrics, for Flink's and Dataflow's pages and the pipeline's result.

The ledger of a set does not come from them: where an engine repeats work, it may count again.
"""

from __future__ import annotations

from apache_beam.metrics import Metrics

from beam_jobs.stages.shard import ShardResult
from beam_jobs.staging.units import Unit, UnitSummary
from shard_format import Ledger

NAMESPACE = "shardmill"


def count_unit(unit: Unit, summary: UnitSummary) -> None:
    """Counts a unit that is staged now, or was before."""
    _count("units_reused" if summary.reused else "units_staged", 1)
    _count("bytes_staged", unit.bytes)
    _count("records_read", summary.read)
    _count("records_staged", summary.kept)
    for reasons in (summary.refused, summary.filtered):
        for reason, records in reasons.items():
            _count(f"records_rejected_{reason}", records)


def count_shard(result: ShardResult) -> None:
    """Counts a shard that is written now, or was before."""
    _count("shards_reused" if result.reused else "shards_written", 1)
    _count("records_written", result.info.records)
    _count("bytes_written", result.info.bytes)


def count_ledger(ledger: Ledger) -> None:
    """Counts what is known of the whole set alone."""
    _count("records_kept", ledger.kept)
    _count("records_duplicate", ledger.duplicates)


def _count(name: str, value: int) -> None:
    Metrics.counter(NAMESPACE, name).inc(value)
