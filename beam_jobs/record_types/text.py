"""Documents: cleaned, measured, and stored as text or as token ids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from beam_jobs.corpus.record import RawRecord
from beam_jobs.dedup.text.fingerprints import fingerprints
from beam_jobs.dedup.text.segment_removal import PartsDropped
from beam_jobs.dedup.text.segments import part_hashes
from beam_jobs.dedup.text.shingles import shingles
from beam_jobs.dedup.text.signatures import SIGNATURE_BYTES, signatures
from beam_jobs.options import TextOptions
from beam_jobs.record_types.base import (
    Finisher,
    OnePerRecord,
    PreparedBatch,
    RecordType,
    Sample,
    Settled,
    kept_features,
)
from beam_jobs.text.cleaning import Texts, versions
from beam_jobs.text.payload import TextPayload, document_batch
from beam_jobs.text.tokenizing.finishing import TextFinisher
from beam_jobs.text.tokenizing.job import PACKED_COLUMNS, TOKENS_COLUMN, Tokenizing
from beam_jobs.workspace import Workspace
from shard_format import LABELS_FIELD, Feature, Schema

# What near duplicates are found by: 128 uint32, and the hashes of all word 5-grams, which take
# about two thirds as many bytes as the text. They are read for candidate pairs alone.
_NEAR_FIELDS = (
    pa.field("near_signature", pa.binary(SIGNATURE_BYTES), nullable=False),
    pa.field("near_shingles", pa.large_list(pa.uint32()), nullable=False),
)
_PART_FIELD = pa.field("part_hashes", pa.large_list(pa.uint64()), nullable=False)
_PREVIEW_CHARS = 500


class TextRecords(RecordType):
    """Input: documents. Output: {"id": "pos/1.txt", "text": "...", "label": 1}.

    With a tokenizer: {"id": "pos/1.txt", "tokens": [17, 401, ...], "label": 1}; packed: {"id":
    "pos/1.txt#0", "tokens": [...], "segments": [1, 1, 2, ...], "positions": [0, 1, 0, ...]}.
    """

    version = 1
    statistics: tuple[pa.Field, ...] = (
        pa.field("chars", pa.int64()),  # Unicode code points, as stored
        pa.field("words", pa.int64()),  # between runs of white space
        pa.field("source_bytes", pa.int64()),  # of the original
        pa.field("source_encoding", pa.string()),
    )
    summarized: tuple[str, ...] = ("chars", "words", "source_bytes")
    runs_python = True
    _measured: tuple[str, ...] = ()  # of the documents of packed sequences

    def __init__(self, options: TextOptions) -> None:
        self._options = options
        self._steps = options.cleaning_steps()
        self.payload = TextPayload(options)
        reported = [field for applied in self._steps for field in applied.step.reports]
        self.statistics = (*type(self).statistics, *dict.fromkeys(reported))
        self._near = options.dedup == "near"
        self._parts = options.dedup_parts
        self.evidence = (*_NEAR_FIELDS * self._near, *(_PART_FIELD,) * (self._parts != "off"))
        self._staged = _staged_features(options)
        self._tokenizing = Tokenizing(options) if options.tokenizes else None
        self._features = self._staged
        self.late_columns = (LABELS_FIELD,) if options.multi_label else ()
        if self._tokenizing:
            self._features = self._tokenizing.features(self._staged)
            self.late_columns += (TOKENS_COLUMN,)
        late = [_label(options)] if not options.no_labels else []
        self.schema = Schema("text", (*self._features, *late))
        if options.pack:
            self._measured, self.summarized = self.summarized, ()

    def stage_options(self) -> dict[str, Any]:
        """The steps with their parameters, and the versions of what they call."""
        return {
            "cleaning": [applied.described() for applied in self._steps],
            "near": self._near,
            "parts": self._parts,
            "kernels": versions(),
        }

    def preview(self, example: Mapping[str, Any]) -> bytes | None:
        """How the text begins, as UTF-8."""
        # A code point takes 4 bytes at most; one that was cut is left out.
        begin = example["text"][0][: 4 * _PREVIEW_CHARS].decode(errors="ignore")
        return str(begin[:_PREVIEW_CHARS]).encode()

    def prepare_batch(self, records: Sequence[RawRecord]) -> PreparedBatch:
        """See RecordType."""
        batch = document_batch(records)
        texts = Texts(batch)
        for applied in self._steps:
            applied.step(texts)
        rows = pa.array(texts.rows)
        measured = texts.measured
        values: dict[str, Any] = {
            "id": batch["record_id"].take(rows).to_pylist(),
            "text": texts.text.to_pylist(),
        }
        return PreparedBatch(
            rows=texts.rows,
            values=values,
            fingerprints=fingerprints(texts.text),
            statistics={
                "chars": pa.array(measured.chars),
                "words": pa.array(measured.word_counts),
                "source_bytes": pc.binary_length(batch["original"].take(rows)).cast(pa.int64()),
                "source_encoding": batch["encoding"].take(rows),
                **texts.columns,
                **self._evidence_of(texts.text),
            },
            rejects=texts.rejects,
        )

    def _evidence_of(self, text: pa.LargeStringArray) -> dict[str, pa.Array]:
        columns: dict[str, pa.Array] = {}
        if self._near:
            sets = shingles(text)
            stored = pa.py_buffer(signatures(sets).astype("<u4").tobytes())
            columns["near_signature"] = pa.FixedSizeBinaryArray.from_buffers(
                pa.binary(SIGNATURE_BYTES), len(text), [None, stored]
            )
            columns["near_shingles"] = sets.column()
        if self._parts != "off":
            columns["part_hashes"] = part_hashes(text, self._parts)
        return columns

    @property
    def staged_features(self) -> tuple[Feature, ...]:
        """The text, whatever it becomes: another tokenizer finds the units as they are."""
        return self._staged

    @property
    def index_columns(self) -> tuple[pa.Field, ...]:
        """A sequence of several documents has other columns than a document."""
        return PACKED_COLUMNS if self._options.pack else super().index_columns

    def check(self) -> None:
        """See RecordType."""
        if self._tokenizing:
            self._tokenizing.check()

    def shard_options(self) -> dict[str, Any]:
        """See RecordType."""
        return self._tokenizing.shard_options() if self._tokenizing else {}

    def settle(self, workspace: Workspace, sample: Sample) -> Settled:
        """See RecordType."""
        return self._tokenizing.settle(workspace, sample) if self._tokenizing else Settled({}, [])

    def files(self, workspace: Workspace) -> dict[str, Path]:
        """See RecordType."""
        return self._tokenizing.files(workspace) if self._tokenizing else {}

    def finisher(self, workspace: Workspace, split: str) -> Finisher:
        """See RecordType."""
        then: Finisher = OnePerRecord()
        if self._tokenizing:
            ending = self._tokenizing.ending(workspace, self._features, self._measured)
            then = TextFinisher(ending)
        if self._parts == "off":
            return then
        # A sequence of several documents has no column for the length of one.
        return PartsDropped(self._staged, self._parts, then, tells_length=not self._options.pack)

    def training_statistics(self, index: pa.Table, tally: pa.Table) -> dict[str, Any]:
        """Tokens, the use of the vocabulary, and how documents lie in sequences."""
        if not self._tokenizing:
            return {}
        return self._tokenizing.statistics(tally, self._measured)


def _staged_features(options: TextOptions) -> tuple[Feature, ...]:
    return Feature("id", "text"), Feature("text", "text"), *kept_features(options)


def _label(options: TextOptions) -> Feature:
    return Feature("label", "class_label", (-1,) if options.multi_label else (), late=True)
