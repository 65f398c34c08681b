"""shardmill's reader: computed global order, stateless augmentation."""

from __future__ import annotations

import importlib
import sys
from typing import Any

from benchmarks.subjects.clock import BATCH, SIDE, measure_reading


def main() -> None:
    """Arguments: DIR FACE SHUFFLE CACHE LIMITS; FACE is dataset, graph or numpy.

    "graph" is the chain in TensorFlow that "dataset" uses where a transform needs it.
    """
    directory, face, shuffle, cache, *limits = sys.argv[1:]
    from reader import load

    if face != "numpy":
        importlib.import_module("tensorflow")  # not on the clock of the first batch

    def open_stream() -> Any:
        stream = load(
            directory,
            batch_size=BATCH,
            image_size=SIDE,
            augment="standard",
            shuffle=shuffle,
            cache=cache,
        )
        if face == "graph":
            from reader.graph.pipeline import build_dataset, without_autograph

            return without_autograph(build_dataset)(stream.pipeline, 0, 0, -1)  # type: ignore[attr-defined]
        return stream.dataset if face == "dataset" else stream.numpy()

    measure_reading(open_stream, limits)


if __name__ == "__main__":
    main()
