"""The baseline: MosaicML Streaming with a worker process for every core, its shards on local disk.

A data set as in its documentation, with its default shuffle (py1e). Nothing is downloaded: the
shards are already in its local folder.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import streaming

from benchmarks.subjects.clock import BATCH, measure_reading
from benchmarks.subjects.torch_pixels import PIXELS, start_worker


class Images(streaming.StreamingDataset):  # type: ignore[misc]
    """Records of the columns "jpg" (bytes) and "cls" (int).

    Args:
        local: The shards.
        pixels: A key of `PIXELS`.
    """

    def __init__(self, local: str, pixels: str) -> None:
        super().__init__(local=local, batch_size=BATCH, shuffle=True)
        self._pixels = PIXELS[pixels]

    def __getitem__(self, at: Any) -> Any:
        """(image, class number)."""
        record = super().__getitem__(at)
        return self._pixels(record["jpg"]), record["cls"]


def main() -> None:
    """Arguments: DIR PIXELS LIMITS; PIXELS is pil or tuned."""
    directory, pixels, *limits = sys.argv[1:]
    workers = len(os.sched_getaffinity(0))
    streaming.base.util.clean_stale_shared_memory()  # a reader that was killed leaves some

    def open_stream() -> Any:
        loader = streaming.StreamingDataLoader(
            Images(directory, pixels),
            batch_size=BATCH,
            num_workers=workers,
            drop_last=True,
            persistent_workers=True,
            worker_init_fn=start_worker,
        )
        return (batch for _ in iter(int, 1) for batch in loader)  # epoch after epoch

    measure_reading(open_stream, limits)


if __name__ == "__main__":
    main()
