"""The rate at which storage delivers records, without the page cache and with it."""

from __future__ import annotations

import dataclasses
import errno
import os
import time
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from reader.opening import Opened
from reader.order.numpy_order import Int64Array
from reader.profiling.sampled_loader import read_places, record_numbers

# Asked for at once: some times what is read in parallel, so that these reads never run out.
_RECORDS_AT_A_TIME = 1024
_BYTES_AT_A_TIME = 32 << 20  # 32 MiB
# What is read cold is read again warm; more would add nothing, and evict more of the page
# cache of others.
_MOST_BYTES = 512 << 20  # 512 MiB
_PROBE_BYTES = 4096  # a page


@dataclasses.dataclass(frozen=True)
class StorageTimes:
    """Times to read a record, in seconds.

    Attributes:
        cold_seconds: Time from storage, with the reader's parallel reads; None if the file system
            never gives up its page cache, as tmpfs.
        warm_seconds: Time from the page cache.
        cpu_seconds: CPU time over all threads, from the page cache.
        record_bytes: Mean stored size of the records of the split.
    """

    cold_seconds: float | None
    warm_seconds: float
    cpu_seconds: float
    record_bytes: float


def record_runs(opened: Opened, places: Int64Array) -> list[tuple[Path, int, int]]:
    """(file, offset, bytes) of runs of adjacent records; none if the split has no local files."""
    if opened.files is None:
        return []
    numbers = record_numbers(opened, places)
    shard, offset, length = opened.files.index.take(("shard", "offset", "length"), numbers)
    end = offset + length
    breaks = (shard[1:] != shard[:-1]) | (offset[1:] != end[:-1])
    first = np.flatnonzero(np.concatenate([[True], breaks]))
    last = np.append(first[1:], len(numbers)) - 1
    paths = opened.files.paths
    return [
        (paths[shard[i]], int(offset[i]), int(end[j] - offset[i]))
        for i, j in zip(first, last, strict=True)
    ]


def measure_storage(opened: Opened, seconds: float) -> StorageTimes:
    """Reads runs of records from all over the split as training does, once cold and once warm.

    The page cache gives up only what is read here, so whoever else reads the set is hardly
    disturbed.

    Args:
        opened: The split, from files.
        seconds: How long to read cold, and at most how long warm.
    """
    record_bytes = opened.info.stored_bytes / opened.info.records
    parts = _parts(opened)
    cold, read_bytes, done, from_storage = 0.0, 0, 0, False
    for part in parts:
        runs = record_runs(opened, part)
        evict(runs)
        largest = max(runs, key=lambda run: run[2], default=None)
        from_storage = from_storage or (largest is not None and not in_page_cache(largest))
        begin = time.perf_counter()
        read_places(opened, part)
        cold += time.perf_counter() - begin
        done, read_bytes = done + 1, read_bytes + int(len(part) * record_bytes)
        if cold >= seconds or read_bytes >= _MOST_BYTES:
            break
    records = sum(map(len, parts[:done]))
    warm_records, begin, cpu = 0, time.perf_counter(), time.process_time()
    while not warm_records or time.perf_counter() - begin < seconds / 2:
        for part in parts[:done]:
            read_places(opened, part)
            warm_records += len(part)
    return StorageTimes(
        cold_seconds=cold / records if from_storage else None,
        warm_seconds=(time.perf_counter() - begin) / warm_records,
        cpu_seconds=(time.process_time() - cpu) / warm_records,
        record_bytes=record_bytes,
    )


def _parts(opened: Opened) -> list[Int64Array]:
    """Record numbers in parts of runs, in an order without system: no disk can read ahead."""
    geometry, info = opened.loader.windows.worker_shard.geometry, opened.info
    run = 1 if info.shuffle == "full" else geometry.chunk_records
    most = min(_RECORDS_AT_A_TIME, int(_BYTES_AT_A_TIME * info.records / info.stored_bytes))
    starts = np.random.default_rng(0).permutation(-(-info.records // run)) * run
    # Of a huge split, no more than can be read here.
    starts = starts[: max(1, int(_MOST_BYTES * info.records / info.stored_bytes) // run)]
    per_part = max(1, most // run)
    return [
        _in_runs(np.sort(starts[i : i + per_part]), run, info.records)
        for i in range(0, len(starts), per_part)
    ]


def _in_runs(starts: Int64Array, run: int, records: int) -> Int64Array:
    numbers = (starts[:, None] + np.arange(run)).ravel()
    return numbers[numbers < records]


def evict(runs: Iterable[tuple[Path, int, int]]) -> None:
    """Asks for (file, offset, bytes) to leave the page cache; whether it does, is not said."""
    if not hasattr(os, "posix_fadvise"):  # macOS
        return
    synced: set[Path] = set()
    for path, offset, size in runs:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            if path not in synced:
                os.fdatasync(descriptor)  # a page that is still to be written cannot leave
                synced.add(path)
            os.posix_fadvise(descriptor, offset, size, os.POSIX_FADV_DONTNEED)
        except OSError:  # a file system that knows neither
            return
        finally:
            os.close(descriptor)


def in_page_cache(run: tuple[Path, int, int]) -> bool:
    """Whether reading there would not wait for storage; True where the system does not say."""
    path, offset, size = run
    if not hasattr(os, "RWF_NOWAIT"):  # Linux only
        return True
    descriptor = os.open(path, os.O_RDONLY)
    try:
        # In the middle, for pages that are shared with other records stay.
        middle = offset + size // 2
        return os.preadv(descriptor, [bytearray(_PROBE_BYTES)], middle, os.RWF_NOWAIT) > 0
    except OSError as error:
        return error.errno != errno.EAGAIN
    finally:
        os.close(descriptor)
