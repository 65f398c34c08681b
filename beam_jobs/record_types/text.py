"""Documents: cleaned, measured, and stored as text; `tokens` stores them as token ids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from typing_extensions import override

from beam_jobs.columns import IntArray
from beam_jobs.corpus.record import RawRecord
from beam_jobs.corpus.record_extractor import FileExtractor
from beam_jobs.corpus.urls.extractor import UrlExtractor
from beam_jobs.dedup.clusters import Clusters, NearPairs, join_clusters
from beam_jobs.dedup.near_rounds import NearSearch
from beam_jobs.dedup.text.near_duplicates import near_duplicates, near_earlier_ones
from beam_jobs.dedup.text.near_rounds import near_search
from beam_jobs.dedup.text.normalization import fingerprints
from beam_jobs.dedup.text.reduced_documents import (
    ReducedDocuments,
    TextDescriptions,
    dedup_reduced,
)
from beam_jobs.dedup.text.repeated_segments import SEGMENT_HASHES, plan_removals
from beam_jobs.dedup.text.segments import REMOVED_SEGMENTS, SegmentRemover, segment_hashes
from beam_jobs.dedup.text.signatures import NEAR_FIELDS, near_columns
from beam_jobs.options import TextOptions
from beam_jobs.options.text import DEFAULT_CLEANING
from beam_jobs.options.values import parse_names
from beam_jobs.record_types.base import (
    PlannedChanges,
    PreparedBatch,
    RecordType,
    further_features,
    kept_index_columns,
    late_index_columns,
)
from beam_jobs.selection import best_column
from beam_jobs.staging.assignment import Assignment
from beam_jobs.staging.examples import ExampleBuilder, OnePerRecord
from beam_jobs.staging.sidecars import Sidecars
from beam_jobs.staging.stored import StoredRecords
from beam_jobs.text.cleaning import Measures, Texts, make_steps, versions
from beam_jobs.text.cleaning.length import Length
from beam_jobs.text.cleaning.tags import Tags, num_with_tags
from beam_jobs.text.extractor import TextExtractor, document_batch
from beam_jobs.workspace import Workspace
from shard_format import Feature, Schema

if TYPE_CHECKING:
    from beam_jobs.scores.rules import TextScores

_SEGMENT_FIELD = pa.field(SEGMENT_HASHES, pa.large_list(pa.uint64()), nullable=False)
# --dedup-parts reads all sidecars to count segments, to find repeated ones, to leave out records
# and to name the classes of the rest.
_SEGMENT_PASSES = 4
_PREVIEW_CHARS = 500
_TAGGED = "tagged"  # the documents in which HTML tags are left
_MANY_TAGGED = 0.01  # of all documents: some text is about HTML


class TextRecords(RecordType):
    """Input: documents. Output: {"id": "pos/1.txt", "text": "...", "label": 1}."""

    version = 4
    statistics: tuple[pa.Field, ...] = (
        pa.field("chars", pa.int64()),  # Unicode code points, as stored
        pa.field("words", pa.int64()),  # between runs of white space
        pa.field("source_bytes", pa.int64()),  # of the original
        pa.field("source_encoding", pa.string()),
    )
    summarized: tuple[str, ...] = ("chars", "words", "source_bytes")
    runs_python = True

    def __init__(self, options: TextOptions) -> None:
        self._options = options
        decontaminate = options.decontaminate
        self._steps = make_steps(
            options.clean,
            options.languages,
            parse_names("--decontaminate", decontaminate) if decontaminate else (),
            options.contamination_words,
        )
        self.extractor: FileExtractor = TextExtractor(options)
        if options.url_column is not None:
            self.extractor = UrlExtractor(options, self.extractor)
        self._scores: TextScores | None = None
        if options.score:
            from beam_jobs.scores.rules import TextScores  # most jobs have none

            self._scores = TextScores(options, self._steps)
        scores = self._scores.features if self._scores else ()
        reported = [field for applied in self._steps for field in applied.step.reports]
        self.statistics = (*type(self).statistics, *dict.fromkeys(reported))
        self._near = options.dedup == "near"
        self._segments = options.dedup_parts if options.dedup_parts != "off" else None
        self.dedup_features = (
            *NEAR_FIELDS * self._near,
            *(_SEGMENT_FIELD,) * bool(self._segments),
        )
        self.planning_passes = self._near + _SEGMENT_PASSES * bool(self._segments)
        self.plans_at_once = bool(self._segments)
        self.late_columns = late_index_columns(options)
        own_columns = (*self.statistics, *self.late_columns)
        self.kept_columns = kept_index_columns(options, own_columns, scores)
        own = Feature("id", "text"), Feature("text", "text")
        self.schema = Schema("text", (*own, *further_features(options, scores)))

    def config(self) -> dict[str, Any]:
        """The cleaning steps as they are applied, so that spellings of a recipe are equal."""
        return {"clean": [applied.described() for applied in self._steps], **self._scored()}

    def _scored(self) -> dict[str, Any]:
        """The scores with their models; nothing without --score."""
        return {"score": self._scores.described()} if self._scores else {}

    def stage_options(self) -> dict[str, Any]:
        """The steps with their parameters, and the versions of the packages they call."""
        return {
            "cleaning": [applied.described() for applied in self._steps],
            "near": self._near,
            "segments": self._segments,
            "kernels": versions(self._steps),
            **self._scored(),
        }

    @override
    def prepare_batch(self, records: Sequence[RawRecord]) -> PreparedBatch:
        batch = document_batch(records)
        make = self._scores.texts if self._scores else Texts
        texts = make(batch, [record.original for record in records])
        for applied in self._steps:
            applied.step(texts)
        scores = self._scores.columns(texts) if self._scores else {}
        rows = pa.array(texts.rows)
        measured = texts.measured
        values: dict[str, Any] = {
            "id": batch["record_id"].take(rows),
            "text": texts.text,
            **scores,
        }
        return PreparedBatch(
            rows=texts.rows,
            values=values,
            fingerprints=fingerprints(texts.text),
            statistics={
                "chars": pa.array(measured.chars),
                "words": pa.array(measured.word_counts),
                "source_bytes": [len(records[row].original) for row in texts.rows.tolist()],
                "source_encoding": batch["encoding"].take(rows),
                **texts.columns,
                **self._dedup_features_of(texts.text),
            },
            rejects=texts.rejects,
            noted={_TAGGED: num_with_tags(measured)},
        )

    def notes(self, noted: Mapping[str, int], staged: int) -> list[str]:
        """Notes HTML tags that cleaning has left."""
        tagged = noted.get(_TAGGED, 0)
        is_settled = not self._steps or any(isinstance(one.step, Tags) for one in self._steps)
        if is_settled or tagged <= _MANY_TAGGED * staged:
            return []
        clean = "default" if self._options.clean == DEFAULT_CLEANING else self._options.clean
        return [
            f"{tagged:,} of {staged:,} texts have HTML tags, such as <br />; --clean tags,{clean} "
            "removes them"
        ]

    def _dedup_features_of(self, text: pa.LargeStringArray) -> dict[str, pa.Array]:
        columns: dict[str, pa.Array] = {}
        if self._near:
            columns |= near_columns(text)
        if self._segments:
            columns[SEGMENT_HASHES] = segment_hashes(text, self._segments)
        return columns

    @override
    def near_duplicates(self, sidecars: Sidecars) -> NearPairs:
        return near_duplicates(sidecars, self._options.near_threshold, self._options.workers)

    @property
    @override
    def near_search(self) -> NearSearch | None:
        return near_search(self._options.near_threshold, self._options.workers)

    @property
    def stored_features(self) -> tuple[pa.Field, ...]:
        """Without segments: --dedup-parts needs those of all documents at once."""
        return NEAR_FIELDS * self._near

    @override
    def near_earlier_ones(
        self, sidecars: Sidecars, records: IntArray, stored: StoredRecords
    ) -> NearPairs:
        return near_earlier_ones(sidecars, records, stored, self._options.near_threshold)

    def plan_changes(
        self,
        sidecars: Sidecars,
        assignment: Assignment,
        clusters: Clusters,
        workspace: Workspace,
        partition_rows: int,
    ) -> PlannedChanges | None:
        """Plans which repeated lines or paragraphs --dedup-parts removes.

        Documents that have lost some are compared again, and measured by `length` again.
        """
        if not self._segments:
            return None
        path = workspace.plan_file("removed-segments.bin")
        removed, emptied = plan_removals(sidecars, assignment, path, partition_rows)
        job = (sidecars, assignment, removed, self._segments, self._describe, workspace)
        reduced = ReducedDocuments(*job)
        again = 0
        if self._options.dedup != "off":
            best = best_column(self._options, self)
            repeated = dedup_reduced(
                reduced.sidecars,
                assignment,
                self.near_duplicates if self._near else None,
                drop_conflicts=self._options.conflicts == "drop",
                best=best and best.name,
                partition_rows=partition_rows,
            )
            again = repeated.num_dropped - repeated.lost_to_conflict
            clusters = join_clusters(clusters, repeated)
        short = reduced.filtered.total()
        notes = [
            f"{len(removed):,} {self._segments} that occur elsewhere were removed; {emptied:,} "
            f"records with no other content count as duplicates, and {again:,} whose rest is that "
            f"of another; {short:,} were too short then"
        ]
        return PlannedChanges(
            duplicates=emptied,
            filtered=dict(sorted(reduced.filtered.items())),
            clusters=clusters,
            notes=notes if len(removed) else [],
            recipe_columns=lambda records: {REMOVED_SEGMENTS: removed.of(records)},
        )

    def _describe(self, text: pa.LargeStringArray) -> TextDescriptions:
        """Describes texts that have lost segments."""
        batch = pa.record_batch({"text": text, "is_html": [False] * len(text)})
        texts = Texts(batch, [None] * len(text))
        for applied in self._steps:
            if isinstance(applied.step, Length):
                applied.step(texts)
        columns = {"fingerprint": fingerprints(text), **self._dedup_features_of(text)}
        columns.pop(SEGMENT_HASHES, None)  # used already
        return TextDescriptions(
            columns, {row: rejection.reason for row, rejection in texts.rejects}
        )

    @override
    def example_builder(self, workspace: Workspace, split: str) -> ExampleBuilder:
        builder = self._example_builder(workspace)
        if not self._segments:
            return builder
        # A sequence of several documents has no column for the length of one.
        return SegmentRemover(
            self.staged_features, self._segments, builder, None if self._options.pack else measure
        )

    def _example_builder(self, workspace: Workspace) -> ExampleBuilder:
        """For documents of which segments are removed already."""
        return OnePerRecord()

    def preview(self, example: Mapping[str, Any]) -> bytes | None:
        """The beginning of the text, as UTF-8."""
        # A code point takes 4 bytes at most; one that was cut is left out.
        begin = example["text"][0][: 4 * _PREVIEW_CHARS].decode(errors="ignore")
        return str(begin[:_PREVIEW_CHARS]).encode()


def measure(text: str) -> dict[str, int]:
    """The columns of the index that describe a text."""
    measures = Measures(pa.array([text], pa.large_string()))
    return {"chars": int(measures.chars[0]), "words": int(measures.word_counts[0])}
