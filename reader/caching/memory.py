"""Serialized records, made one after the other, as one tensor."""

from __future__ import annotations

from collections.abc import Iterator

import tensorflow as tf

from reader.payloads import MemoryPayloads
from shard_format import DamageError


def memory_payloads(records: Iterator[bytes], count: int, where: object) -> MemoryPayloads:
    """All records of a split in memory, which holds them once, at any moment.

    Args:
        records: In order.
        count: How many there must be, at least 1.
        where: The set, for messages.

    Raises:
        DamageError: There are more, or fewer. What else `records` raises is passed on.
    """
    failures: list[Exception] = []

    def produced() -> Iterator[bytes]:
        try:
            yield from records
        except Exception as error:  # TensorFlow would make text of it
            failures.append(error)

    # batch() takes strings over without a copy; tf.constant of a list would hold all of them twice.
    dataset = tf.data.Dataset.from_generator(
        produced, output_signature=tf.TensorSpec([], tf.string)
    )
    found = list(dataset.batch(count + 1).take(1))
    if failures:
        raise failures[0]
    number = int(tf.size(found[0])) if found else 0
    if number != count:
        raise DamageError(
            f"a split must have the records in its manifest ({count}), got {number} in {where}. "
            "Run 'shardmill verify'."
        )
    return MemoryPayloads(found[0])
