"""A corpus that exists as sidecars alone."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from beam_jobs import bounds
from beam_jobs.stages.plan.spread import rounds
from beam_jobs.staging.assignment import Assignment, new_splits
from beam_jobs.staging.reordering import Partitions, RowSorter
from beam_jobs.staging.sidecars import Sidecars
from shard_format import id_hash, shuffle_keys
from tests.beam_jobs.stages.merge.builds import FORCED


class InMemory(Sidecars):
    def __init__(self, tables):
        self.tables = tables
        self._on_read = lambda rows: None
        self.keys = [f"unit{number}" for number in range(len(tables))]
        self.begins = np.cumsum([0, *map(len, tables)], dtype=np.int64)
        self.records = int(self.begins[-1])

    def table(self, unit):
        return self.tables[unit]

    def partitions(self, dtype, number):
        return Partitions(Path(tempfile.mkdtemp()), dtype, number)

    def sorter(self, schema, by):
        return RowSorter(Path(tempfile.mkdtemp()) / "rows", schema, by)


def _column(rows, name, kind):
    return pa.array([row.get(name) for row in rows], kind)


@pytest.fixture
def sidecars():
    """Makes sidecars of rows {"id", "label", "fingerprint", "group", "split"}, cut into units."""

    def make(rows, units=1):
        tables = []
        for part in np.array_split(np.arange(len(rows)), units):
            some = [rows[number] for number in part.tolist()]
            hashes = [id_hash(row["id"]) for row in some]
            groups = [None if row.get("group") is None else id_hash(row["group"]) for row in some]
            table = pa.table(
                {
                    "key": pa.array(shuffle_keys(hashes, 0).tolist(), pa.uint64()),
                    "id_hash": pa.array(hashes, pa.uint64()),
                    "length": pa.array([1] * len(some), pa.int64()),
                    "record_id": pa.array([row["id"] for row in some], pa.string()),
                    "label": _column(some, "label", pa.string()),
                    "fingerprint": pa.array(
                        [row.get("fingerprint", row["id"]).ljust(16)[:16].encode() for row in some],
                        pa.binary(16),
                    ),
                    "group": pa.array(groups, pa.uint64()),
                    "split": _column(some, "split", pa.string()),
                }
            )
            tables.append(table.sort_by("key"))
        return InMemory([table for table in tables if len(table)])

    return make


@pytest.fixture
def assignment(tmp_path):
    counter = iter(range(10**9))
    return lambda of: Assignment(new_splits(tmp_path / f"splits{next(counter)}.npy", of.records))


@pytest.fixture
def by_id():
    """The split of every record id."""

    def read(of, assigned):
        ids = [name for _, table in of for name in table["record_id"].to_pylist()]
        return dict(zip(ids, assigned.split_of.tolist(), strict=True))

    return read


@pytest.fixture
def spread(monkeypatch):
    """Has every build in this process plan in rounds; the tasks that were done, by round."""
    done, do = [], rounds.do_round

    def start(ranges):
        merging = FORCED._replace(ranges=ranges)
        monkeypatch.setattr("beam_jobs.pipeline.merging_at", lambda *_: merging)
        monkeypatch.setattr(
            "beam_jobs.pipeline.do_round", lambda task, *job: done.append(task) or do(task, *job)
        )
        return done

    return start


@pytest.fixture
def lowered(monkeypatch):
    """Every task has several parts of everything."""
    for name in ("PLANNED_ROWS", "MOST_PARTITION_ROWS", "WAITING_ROWS"):
        monkeypatch.setattr(bounds, name, 7)
