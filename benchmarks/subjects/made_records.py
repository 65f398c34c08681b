"""Records of 1 kB that cost nothing to make, as a program for shardmill, or encoded alone."""

from __future__ import annotations

import concurrent.futures
import itertools
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from benchmarks.subjects.clock import measure
from shard_format import Feature, Schema, encode_example, frame

_ITEMS = 500
_DATA = bytes(range(250)) * 4
_COUNT = "SHARDMILL_MADE_RECORDS"  # an environment variable, which worker processes have too


def items() -> list[tuple[int, int]]:
    """[begin, end) of the numbers of each part."""
    count = int(os.environ[_COUNT])
    return list(itertools.pairwise(count * part // _ITEMS for part in range(_ITEMS + 1)))


def read(item: tuple[int, int]) -> Iterator[dict[str, Any]]:
    """The records of a part."""
    for number in range(*item):
        yield {"data": _DATA, "number": number}


source = SimpleNamespace(items=items, read=read, schema={"data": "bytes", "number": "int64"})


def main() -> None:
    """Arguments: RECORDS WORKERS OUT: encodes and frames them, a file for each process."""
    count, workers, out = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    out.mkdir(parents=True, exist_ok=True)
    parts = [(count * one // workers, count * (one + 1) // workers) for one in range(workers)]

    def work() -> int:
        with concurrent.futures.ProcessPoolExecutor(workers) as pool:
            files = [out / str(part) for part in range(workers)]
            return sum(pool.map(_encode, parts, files))

    measure(work)


def _encode(part: tuple[int, int], out: Path) -> int:
    features = [Feature("id", "text"), Feature("data", "bytes"), Feature("number", "int64")]
    schema = Schema("record", tuple(features))
    with out.open("wb") as file:
        for number in range(*part):
            values = {"id": f"{part[0]}-{number}", "data": _DATA, "number": number}
            file.write(frame(encode_example(schema, values)))
    return part[1] - part[0]


if __name__ == "__main__":
    main()
