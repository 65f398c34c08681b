"""Two towers that learn which caption belongs to which image.

    shardmill preprocess images photos --labels captions.jsonl --caption-column caption \\
        --no-labels --out set
    python -m samples.training.captions set

Radford et al., "Learning Transferable Visual Models From Natural Language Supervision" (2021),
figure 3: in a batch, every image is compared with every caption, and a loss over rows and columns
wants the pairs. Captions with the same words belong to each other's images too, as in Yang et al.,
"Unified Contrastive Learning in Image-Text-Label Space" (2022), section 3.2. The towers here are
small: convolutions, and the mean of the vectors of words.
"""

from __future__ import annotations

import click
import keras
import reader
import tensorflow as tf
from keras import ops
from reader.transforms import HorizontalFlip, RandomResizedCrop

_SIZE, _WIDTH, _WORDS = 96, 64, 16
_COLORS = ("brightness", "contrast", "saturation", "hue")
_AUGMENT = [RandomResizedCrop(0.7), HorizontalFlip(), *_COLORS]  # 0.7 of the area, or more


def load(directory: str, split: str, batch_size: int, **options) -> reader.Stream:
    """Batches of {"image": [batch, size, size, 3], "caption": [batch] string}."""
    return reader.load(
        directory,
        split=split,
        batch_size=batch_size,
        image_size=_SIZE,
        features=("caption",),
        **options,
    )


def image_tower() -> keras.Model:
    images = keras.Input((_SIZE, _SIZE, 3))
    values = keras.layers.Rescaling(1 / 127.5, offset=-1)(images)
    for channels in (16, 32, 64, 128):
        values = keras.layers.Conv2D(channels, 3, strides=2, padding="same", use_bias=False)(values)
        values = keras.layers.ReLU()(keras.layers.BatchNormalization(momentum=0.9)(values))
    pooled = keras.layers.GlobalMaxPooling2D()(values)
    return keras.Model(images, keras.layers.UnitNormalization()(keras.layers.Dense(_WIDTH)(pooled)))


def word_tower(words: int) -> keras.Model:
    numbers = keras.Input((_WORDS,), dtype="int64")
    vectors = keras.layers.Embedding(words, _WIDTH, mask_zero=True)(numbers)
    pooled = keras.layers.GlobalAveragePooling1D()(vectors)
    return keras.Model(
        numbers, keras.layers.UnitNormalization()(keras.layers.Dense(_WIDTH)(pooled))
    )


class Pairs(keras.Model):
    """{"image", "words"} -> [batch, batch]: how alike every image and every caption are."""

    def __init__(self, words: int) -> None:
        super().__init__()
        self.images, self.words = image_tower(), word_tower(words)
        self.scale = self.add_weight(
            shape=(), initializer=keras.initializers.Constant(2.66), name="scale"
        )  # the logarithm of 1 / 0.07

    def call(self, inputs):
        images, captions = self.images(inputs["image"]), self.words(inputs["words"])
        return ops.exp(self.scale) * ops.matmul(images, ops.transpose(captions))


def contrastive(same, logits):
    """The mean of the cross entropies of images and of captions.

    `same` is [batch, batch]: 1 where the caption of a column has the words of that of the row.
    """
    wanted = same / ops.sum(same, axis=1, keepdims=True)
    rows = keras.losses.categorical_crossentropy(wanted, logits, from_logits=True)
    columns = keras.losses.categorical_crossentropy(wanted, ops.transpose(logits), from_logits=True)
    return (rows + columns) / 2


def found(same, logits):
    """Of every image, whether the caption that is most like it has its words."""
    best = ops.argmax(logits, axis=-1)
    return ops.take_along_axis(same, best[:, None], axis=1)[:, 0]


@click.command()
@click.argument("directory")
@click.option("--epochs", default=200)
@click.option("--steps", default=None, type=int, help="Batches of an epoch; all by default.")
@click.option("--batch-size", default=16)
def main(directory: str, epochs: int, steps: int | None, batch_size: int) -> None:
    """Trains on the split train of DIRECTORY, and says how often a caption of test is found."""
    train = load(directory, "train", batch_size, augment=_AUGMENT, seed=1)
    once = load(directory, "train", batch_size, shuffle="off", epochs=1)
    words = keras.layers.TextVectorization(2000, output_sequence_length=_WORDS)
    words.adapt(once.dataset.map(lambda inputs, *_: inputs["caption"]))

    def numbered(inputs, *_):
        captions = inputs["caption"]
        same = tf.cast(captions[:, None] == captions[None], tf.float32)
        return {"image": inputs["image"], "words": words(captions)}, same

    model = Pairs(words.vocabulary_size())
    model.compile(keras.optimizers.Adam(1e-3), contrastive, metrics=[found])
    steps = steps or train.steps_per_epoch
    model.fit(train.dataset.map(numbered), epochs=epochs, steps_per_epoch=steps, verbose=2)
    test = load(directory, "test", batch_size, shuffle="off", epochs=1)
    loss, share = model.evaluate(test.dataset.map(numbered), verbose=0)
    print(f"test: loss {loss:.3f}, {share:.0%} of the captions found among those of a batch")


if __name__ == "__main__":
    main()
