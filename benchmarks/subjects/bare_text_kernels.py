"""The limit: read lines, parse them, clean and fingerprint in a process pool; nothing is stored.

The kernels are those of shardmill's record type, called on batches, so the difference is what a
pipeline adds: units, ledger, quarantine, shuffle, shards, index, hashes.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from pathlib import Path

import orjson

from beam_jobs.corpus.record import RawRecord
from beam_jobs.options import TextOptions
from beam_jobs.record_types.text import TextRecords
from benchmarks.subjects.clock import measure

_TASK_BYTES = 4 << 20  # 4 MiB a task: as large as a batch of ours, so both processes end together

_records: TextRecords | None = None


def batch_of(lines: list[bytes]) -> list[RawRecord]:
    """Lines of JSON as the records that a record type takes."""
    return [
        RawRecord(str(number), line, orjson.loads(line)["text"], encoding="utf-8")
        for number, line in enumerate(lines)
    ]


def lines_of(path: str, start: int, end: int) -> list[bytes]:
    """The lines that begin in a range of a file."""
    with open(path, "rb") as file:
        if start:
            file.seek(start - 1)
            file.readline()
        begun = file.tell()
        data = file.read(max(0, end - begun))
        lines = (data + file.readline()).splitlines() if data[-1:] != b"\n" else data.splitlines()
    return lines


def begin(clean: str, dedup: str) -> None:
    """Loads the kernels in a process of the pool."""
    global _records
    _records = TextRecords(
        TextOptions(("source",), "out", clean=clean, dedup=dedup, no_labels=True, format="jsonl")
    )


def prepare(task: tuple[str, int, int]) -> int:
    """Everything but storing it; how many documents there were."""
    lines = lines_of(*task)
    if lines and _records is not None:
        _records.prepare_batch(batch_of(lines))
    return len(lines)


def main() -> None:
    """Arguments: SOURCE CLEAN DEDUP."""
    source, clean, dedup = sys.argv[1:]
    size = Path(source).stat().st_size
    tasks = [
        (source, start, min(size, start + _TASK_BYTES)) for start in range(0, size, _TASK_BYTES)
    ]
    workers = len(os.sched_getaffinity(0))
    with multiprocessing.Pool(workers, begin, (clean, dedup)) as pool:
        pool.map(prepare, [(source, 0, 1)] * workers, chunksize=1)  # models are loaded, clocks not
        measure(lambda: sum(pool.imap_unordered(prepare, tasks)))


if __name__ == "__main__":
    main()
