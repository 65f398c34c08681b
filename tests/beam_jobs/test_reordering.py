"""Rows and frames come back in another order, from memory or from files, some at a time."""

from __future__ import annotations

import contextlib
import tempfile
import uuid
from pathlib import Path
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_jobs import bounds
from beam_jobs.staging import reordering
from beam_jobs.staging.reordering import Partitions, RowSorter, Spool
from tests.fixtures.proofs import examples

_SCHEMA = pa.schema([("key", pa.uint64()), ("record_id", pa.string()), ("label", pa.string())])
_KEYS = st.integers(0, 5) | st.integers(0, 2**64 - 1)  # the first ones often are equal
_ROWS = st.lists(st.tuples(_KEYS, st.text(max_size=4)), max_size=60, unique=True)


@contextlib.contextmanager
def _sorter(path, rows, batch):
    with contextlib.closing(RowSorter(path, _SCHEMA, ("key", "record_id"))) as sorter:
        for start in range(0, len(rows), batch):
            keys, ids = zip(*rows[start : start + batch], strict=True)
            labels = [f"of {one}" if one else None for one in ids]
            sorter.append(pa.table([keys, ids, labels], schema=_SCHEMA))
        yield sorter


@given(_ROWS, st.integers(1, 9), st.integers(1, 900), st.integers(1, 20), st.integers(1, 6))
def test_rows_come_back_in_order(tmp_path_factory, rows, batch, held, joined, batches):
    path = tmp_path_factory.getbasetemp() / uuid.uuid4().hex
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bounds, "SORTED_BYTES", held)
        patch.setattr(bounds, "JOINED_ROWS", joined)
        patch.setattr(reordering, "_RUN_BATCHES", batches)
        with _sorter(path, rows, batch) as sorter:
            assert sorter.count == len(rows)
            parts = list(sorter.in_order())
    in_order = [tuple(row.values()) for part in parts for row in part.to_pylist()]
    assert in_order == [(key, one, f"of {one}" if one else None) for key, one in sorted(rows)]
    assert all(part.schema == _SCHEMA and len(part.to_batches()) == 1 for part in parts)
    assert not path.exists()


def test_a_part_of_many_rows_has_as_many_bytes_as_wait_in_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(bounds, "SORTED_BYTES", 100_000)
    keys = np.random.default_rng(0).integers(0, 2**64, 30_000, np.uint64).tolist()
    rows = [(key, f"{number:020}") for number, key in enumerate(keys)]
    with _sorter(tmp_path / "rows", rows, 500) as sorter:
        assert sorter._held_bytes < 100_000
        assert (tmp_path / "rows").exists()
        sizes = [part.nbytes for part in sorter.in_order()]
    assert sum(sizes) > 15 * 100_000
    assert max(sizes) < 200_000


@given(st.lists(st.binary(max_size=30), max_size=30), st.integers(0, 300), st.randoms())
def test_frames_come_back_in_any_order(tmp_path_factory, frames, held, draw):
    path = tmp_path_factory.getbasetemp() / uuid.uuid4().hex
    order = list(range(len(frames)))
    draw.shuffle(order)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bounds, "SPOOLED_BYTES", held)
        with contextlib.closing(Spool(path)) as waiting:
            begins = [np.zeros(0, np.int64)]
            for start in range(0, len(frames), 4):
                some = pa.array(frames[start : start + 4], pa.large_binary())
                begins.append(waiting.append(some))
            assert path.exists() == (sum(map(len, frames)) > held)
            sizes = np.array([len(frame) for frame in frames], np.int64)[order]
            places = np.concatenate(begins)[order]
            for part in (slice(0, 7), slice(7, None)):
                taken = b"".join(waiting.take(places[part], sizes[part]))
                assert taken == b"".join(frames[number] for number in order[part])
    assert not path.exists()


DTYPE = np.dtype([("number", np.int64), ("split", np.int8)])


@given(
    number=st.integers(1, 5),
    added=st.lists(st.lists(st.integers(0, 4), max_size=12), max_size=8),
    held=st.integers(1, 20),
)
@settings(max_examples=examples(60))
def test_every_row_comes_back_once_in_its_partition(number, added, held):
    expected, count = [[] for _ in range(number)], 0
    folder = Path(tempfile.mkdtemp()) / "rows"
    with mock.patch.object(bounds, "WAITING_ROWS", held):
        with contextlib.closing(Partitions(folder, DTYPE, number)) as made:
            for some in added:
                chosen = np.array([one % number for one in some], np.int64)
                rows = np.zeros(len(some), DTYPE)
                rows["number"] = np.arange(count, count + len(some))
                count += len(some)
                for one, row in zip(chosen.tolist(), rows["number"].tolist(), strict=True):
                    expected[one].append(row)
                made.add(chosen, rows)
            assert [rows["number"].tolist() for rows in made.take()] == expected
    assert not folder.exists()


def test_files_are_removed_after_an_error(tmp_path):
    folder = tmp_path / "rows"
    with mock.patch.object(bounds, "WAITING_ROWS", 1), pytest.raises(KeyError):
        with contextlib.closing(Partitions(folder, DTYPE, 2)) as made:
            made.add(np.array([0, 1]), np.zeros(2, DTYPE))
            assert list(folder.iterdir())
            raise KeyError
    assert not folder.exists()
