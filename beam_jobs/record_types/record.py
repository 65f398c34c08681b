"""Records of any features, as a program of the user reads them."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import numpy as np
from typing_extensions import override

from beam_jobs.corpus.python_records import PythonExtractor
from beam_jobs.corpus.record import RawRecord
from beam_jobs.options.records import RecordOptions
from beam_jobs.options.values import parse_features, parse_names
from beam_jobs.record_types.base import (
    PreparedBatch,
    RecordType,
    further_features,
    late_index_columns,
    scalars_in_index,
)
from foundation import storage
from shard_format import Feature, Schema, UsageError, encode_columns, file_sha256
from shard_format.kept_columns import is_in_index


class PythonRecords(RecordType):
    """Input: dictionaries. Output: {"id": "run7/000000003", "action": [0.1, 0.4], ...}."""

    version = 1
    statistics = ()
    fingerprint_options = ("dedup_by",)
    runs_python = True

    def __init__(self, options: RecordOptions) -> None:
        self._options = options
        self.extractor = PythonExtractor(options)
        self._features = parse_features("schema", options.schema)
        names = [feature.name for feature in self._features]
        chosen = names if options.dedup_by is None else parse_names("--dedup-by", options.dedup_by)
        unknown = [name for name in chosen if name not in names]
        if unknown:
            raise UsageError(
                f"--dedup-by names {unknown[0]!r}, and the schema has {', '.join(names)}. Name "
                "one of these."
            )
        self._compared = tuple(one for one in self._features if one.name in chosen)
        own = Feature("id", "text")
        self.schema = Schema("record", (own, *self._features, *further_features(options)))
        self.late_columns = late_index_columns(options)
        # A name of the index itself is no reason to rename a feature of a program.
        scalars = [one for one in self._features if is_in_index(one)]
        self.kept_columns = scalars_in_index(scalars, self.late_columns, "schema")

    def stage_options(self) -> dict[str, Any]:
        """The functions, with the file that they are in: another text may give other records."""
        options = self._options
        return {
            "functions": [options.items, options.read, options.fingerprint, *options.arguments],
            "code": file_sha256(storage.place_of(options.sources[0])),
            "schema": options.schema,
            "compared": [one.name for one in self._compared],
            "limit": options.read_limit,
        }

    @override
    def prepare_batch(self, records: Sequence[RawRecord]) -> PreparedBatch:
        values: dict[str, Any] = {
            one.name: [record.payload[one.name] for record in records] for one in self._features
        }
        entries = encode_columns(self._compared, values, len(records))
        return PreparedBatch(
            rows=np.arange(len(records)),
            values={"id": [record.record_id for record in records], **values},
            fingerprints=[blake2b(one, digest_size=16).digest() for one in entries.to_pylist()],
            statistics={},
            rejects=[],
        )
