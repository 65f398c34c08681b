"""Documents: cleaned, measured, and stored as text or as token ids."""

from __future__ import annotations

import hashlib
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from beam_jobs.documents.base import KEPT_PREFIX
from beam_jobs.options import TextOptions
from beam_jobs.options.values import parse_kept
from beam_jobs.record_types.base import BatchRecords, PreparedBatch
from beam_jobs.text_cleaning import Texts, versions
from shard_format import LABELS_FIELD, Feature, Schema


class TextRecords(BatchRecords):
    """Input: documents. Output: {"id": "pos/1.txt", "text": "...", "label": 1}."""

    version = 1
    statistics: tuple[pa.Field, ...] = (
        pa.field("chars", pa.int64()),  # Unicode code points, as stored
        pa.field("words", pa.int64()),  # between runs of white space
        pa.field("source_bytes", pa.int64()),  # of the original
        pa.field("source_encoding", pa.string()),
    )
    summarized: tuple[str, ...] = ("chars", "words", "source_bytes")
    by_bytes = True
    runs_python = True

    def __init__(self, options: TextOptions) -> None:
        self._options = options
        self._steps = options.cleaning_steps()
        self._kept = parse_kept(options.keep_columns)
        reported = [field for applied in self._steps for field in applied.step.reports]
        self.statistics = (*type(self).statistics, *dict.fromkeys(reported))
        self.schema = _schema(options)
        self.late_columns = (LABELS_FIELD,) if options.multi_label else ()

    def stage_options(self) -> dict[str, Any]:
        """The steps with their parameters, and the versions of what they call."""
        return {
            "cleaning": [applied.described() for applied in self._steps],
            "kernels": versions(),
        }

    def prepare_batch(self, batch: pa.RecordBatch) -> PreparedBatch:
        """See BatchRecords."""
        texts = Texts(batch)
        for applied in self._steps:
            applied.step(texts)
        rows = pa.array(texts.rows)
        measured = texts.measured
        values: dict[str, Any] = {
            "id": batch["record_id"].take(rows).to_pylist(),
            "text": texts.text.to_pylist(),
        }
        for name, _ in self._kept:
            values[name] = batch[KEPT_PREFIX + name].take(rows).to_pylist()
        return PreparedBatch(
            rows=texts.rows,
            values=values,
            fingerprints=_fingerprints(texts.text),
            statistics={
                "chars": pa.array(measured.chars),
                "words": pa.array(measured.word_counts),
                "source_bytes": pc.binary_length(batch["original"].take(rows)).cast(pa.int64()),
                "source_encoding": batch["encoding"].take(rows),
                **texts.columns,
            },
            rejects=texts.rejects,
        )


def _fingerprints(text: pa.LargeStringArray) -> pa.Array:
    """16 bytes for each document that are equal where case and spacing alone differ."""
    normal = pc.utf8_lower(pc.utf8_normalize(text, "NFKC"))
    normal = pc.utf8_trim_whitespace(pc.replace_substring_regex(normal, r"\s+", " "))
    digests = [hashlib.sha256(one.as_buffer()).digest()[:16] for one in normal]
    return pa.array(digests, pa.binary(16))


def _schema(options: TextOptions) -> Schema:
    declared = [Feature("id", "text"), Feature("text", "text")]
    declared += [Feature(name, kind) for name, kind in parse_kept(options.keep_columns)]
    if not options.no_labels:
        shape = (-1,) if options.multi_label else ()
        declared.append(Feature("label", "class_label", shape, late=True))
    return Schema("text", tuple(declared))
