"""What workers must read, said in lists and slices: nothing here is the reader's own arithmetic."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import tensorflow as tf

# A batch of an epoch: (record number, weight) in order.
Batches = list[list[tuple[int, float]]]


@pytest.fixture(scope="session")
def epoch_batches() -> Callable[..., Batches]:
    """All batches of an epoch, of all workers together; worker (i, n) has [i::n] of each."""

    def batches(numbers: Sequence[int], batch_size: int, remainder: str) -> Batches:
        rows = [(int(number), 1.0) for number in numbers]
        again = itertools.cycle(numbers)
        if remainder == "drop":
            rows = rows[: len(rows) // batch_size * batch_size]
        while remainder in ("pad", "wrap") and len(rows) % batch_size:
            rows.append((int(next(again)), 0.0))
        return [rows[start : start + batch_size] for start in range(0, len(rows), batch_size)]

    return batches


@pytest.fixture(scope="session")
def taken() -> Callable[..., list[list[Any]]]:
    """Batches of a data set as lists of numpy arrays, one for each part of an element."""

    def arrays(dataset: tf.data.Dataset, count: int | None = None) -> list[list[Any]]:
        some = dataset if count is None else dataset.take(count)
        return [[part.numpy() for part in tf.nest.flatten(batch)] for batch in some]

    return arrays
