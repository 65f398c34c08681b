from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import reader
from reader.order import numpy_order
from reader.order.geometry import make_geometry
from shard_format import load_manifest
from tests.fixtures.proofs import each_value_once

pytestmark = pytest.mark.usefixtures("small_windows")


def labels_of(dataset: tf.data.Dataset, batches: int | None = None) -> list[list[int]]:
    dataset = dataset if batches is None else dataset.take(batches)
    return [labels.numpy().tolist() for _, labels in dataset]


def expected_order(directory: Path, seed: int, epoch: int, shuffle: str = "window") -> list[int]:
    geometry = make_geometry(load_manifest(directory).splits["train"], streams=4)
    return numpy_order.epoch_numbers(geometry, seed, epoch, shuffle).tolist()


@pytest.mark.parametrize(
    ("cache", "shuffle"), each_value_once(["off", "memory"], ["window", "full", "off"])
)
def test_batches_follow_the_computed_order_over_epochs(
    tiny: Path, cache: str, shuffle: str
) -> None:
    stream = reader.load(tiny, batch_size=20, image_size=8, seed=3, cache=cache, shuffle=shuffle)
    assert stream.steps_per_epoch == 5
    batches = labels_of(stream.dataset, 15)
    for epoch in range(3):
        # 110 records are 5 batches and a remainder of 10, which no batch of any epoch holds.
        expected = expected_order(tiny, 3, epoch, shuffle)[:100]
        assert list(chain(*batches[5 * epoch : 5 * epoch + 5])) == expected


def test_chunks_of_uneven_shards_come_in_order(make_set: Any) -> None:
    """Chunks shorter than the block of the interleave must not overtake one another."""
    directory = make_set({"train": (1, 7, 2, 1, 13, 3, 5, 1, 1, 9)})
    for seed in range(5):
        stream = reader.load(directory, batch_size=43, image_size=8, seed=seed, epochs=1)
        assert labels_of(stream.dataset) == [expected_order(directory, seed, 0)]


def test_a_image_goes_with_its_label(tiny: Path) -> None:
    stream = reader.load(tiny, batch_size=10, image_size=8, augment="standard", seed=1)
    for images, labels in stream.dataset.take(22):
        assert images.shape == (10, 8, 8, 3) and images.dtype == tf.uint8
        means = images.numpy().mean(axis=(1, 2))
        digits = np.rint((means - 10) / 25).astype(int)
        assert (digits @ [100, 10, 1] == labels.numpy()).all()


def test_evaluation_reads_every_record_once_in_order(tiny: Path) -> None:
    stream = reader.load(tiny, split="test", batch_size=8, image_size=8, shuffle="off", epochs=1)
    assert stream.dataset.cardinality() == stream.steps_per_epoch == 3
    batches = labels_of(stream.dataset)
    assert [len(batch) for batch in batches] == [8, 8, 5]
    assert list(chain(*batches)) == list(range(110, 131))


def test_several_epochs_are_finite_and_differ(tiny: Path) -> None:
    stream = reader.load(tiny, batch_size=50, image_size=8, epochs=2)
    assert stream.dataset.cardinality() == 4
    batches = labels_of(stream.dataset)
    assert len(batches) == 4
    for epoch in (0, 1):
        both = batches[2 * epoch] + batches[2 * epoch + 1]
        assert len(set(both)) == 100
    assert batches[:2] != batches[2:]


def test_a_remainder_of_several_windows_is_left_out(tiny: Path) -> None:
    stream = reader.load(tiny, batch_size=60, image_size=8, epochs=2, seed=1)
    expected = [expected_order(tiny, 1, epoch)[:60] for epoch in (0, 1)]
    assert labels_of(stream.dataset) == expected


def test_endless_says_so_and_has_a_static_batch(tiny: Path) -> None:
    stream = reader.load(tiny, batch_size=16, image_size=8)
    assert stream.dataset.cardinality() == tf.data.INFINITE_CARDINALITY
    assert stream.dataset.element_spec == (
        tf.TensorSpec((16, 8, 8, 3), tf.uint8),
        tf.TensorSpec((16,), tf.int64),
    )


