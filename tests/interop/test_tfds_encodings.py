"""TensorFlow and TensorFlow Datasets read every encoding and every kind of label."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from shard_format import (
    Feature,
    Ledger,
    Manifest,
    Schema,
    ShardInfo,
    SplitInfo,
    encode_example,
    file_sha256,
    frame,
)
from shard_format.naming import shard_file
from shard_format.tfds_metadata import tfds_files

PIXELS = np.random.default_rng(0).integers(0, 256, (5, 7, 3), np.uint8)
NAMES = ("cat", "dog", "owl")


def read_back(directory, features, values):
    """The only example of a set, as TFDS gives it."""
    import tensorflow_datasets as tfds

    schema = Schema("image", (Feature("id", "text"), *features))
    path = directory / shard_file("tiny", "train", 0, 1)
    path.write_bytes(frame(encode_example(schema, {"id": "a", **values})))
    shard = ShardInfo(path.name, 1, path.stat().st_size, file_sha256(path))
    manifest = Manifest(
        "tiny", schema, {"train": SplitInfo((shard,), {})}, Ledger(1, 1, 0, 0, 0, {}), {}, {}
    )
    for name, content in tfds_files("tiny", schema, manifest.splits).items():
        (directory / name).write_bytes(content)
    builder = tfds.builder_from_directory(directory)
    (example,) = builder.as_dataset(split="train").as_numpy_iterator()
    return builder, example


@pytest.mark.parametrize("encoding", ["jpeg", "png", "webp", "raw"])
def test_every_encoding(tmp_path, encoding):
    import tensorflow as tf

    from beam_jobs.images.encode import ENCODERS

    stored = ENCODERS[encoding](PIXELS, 90)
    features = [Feature("image", "image", (-1, -1, 3), encoding)]
    values = {"image": stored}
    if encoding == "raw":
        features += [Feature("height", "int64"), Feature("width", "int64")]
        values |= {"height": 5, "width": 7}
    _, example = read_back(tmp_path, features, values)
    if encoding == "jpeg":
        np.testing.assert_array_equal(example["image"], tf.io.decode_jpeg(stored))
    elif encoding == "png":
        np.testing.assert_array_equal(example["image"], PIXELS)
    elif encoding == "webp":
        assert example["image"] == stored
    else:
        sides = (example["height"], example["width"], 3)
        pixels = np.frombuffer(example["image"], np.uint8).reshape(sides)
        np.testing.assert_array_equal(pixels, PIXELS)


@pytest.mark.parametrize("labels", [[0, 2], [1], []])
def test_any_number_of_labels(tmp_path, labels):
    features = [
        Feature("image", "image", (-1, -1, 3), "raw"),
        Feature("label", "class_label", (-1,), "", NAMES, late=True),
    ]
    builder, example = read_back(tmp_path, features, {"image": PIXELS.tobytes(), "label": labels})
    assert example["label"].tolist() == labels
    assert builder.info.features["label"].feature.names == list(NAMES)


def test_no_label(tmp_path):
    image = Feature("image", "image", (-1, -1, 3), "raw")
    builder, example = read_back(tmp_path, [image], {"image": PIXELS.tobytes()})
    assert sorted(example) == ["id", "image"]
    assert builder.info.supervised_keys is None


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"progressive": True},
        {"subsampling": 0},
        {"restart_marker_blocks": 4},
        {"comment": b"taken on a Sunday"},
        {"mode": "L"},
    ],
)
def test_tensorflow_decodes_what_is_kept(options):
    """Here and not next to the other tests of what is kept: those run in a process without it."""
    import tensorflow as tf

    from beam_jobs.images.jpeg_passthrough import needs_no_change

    file = io.BytesIO()
    one_image = Image.fromarray(np.repeat(np.repeat(PIXELS, 20, axis=0), 20, axis=1))
    one_image.convert(options.get("mode", "RGB")).save(file, "JPEG", **options)
    assert needs_no_change(file.getvalue()) == (140, 100)
    assert tf.io.decode_jpeg(file.getvalue(), channels=3).shape == (100, 140, 3)
