"""How large, how right and how fast an exported model is."""

from __future__ import annotations

import dataclasses
import gzip
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from foundation.storage import Place
from reader.record_types.features import find_feature
from shard_format import Manifest, ShardSetError, UsageError
from trainer.export.trained_run import TrainedRun

_WARM_CALLS, _TIMED_CALLS = 3, 30

# from [batch, ...] inputs to [batch, classes] probabilities
Predict = Callable[[Any], Any]


@dataclasses.dataclass(frozen=True)
class Measured:
    """Size and speed of one model.

    Attributes:
        name: "keras", a key of QUANTIZATIONS, or the target.
        path: File or folder of the model.
        size_bytes: Size of the file, or of all files in the folder.
        gzip_bytes: Size after gzip, which stores the zeros of a pruned model in little.
        accuracy: Share of records of which the label, or every label, is right; None if it was not
            measured.
        records: Number of records that it was measured on.
        milliseconds: Median time of one example in this process on one thread; None likewise.
    """

    name: str
    path: str
    size_bytes: int
    gzip_bytes: int
    accuracy: float | None = None
    records: int = 0
    milliseconds: float | None = None


def measure(name: str, path: Path, predict: Predict | None, examples: list[Any]) -> Measured:
    """Size, and of a model that can be run accuracy and time.

    Args:
        name: See Measured.
        path: File or folder of the model.
        predict: Prediction for one example [1, ...]; None to measure the size alone.
        examples: (input [1, ...], label) pairs; a label is a number, or [classes] of 0 and 1.
    """
    files = [path] if path.is_file() else [each for each in path.rglob("*") if each.is_file()]
    size = sum(each.stat().st_size for each in files)
    packed = sum(len(gzip.compress(each.read_bytes(), 6)) for each in files)
    measured = Measured(name, str(path), size, packed)
    if predict is None or not examples:
        return measured
    right = [_is_right(np.asarray(predict(value))[0], label) for value, label in examples]
    seconds = []
    for number in range(_WARM_CALLS + _TIMED_CALLS):
        value, _ = examples[number % len(examples)]
        begin = time.perf_counter()
        predict(value)
        seconds.append(time.perf_counter() - begin)
    return dataclasses.replace(
        measured,
        accuracy=float(np.mean(right)),
        records=len(right),
        milliseconds=1e3 * float(np.median(seconds[_WARM_CALLS:])),
    )


def examples_of(
    run: TrainedRun, manifest: Manifest, split: str | None, most: int | None
) -> Iterator[tuple[Any, Any]]:
    """(input [1, ...] as the model takes it, label) of the records of a split, by the reader.

    Args:
        run: Whose model is measured.
        manifest: Manifest of the set that is read, from `TrainedRun.open_set`.
        split: Name of the split.
        most: Number of records at most; None for all.

    Raises:
        UsageError: There is no such split.
    """
    import reader

    if split is None:
        raise UsageError(
            f"The run in {run.directory} was validated on no split, which --evaluate measures on. "
            "Leave it out, and run 'shardmill evaluate' on the export."
        )
    stream = reader.load(
        run.data,
        split=split,
        batch_size=1,
        image_size=run.options.get("image_size"),
        max_tokens=run.options.get("max_tokens"),
        pad="max" if run.kind == "tokens" else "longest",
        label=run.options.get("label"),
        generation=manifest.newest,
        # By the statistics of the training, whatever the set has now.
        augment=["none", run.normalization] if run.normalization else "none",
        shuffle="off",
        epochs=1,
        remainder="keep",
        cache="off",
    )
    dtype = np.float32 if run.kind == "image" else np.int32
    for inputs, label in stream.dataset.take(-1 if most is None else most).as_numpy_iterator():
        yield np.asarray(inputs, dtype), label[0]


def image_files(
    data: Place, manifest: Manifest, split: str
) -> Iterator[tuple[bytes, dict[str, Any]]]:
    """(encoded image, all features) of the records of a split, in their order on disk.

    Raw pixels become PNG.
    """
    import reader

    image = find_feature(manifest.schema, "image")
    if image is None:
        raise ShardSetError(f"No feature of kind image in {data}. Build the set again.")
    is_raw = image.encoding == "raw"
    for record in reader.random_access(data, split, decode=is_raw, generation=manifest.newest):
        value = record[image.name]
        yield (tf.io.encode_png(value).numpy() if is_raw else value), record


def _is_right(probabilities: Any, label: Any) -> bool:
    if np.ndim(label):
        return bool(np.all((probabilities > 0.5) == (label > 0.5)))
    return int(np.argmax(probabilities)) == int(label)
