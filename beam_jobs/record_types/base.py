"""What a record type is: how the raw bytes of one record become the features of one example."""

from __future__ import annotations

import abc
from collections.abc import Mapping
from typing import Any, NamedTuple

import pyarrow as pa

from shard_format import Schema


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


class RecordType(abc.ABC):
    """One kind of record; an instance belongs to one job and holds its parsed options.

    Attributes:
        version: Raised whenever the same input and options give other bytes than before, so that
            no unit staged by older code is used again.
        schema: The features of an example.
        statistics: Columns for the index, with what is known of each record.
        summarized: Names of those, of whole numbers, whose range and mean the manifest tells.
        evidence: Columns that planning needs and the index does not keep.
        late_columns: Columns for the index that are known only once all records are, beside the
            label: sharding fills them in.
        confirms: Whether records with equal fingerprints are duplicates only if `confirm` gives
            the same for both.
    """

    version: int
    schema: Schema
    statistics: tuple[pa.Field, ...]
    summarized: tuple[str, ...] = ()
    evidence: tuple[pa.Field, ...] = ()
    late_columns: tuple[pa.Field, ...] = ()
    confirms: bool = False

    @abc.abstractmethod
    def stage_options(self) -> dict[str, Any]:
        """The options that have an effect on what `prepare` returns."""

    @abc.abstractmethod
    def prepare(self, record_id: str, data: bytes) -> Prepared:
        """Turns the raw bytes of one record into features.

        Raises:
            Refusal: The record cannot be used.
        """

    def training_statistics(self, index: pa.Table) -> dict[str, Any]:
        """What else the manifest keeps of the training split, for readers to normalize with."""
        return {}

    def preview(self, example: Mapping[str, Any]) -> bytes | None:
        """A small picture of a record for people to look at, if there can be one.

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
