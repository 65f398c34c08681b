"""Which records pages show: a filter, computed over those columns of the index that it needs."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from urllib.parse import urlencode

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from beam_jobs.report.finished_set import FinishedSet, labels_of
from reader.records.selection import (
    ROWS_AT_A_TIME,
    class_names_of,
    missing_columns,
    selected_records,
)
from reader.records.split_index import WholeIndex

Places = list[tuple[int, int]]  # numbers of splits, and rows of their indexes
Int64Array = npt.NDArray[np.int64]


@dataclasses.dataclass(frozen=True)
class RecordFilter:
    """What records must have to be shown; an empty text asks for nothing.

    Attributes:
        where: A condition, as `reader.load` takes it.
        text: Is part of their text; of images, of an id or another text of the index.
        label: Name of their class, by the main label.
        split: Name of their split.
        source: Their id begins with it: the name of a source, or a folder.
    """

    where: str = ""
    text: str = ""
    label: str = ""
    split: str = ""
    source: str = ""

    @property
    def query(self) -> str:
        """The query of a URL."""
        return urlencode({name: text for name, text in dataclasses.asdict(self).items() if text})


class SelectedRecords:
    """The records that fit a filter, split after split.

    Args:
        rows: For every split, ascending rows of its index.
    """

    def __init__(self, rows: Sequence[range | Int64Array]) -> None:
        self._rows = rows
        self._ends = np.cumsum([0, *map(len, rows)]).tolist()

    def __len__(self) -> int:
        return int(self._ends[-1])

    def places(self, start: int, stop: int) -> Places:
        """(split, row) of the records at the positions [start, stop), as far as there are such."""
        chosen = []
        for split, rows in enumerate(self._rows):
            begin, end = (max(0, one - self._ends[split]) for one in (start, stop))
            chosen += [(split, int(row)) for row in rows[begin:end]]
        return chosen

    def around(self, split: int, row: int) -> tuple[int, int, Places, Places] | None:
        """(position, records, places before, behind) of a record; None if it does not fit."""
        rows = self._rows[split]
        at = row if isinstance(rows, range) else int(np.searchsorted(rows, row))
        if at >= len(rows) or rows[at] != row:
            return None
        at += self._ends[split]
        return at, len(self), self.places(max(0, at - 1), at), self.places(at + 1, at + 2)


def select(finished: FinishedSet, wanted: RecordFilter) -> SelectedRecords:
    """The records that fit a filter.

    Raises:
        UsageError: The condition cannot be computed.
        ShardSetError: A file is missing.
        DamageError: An index is damaged.
    """
    return SelectedRecords(
        [
            _rows(finished, name, wanted) if wanted.split in ("", name) else range(0)
            for name in finished.manifest.splits
        ]
    )


def _rows(finished: FinishedSet, split: str, wanted: RecordFilter) -> range | Int64Array:
    index, schema = finished.index(split), finished.manifest.schema
    rows: range | Int64Array = range(len(index))
    if wanted.where:
        place = finished.directory / finished.manifest.index_file(split)
        opened = WholeIndex(index)
        missing = missing_columns(schema, opened, finished.directory)
        rows = selected_records(wanted.where, opened, class_names_of(schema), place, missing)
    names = {"record_id"} if wanted.source or wanted.text else set[str]()
    if wanted.text:
        names |= {one.name for one in index.schema if pa.types.is_string(one.type)}
    if wanted.label:
        names |= {"label", "labels"} & set(index.column_names)
    if not names:
        return rows
    classes = finished.class_names
    number = classes.index(wanted.label) if wanted.label in classes else -1
    columns, masks = index.select(sorted(names)), [np.zeros(0, np.bool_)]
    for begin in range(0, len(index), ROWS_AT_A_TIME):
        (batch,) = columns.slice(begin, ROWS_AT_A_TIME).combine_chunks().to_batches()
        masks.append(_mask(batch, wanted, number))
    fitting = np.flatnonzero(np.concatenate(masks))
    return np.intersect1d(rows, fitting, assume_unique=True) if wanted.where else fitting


def _mask(batch: pa.RecordBatch, wanted: RecordFilter, label: int) -> npt.NDArray[np.bool_]:
    """[n] bool: which rows fit what the filter asks for besides its condition."""
    mask = np.ones(len(batch), np.bool_)
    if wanted.source:
        mask &= np.asarray(pc.starts_with(batch["record_id"], wanted.source))
    if wanted.text:
        texts = [batch[one.name] for one in batch.schema if pa.types.is_string(one.type)]
        hits = [pc.match_substring(one, wanted.text, ignore_case=True) for one in texts]
        mask &= np.any([np.asarray(pc.fill_null(one, False)) for one in hits], axis=0)
    if wanted.label:
        rows, labels = labels_of(batch, True)
        has = np.zeros(len(batch), np.bool_)
        has[rows[labels == label]] = True
        mask &= has
    return mask
