"""Which records are one: exact and near duplicates, joined to clusters."""

from __future__ import annotations

import numpy as np

from beam_jobs.options import PreprocessOptions
from beam_jobs.planning.clusters import Clusters, Links, find_clusters
from beam_jobs.planning.exact import Pairs, exact_pairs
from beam_jobs.planning.sidecars import Sidecars
from beam_jobs.record_types import RecordType
from beam_jobs.storage import Workspace

_NO_PAIRS: Pairs = np.zeros((0, 2), np.int64)
_NO_LINKS = Links(_NO_PAIRS, np.zeros(0, np.float32))


def relate(
    sidecars: Sidecars,
    options: PreprocessOptions,
    record_type: RecordType,
    workspace: Workspace,
    partition_rows: int,
) -> Clusters:
    """Finds the duplicates that the options ask for.

    Args:
        sidecars: All staged units.
        options: The job.
        record_type: Knows when two records look alike.
        workspace: Where payload lies, if it must be looked at.
        partition_rows: About how many rows are compared at a time.
    """
    exact, near = _NO_PAIRS, _NO_LINKS
    if options.dedup != "off":
        exact = exact_pairs(sidecars, None, partition_rows)
    return find_clusters(
        sidecars,
        exact,
        near,
        keep_all=options.duplicates == "keep",
        drop_conflicts=options.conflicts == "drop",
    )
