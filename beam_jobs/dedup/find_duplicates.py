"""Which records are one: exact and near duplicates, joined to clusters."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import numpy.typing as npt

from beam_jobs.columns import IntArray
from beam_jobs.dedup.clusters import Clusters, Links, find_clusters
from beam_jobs.dedup.exact import Pairs, exact_pairs
from beam_jobs.dedup.images.search import similar_pictures
from beam_jobs.dedup.text.search import similar_texts
from beam_jobs.dedup.union_find import components
from beam_jobs.options import PreprocessOptions
from beam_jobs.record_types import RecordType
from beam_jobs.staging.sidecars import Sidecars

# Near duplicates among records of a type: all staged units, numbers of records, options.
LOOK_ALIKES: dict[str, Callable[[Sidecars, IntArray, PreprocessOptions], Links]] = {
    "image": similar_pictures,
    "text": similar_texts,
}

_NO_PAIRS: Pairs = np.zeros((0, 2), np.int64)
_NO_LINKS = Links(_NO_PAIRS, np.zeros(0, np.float32))


def relate(
    sidecars: Sidecars,
    options: PreprocessOptions,
    record_type: RecordType,
    partition_rows: int,
) -> Clusters:
    """Finds the duplicates that the options ask for.

    Args:
        sidecars: All staged units.
        options: The job.
        record_type: Knows when two records are one.
        partition_rows: About how many rows are compared at a time.
    """
    exact, near = _NO_PAIRS, _NO_LINKS
    if options.dedup != "off":
        confirm = partial(_confirm, sidecars, record_type) if record_type.confirms else None
        exact = exact_pairs(sidecars, confirm, partition_rows)
    if options.dedup == "near" and sidecars.records:
        near = _look_alikes(sidecars, exact, options)
    return find_clusters(
        sidecars,
        exact,
        near,
        keep_all=options.duplicates == "keep",
        drop_conflicts=options.conflicts == "drop",
    )


def _confirm(
    sidecars: Sidecars, record_type: RecordType, records: IntArray
) -> npt.NDArray[np.uint8]:
    """[n, 16] uint8 of the records, from their payload; there are few of them."""
    proofs = [
        record_type.confirm(bytes(sidecars.example(record)["image"][0]))
        for record in records.tolist()
    ]
    return np.frombuffer(b"".join(proofs), np.uint8).reshape(-1, 16)


def _look_alikes(sidecars: Sidecars, exact: Pairs, options: PreprocessOptions) -> Links:
    """Near duplicates among all records but those that equal another one."""
    # Of records that are equal one is looked at, and no other.
    records = np.flatnonzero(components(sidecars.records, exact) == np.arange(sidecars.records))
    return LOOK_ALIKES[options.record_type](sidecars, records, options)
