"""shardmill's reader: computed global order, stateless augmentation."""

from __future__ import annotations

import sys
from typing import Any

from benchmarks.subjects.clock import BATCH, SIDE, measure_reading


def main() -> None:
    """Arguments: DIR SHUFFLE CACHE SECONDS [MOST]."""
    directory, shuffle, cache, seconds, *most = sys.argv[1:]
    from reader import load  # which loads TensorFlow, as `import reader` alone does not

    def open_stream() -> Any:
        stream = load(
            directory,
            batch_size=BATCH,
            image_size=SIDE,
            augment="standard",
            shuffle=shuffle,
            cache=cache,
        )
        return stream.dataset

    measure_reading(open_stream, float(seconds), int(*most or [0]))


if __name__ == "__main__":
    main()