def test_every_cache_gives_the_same_batches(tiny: Path, tmp_path: Path) -> None:
    batches = {}
    for cache in ("off", "memory", "disk"):
        stream = reader.load(
            tiny,
            batch_size=16,
            image_size=8,
            augment="strong",
            seed=7,
            cache=cache,
            cache_dir=tmp_path,
        )
        assert stream.info.cache == cache
        batches[cache] = [(x.numpy(), y.numpy()) for x, y in stream.dataset.take(14)]
    for cache in ("memory", "disk"):
        for (x, y), (other_x, other_y) in zip(batches["off"], batches[cache], strict=True):
            assert (x == other_x).all() and (y == other_y).all()


def test_augmentation_depends_on_seed_epoch_and_record_alone(make_set: Any) -> None:
    """The same image in any order of reading; another one in another epoch."""
    directory = make_set({"train": (12,)}, sizes=((40, 60),))

    def make_images(shuffle: str, seed: int) -> list[dict[int, bytes]]:
        stream = reader.load(
            directory,
            batch_size=12,
            image_size=16,
            augment="strong",
            shuffle=shuffle,
            seed=seed,
            epochs=2,
        )
        return [
            {int(label): image.numpy().tobytes() for image, label in zip(*batch, strict=True)}
            for batch in stream.dataset
        ]

    first, second = make_images("window", 5)
    assert make_images("off", 5) == [first, second]
    assert all(first[number] != second[number] for number in first)
    assert make_images("window", 6)[0] != first


def test_dtypes_agree_to_rounding(tiny: Path) -> None:
    def first(dtype: str) -> Any:
        stream = reader.load(tiny, batch_size=16, image_size=11, augment="strong", dtype=dtype)
        return next(iter(stream.dataset))[0].numpy()

    exact = first("float32")
    assert exact.dtype == np.float32 and exact.min() >= 0 and exact.max() <= 255
    assert (first("uint8") == np.floor(exact + 0.5)).all()


def test_stored_size_where_all_images_have_one(tiny: Path) -> None:
    stream = reader.load(tiny, batch_size=5)
    assert stream.info.image_shape == (24, 32, 3)
    assert next(iter(stream.dataset))[0].shape == (5, 24, 32, 3)


def test_stored_sizes_that_differ_come_one_by_one(make_set: Any) -> None:
    directory = make_set({"train": (2,)}, sizes=((24, 32), (16, 40)))
    stream = reader.load(directory, batch_size=1, shuffle="off", epochs=1)
    assert [images.shape[1:] for images, _ in stream.dataset] == [(24, 32, 3), (16, 40, 3)]


def test_images_smaller_than_asked_for_are_enlarged(make_set: Any) -> None:
    directory = make_set({"train": (6,)}, sizes=((1, 1), (3, 50), (50, 3)))
    stream = reader.load(directory, batch_size=6, image_size=32, augment="standard")
    for images, labels in stream.dataset.take(20):
        colors = images.numpy()[:, 16, 16].astype(int)
        assert (np.rint((colors - 10) / 25) @ [100, 10, 1] == labels.numpy()).all()


def test_keras_fits_and_evaluates(tiny: Path) -> None:
    model = keras.Sequential(
        [
            keras.Input((8, 8, 3)),
            keras.layers.Rescaling(1 / 127.5, offset=-1),
            keras.layers.Flatten(),
            keras.layers.Dense(131),
        ]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer="adam", loss=loss, metrics=["accuracy"])
    train = reader.load(tiny, batch_size=20, image_size=8, augment="standard")
    test = reader.load(tiny, split="test", batch_size=8, image_size=8, shuffle="off", epochs=1)
    history = model.fit(
        train.dataset,
        steps_per_epoch=train.steps_per_epoch,
        epochs=3,
        validation_data=test.dataset,
        verbose=0,
    )
    assert history.history["loss"][-1] < history.history["loss"][0]
    assert set(model.evaluate(test.dataset, verbose=0, return_dict=True)) == {"accuracy", "loss"}


def test_info_tells_what_is_read(tiny: Path) -> None:
    info = reader.load(tiny, batch_size=4, image_size=8, cache="off", seed=9).info
    manifest = load_manifest(tiny)
    assert (info.split, info.records, info.num_classes) == ("train", 110, 131)
    assert info.root_hash == manifest.root_hash
    assert info.stored_bytes == manifest.splits["train"].bytes
    assert (info.image_shape, info.record_type, info.seed) == ((8, 8, 3), "image", 9)
    assert info.class_names[3] == "class3"
    assert info.cache_reason == "cache='off' was asked for"
