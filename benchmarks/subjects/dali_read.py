"""The baseline: NVIDIA DALI on the CPU, over the TFRecord shards with an index of its own form.

As in its documentation of data loading from TFRecord: a shuffle buffer, decoding fused with the
random crop, a thread for each core.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from nvidia.dali import fn, pipeline_def, tfrecord, types

from benchmarks.subjects.clock import AREA, BATCH, RATIO, SIDE, measure_reading

_BUFFER = 4096


def main() -> None:
    """Arguments: DIR LIMITS; DIR has links to the shards, and an .idx file of each."""
    directory, *limits = sys.argv[1:]
    indexes = sorted(Path(directory).glob("*-train.tfrecord-*.idx"))
    threads = len(os.sched_getaffinity(0))

    @pipeline_def(batch_size=BATCH, num_threads=threads, device_id=None, prefetch_queue_depth=2)
    def images() -> Any:
        columns = fn.readers.tfrecord(
            path=[str(path.with_suffix("")) for path in indexes],
            index_path=[str(path) for path in indexes],
            features={
                "image": tfrecord.FixedLenFeature((), tfrecord.string, ""),
                "label": tfrecord.FixedLenFeature([1], tfrecord.int64, -1),
            },
            random_shuffle=True,
            initial_fill=_BUFFER,
        )
        pixels = fn.decoders.image_random_crop(
            columns["image"],
            device="cpu",
            output_type=types.RGB,
            random_area=AREA,
            random_aspect_ratio=RATIO,
        )
        pixels = fn.resize(
            pixels, size=[SIDE, SIDE], interp_type=types.INTERP_LINEAR, antialias=False
        )
        return fn.flip(pixels, horizontal=fn.random.coin_flip()), columns["label"]

    def open_stream() -> Iterator[Any]:
        pipeline = images()
        pipeline.build()
        while True:
            pixels, labels = pipeline.run()
            yield np.asarray(pixels.as_tensor()), np.asarray(labels.as_tensor())

    measure_reading(open_stream, limits)


if __name__ == "__main__":
    main()
