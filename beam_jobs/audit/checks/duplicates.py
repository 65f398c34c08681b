"""Equal and similar records in several splits, so that a model is measured on what it has learnt.

Of a cluster in several splits, the records outside of its first split are named, each with one in
that split: "train" before the others, which are in the order of the manifest.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from beam_jobs.audit.audited_set import AuditedSet
from beam_jobs.audit.checks.base import Check, flagged
from beam_jobs.columns import IntArray, first_of_run, run_starts
from beam_jobs.dedup.clusters import components

_TRAIN = "train"


def _across_splits(audited: AuditedSet, threshold: float) -> pa.Table | None:
    if len(audited.manifest.splits) < 2:
        return None
    similar = audited.near_pairs(threshold)
    pairs, similarity = _equal(audited), np.zeros(0)
    similarity = np.ones(len(pairs))
    if similar is not None:
        pairs = np.concatenate([pairs, similar.pairs])
        similarity = np.append(similarity, similar.similarity)
    records, ends = np.unique(pairs, return_inverse=True)
    ends = ends.reshape(-1, 2)
    best = np.zeros(len(records))
    np.maximum.at(best, ends, similarity[:, None])
    names = list(audited.manifest.splits)
    ranks = np.array([-1 if name == _TRAIN else number for number, name in enumerate(names)])
    rank = ranks[audited.splits_of(records)]
    roots = components(len(records), ends)
    order = np.lexsort((rank, roots))
    first = order[first_of_run(run_starts(roots[order]))]  # of the cluster of each row of `order`
    leaks = rank[order] != rank[first]
    rows, kept = order[leaks], first[leaks]
    worst = np.argsort(-best[rows], kind="stable")
    rows, kept = rows[worst], kept[worst]
    return flagged(records[rows], best[rows], other_rows=records[kept])


def _equal(audited: AuditedSet) -> IntArray:
    """[n, 2] numbers of records with equal fingerprints, each with the first one of them."""
    column = audited.column("fingerprint")
    if column is None:
        return np.zeros((0, 2), np.int64)
    codes = column.combine_chunks().dictionary_encode()
    codes = codes.combine_chunks() if isinstance(codes, pa.ChunkedArray) else codes
    numbers = np.asarray(codes.indices, np.int64)
    order = np.argsort(numbers, kind="stable")
    starts = run_starts(numbers[order])
    return np.stack([order[first_of_run(starts)], order], axis=1)[~starts]


# The thresholds are those of --dedup near.
ACROSS_SPLITS = Check(
    "Copies across splits",
    "An equal record is in another split, or one that is similar by at least {0:g}: of images the "
    "correlation of their structure, of texts the share of common runs of five words.",
    0.9,
    _across_splits,
    of_texts=0.8,
)
