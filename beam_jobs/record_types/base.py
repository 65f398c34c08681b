"""What a record type is: how raw records become the features of examples."""

from __future__ import annotations

import abc
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from beam_jobs.columns import IntArray
from beam_jobs.corpus.payload import Payload
from beam_jobs.corpus.record import RawRecord, Rejection
from beam_jobs.options import PreprocessOptions
from beam_jobs.options.values import parse_kept
from beam_jobs.workspace import Workspace
from shard_format import Feature, Schema, finish_example


class Prepared(NamedTuple):
    """A record ready to be stored.

    Attributes:
        values: The value of every feature that is not late, by name.
        fingerprint: 16 bytes that are equal for exact duplicates; where the record type
            `confirms`, equal for some others too.
        statistics: A value for every statistics and evidence column, by name.
    """

    values: Mapping[str, Any]
    fingerprint: bytes
    statistics: Mapping[str, Any]


class PreparedBatch(NamedTuple):
    """Records ready to be stored, as columns; row i of each is one record.

    Attributes:
        rows: [n] int64, the rows of the batch that these are, ascending.
        values: [n] each: the value of every feature that is neither late nor a kept column, by
            name; Python values as `shard_format.encode_features` takes them.
        fingerprints: [n] of 16 bytes: equal for exact duplicates.
        statistics: [n] each: every statistics and evidence column, by name.
        rejects: (row of the batch, why it is not among `rows`), for every other row.
    """

    rows: IntArray
    values: Mapping[str, Sequence[Any]]
    fingerprints: pa.Array | Sequence[bytes]
    statistics: Mapping[str, pa.Array | Sequence[Any]]
    rejects: list[tuple[int, Rejection]]


class Sample(Protocol):
    """Records of the training split; which ones depends on the corpus and the splits alone."""

    @property
    def empty(self) -> bool:
        """Whether there is no record at all, in any split."""

    def read(self, size: int) -> Iterator[bytes]:
        """The encoded features of about `size` bytes of records, always in the same order."""

    def key(self, size: int) -> str:
        """Names those records, as no others are named."""


class Settled(NamedTuple):
    """What was decided once the splits were known.

    Attributes:
        config: For the manifest's config, beside the options; shards depend on it.
        notes: What the user should be told.
    """

    config: Mapping[str, Any]
    notes: list[str]


class RecordType(abc.ABC):
    """One kind of record; an instance belongs to one job and holds its parsed options.

    Attributes:
        payload: How its records are read from a corpus.
        version: Raised whenever the same input and options give other bytes than before, so that
            no unit staged by older code is used again.
        schema: The features of an example of the set.
        statistics: Columns for the index, with what is known of each record.
        summarized: Names of those, of whole numbers, whose range and mean the manifest tells.
        evidence: Columns that planning needs and the index does not keep.
        late_columns: Columns for the index that are known only once all records are, beside the
            label: sharding fills them in.
        confirms: Whether records with equal fingerprints are duplicates only if `confirm` gives
            the same for both.
        runs_python: Whether its kernels hold the interpreter's lock, so that the local engine
            should use processes and not threads.
    """

    payload: Payload
    version: int
    schema: Schema
    statistics: tuple[pa.Field, ...]
    summarized: tuple[str, ...] = ()
    evidence: tuple[pa.Field, ...] = ()
    late_columns: tuple[pa.Field, ...] = ()
    confirms: bool = False
    runs_python: bool = False

    @abc.abstractmethod
    def prepare_batch(self, records: Sequence[RawRecord]) -> PreparedBatch:
        """Turns records into features; which records share a batch has no effect on them."""

    @abc.abstractmethod
    def stage_options(self) -> dict[str, Any]:
        """The options that have an effect on what is staged."""

    @property
    def staged_features(self) -> tuple[Feature, ...]:
        """The features that are staged; in the set they may be others."""
        return tuple(feature for feature in self.schema.features if not feature.late)

    @property
    def index_columns(self) -> tuple[pa.Field, ...]:
        """The columns of the index behind the common ones."""
        return (*self.statistics, *self.late_columns)

    def check(self) -> None:
        """Looks at the files that the options name, before a job begins.

        Raises:
            InputError: One of them cannot be used.
        """
        return None

    def shard_options(self) -> dict[str, Any]:
        """The options that have an effect on how staged records become examples."""
        return {}

    def settle(self, workspace: Workspace, sample: Sample) -> Settled:
        """Makes what all shards need and leaves it in the workspace; done again by every run.

        Args:
            workspace: Of the build; a folder of its own is `workspace.settled`.
            sample: Reads records of the training split.

        Raises:
            InputError: It cannot be made from this corpus.
        """
        return Settled({}, [])

    def files(self, workspace: Workspace) -> dict[str, Path]:
        """Further files of the set, by name, where they lie in the workspace."""
        return {}

    def finisher(self, workspace: Workspace, split: str) -> Finisher:
        """How the staged records of a shard of some split become its examples."""
        return OnePerRecord()

    def training_statistics(self, index: pa.Table, tally: pa.Table) -> dict[str, Any]:
        """What else the manifest keeps of the training split, for readers to normalize with.

        Args:
            index: Of the split.
            tally: What its shards counted, see `beam_jobs.counters`.
        """
        return {}

    def preview(self, example: Mapping[str, Any]) -> bytes | None:
        """Something small of a record for people to look at, if there can be: a JPEG, or UTF-8.

        Args:
            example: Values by feature, as `shard_format.decode_example` gives them.
        """
        return None

    def confirm(self, stored: bytes) -> bytes:
        """16 bytes that are equal for exact duplicates and for nothing else.

        It costs more than a fingerprint, so it is asked only of records that share theirs.

        Args:
            stored: The bytes of the feature that is compared, as a shard holds them.
        """
        raise NotImplementedError(f"{type(self).__name__} has fingerprints that need no proof")


