"""A small detector without anchors, which learns the boxes of a set of images.

    shardmill preprocess images photos --annotations instances.json --out set
    python -m samples.training.boxes set

Zhou, Wang and Kraehenbuehl, "Objects as Points" (2019), section 3: a map of every class says where
the middle of an object is, and two more maps its height and width. The loss of the maps is the
focal one of section 3, the loss of sizes is L1 at the middles. A box is a middle that is the
largest of its neighbours.
"""

from __future__ import annotations

import click
import keras
import numpy as np
import reader
import tensorflow as tf
from reader.transforms import HorizontalFlip, RandomResizedCrop

_SIZE, _STRIDE, _MOST = 128, 4, 20  # of images, of maps, and objects of an image
_CELLS = _SIZE // _STRIDE
_SPREAD = 1.5  # cells, of the hill around a middle
_COLORS = ("brightness", "contrast", "saturation", "hue")
_AUGMENT = [RandomResizedCrop(0.7), HorizontalFlip(), *_COLORS]  # 0.7 of the area, or more


def load(directory: str, split: str, batch_size: int, **options) -> reader.Stream:
    """Batches of images with objects, of which `_MOST` have room, and the others label -1."""
    return reader.load(
        directory,
        split=split,
        batch_size=batch_size,
        image_size=_SIZE,
        features=("objects/bbox", "objects/label"),
        list_size=_MOST,
        min_visible=0.3,
        **options,
    )


def with_maps(classes: int):
    """Makes what the model learns: [batch, cells, cells, classes + 3], see `loss`."""

    def convert(inputs, *_):
        boxes, labels = inputs["objects"]["bbox"], inputs["objects"]["label"]
        sizes = boxes[..., 2:] - boxes[..., :2]
        middles = (boxes[..., :2] + boxes[..., 2:]) / 2 * _CELLS
        cells = tf.clip_by_value(tf.cast(middles, tf.int32), 0, _CELLS - 1)
        cell_of = (
            tf.one_hot(cells[..., 0], _CELLS)[..., None]
            * (tf.one_hot(cells[..., 1], _CELLS)[..., None, :])
        )  # [batch, objects, cells, cells]: 1 at the middle
        here = tf.range(_CELLS, dtype=tf.float32)
        away = (here - tf.cast(cells[..., :1], tf.float32))[..., None] ** 2 + (
            (here - tf.cast(cells[..., 1:], tf.float32))[..., None, :] ** 2
        )
        hills = (
            tf.exp(-away / (2 * _SPREAD**2))[..., None]
            * (
                tf.one_hot(labels, classes)[:, :, None, None]  # of label -1 all zeros
            )
        )
        known = tf.cast(labels >= 0, tf.float32)[..., None, None] * cell_of
        size_maps = tf.einsum("bohw,bos->bhws", known, sizes)
        at = tf.minimum(tf.reduce_sum(known, axis=1)[..., None], 1.0)
        return inputs["image"], tf.concat([tf.reduce_max(hills, axis=1), size_maps, at], axis=-1)

    return convert


def loss(maps, predicted):
    """Of maps with classes, height and width (shares of the image), and 1 at middles."""
    hills, sizes, at = maps[..., :-3], maps[..., -3:-1], maps[..., -1:]
    chances = tf.clip_by_value(tf.sigmoid(predicted[..., :-2]), 1e-4, 1 - 1e-4)
    top = tf.cast(hills == 1, tf.float32)
    right = top * (1 - chances) ** 2 * tf.math.log(chances)
    wrong = (1 - top) * (1 - hills) ** 4 * chances**2 * tf.math.log(1 - chances)
    count = tf.maximum(tf.reduce_sum(at), 1.0)
    far = tf.abs(predicted[..., -2:] - sizes) * at
    return (-tf.reduce_sum(right + wrong) + 10 * tf.reduce_sum(far)) / count


