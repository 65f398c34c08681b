"""The page, the table and the lists of an audit, in a folder outside of the set."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from beam_jobs.audit.auditing import AuditResult
from beam_jobs.audit.checks import CHECKS
from beam_jobs.report.finished_set import FinishedSet
from beam_jobs.report.markup import render
from beam_jobs.report.previews import Preview, as_preview, read_previews
from foundation import storage
from foundation.errors import file_error
from foundation.storage import Place
from shard_format import DamageError, UsageError

PAGE, TABLE, LISTS = "audit.html", "audit.parquet", "ids"

_MOST_SHOWN = 24  # of a finding, on the page
_BATCH_ROWS = 1 << 16  # of ids that are Python objects at a time


class ShownFinding(NamedTuple):
    """A finding on the page.

    Attributes:
        name: Its name in CHECKS.
        title: Its heading.
        meaning: What was found, with the threshold.
        size: Number of rows.
        rows: The first rows, by the columns of FINDINGS_SCHEMA.
    """

    name: str
    title: str
    meaning: str
    size: int
    rows: list[dict[str, Any]]

    @property
    def has_records(self) -> bool:
        """Whether it is about records, and not about classes or columns."""
        return any(row["record_id"] is not None for row in self.rows)


def list_of(out: Place, name: str) -> Place:
    """The file with the ids of the records of a finding."""
    return out / LISTS / f"{name}.jsonl"


def output_folder(directory: Place, out: Place | None) -> Place:
    """The output folder; by default beside a local set, and in the working folder for a URL.

    Raises:
        UsageError: It is in the set, whose files are all accounted for, or the set is in it.
    """
    if out is None:
        whole = storage.resolved(directory)
        path = storage.local_path(whole)
        name = f"{whole.name}-audit"
        return storage.place_of(name) if path is None else path.parent / name
    if storage.overlap(out, directory):
        raise UsageError(f"--out {out} and the set {directory} overlap. Write it elsewhere.")
    return out


def write_audit(result: AuditResult, out: Place, remarks: list[str]) -> dict[str, Place]:
    """Writes all files of an audit, each of which appears whole; those of another one are replaced.

    Args:
        result: What was found.
        out: The folder.
        remarks: Sentences for the summary on the page.

    Returns:
        The list of ids of each finding that is about records.

    Raises:
        InputError: A file cannot be written.
    """
    lists = {}
    try:
        storage.make_folder(out / LISTS)
        for name in CHECKS:  # a list that is left from another audit would remove good records
            storage.delete(list_of(out, name))
        with storage.create_arrow(out / TABLE) as sink:
            pq.write_table(result.table(), sink)
        for name, rows in result.findings.items():
            ids = rows["record_id"].drop_null().unique()
            if len(ids):
                lists[name] = list_of(out, name)
                with storage.create(lists[name]) as file:
                    file.writelines(_lines(ids))
        storage.write_bytes(out / PAGE, render_page(result, remarks).encode())
    except OSError as error:
        raise file_error(error, str(out)) from error
    return lists


def _lines(ids: pa.Array) -> Iterator[bytes]:
    """Each id as a line of JSON: an id may have line breaks."""
    for begin in range(0, len(ids), _BATCH_ROWS):
        for one in ids.slice(begin, _BATCH_ROWS).to_pylist():
            yield json.dumps(one).encode() + b"\n"


def render_page(result: AuditResult, remarks: list[str]) -> str:
    """Renders the page: the first rows of each finding, with pictures of their records."""
    findings = [
        ShownFinding(
            name,
            CHECKS[name].title,
            CHECKS[name].meaning.format(result.thresholds[name]),
            len(rows),
            rows.slice(0, _MOST_SHOWN).to_pylist(),
        )
        for name, rows in result.findings.items()
    ]
    wanted = {
        row[field]
        for finding in findings
        for row in finding.rows
        for field in ("record_id", *(("other",) if row["other_split"] else ()))
    }
    values = {
        "reported": result.finished,
        "findings": findings,
        "absent": [CHECKS[name].title for name in result.not_applicable],
        "remarks": remarks,
        "previews": dict(_previews(result.finished, wanted - {None})),
        "lists": LISTS,
        "table": TABLE,
    }
    return render("audit.html", values)


def _previews(finished: FinishedSet, ids: set[str]) -> Iterator[tuple[str, Preview | None]]:
    """What can be shown of some records; nothing of a damaged one."""
    locations = {location.record_id: location for location in finished.find(ids)}
    for record_id, location in locations.items():
        try:
            seen = [shown for _, _, shown in read_previews(finished, [location])]
        except DamageError:
            continue
        if seen and (finished.holds_text or isinstance(seen[0], np.ndarray)):
            yield record_id, as_preview(seen[0])
