"""The training records of a shard set as tar files, in the form of WebDataset.

The same JPEG bytes in the same order, which is a shuffled one, in files of BYTES or a
little more.
"""

from __future__ import annotations

import io
import shutil
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.subjects.clock import measure
from shard_format import decode_example, load_manifest, read_records


def _records(directory: Path) -> Iterator[tuple[bytes, int]]:
    """(JPEG, class number) of every training record, in the order on disk."""
    for shard in load_manifest(directory).splits["train"].shards:
        for _, serialized in read_records(directory / shard.file):
            example = decode_example(serialized)
            yield bytes(example["image"][0]), int(example["label"][0])  # type: ignore[arg-type]


def _add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    tar.addfile(member, io.BytesIO(content))


def main() -> None:
    """Arguments: DIR OUT BYTES."""
    directory, out, shard_bytes = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)

    def convert() -> int:
        count, shards = 0, 0
        tar: tarfile.TarFile | None = None
        for count, (jpeg, label) in enumerate(_records(directory), 1):
            if tar is None or tar.offset >= shard_bytes:
                if tar is not None:
                    tar.close()
                tar = tarfile.open(out / f"train-{shards:06d}.tar", "w")
                shards += 1
            _add(tar, f"{count:08d}.jpg", jpeg)
            _add(tar, f"{count:08d}.cls", str(label).encode())
        if tar is not None:
            tar.close()
        return count

    measure(convert)


if __name__ == "__main__":
    main()
