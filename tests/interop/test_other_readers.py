"""P10: others read the set without shardmill."""

from __future__ import annotations

import numpy as np
import pytest

from shard_format import open_index


@pytest.fixture(scope="module")
def shard_set(tmp_path_factory, samples):
    from beam_jobs.options import ImageOptions
    from beam_jobs.run import preprocess

    out = tmp_path_factory.mktemp("interop") / "set"
    options = ImageOptions(
        (str(samples),), str(out), name="clothing", resize="shorter:64", num_shards=3, workers=1
    )
    return out, preprocess(options).manifest


def test_tfds_reads_it(shard_set):
    import tensorflow_datasets as tfds

    out, manifest = shard_set
    builder = tfds.builder_from_directory(out)
    assert builder.info.features["label"].names == list(manifest.schema["label"].class_names)
    assert builder.info.supervised_keys == ("image", "label")
    for split, info in manifest.splits.items():
        index = open_index(out / "index" / f"{split}.arrow").to_pylist()
        assert builder.info.splits[split].num_examples == info.records
        assert builder.info.splits[split].num_shards == len(info.shards)
        read = {}
        for example in builder.as_dataset(split=split, shuffle_files=False).as_numpy_iterator():
            read[example["id"].decode()] = (example["label"], example["image"].shape)
        assert len(read) == len(index)
        for row in index:
            label, shape = read[row["record_id"]]
            assert label == row["label"]
            assert shape == (row["height"], row["width"], 3)


def test_tfds_slices_it(shard_set):
    import tensorflow_datasets as tfds

    out, manifest = shard_set
    builder = tfds.builder_from_directory(out)
    half = builder.as_dataset(split="train[:50%]")
    assert abs(len(list(half)) - manifest.splits["train"].records / 2) <= 1


def test_plain_tf_data_reads_it_in_order(shard_set):
    import tensorflow as tf

    out, manifest = shard_set
    features = {
        "id": tf.io.FixedLenFeature([], tf.string),
        "image": tf.io.FixedLenFeature([], tf.string),
        "label": tf.io.FixedLenFeature([], tf.int64),
    }
    files = [str(out / shard.file) for shard in manifest.splits["train"].shards]
    index = open_index(out / "index" / "train.arrow").to_pylist()
    for serialized, row in zip(tf.data.TFRecordDataset(files), index, strict=True):
        example = tf.io.parse_single_example(serialized, features)
        assert example["id"].numpy().decode() == row["record_id"]
        assert int(example["label"]) == row["label"]
        assert tf.io.decode_jpeg(example["image"]).shape == (row["height"], row["width"], 3)


def test_a_record_is_found_by_its_offset(shard_set):
    import tensorflow as tf

    out, manifest = shard_set
    shards = manifest.splits["train"].shards
    rows = open_index(out / "index" / "train.arrow").to_pylist()

    def read_at(file, offset):
        dataset = tf.raw_ops.TFRecordDatasetV2(
            filenames=[file], compression_type="", buffer_size=0, byte_offsets=[offset]
        )
        return tf.data.experimental.from_variant(dataset, tf.TensorSpec([], tf.string)).take(1)

    for row in rows[::50]:
        position = (str(out / shards[row["shard"]].file), row["offset"])
        (serialized,) = tf.data.Dataset.from_tensors(position).flat_map(read_at)
        example = tf.train.Example.FromString(serialized.numpy())
        assert example.features.feature["id"].bytes_list.value[0].decode() == row["record_id"]


def test_the_shuffle_is_global(shard_set):
    """Class-sorted input, and yet neighbours are no likelier of one class than by chance."""
    out, _ = shard_set
    labels = np.array(open_index(out / "index" / "train.arrow")["label"].to_pylist())
    same = np.mean(labels[1:] == labels[:-1])
    chance = np.sum((np.bincount(labels) / len(labels)) ** 2)
    assert abs(same - chance) < 3 * np.sqrt(chance * (1 - chance) / len(labels))
