"""Rows come back by partition, in the order in which they were added."""

from __future__ import annotations

import tempfile
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_jobs.staging import partitions
from beam_jobs.staging.partitions import Partitions
from tests.fixtures.proofs import examples

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
    with mock.patch.object(partitions, "_HELD_ROWS", held):
        with Partitions(folder, DTYPE, number) as made:
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
    with mock.patch.object(partitions, "_HELD_ROWS", 1), pytest.raises(KeyError):
        with Partitions(folder, DTYPE, 2) as made:
            made.add(np.array([0, 1]), np.zeros(2, DTYPE))
            assert list(folder.iterdir())
            raise KeyError
    assert not folder.exists()
