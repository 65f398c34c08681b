"""Shards without the parts that stand elsewhere, before whatever else finishes them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from beam_jobs.columns import int64
from beam_jobs.dedup.text.segments import drop_parts
from beam_jobs.record_types.base import Finished, Finisher, Staged
from beam_jobs.text.cleaning.base import Measures
from shard_format import Feature, decode_example, encode_features, finish_example

# Column of a recipe, and of the table of a shard: numbers of the parts to take out, a list<int32>.
DROPPED_PARTS = "dropped_parts"

# (row, the index columns of what is left of it), of the records that were handed on.
_Measured = deque[tuple[int, dict[str, Any]]]


class PartsDropped(Finisher):
    r"""Takes parts out of staged records, and hands them on to another finisher.

    In: a record staged as "A line.\nA line of every page.", its row of the table with [1] as
    "dropped_parts". On to the other finisher: the record with the text "A line.". Out: what that
    one makes of it, with the "chars" and "words" of what is left, unless it says other ones.

    Args:
        features: Of a staged record, in their order.
        kind: "lines" or "paragraphs".
        then: What finishes the records.
        tells_length: Whether the index has the length of a document.
    """

    def __init__(
        self,
        features: Sequence[Feature],
        kind: str,
        then: Finisher,
        *,
        tells_length: bool = True,
    ) -> None:
        self._features = features
        self._kind = kind
        self._then = then
        self._tells_length = tells_length

    def finish(self, table: pa.Table, staged: Iterator[Staged]) -> Iterator[Finished]:
        """See Finisher."""
        measured: _Measured = deque()
        for done in self._then.finish(table, self._edited(table, staged, measured)):
            while measured and measured[0][0] < done.row:
                measured.popleft()
            length = measured[0][1] if self._tells_length else {}
            yield done._replace(columns={**length, **done.columns})

    def tally(self) -> pa.Table | None:
        """See Finisher."""
        return self._then.tally()

    def _edited(
        self, table: pa.Table, staged: Iterator[Staged], measured: _Measured
    ) -> Iterator[Staged]:
        dropped = table[DROPPED_PARTS].to_pylist()
        chars, words = int64(table["chars"]).tolist(), int64(table["words"]).tolist()
        for record in staged:
            # All examples of a shard must tell the same columns, changed or not.
            columns = {"chars": chars[record.row], "words": words[record.row]}
            if dropped[record.row]:
                record, columns = self._without(record, dropped[record.row])
            if self._tells_length:
                measured.append((record.row, columns))
            yield record

    def _without(self, record: Staged, dropped: list[int]) -> tuple[Staged, dict[str, int]]:
        values: dict[str, Any] = dict(decode_example(finish_example(record.entries)))
        text = drop_parts(values["text"][0].decode(), dropped, self._kind)
        values["text"] = text
        measures = Measures(pa.array([text], pa.large_string()))
        return (
            record._replace(entries=encode_features(self._features, values)),
            {"chars": int(measures.chars[0]), "words": int(measures.word_counts[0])},
        )
