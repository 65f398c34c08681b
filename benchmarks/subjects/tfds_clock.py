"""The clock of `tfds.benchmark`, of what it is a wrapper: the wrapper needs pandas."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tensorflow_datasets.core.utils.benchmark import raw_benchmark

from benchmarks.subjects.clock import BATCH


def tfds_rate(batches: Iterator[Any], count: int) -> float:
    """Examples per second of so many batches, the first one left out."""
    result = raw_benchmark(batches, num_iter=max(2, count), batch_size=BATCH)
    return float(result.stats()["lasts"]["avg"])