class SingleRecords(RecordType):
    """Records that are prepared one at a time, since each may be large."""

    @abc.abstractmethod
    def prepare(self, record_id: str, data: Any) -> Prepared:
        """Turns the payload of one record into features.

        Raises:
            Rejection: The record cannot be used.
        """

    def prepare_batch(self, records: Sequence[RawRecord]) -> PreparedBatch:
        """See RecordType."""
        rows: list[int] = []
        prepared: list[Prepared] = []
        rejects: list[tuple[int, Rejection]] = []
        for row, record in enumerate(records):
            try:
                prepared.append(self.prepare(record.record_id, record.payload))
                rows.append(row)
            except Rejection as rejection:
                rejects.append((row, rejection.at("prepare").with_data(record.original)))
        names = prepared[0].values if prepared else {}
        columns = prepared[0].statistics if prepared else {}
        return PreparedBatch(
            rows=np.array(rows, np.int64),
            values={name: [one.values[name] for one in prepared] for name in names},
            fingerprints=[one.fingerprint for one in prepared],
            statistics={name: [one.statistics[name] for one in prepared] for name in columns},
            rejects=rejects,
        )


def kept_features(options: PreprocessOptions) -> tuple[Feature, ...]:
    """The features of --keep-columns."""
    return tuple(Feature(name, kind) for name, kind in parse_kept(options.keep_columns))


class Staged(NamedTuple):
    """A staged record on its way into a shard.

    Attributes:
        row: Its row in the table of the shard.
        entries: The encoded features known when it was staged (`encode_features`).
        late: Those known only now: the label; b"" where there is none.
    """

    row: int
    entries: bytes
    late: bytes


class Finished(NamedTuple):
    """An example of a shard.

    Attributes:
        example: The serialized tf.train.Example.
        row: Row of the shard's table whose key, id, label and statistics it has in the index.
        columns: What is different there, by name of an index column.
    """

    example: bytes
    row: int
    columns: Mapping[str, Any]


class Finisher(abc.ABC):
    """Turns the staged records of one shard, in order, into its examples."""

    @abc.abstractmethod
    def finish(self, table: pa.Table, staged: Iterator[Staged]) -> Iterator[Finished]:
        """The examples in order, whose `row` never falls.

        Args:
            table: The sidecar rows of the shard in final order, with the columns "unit" and "row".
            staged: The same records with their payload, read as they are asked for.
        """

    def tally(self) -> pa.Table | None:
        """What was counted, see `beam_jobs.counters`, once the last example was given."""
        return None


class OnePerRecord(Finisher):
    """Every record is one example, as it was staged."""

    def finish(self, table: pa.Table, staged: Iterator[Staged]) -> Iterator[Finished]:
        """See Finisher."""
        for record in staged:
            yield Finished(finish_example(record.entries + record.late), record.row, {})
