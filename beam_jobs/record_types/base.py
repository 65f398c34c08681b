"""A record type: what one kind of record does at every stage of a job.

RecordType has a method for each place where kinds of records differ; the stages call these and
know no kind by name. SingleRecords is for records that are prepared one at a time.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from typing_extensions import override

from beam_jobs.columns import IntArray
from beam_jobs.corpus.record import RawRecord, Rejection
from beam_jobs.corpus.record_extractor import RecordExtractor
from beam_jobs.counters import ColumnSums, Sums
from beam_jobs.dedup.clusters import NO_NEAR_PAIRS, Clusters, NearPairs
from beam_jobs.dedup.near_rounds import NearSearch
from beam_jobs.options import PreprocessOptions
from beam_jobs.options.values import parse_kept
from beam_jobs.staging.assignment import Assignment, TrainingSample
from beam_jobs.staging.examples import ExampleBuilder, OnePerRecord
from beam_jobs.staging.sidecars import Sidecars
from beam_jobs.staging.stored import StoredRecords
from beam_jobs.workspace import Workspace
from foundation.storage import Place
from shard_format import (
    LABELS_FIELD,
    Feature,
    Schema,
    UsageError,
    index_schema,
    label_column,
)
from shard_format.kept_columns import KEPT_TYPES, is_scalar

PIXELS = ""  # in the values of an image that has no scores yet: no name of a feature
# Columns by which an index of several labels, or of packed sequences, is known as one.
_RESERVED_COLUMNS = (LABELS_FIELD.name, "documents", "starts", "padding")

WEIGHT = Feature("sample_weight", "float32", late=True)
"""The feature of --sample-weight."""


class Prepared(NamedTuple):
    """A record ready to be stored.

    Attributes:
        values: The value of every feature that is not late, by name.
        fingerprint: 16 bytes that are equal for exact duplicates; where the record type
            has a `confirm`, equal for some others too.
        statistics: A value for every one of `RecordType.staged_columns`, by name.
    """

    values: Mapping[str, Any]
    fingerprint: bytes
    statistics: Mapping[str, Any]


class PreparedBatch(NamedTuple):
    """Records ready to be stored, as columns; row i of each is one record.

    Attributes:
        rows: [n] int64, the rows of the batch that these are, ascending.
        values: [n] each: the value of every feature that is neither late nor read from a column, by
            name; as `shard_format.encode_columns` takes them.
        fingerprints: [n] of 16 bytes: equal for exact duplicates.
        statistics: [n] each: every one of `RecordType.staged_columns`, by name.
        rejects: (row of the batch, why it is not among `rows`), for every other row.
        noted: Numbers of records by what they have, for `RecordType.notes`.
    """

    rows: IntArray
    values: Mapping[str, pa.Array | Sequence[Any]]
    fingerprints: pa.Array | Sequence[bytes]
    statistics: Mapping[str, pa.Array | Sequence[Any]]
    rejects: list[tuple[int, Rejection]]
    noted: Mapping[str, int] = {}


class PlannedChanges(NamedTuple):
    """Changes to the records of a corpus that can be planned only once their splits are known.

    Attributes:
        duplicates: Records that were taken out of their split because nothing of them would remain.
        filtered: Records that were taken out of their split by a rule, by reason.
        clusters: All duplicates, those included that were found by the changes.
        notes: For the user.
        recipe_columns: From [n] int64 numbers of records to further columns of a recipe, which
            `RecordType.example_builder` finds in the table of a shard.
    """

    duplicates: int
    filtered: Mapping[str, int]
    clusters: Clusters
    notes: list[str]
    recipe_columns: Callable[[IntArray], Mapping[str, pa.Array]]


class RecordType(abc.ABC):
    """One kind of record; an instance belongs to one job and holds its parsed options.

    Attributes:
        extractor: How its records are read from a corpus.
        version: Raised whenever the same input and options give other bytes than before, so that
            no unit staged by older code is reused.
        schema: The features of an example of the set.
        statistics: Index columns that describe each record.
        summarized: Integer columns summarized in the manifest (range, mean, histogram).
        dedup_features: Columns that finding duplicates needs and the index does not keep.
        ledger_columns: Boolean columns and counts that the index does not keep; the ledger has
            their sums over the kept records.
        late_columns: Index columns, besides the main label, that sharding fills in.
        kept_columns: Index columns of --keep-columns and --score that are one number or text.
        consumed: Kept columns of which it makes features of its own, besides those that
            `PreprocessOptions.consumed_columns` names.
        plans_at_once: Whether `plan_changes` looks at all units.
        sample_bytes: Bytes of the sample that `prepare_shared_artifacts` reads, about; 0 for none.
        planning_passes: How often `near_duplicates` and `plan_changes` read all sidecars.
        fingerprint_options: Options of the manifest with which equal records may have other
            fingerprints.
        runs_python: Whether its kernels hold the interpreter's lock, so that the local engine
            should use processes instead of threads.
        batch_bytes: Originals that `prepare_batch` gets at a time, or one record if it is larger;
            as much staged payload of local units is in memory while a shard is written.
    """

    extractor: RecordExtractor
    version: int
    schema: Schema
    statistics: tuple[pa.Field, ...]
    summarized: tuple[str, ...] = ()
    dedup_features: tuple[pa.Field, ...] = ()
    ledger_columns: tuple[pa.Field, ...] = ()
    late_columns: tuple[pa.Field, ...] = ()
    kept_columns: tuple[pa.Field, ...] = ()
    consumed: frozenset[str] = frozenset()
    plans_at_once: bool = False
    sample_bytes: int = 0
    planning_passes: int = 0
    fingerprint_options: tuple[str, ...] = ()
    runs_python: bool = False
    batch_bytes: int = 4 << 20  # 4 MiB

    def check(self) -> None:
        """Checks the files that the options name, before a job begins.

        Raises:
            InputError: One of them cannot be used.
        """
        return None

    def config(self) -> dict[str, Any]:
        """Options in the form that the manifest keeps, where `options.config()` has none."""
        return {}

    # Staging

    @abc.abstractmethod
    def prepare_batch(self, records: Sequence[RawRecord]) -> PreparedBatch:
        """Turns records into features; which records share a batch has no effect on them."""

    @abc.abstractmethod
    def stage_options(self) -> dict[str, Any]:
        """The options and versions that have an effect on what is staged."""

    def notes(self, noted: Mapping[str, int], staged: int) -> list[str]:
        """Notes for the user on the staged records of a build.

        Args:
            noted: Numbers of records by what they have, see PreparedBatch.
            staged: Number of all of them.
        """
        return []

    @property
    def staged_features(self) -> tuple[Feature, ...]:
        """The features that are staged; an example of the set may have others."""
        return tuple(feature for feature in self.schema.features if not feature.late)

    @property
    def staged_columns(self) -> tuple[pa.Field, ...]:
        """The sidecar columns behind the common ones."""
        return (*self.statistics, *self.dedup_features, *self.ledger_columns)

    @property
    def planning_columns(self) -> list[str]:
        """The sidecar columns that nothing behind planning uses; often as large as the payload."""
        return [field.name for field in self.dedup_features]

    # Planning

    @property
    def confirm(self) -> Callable[[Mapping[str, Any]], bytes] | None:
        """Confirms exact duplicates; None if equal fingerprints already do.

        From staged values by feature, as `shard_format.decode_example` returns them, to 16 bytes
        that are equal for exact duplicates and for nothing else. It costs more than a fingerprint,
        so it is called only for records that share theirs.
        """
        return None

    def near_duplicates(self, sidecars: Sidecars) -> NearPairs:
        """Near duplicates among the included records; none, unless the record type finds them.

        It is called with --dedup near, a choice that its options then have.

        Args:
            sidecars: All staged units; of exact duplicates one record is included.
        """
        return NO_NEAR_PAIRS

    @property
    def near_search(self) -> NearSearch | None:
        """How `near_duplicates` are found by many workers; None if one worker finds them all."""
        return None

    @property
    def stored_features(self) -> tuple[pa.Field, ...]:
        """The columns that near duplicates are found by, which the set stores for later records."""
        return self.dedup_features

    def near_earlier_ones(
        self, sidecars: Sidecars, records: IntArray, stored: StoredRecords
    ) -> NearPairs:
        """Pairs (number of a new record, row of an earlier one) of near duplicates.

        Args:
            sidecars: All staged units.
            records: [n] int64, numbers of records, ascending; one of each set of exact duplicates.
            stored: The earlier generations, with `stored_features`.
        """
        return NO_NEAR_PAIRS

    def plan_changes(
        self,
        sidecars: Sidecars,
        assignment: Assignment,
        clusters: Clusters,
        workspace: Workspace,
        partition_rows: int,
    ) -> PlannedChanges | None:
        """Plans what depends on the splits, and may leave out records; None if there is nothing.

        Args:
            sidecars: All staged units.
            assignment: The splits; changed in place.
            clusters: All duplicates so far.
            workspace: `workspace.plan` is a folder for files.
            partition_rows: About how many rows are held in memory at a time.
        """
        return None

    def prepare_shared_artifacts(
        self, workspace: Workspace, sample: TrainingSample
    ) -> tuple[dict[str, Any], list[str]]:
        """Creates what all shards need in `workspace.shared`; every run repeats it.

        Args:
            workspace: Workspace of the build.
            sample: Reads records of the training split.

        Returns:
            Additions to the manifest's config, on which shards depend, and notes for the user.

        Raises:
            InputError: It cannot be created from this corpus.
        """
        return {}, []

    # Sharding and commit

    def shard_options(self) -> dict[str, Any]:
        """The options that have an effect on how staged records become examples."""
        return {}

    def example_builder(self, workspace: Workspace, split: str) -> ExampleBuilder:
        """How the staged records of a shard of this split become its examples."""
        return OnePerRecord()

    @property
    def index_columns(self) -> tuple[pa.Field, ...]:
        """The columns of the index behind the common ones."""
        return (*self.statistics, *self.late_columns, *self.kept_columns)

    def files(self, workspace: Workspace) -> dict[str, Place]:
        """Further files of the set: name in the set -> path in the workspace."""
        return {}

    def training_sums(self) -> list[Sums]:
        """What is summed over the index of the training split, for readers to normalize with."""
        return [ColumnSums(name) for name in self.summarized]

    def training_statistics(self, counters: pa.Table) -> dict[str, Any]:
        """Further statistics of the training split for the manifest.

        Args:
            counters: What its shards counted, see `beam_jobs.counters`.
        """
        return {}

    def preview(self, example: Mapping[str, Any]) -> bytes | None:
        """A small JPEG, or UTF-8, that shows a record to people; None if there is none.

        Args:
            example: Values by feature, as `shard_format.decode_example` returns them.
        """
        return None


class SingleRecords(RecordType):
    """Records that are prepared one at a time, since each may be large."""

    batch_bytes = 1 << 20  # 1 MiB: a larger batch gains nothing, and its results are held

    @abc.abstractmethod
    def prepare(self, record: RawRecord) -> Prepared:
        """Turns one record into features.

        Raises:
            Rejection: The record cannot be used.
        """

    def prepare_each(self, records: Iterable[RawRecord]) -> Iterator[Prepared | Rejection]:
        """The features of each record, or why it cannot be used."""
        for record in records:
            try:
                yield self.prepare(record)
            except Rejection as rejection:
                yield rejection

    @override
    def prepare_batch(self, records: Sequence[RawRecord]) -> PreparedBatch:
        rows: list[int] = []
        prepared: list[Prepared] = []
        rejects: list[tuple[int, Rejection]] = []
        for row, one in enumerate(self.prepare_each(records)):
            if isinstance(one, Prepared):
                prepared.append(one)
                rows.append(row)
            else:
                rejects.append((row, one.at("prepare").with_data(records[row].original)))
        names = prepared[0].values if prepared else {}
        columns = prepared[0].statistics if prepared else {}
        return PreparedBatch(
            rows=np.array(rows, np.int64),
            values={name: [one.values[name] for one in prepared] for name in names},
            fingerprints=[one.fingerprint for one in prepared],
            statistics={name: [one.statistics[name] for one in prepared] for name in columns},
            rejects=rejects,
        )


def further_features(
    options: PreprocessOptions, scores: Sequence[Feature] = ()
) -> tuple[Feature, ...]:
    """The features of --keep-columns, those of --score, the labels, and --sample-weight."""
    kept = (*parse_kept(options.keep_columns), *scores)
    shape = (-1,) if options.multi_label else ()
    names = () if options.no_labels else ("label", *options.further_labels)
    labels = (Feature(name, "class_label", shape, late=True) for name in names)
    return (*kept, *labels, *(WEIGHT,) * (options.sample_weight is not None))


def late_index_columns(options: PreprocessOptions) -> tuple[pa.Field, ...]:
    """The index columns of labels, besides that of one main label per record, and of weights."""
    further = (pa.field(label_column(name), pa.int64()) for name in options.further_labels)
    weight = (pa.field(WEIGHT.name, pa.float32()),) * (options.sample_weight is not None)
    return (*(LABELS_FIELD,) * options.multi_label, *further, *weight)


def kept_index_columns(
    options: PreprocessOptions, others: Sequence[pa.Field], scores: Sequence[Feature] = ()
) -> tuple[pa.Field, ...]:
    """The index columns of --keep-columns and --score.

    Args:
        options: The job.
        others: The columns behind the common ones that the index has without them.
        scores: The columns of --score.

    Raises:
        UsageError: One of them has the name of another column.
    """
    if not options.kept_in_index:
        return ()
    kept = scalars_in_index(parse_kept(options.keep_columns), others, "--keep-columns")
    return (*kept, *scalars_in_index(scores, others, "--score"))


def scalars_in_index(
    features: Sequence[Feature], others: Sequence[pa.Field], flag: str
) -> tuple[pa.Field, ...]:
    """The index columns of those features that are one text or number.

    Args:
        features: The features.
        others: See `kept_index_columns`.
        flag: The option that has them, for messages.

    Raises:
        UsageError: One of them has the name of another column.
    """
    kept = [one for one in features if is_scalar(one)]
    taken = {*_RESERVED_COLUMNS, *index_schema(others).names}
    for feature in kept:
        if feature.name in taken:
            raise UsageError(
                f"{flag} {feature.name!r} has the name of a column that the index of the set has "
                "itself. Leave it out, or rename the column."
            )
    return tuple(pa.field(one.name, KEPT_TYPES[one.kind]) for one in kept)
