"""The rate of a stream without a model."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from foundation import storage
from foundation.storage import local_path, place_of
from reader.batches import read_batches
from reader.loading import LoadedStream
from reader.stream import Stream
from shard_format import UsageError


@dataclasses.dataclass(frozen=True)
class ReadRate:
    """Records read, and the time it took.

    Attributes:
        records: Records received after the first batch.
        batches: Batches received after the first one.
        seconds: Time they took.
        records_per_second: records / seconds; 0 where there was but one batch.
        megabytes_per_second: The same in 10**6 stored bytes, at the mean size of a record.
        tokens_per_second: The same in tokens, padding not counted, at the mean length of a record;
            None where the set holds no token ids.
        first_batch_seconds: Time until the first batch, in none of the above.
        requests_per_second: Requests of this process to object stores; None for a set that is not
            at a URL.
        received_megabytes_per_second: What they answered, in 10**6 bytes; None likewise.
    """

    records: int
    batches: int
    seconds: float
    records_per_second: float
    megabytes_per_second: float
    tokens_per_second: float | None
    first_batch_seconds: float
    requests_per_second: float | None = None
    received_megabytes_per_second: float | None = None


def measure(
    stream: Stream, seconds: float, on_batch: Callable[[int], None] = lambda records: None
) -> ReadRate:
    """The rate at which batches come, over some seconds or until the stream ends.

    Args:
        stream: What to read.
        seconds: How long to read after the first batch, above 0.
        on_batch: Called with the number of records of every batch, the first one included.

    Raises:
        UsageError: The time is not above 0.
        DamageError: A record is damaged.
    """
    if not seconds > 0:
        raise UsageError(f"seconds is {seconds} in reader.measure. Pass a number above 0.")
    begin = time.perf_counter()
    batches = read_batches(stream.dataset)
    on_batch(_size(next(batches)))
    start = now = time.perf_counter()
    before = storage.traffic()
    num_records = num_batches = 0
    for batch in batches:
        size = _size(batch)
        num_records, num_batches = num_records + size, num_batches + 1
        on_batch(size)
        now = time.perf_counter()
        if now - start >= seconds:
            break
    elapsed = now - start
    rate = num_records / elapsed if num_batches else 0.0
    tokens = stream.info.tokens
    after = storage.traffic()
    at_url = (
        bool(elapsed)
        and isinstance(stream, LoadedStream)
        and local_path(place_of(stream.directory)) is None
    )
    requests = (after.requests - before.requests) / elapsed if at_url else None
    received = (after.received_bytes - before.received_bytes) / elapsed / 1e6 if at_url else None
    return ReadRate(
        records=num_records,
        batches=num_batches,
        seconds=elapsed,
        records_per_second=rate,
        megabytes_per_second=rate * stream.info.stored_bytes / stream.info.records / 1e6,
        tokens_per_second=rate * tokens.num_tokens / stream.info.records if tokens else None,
        first_batch_seconds=start - begin,
        requests_per_second=requests,
        received_megabytes_per_second=received,
    )


def _size(batch: Any) -> int:
    """Records of a batch, be it inputs and targets or inputs alone, one tensor or several."""
    return int(tf.nest.flatten(batch)[0].shape[0])
