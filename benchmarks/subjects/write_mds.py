"""Tar files of WebDataset as shards of MosaicML Streaming: the same bytes in the same order."""

from __future__ import annotations

import shutil
import sys
import tarfile
from pathlib import Path

import streaming

from benchmarks.subjects.clock import measure


def main() -> None:
    """Arguments: TARS OUT."""
    tars, out = sys.argv[1:]
    shutil.rmtree(out, ignore_errors=True)

    def convert() -> int:
        count = 0
        with streaming.MDSWriter(out=out, columns={"jpg": "bytes", "cls": "int"}) as writer:
            for path in sorted(Path(tars).glob("*.tar")):
                with tarfile.open(path) as tar:
                    contents = [tar.extractfile(member).read() for member in tar]  # type: ignore[union-attr]
                for jpeg, label in zip(contents[::2], contents[1::2], strict=True):
                    writer.write({"jpg": jpeg, "cls": int(label)})
                    count += 1
        return count

    measure(convert)


if __name__ == "__main__":
    main()