def detector(classes: int) -> keras.Model:
    """images [batch, size, size, 3] uint8 -> [batch, cells, cells, classes + 2]."""

    def block(values, channels, strides):
        values = keras.layers.Conv2D(channels, 3, strides, padding="same", use_bias=False)(values)
        return keras.layers.ReLU()(keras.layers.BatchNormalization(momentum=0.9)(values))

    images = keras.Input((_SIZE, _SIZE, 3))
    values = keras.layers.Rescaling(1 / 127.5, offset=-1)(images)
    fine = block(block(values, 24, 2), 48, 2)
    coarse = block(block(fine, 96, 2), 96, 2)
    values = keras.layers.UpSampling2D(4, interpolation="bilinear")(block(coarse, 96, 1))
    values = block(keras.layers.Concatenate()([fine, values]), 64, 1)
    rare = keras.initializers.Constant(-2.2)  # a chance of 0.1, as section 3 begins
    hills = keras.layers.Conv2D(classes, 1, bias_initializer=rare)(values)
    sizes = keras.layers.Conv2D(2, 1)(values)
    return keras.Model(images, keras.layers.Concatenate()([hills, sizes]))


def boxes_of(predicted: np.ndarray, least: float = 0.3) -> list[tuple[np.ndarray, int, float]]:
    """(box, class, chance) of what an image shows, from the maps of `detector`."""
    chances = tf.sigmoid(predicted[None, ..., :-2])
    peaks = (chances == tf.nn.max_pool2d(chances, 3, 1, "SAME")) & (chances >= least)
    found = []
    for row, column, label in np.argwhere(peaks[0]):
        size = predicted[row, column, -2:]
        middle = (np.array([row, column]) + 0.5) / _CELLS
        box = np.concatenate([middle - size / 2, middle + size / 2])
        found.append((box, int(label), float(chances[0, row, column, label])))
    return found


def overlap(box: np.ndarray, other: np.ndarray) -> float:
    """Intersection over union."""
    sides = np.minimum(box[2:], other[2:]) - np.maximum(box[:2], other[:2])
    both = np.prod(np.maximum(sides, 0))
    return float(both / (np.prod(box[2:] - box[:2]) + np.prod(other[2:] - other[:2]) - both))


@click.command()
@click.argument("directory")
@click.option("--epochs", default=300)
@click.option("--steps", default=None, type=int, help="Batches of an epoch; all by default.")
@click.option("--batch-size", default=8)
def main(directory: str, epochs: int, steps: int | None, batch_size: int) -> None:
    """Trains on the split train of DIRECTORY, and counts the boxes of test that it finds."""
    train = load(directory, "train", batch_size, augment=_AUGMENT, seed=1)
    classes = train.info.num_classes  # the labels of an image are the classes of its objects
    model = detector(classes)
    steps = steps or train.steps_per_epoch
    rate = keras.optimizers.schedules.CosineDecay(3e-3, epochs * steps)
    model.compile(keras.optimizers.Adam(rate), loss)
    learned = train.dataset.map(with_maps(classes))
    model.fit(learned, epochs=epochs, steps_per_epoch=steps, verbose=2)
    hits = wrong = count = 0
    for inputs, _ in load(directory, "test", 1, shuffle="off", epochs=1):
        shown = boxes_of(model.predict(inputs["image"], verbose=0)[0])
        objects = inputs["objects"]
        known = objects["label"][0] >= 0
        pairs = list(zip(objects["bbox"][0][known], objects["label"][0][known], strict=True))
        count += len(pairs)
        for box, label, _ in sorted(shown, key=lambda one: -one[2]):
            near = [pair for pair in pairs if pair[1] == label and overlap(box, pair[0]) >= 0.5]
            hits, wrong = hits + bool(near), wrong + (not near)
            pairs = [pair for pair in pairs if not near or pair is not near[0]]
    print(f"test: {hits} of {count} boxes found (IoU of 0.5 and more), {wrong} others")


if __name__ == "__main__":
    main()
