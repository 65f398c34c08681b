"""Sets with several labels, read without shardmill."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from shard_format import Manifest, open_index

COLOURS = ("10", "9", "dark red")


@pytest.fixture(scope="module")
def shard_set(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Manifest]:
    from beam_jobs.options import TextOptions
    from beam_jobs.run import preprocess

    root = tmp_path_factory.mktemp("labels")
    rows = (
        {"text": f"car {n}", "make": "vw" if n % 2 else "bmw", "colour": COLOURS[n % 3]}
        for n in range(30)
    )
    (root / "cars.jsonl").write_text("\n".join(map(json.dumps, rows)))
    options = TextOptions(
        (str(root / "cars.jsonl"),), str(root / "set"), label_column="make,colour", workers=1
    )
    return root / "set", preprocess(options).manifest


def test_tfds_reads_every_label(shard_set: tuple[Path, Manifest]) -> None:
    import tensorflow_datasets as tfds

    out, manifest = shard_set
    builder = tfds.builder_from_directory(out)
    features = builder.info.features
    assert features["label"].names == ["bmw", "vw"]
    assert features["colour"].names == list(COLOURS)
    assert builder.info.supervised_keys == ("text", "label")
    seen = 0
    for split in manifest.splits:
        for example in builder.as_dataset(split=split).as_numpy_iterator():
            number = int(example["text"].split()[1])
            assert features["label"].int2str(example["label"]) == ("vw" if number % 2 else "bmw")
            assert features["colour"].int2str(example["colour"]) == COLOURS[number % 3]
            seen += 1
    assert seen == 30


def test_plain_tf_data_reads_every_label(shard_set: tuple[Path, Manifest]) -> None:
    import tensorflow as tf

    out, manifest = shard_set
    wanted = {name: tf.io.FixedLenFeature([], tf.int64) for name in ("label", "colour")}
    files = [str(out / shard.file) for shard in manifest.splits["train"].shards]
    rows = open_index(out / "index" / "train.arrow").to_pylist()
    for serialized, row in zip(tf.data.TFRecordDataset(files), rows, strict=True):
        example = tf.io.parse_single_example(serialized, wanted)
        assert int(example["label"]) == row["label"]
        assert int(example["colour"]) == row["label.colour"]
