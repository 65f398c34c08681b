"""P10 for text: TensorFlow Datasets and plain tf.data read text, tokens and packed sequences."""

from __future__ import annotations

import json

import pytest

from shard_format import open_index

KINDS = {
    "text": {"label_column": "label", "keep_columns": "topic,year:int64"},
    "unlabelled": {"no_labels": True},
    "several": {"label_column": "labels", "multi_label": True},
    "tokens": {"label_column": "label", "train_tokenizer": "bpe:300"},
    "packed": {"train_tokenizer": "bpe:300", "pack": 16},
}


@pytest.fixture(scope="module", params=KINDS)
def text_set(request, tmp_path_factory):
    from beam_jobs.options import TextOptions
    from beam_jobs.run import preprocess

    folder = tmp_path_factory.mktemp("interop")
    (folder / "source").mkdir()
    rows = [
        {
            "text": f"document {n} said: {'naïve ' * (n % 5)}",
            "label": "even odd".split()[n % 2],
            "labels": ["x", "y", "z"][: n % 4],
            "topic": f"topic {n % 3}",
            "year": 1900 + n,
        }
        for n in range(40)
    ]
    (folder / "source" / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))
    options = KINDS[request.param] | {"workers": 1, "num_shards": 2, "no_report": True}
    job = TextOptions((str(folder / "source"),), str(folder / "set"), **options)
    return request.param, folder / "set", preprocess(job).manifest


def test_tfds_reads_it(text_set):
    import tensorflow_datasets as tfds

    from shard_format import decode_example, read_records

    kind, out, manifest = text_set
    builder = tfds.builder_from_directory(out)
    assert builder.info.splits["train"].num_examples == manifest.splits["train"].records
    pairs = {"text": ("text", "label"), "tokens": ("tokens", "label"), "several": ("text", "label")}
    assert builder.info.supervised_keys == pairs.get(kind)
    dataset = builder.as_dataset(split="train", shuffle_files=False)
    ours = {
        (example := decode_example(payload))["id"][0]: example
        for shard in manifest.splits["train"].shards
        for _, payload in read_records(out / shard.file)
    }
    count = 0
    for theirs in dataset.as_numpy_iterator():
        expected = ours[theirs["id"]]
        assert set(theirs) == set(expected)
        for name, value in theirs.items():
            shape = manifest.schema[name].shape
            assert (value.tolist() if shape else [value]) == expected[name]
            assert not shape or shape == (-1,) or value.shape == shape
        count += 1
    assert count == len(ours) == manifest.splits["train"].records


def test_plain_tf_data_reads_it_in_order(text_set):
    import tensorflow as tf

    kind, out, manifest = text_set
    by_shape = {
        (): lambda dtype: tf.io.FixedLenFeature([], dtype),
        (-1,): tf.io.VarLenFeature,
        (16,): lambda dtype: tf.io.FixedLenFeature([16], dtype),
    }
    features = {
        one.name: by_shape[one.shape](tf.string if one.kind == "text" else tf.int64)
        for one in manifest.schema.features
    }
    files = [str(out / shard.file) for shard in manifest.splits["train"].shards]
    rows = open_index(out / "index" / "train.arrow").to_pylist()
    for serialized, row in zip(tf.data.TFRecordDataset(files), rows, strict=True):
        example = tf.io.parse_single_example(serialized, features)
        assert example["id"].numpy().decode() == row["record_id"]
        if kind == "tokens":
            assert example["tokens"].values.shape == (row["tokens"],)
        if kind == "packed":
            assert int(tf.reduce_sum(tf.cast(example["segments"] == 0, tf.int64))) == row["padding"]
