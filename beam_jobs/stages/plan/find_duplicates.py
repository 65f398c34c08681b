"""Exact and near duplicates of a corpus, joined to clusters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from beam_jobs.columns import IntArray
from beam_jobs.dedup.clusters import NO_NEAR_PAIRS, Clusters, find_clusters
from beam_jobs.dedup.exact import NO_PAIRS, exact_pairs
from beam_jobs.dedup.union_find import components
from beam_jobs.options import PreprocessOptions
from beam_jobs.record_types import RecordType
from beam_jobs.staging.sidecars import Sidecars


def find_duplicates(
    sidecars: Sidecars,
    options: PreprocessOptions,
    record_type: RecordType,
    partition_rows: int,
) -> Clusters:
    """Finds the duplicates that the options ask for.

    Args:
        sidecars: All staged units.
        options: The job.
        record_type: Confirms exact duplicates and finds near ones.
        partition_rows: About how many rows are compared at a time.
    """
    exact, near = NO_PAIRS, NO_NEAR_PAIRS
    if options.dedup != "off":
        confirm = record_type.confirm and partial(_confirm, sidecars, record_type.confirm)
        exact = exact_pairs(sidecars, confirm, partition_rows)
    if options.dedup == "near" and sidecars.records:
        # Of exact duplicates only the first record is compared.
        first = components(sidecars.records, exact) == np.arange(sidecars.records)
        near = record_type.near_duplicates(sidecars, np.flatnonzero(first))
    return find_clusters(
        sidecars,
        exact,
        near,
        keep_all=options.duplicates == "keep",
        drop_conflicts=options.conflicts == "drop",
    )


def _confirm(
    sidecars: Sidecars, confirm: Callable[[Mapping[str, Any]], bytes], records: IntArray
) -> npt.NDArray[np.uint8]:
    """[n, 16] uint8, computed from the payload of the few records that need it."""
    digests = [confirm(sidecars.example(record)) for record in records.tolist()]
    return np.frombuffer(b"".join(digests), np.uint8).reshape(-1, 16)


def conflict_notes(clusters: Clusters, options: PreprocessOptions) -> list[str]:
    """A note if records of one cluster have different labels."""
    if not clusters.conflicts:
        return []
    what = {
        ("drop", "keep"): "one record of each is kept; --conflicts drop leaves them out",
        ("drop", "drop"): "they are left out",
    }.get((options.duplicates, options.conflicts), "all their records are kept")
    return [
        f"{clusters.conflicts} of {clusters.number} duplicate clusters have contradictory labels: "
        f"{what} (duplicates.parquet lists them)"
    ]
