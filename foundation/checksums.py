"""Size and SHA-256 of a file, wherever it is."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import Any

from foundation import storage
from foundation.storage import Place

OnBytes = Callable[[int], None]

_BLOCK_BYTES = 1 << 20  # 1 MiB: hashing releases the GIL, larger blocks are no faster


def file_sha256(place: Place, on_bytes: OnBytes = lambda size: None) -> str:
    """SHA-256 of a file's content, in hex; `on_bytes` is called with the size of every block."""
    digest = hashlib.sha256()
    for block in _blocks(place):
        digest.update(block)
        on_bytes(len(block))
    return digest.hexdigest()


def file_info(place: Place) -> dict[str, Any]:
    """Bytes and SHA-256 of a file, as a manifest has them."""
    blocks: list[int] = []
    digest = file_sha256(place, blocks.append)
    return {"bytes": sum(blocks), "sha256": digest}


def _blocks(place: Place) -> Iterator[memoryview | bytes]:
    """The content of a file in blocks, each valid until the next one."""
    path = storage.local_path(place)
    if path is None:
        with storage.open_input(place) as remote:
            while block := remote.read(_BLOCK_BYTES):
                yield block
        return
    buffer = memoryview(bytearray(_BLOCK_BYTES))  # one for all blocks, so that it stays in cache
    with path.open("rb", buffering=0) as file:
        while size := file.readinto(buffer):
            yield buffer[:size]
