"""A small U-Net that learns the masks of a set of images.

    shardmill preprocess images photos --annotations masks --no-labels --out set
    python -m samples.training.masks set --classes 4

Ronneberger, Fischer and Brox, "U-Net: Convolutional Networks for Biomedical Image Segmentation"
(2015), figure 1, with fewer channels. The mask is cropped, flipped and scaled as the image is, and
is 255 where the image is filled: such pixels count neither in the loss nor in the metric.
"""

from __future__ import annotations

import click
import keras
import reader
import tensorflow as tf
from reader.transforms import HorizontalFlip, RandomResizedCrop

_SIZE, _IGNORED = 128, 255
_AUGMENT = [RandomResizedCrop(0.5), HorizontalFlip()]  # half of the area, or more of it


def batches(directory: str, split: str, batch_size: int, **options) -> tuple[tf.data.Dataset, int]:
    """(images [n, size, size, 3], masks [n, size, size, 1]), and the batches of an epoch."""
    stream = reader.load(
        directory,
        split=split,
        batch_size=batch_size,
        image_size=_SIZE,
        features=("segmentation_mask",),
        **options,
    )

    def pair(inputs, *_):  # of a set with labels, those come second
        return inputs["image"], inputs["segmentation_mask"]

    return stream.dataset.map(pair), stream.steps_per_epoch


def block(images, channels):
    for _ in range(2):
        images = keras.layers.Conv2D(channels, 3, padding="same", use_bias=False)(images)
        images = keras.layers.ReLU()(keras.layers.BatchNormalization(momentum=0.9)(images))
    return images


def unet(classes: int, channels=(16, 32, 64, 128)) -> keras.Model:
    """images [batch, size, size, 3] uint8 -> logits [batch, size, size, classes]."""
    images = keras.Input((_SIZE, _SIZE, 3))
    down, skips = keras.layers.Rescaling(1 / 127.5, offset=-1)(images), []
    for width in channels[:-1]:
        skips.append(block(down, width))
        down = keras.layers.MaxPooling2D()(skips[-1])
    up = block(down, channels[-1])
    for width, skip in zip(channels[-2::-1], skips[::-1], strict=True):
        up = keras.layers.Conv2DTranspose(width, 2, strides=2)(up)
        up = block(keras.layers.Concatenate()([skip, up]), width)
    return keras.Model(images, keras.layers.Conv2D(classes, 1)(up))


@click.command()
@click.argument("directory")
@click.option("--classes", default=4, help="Classes of the masks, their background included.")
@click.option("--epochs", default=30)
@click.option("--steps", default=None, type=int, help="Batches of an epoch; all by default.")
@click.option("--batch-size", default=8)
def main(directory: str, classes: int, epochs: int, steps: int | None, batch_size: int) -> None:
    """Trains on the split train of DIRECTORY, and measures on its split test."""
    train, count = batches(directory, "train", batch_size, augment=_AUGMENT)
    test, _ = batches(directory, "test", batch_size, shuffle="off", epochs=1)
    model = unet(classes)
    model.compile(
        keras.optimizers.Adam(2e-3),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=_IGNORED),
        metrics=[
            keras.metrics.MeanIoU(
                classes, sparse_y_pred=False, ignore_class=_IGNORED, name="mean_iou"
            )
        ],
    )
    model.fit(train, epochs=epochs, steps_per_epoch=steps or count, verbose=2)
    loss, mean_iou = model.evaluate(test, verbose=0)
    print(f"test: loss {loss:.3f}, mean IoU {mean_iou:.3f}")


if __name__ == "__main__":
    main()
