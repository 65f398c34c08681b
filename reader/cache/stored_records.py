"""The stored records of a split, read once and in order, each shard seen to match the manifest."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Iterator
from typing import BinaryIO

import tensorflow as tf

from foundation import storage
from foundation.storage import Place
from reader.cache.retrying import retried
from reader.records.readers import MemoryRecordReader
from shard_format import DamageError, ShardInfo, unframe_all

OnBytes = Callable[[int], None]


def stored_records(source: Place, shard: ShardInfo, on_bytes: OnBytes) -> Iterator[bytes]:
    """The serialized records of a shard; damage is raised at its end at the latest.

    A remote shard is held in memory as a whole.

    Args:
        source: The set that the shard is read from.
        shard: As the manifest describes it.
        on_bytes: Called with the size of every part that was read.

    Raises:
        DamageError: A record, or the SHA-256 of the whole, is not what was written.
        OSError: It cannot be read.
    """
    place, name = source / shard.file, str(source / shard.file)
    if storage.local_path(place) is None:
        # As a whole, since a transfer that was damaged is made again; records that were given
        # already could not be taken back.
        data = retried(lambda: _whole(place, shard))
        on_bytes(len(data))
        for _, serialized in unframe_all(io.BytesIO(data), name):
            yield serialized
        return
    with storage.open_input(place) as file:
        hashed = _Hashed(file, on_bytes)
        for _, serialized in unframe_all(hashed, name):
            yield serialized
    _check(hashed.sha256, shard, name)


def _whole(place: Place, shard: ShardInfo) -> bytes:
    data = storage.read_range(place, 0, shard.bytes)
    _check(hashlib.sha256(data).hexdigest(), shard, str(place))
    return data


def _check(sha256: str, shard: ShardInfo, name: str) -> None:
    if sha256 != shard.sha256:
        raise DamageError(
            f"SHA-256 differs from the manifest in {name}. Run 'shardmill verify' to see which "
            "record is damaged."
        )


class _Hashed:
    """A file that is hashed while it is read."""

    def __init__(self, file: BinaryIO, on_bytes: OnBytes) -> None:
        self._file, self._on_bytes = file, on_bytes
        self._digest = hashlib.sha256()

    def read(self, size: int, /) -> bytes:
        data = self._file.read(size)
        self._digest.update(data)
        self._on_bytes(len(data))
        return data

    @property
    def sha256(self) -> str:
        return self._digest.hexdigest()


def collect_in_memory(records: Iterator[bytes], count: int, where: object) -> MemoryRecordReader:
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
            f"The split has {number} records, but {count} in the manifest, in {where}. Run "
            "'shardmill verify'."
        )
    return MemoryRecordReader(found[0])
