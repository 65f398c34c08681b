"""What a batch holds: images of any encoding; one label, several, or none; pixels normalized."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import reader
from reader.transforms.normalization import Normalization
from shard_format import ShardSetError
from tests.fixtures.proofs import each_value_once

PIXELS = {
    "count": 1000,
    "mean": [100.0, 120.0, 140.0],
    "std": [50.0, 0.0, 25.0],
    "min": [10, 10, 20],
    "max": [210, 10, 120],
}


def numbers_of(images: Any) -> list[int]:
    """Record numbers from mean colours; see conftest."""
    means = images.numpy().mean(axis=(1, 2))
    return (np.rint((means - 10) / 25).astype(int) @ [100, 10, 1]).tolist()


@pytest.mark.parametrize(
    ("augment", "encoding"), each_value_once(["none", "strong"], ["jpeg", "png", "webp", "raw"])
)
def test_every_encoding_is_read(make_set: Any, encoding: str, augment: str) -> None:
    directory = make_set({"train": (7, 6)}, sizes=((24, 32), (33, 17)), encoding=encoding)
    stream = reader.load(directory, batch_size=13, image_size=8, augment=augment, epochs=1)
    ((images, labels),) = stream.dataset
    assert images.shape == (13, 8, 8, 3) and images.dtype == tf.uint8
    assert sorted(labels.numpy()) == list(range(13))
    if augment == "none":
        assert numbers_of(images) == labels.numpy().tolist()


@pytest.mark.parametrize("encoding", ["png", "webp", "raw"])
def test_stored_sizes_are_known_of_every_encoding(make_set: Any, encoding: str) -> None:
    stream = reader.load(make_set({"train": (4,)}, encoding=encoding), batch_size=2)
    assert stream.dataset.element_spec[0] == tf.TensorSpec((2, 24, 32, 3), tf.uint8)


@pytest.mark.parametrize("cache", ["off", "memory"])
@pytest.mark.usefixtures("small_windows")
def test_any_number_of_labels(make_set: Any, cache: str) -> None:
    directory = make_set({"train": (30, 11)}, labels="many")
    stream = reader.load(directory, batch_size=8, image_size=8, cache=cache)
    assert stream.info.targets == "labels" and stream.info.num_classes == 41
    assert stream.dataset.element_spec[1] == tf.TensorSpec((8, 41), tf.float32)
    for images, labels in stream.dataset.take(12):
        for number, row in zip(numbers_of(images), labels.numpy(), strict=True):
            lowest = number - number % 3
            expected = [] if number % 5 == 0 else list(range(lowest, number + 1))
            assert np.flatnonzero(row).tolist() == expected
            assert set(row) <= {0, 1}


@pytest.mark.usefixtures("small_windows")
def test_no_labels(make_set: Any) -> None:
    directory = make_set({"train": (30, 11)}, labels="none")
    stream = reader.load(directory, batch_size=8, image_size=8, augment="standard", epochs=2)
    assert stream.info.targets == "none" and stream.info.class_names == ()
    assert stream.dataset.element_spec == tf.TensorSpec((8, 8, 8, 3), tf.uint8)
    numbers = [number for images in stream.dataset for number in numbers_of(images)]
    assert len(set(numbers[:40])) == len(set(numbers[40:])) == 40
    seen: list[int] = []
    reader.measure(stream, 60, seen.append)
    assert sum(seen) == 80


NORMALIZED = [
    Normalization("zscore", (100.0, 120.0, 140.0), (50.0, 1.0, 25.0)),
    Normalization("minmax", (10.0, 10.0, 20.0), (200.0, 1.0, 100.0)),
]


@pytest.mark.parametrize(("expected", "dtype"), each_value_once(NORMALIZED, ["uint8", "float32"]))
def test_normalize(make_set: Any, expected: Normalization, dtype: str) -> None:
    mode, shift, scale = expected.mode, expected.shift, expected.scale
    directory = make_set({"train": (9,), "test": (6,)}, statistics={"pixels": PIXELS})
    for split in ("train", "test"):  # by the training split, whatever is read
        options: dict[str, Any] = {"split": split, "batch_size": 3, "augment": "strong"}
        options |= {"image_size": 16, "epochs": 1}
        stream = reader.load(directory, **options, normalize=mode, dtype=dtype)
        assert stream.info.normalization == Normalization(mode, shift, scale)
        assert stream.info.dtype == "float32"
        plain = reader.load(directory, **options, dtype="float32").dataset
        for (normalized, _), (pixels, _) in zip(stream.dataset, plain, strict=True):
            assert normalized.dtype == tf.float32 and normalized.shape == (3, 16, 16, 3)
            expected = (pixels.numpy() - np.float32(shift)) / np.float32(scale)
            np.testing.assert_allclose(normalized, expected, rtol=1e-5, atol=1e-5)


def test_normalize_runs_eagerly_too(make_set: Any) -> None:
    """`decode` of a record outside tf.data gives what the stream gives."""
    from reader.graph.record_types import GRAPH_RECORD_TYPES
    from reader.options import ReadOptions
    from reader.order.geometry import make_geometry
    from reader.record_types import RECORD_TYPES
    from reader.records.open_split import OpenSplit
    from reader.records.split_index import open_lazily
    from shard_format import load_manifest, read_records

    directory: Path = make_set({"train": (3,)}, encoding="raw", statistics={"pixels": PIXELS})
    options: dict[str, Any] = {"split": "train", "batch_size": 3, "image_size": 5}
    options |= {"augment": "none", "shuffle": "off", "seed": 0, "epochs": 1, "cache": "off"}
    options |= {"cache_dir": None, "dtype": "uint8"}
    manifest = load_manifest(directory)
    index = open_lazily(directory, manifest, "train")
    geometry = make_geometry(manifest.splits["train"], streams=4)
    split = OpenSplit(directory, manifest, "train", index, geometry)
    parser = RECORD_TYPES["image"](split, ReadOptions(**options, normalize="zscore"))
    records: Any = GRAPH_RECORD_TYPES["image"](parser)
    serialized = [
        payload for _, payload in read_records(directory / manifest.splits["train"].shards[0].file)
    ]
    features = records.parse(tf.constant(serialized))
    eager = [
        records.decode({name: values[row] for name, values in features.items()}, tf.zeros([0]))
        for row in range(3)
    ]
    ((images, labels),) = reader.load(directory, **options, normalize="zscore").dataset
    for row, (image, label) in enumerate(eager):
        assert (image.numpy() == images[row].numpy()).all() and label == labels[row]


@pytest.mark.parametrize(
    ("splits", "statistics", "message"),
    [
        ({"train": (3,)}, {}, "No 'pixels' in the statistics of the training split"),
        ({"train": (3,)}, {"pixels": {}}, "Build the set again with this version"),
        ({"test": (3,)}, {"pixels": PIXELS}, "No split named 'train' among test"),
    ],
)
def test_what_normalize_needs(make_set: Any, splits: Any, statistics: Any, message: str) -> None:
    directory = make_set(splits, statistics=statistics)
    with pytest.raises(ShardSetError, match=message):
        reader.load(
            directory, split=next(iter(splits)), batch_size=1, image_size=8, normalize="minmax"
        )
