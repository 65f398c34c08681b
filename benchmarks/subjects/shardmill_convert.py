"""shardmill: a set in another format, with checksums, notes of pieces, and files on the disk."""

from __future__ import annotations

import sys
from pathlib import Path

import reader
from benchmarks.subjects.clock import measure
from benchmarks.subjects.output import prepare


def main() -> None:
    """Arguments: FORMAT SET OUT WHERE, a condition or ""."""
    to, directory, out, where = sys.argv[1:]
    prepare(Path(out))

    def convert() -> int:
        done = reader.convert(directory, to, out, where=where or None)
        return sum(split["records"] for split in done.splits.values())

    measure(convert)


if __name__ == "__main__":
    main()
