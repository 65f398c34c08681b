"""`compact` of a set with --balance oversample: the copies that a build of all records has.

Each generation was balanced by its own classes. The key of a copy is not that of its record id, so
copies are recognized by their keys, left out, and chosen again among all of them.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from beam_jobs.columns import int64, uint64
from beam_jobs.stages.plan.balance import balance_hashes, copy_keys, extra_copies
from shard_format import Manifest, id_hash, shuffle_keys


def is_rebalanced(manifest: Manifest, split: str) -> bool:
    """Returns whether a split has copies of records: only the training split has class weights."""
    oversampled = manifest.config.get("balance", "none") == "oversample"
    return oversampled and "class_weights" in manifest.splits[split].statistics


def rebalanced(rows: pa.Table, seed: int) -> pa.Table:
    """Returns the rows of an index with other copies, in any order.

    Args:
        rows: Of the training split; rows of a copy point to the frame of one of its records.
        seed: Of the shuffle keys.
    """
    hashes = np.array([id_hash(one) for one in rows["record_id"].to_pylist()], np.uint64)
    keys = uint64(rows["key"])
    own = np.flatnonzero(keys == shuffle_keys(hashes, seed))
    rows, keys, hashes = rows.take(pa.array(own)), keys[own], hashes[own]
    labels = int64(rows["label"].fill_null(-1))
    labelled = np.flatnonzero(labels >= 0)
    if not len(labelled):
        return rows
    labels = labels[labelled]
    extra = extra_copies(labels, balance_hashes(hashes[labelled]), int(labels.max()) + 1)
    of_record = np.repeat(labelled, extra)
    number = np.arange(len(of_record)) - np.repeat(np.cumsum(extra) - extra, extra) + 1
    copies = rows.take(pa.array(of_record))
    at = copies.column_names.index("key")
    new_keys = pa.array(copy_keys(keys[of_record], number), pa.uint64())
    return pa.concat_tables([rows, copies.set_column(at, rows.schema.field("key"), new_keys)])


def count_copies(rows: pa.Table) -> int:
    """Returns how many rows of an index repeat a record of another one."""
    return len(rows) - len(rows["record_id"].unique())
