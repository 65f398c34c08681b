"""How fast storage itself delivers records, without the help of the page cache, and with it."""

from __future__ import annotations

import dataclasses
import errno
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from reader.chunks import Chunks
from reader.payloads import FilePayloads

# Chunks that are asked for at once: twice the parallel reads, so that these never run out.
_CHUNKS_AT_A_TIME = 16
# What is read cold is read again warm; more would tell no more, and turn out more of the page
# cache of others.
_MOST_BYTES = 512 << 20  # 512 MiB
_PROBE_BYTES = 4096  # a page


@dataclasses.dataclass(frozen=True)
class StorageTimes:
    """What reading takes, in seconds per record.

    Attributes:
        cold_seconds: From storage itself, with the reader's parallel reads; None where the file
            system keeps its pages in memory whatever one asks (tmpfs, for one).
        warm_seconds: From the page cache, likewise.
        cpu_seconds: CPU time over all threads, from the page cache.
        record_bytes: Mean stored size of the records that were read.
    """

    cold_seconds: float | None
    warm_seconds: float
    cpu_seconds: float
    record_bytes: float


def measure_storage(
    paths: Sequence[Path], chunks: Chunks, seconds: float
) -> StorageTimes:
    """Reads chunks of the split, as far apart as they are, once cold and once warm.

    The page cache gives up only what is read here, so whoever else reads the set is hardly
    disturbed.

    Args:
        paths: The shards of the split.
        chunks: What lies where in them.
        seconds: How long to read cold, and at most how long warm.
    """
    parts = _parts(chunks)
    read = _reader(list(paths), chunks)
    read(parts[0])  # traces the graph
    cold, done, cold_bytes = 0.0, 0, 0
    truly_cold = False
    for part in parts:
        for chunk in part:
            _evict(paths[chunks.shard[chunk]], int(chunks.offset[chunk]), int(chunks.size[chunk]))
        truly_cold = truly_cold or not _in_page_cache(
            # Of the largest, and in its middle: pages that it shares with others stay.
            *_middle(paths, chunks, part[np.argmax(chunks.size[part])])
        )
        begin = time.perf_counter()
        read(part)
        cold += time.perf_counter() - begin
        done += 1
        cold_bytes += int(chunks.size[part].sum())
        if cold >= seconds or cold_bytes >= _MOST_BYTES:
            break
    parts = parts[:done]
    records = sum(int(chunks.count[part].sum()) for part in parts)
    begin, cpu, warm_records = time.perf_counter(), time.process_time(), 0
    while (warm := time.perf_counter() - begin) < min(seconds, 1.0) or not warm_records:
        for part in parts:
            read(part)
            warm_records += int(chunks.count[part].sum())
            if time.perf_counter() - begin >= seconds:
                break
    used = time.process_time() - cpu
    return StorageTimes(
        cold_seconds=cold / records if truly_cold else None,
        warm_seconds=warm / warm_records,
        cpu_seconds=used / warm_records,
        record_bytes=cold_bytes / records,
    )


def _parts(chunks: Chunks) -> list[Any]:
    """Chunk numbers in parts, in an order without system: no prefetching disk can follow it."""
    order = np.random.default_rng(0).permutation(len(chunks.first))
    return [order[i : i + _CHUNKS_AT_A_TIME] for i in range(0, len(order), _CHUNKS_AT_A_TIME)]


def _reader(paths: list[Path], chunks: Chunks) -> Callable[[Any], Any]:
    """Reads all records of some chunks as training does, less the order."""
    payloads = FilePayloads(paths, chunks)
    first, count = tf.constant(chunks.first), tf.constant(chunks.count)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.int64)])
    def read(part: Any) -> Any:
        begin = tf.gather(first, part)
        numbers = tf.ragged.range(begin, begin + tf.gather(count, part)).flat_values
        return tf.size(payloads.read(part, numbers, tf.range(tf.size(numbers, tf.int64))))

    return read


def _evict(path: Path, offset: int, size: int) -> None:
    """Asks for some bytes of a file to leave the page cache; what is not yet on disk stays."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fdatasync(descriptor)  # a page that is still to be written cannot leave
        os.posix_fadvise(descriptor, offset, size, os.POSIX_FADV_DONTNEED)
    except OSError:  # a file system without either: told from the page cache below
        pass
    finally:
        os.close(descriptor)


def _middle(paths: Sequence[Path], chunks: Chunks, chunk: int) -> tuple[Path, int]:
    return paths[chunks.shard[chunk]], int(chunks.offset[chunk] + chunks.size[chunk] // 2)


def _in_page_cache(path: Path, offset: int) -> bool:
    """Whether a read there would not wait for storage; True where the system cannot tell."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return os.preadv(descriptor, [bytearray(_PROBE_BYTES)], offset, os.RWF_NOWAIT) > 0
    except OSError as error:
        return error.errno != errno.EAGAIN
    finally:
        os.close(descriptor)
