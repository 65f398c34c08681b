"""The quarantine of a set, page by page: what was rejected, filtered, and for which reason."""

from __future__ import annotations

import functools
from collections import Counter

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from beam_jobs.report.finished_set import FinishedSet
from beam_jobs.report.sections.quarantine import Example, example_of
from shard_format import ShardSetError
from shard_format.dropped import Refused, quarantine_files, read_columns, refused_at

_SIDE = 640  # pixels of the preview of an original
_TEXTS = ["reason", "stage", "record_id", "detail"]


class RejectedRecords:
    """The records in the quarantine of a set, numbered over all of its files.

    Args:
        finished: The set.
    """

    def __init__(self, finished: FinishedSet) -> None:
        self._finished, self._directory = finished, finished.directory
        self._files = quarantine_files(finished.manifest)
        self.numbers = functools.lru_cache(4)(self._numbers)

    @functools.cached_property
    def reasons(self) -> list[tuple[str, str, int]]:
        """(reason, stage, records), the most frequent reason first.

        Raises:
            DamageError: A file is missing or is no Parquet file.
        """
        counts: Counter[tuple[str, str]] = Counter()
        for file in self._files:
            for batch in read_columns(self._directory, file, _TEXTS[:2]):
                pairs = zip(batch["reason"].to_pylist(), batch["stage"].to_pylist(), strict=True)
                counts.update(pairs)
        return [(*names, count) for names, count in counts.most_common()]

    def _numbers(self, reason: str, text: str) -> npt.NDArray[np.int64]:
        """[n] int64 ascending: the records of a reason with a text in id or detail.

        Args:
            reason: Its name; empty for all.
            text: What to search for, in any case; empty for all.
        """
        has_text = functools.partial(pc.match_substring, pattern=text, ignore_case=True)
        numbers, begin = [np.zeros(0, np.int64)], 0
        for file in self._files:
            for batch in read_columns(self._directory, file, _TEXTS):
                mask = np.ones(len(batch), np.bool_)
                if reason:
                    mask &= np.asarray(pc.equal(batch["reason"], reason))
                if text:
                    mask &= np.asarray(pc.or_(*(has_text(batch[name]) for name in _TEXTS[2:])))
                numbers.append(begin + np.flatnonzero(mask))
                begin += len(batch)
        return np.concatenate(numbers)

    def record(self, number: int) -> Refused:
        """One record, without its original.

        Raises:
            ShardSetError: There is no such record.
        """
        for file in self._files:
            rows = sum(len(batch) for batch in read_columns(self._directory, file, ["reason"]))
            if number < rows:
                return refused_at(self._directory, file, number)
            number -= rows
        raise ShardSetError("The quarantine has fewer records. Begin with its list.")

    def example(self, number: int) -> Example:
        """One record, with what can be shown of its original."""
        return example_of(self._finished, self.record(number), _SIDE)
