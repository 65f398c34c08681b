"""Which records stand for a class.

Records of a split stand in shuffled order, so the first ones of a class are a fair sample of it,
and the same one every time; nothing has to be drawn.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from beam_jobs.report.finished import FinishedSet, Place, places_of

MOST_CLASSES = 40


def choose(finished: FinishedSet, labels: list[int], count: int) -> Iterator[tuple[int, Place]]:
    """(label, place) of the first records of each class, split after split.

    Args:
        finished: The set; without labels all its records are of label 0.
        labels: The classes.
        count: Records of each.
    """
    needed = np.zeros(max(labels, default=0) + 1, np.int64)
    needed[labels] = count
    seen: set[tuple[int, str]] = set()  # a record that was repeated for balance counts once
    for split in finished.manifest.splits:
        for batch in finished.index(split).to_batches():
            if not needed.any():
                return
            rows, found = _labels_of(batch, bool(finished.class_names))
            known = (found >= 0) & (found < len(needed))
            rows, found = rows[known], found[known]
            order = np.argsort(found, kind="stable")
            rank = np.arange(len(order)) - np.searchsorted(found[order], found[order])
            order = order[rank < needed[found[order]]]
            places = places_of(split, batch.take(pa.array(rows[order])))
            for label, place in zip(found[order].tolist(), places, strict=True):
                if (label, place.record_id) not in seen:
                    seen.add((label, place.record_id))
                    needed[label] -= 1
                    yield label, place


def _labels_of(rows: pa.RecordBatch, labelled: bool) -> tuple[npt.NDArray[np.int64], ...]:
    """(row, label) of every label in rows of an index; label 0 everywhere if there are none."""
    if not labelled:
        return np.arange(len(rows)), np.zeros(len(rows), np.int64)
    if "labels" in rows.schema.names:
        return (
            np.asarray(pc.list_parent_indices(rows["labels"]), np.int64),
            np.asarray(pc.list_flatten(rows["labels"]), np.int64),
        )
    present = np.flatnonzero(np.asarray(pc.is_valid(rows["label"])))
    return present, np.asarray(rows["label"].drop_null(), np.int64)
