"""An audit from start to end: the columns, the checks, the rows of what they have found."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_jobs.audit.audited_set import AuditedSet
from beam_jobs.audit.checks import CHECKS
from beam_jobs.audit.predictions import Predictions
from beam_jobs.columns import int64
from beam_jobs.report.finished_set import FinishedSet
from foundation.storage import Place
from foundation.wording import did_you_mean
from shard_format import ShardSetError, UsageError

FINDINGS_SCHEMA = pa.schema(
    [
        pa.field("finding", pa.string(), nullable=False),  # a name in CHECKS
        pa.field("record_id", pa.string()),  # null for a class or a column
        pa.field("split", pa.string()),
        pa.field("label", pa.string()),  # several are joined
        pa.field("column", pa.string()),  # whose value it is, or the class, or what is compared
        pa.field("value", pa.float64()),
        pa.field("threshold", pa.float64(), nullable=False),
        pa.field("other", pa.string()),  # record, class, language or value that it is compared with
        pa.field("other_split", pa.string()),
    ]
)
_SEEN_ONCE = ("record_id", "column", "other")  # a record that is repeated for balance counts once

# Thresholds by the names of checks; None leaves one out.
Thresholds = Mapping[str, float | None]


class AuditResult(NamedTuple):
    """What was found.

    Attributes:
        finished: The set.
        thresholds: By the name of each check that was not left out.
        findings: Rows of FINDINGS_SCHEMA by the name of each check that the set has something for,
            the worst first.
        judged: Number of records that a model was asked about; None without a model.
        read: Number of records that were read from the shards; 0 if the index had everything.
        seconds: Time that reading took.
    """

    finished: FinishedSet
    thresholds: dict[str, float]
    findings: dict[str, pa.Table]
    judged: int | None
    read: int
    seconds: float

    @property
    def not_applicable(self) -> list[str]:
        """The checks for which the set has nothing."""
        return [name for name in self.thresholds if name not in self.findings]

    def table(self) -> pa.Table:
        """All rows."""
        return pa.concat_tables([FINDINGS_SCHEMA.empty_table(), *self.findings.values()])


def audit(
    directory: Place,
    thresholds: Thresholds | None = None,
    predictions: Predictions | None = None,
    workers: int | None = None,
    on_progress: Callable[[str, int, int], None] = lambda stage, done, total: None,
) -> AuditResult:
    """Looks for faults of a set, in one pass over its shards.

    Args:
        directory: The set.
        thresholds: By the name of a check, in place of its own; None leaves the check out.
        predictions: What a model says of records that it was not trained on.
        workers: How many read at a time; None for one per usable core.
        on_progress: Called with "measure" or "check", and what is done of how much.

    Raises:
        UsageError: There is no such check, or the records are packed sequences.
        ShardSetError: There is no set in this directory.
        DamageError: A manifest or an index is not as it was written.
    """
    finished = FinishedSet(directory)
    used = _thresholds(thresholds or {}, finished.holds_text)
    if finished.packed:
        raise UsageError(
            f"{directory} holds sequences with several documents each. Audit a set of the same "
            "documents that was built without --pack."
        )
    with tempfile.TemporaryDirectory(prefix="shardmill-audit-") as folder:
        audited = AuditedSet(
            finished, Path(folder), near="across-splits" in used, predictions=predictions
        )
        if not audited.records:
            raise ShardSetError(f"{directory} has no records. There is nothing to audit.")
        begin = time.perf_counter()
        audited.measure(workers, lambda done: on_progress("measure", done, audited.records))
        seconds = time.perf_counter() - begin
        findings = {}
        for number, (name, threshold) in enumerate(used.items()):
            on_progress("check", number, len(used))
            rows = CHECKS[name].find(audited, threshold)
            if rows is not None:
                findings[name] = _described(audited, name, threshold, rows)
        on_progress("check", len(used), len(used))
        judged = None
        if predictions is not None:
            judged = sum(map(len, predictions.splits.values()))
        read = audited.records if audited.was_read else 0
    return AuditResult(finished, used, findings, judged, read, seconds)


def _thresholds(given: Thresholds, of_texts: bool) -> dict[str, float]:
    for name in given:
        if name not in CHECKS:
            raise UsageError(
                f"No check is named {name!r}. {did_you_mean(name, CHECKS)}Choose from: "
                f"{', '.join(CHECKS)}."
            )
    thresholds = {}
    for name, check in CHECKS.items():
        is_other = of_texts and check.of_texts is not None
        value = given.get(name, check.of_texts if is_other else check.threshold)
        if value is not None:
            thresholds[name] = value
    return thresholds


def _described(audited: AuditedSet, name: str, threshold: float, rows: pa.Table) -> pa.Table:
    """Rows of FINDINGS_SCHEMA of what a check has returned."""
    records, others = rows["row"].combine_chunks(), rows["other_row"].combine_chunks()
    columns = {field: _at(audited, records, field) for field in ("record_id", "split", "label")}
    size = len(rows)
    table = pa.table(
        {
            "finding": pa.array([name] * size, pa.string()),
            **columns,
            "split": pc.coalesce(rows["split"], columns["split"]),
            "column": rows["column"],
            "value": rows["value"],
            "threshold": np.full(size, threshold),
            "other": pc.coalesce(rows["other"], _at(audited, others, "record_id")),
            "other_split": _at(audited, others, "split"),
        }
    ).cast(FINDINGS_SCHEMA)
    keys = table.select(_SEEN_ONCE).append_column("row", pa.array(np.arange(size)))
    first = keys.group_by(list(_SEEN_ONCE)).aggregate([("row", "min")])["row_min"]
    return table.take(pa.array(np.sort(int64(first))))


def _at(audited: AuditedSet, rows: pa.Array, field: str) -> pa.Array:
    """[n] a field of records; null where there is no record."""
    known = np.flatnonzero(np.asarray(pc.is_valid(rows), bool))
    values = audited.described(np.asarray(rows.drop_null(), np.int64))[field].cast(pa.string())
    places = np.full(len(rows), -1)
    places[known] = np.arange(len(known))
    return values.take(pa.array(places, mask=places < 0))
