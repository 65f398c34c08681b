"""The stored records of a split, read once and in order, each shard seen to match the manifest."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import BinaryIO

from reader.caching.origins import Origin
from shard_format import DamageError, ShardInfo, unframe_all

OnBytes = Callable[[int], None]


def stored_records(origin: Origin, shard: ShardInfo, on_bytes: OnBytes) -> Iterator[bytes]:
    """The serialized records of a shard; what was wrong with it is told at the latest at the end.

    Args:
        origin: Where the shard lies.
        shard: As the manifest describes it.
        on_bytes: Called with the size of every part that was read.

    Raises:
        DamageError: A record, or the SHA-256 of the whole, is not what was written.
        OSError: It cannot be read.
    """
    name = origin.name(shard.file)
    with origin.open(shard.file) as file:
        hashed = _Hashed(file, on_bytes)
        for _, serialized in unframe_all(hashed, name):
            yield serialized
    if hashed.sha256 != shard.sha256:
        raise DamageError(
            f"a shard must match the manifest's SHA-256, it differs in {name}. "
            "Run 'shardmill verify' to see which record is damaged."
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
