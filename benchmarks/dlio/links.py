"""Gives DLIO a shard set: `python -m benchmarks.dlio.links SET FOLDER`.

DLIO looks for train/*.tfrecord in its data folder, and for an index of each file for DALI. Both are
links here, and so is the set itself, as "set", where `ShardmillLoader` finds it.
"""

from __future__ import annotations

import sys
from pathlib import Path

import reader


def link(shards: Path, folder: Path) -> int:
    """Makes the data folder of a set.

    Args:
        shards: The set, with a split "train".
        folder: The data folder; made here.

    Returns:
        The number of files of the training split: a setting of DLIO.
    """
    for name in ("train", "valid", "index/train"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    shards = shards.resolve()
    (folder / "set").symlink_to(shards)
    exported = sorted(reader.export_index(shards, "dali", folder / "exported").files["train"])
    for number, index in enumerate(exported):
        name = f"img_{number:06d}.tfrecord"
        (folder / "train" / name).symlink_to(shards / index.stem)
        (folder / "index" / "train" / f"{name}.idx").symlink_to(index.resolve())
    return len(exported)


def main() -> None:
    """Prints what to tell DLIO."""
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    files = link(*map(Path, sys.argv[1:]))
    print(f"++workload.dataset.num_files_train={files}")


if __name__ == "__main__":
    main()
