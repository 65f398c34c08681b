"""Exports of sets whose records are not the source: JPEGs, and cleaned and tokenized texts."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest
import tensorflow as tf

from inference.export import ExportOptions, export
from inference.export.predicting import open_predictor
from inference.export.trained_run import in_float32, open_run
from trainer import TrainOptions, train

pytestmark = pytest.mark.proof


def through_reader(run, split, key, **options):
    """A kept feature of a record -> probabilities, through reader.load and Keras in float32."""
    import reader

    opened, rows_of = open_run(run), {}
    model = in_float32(opened.model)
    stream = reader.load(
        opened.data, split=split, batch_size=32, features=(key,), shuffle="off", epochs=1,
        remainder="keep", cache="off", **options,
    )  # fmt: skip
    for inputs, _ in stream.dataset.as_numpy_iterator():
        ids = inputs.pop(key)
        (values,) = inputs.values()
        values = values if values.dtype == np.int64 else values.astype(np.float32)
        rows = model(values, training=False).numpy()
        rows_of |= dict(zip([name.decode() for name in ids], rows, strict=True))
    return rows_of


def test_photographs_of_a_set_of_jpegs_get_the_same_classes(samples, tmp_path):
    """The encoders of TensorFlow and of preprocessing differ by a gray level."""
    from beam_jobs.options import ImageOptions
    from beam_jobs.run import preprocess

    data, run = tmp_path / "set", tmp_path / "run"
    preprocess(
        ImageOptions((str(samples),), str(data), resize="shorter:96", workers=1, no_report=True)
    )
    train(TrainOptions(data, run, image_size=64, epochs=6))
    served = export(ExportOptions(run, tmp_path / "served")).path
    expected = through_reader(run, "train", "id", image_size=64)
    names = sorted(expected)
    rows = np.array([expected[name] for name in names])
    call = tf.saved_model.load(str(served)).signatures["serving_default"]
    served_rows = np.concatenate(
        [
            call(image_bytes=tf.constant([(samples / name).read_bytes()]))["probabilities"]
            for name in names
        ]
    )
    assert len(names) >= 200
    assert np.mean(served_rows.argmax(axis=1) == rows.argmax(axis=1)) >= 0.98
    assert np.abs(served_rows - rows).mean() < 0.005


@pytest.mark.parametrize("tokenizer", ["bpe:1000", "unigram:1000"])
def test_texts_are_tokenized_as_in_the_set(tokenizer, repository, tmp_path):
    """BPE in the graph, SentencePiece on the client; of every question of the test split."""
    from beam_jobs.options import TextOptions
    from beam_jobs.run import preprocess
    from beam_jobs.text.recleaning import TextCleaner

    data, run = tmp_path / "set", tmp_path / "run"
    texts = []
    for name in ("train", "test"):
        path = repository / "samples" / "banking" / f"{name}.csv"
        with open(path, encoding="utf-8", errors="ignore", newline="") as file:
            texts = [row | {"raw": row["text"]} for row in csv.DictReader(file)]
        (tmp_path / "source" / name).mkdir(parents=True)
        lines = "\n".join(map(json.dumps, texts))
        (tmp_path / "source" / name / "rows.jsonl").write_text(lines)
    preprocess(
        TextOptions(
            (str(tmp_path / "source"),),
            str(data),
            label_column="category",
            split="folders",
            train_tokenizer=tokenizer,
            keep_columns="raw",
            workers=1,
            no_report=True,
        )
    )
    train(TrainOptions(data, run, epochs=1, max_tokens=24))
    done = export(ExportOptions(run, tmp_path / "served"))
    in_graph = tokenizer.startswith("bpe")
    assert done.signatures == (("serving_default", "tokens") if in_graph else ("serving_default",))
    assert any("tokenizer" in note for note in done.notes) != in_graph
    model = tmp_path / "served" if in_graph else run
    predictor = open_predictor(model, make_clean=None if in_graph else TextCleaner)
    shares = {
        one.name: dict(one.classes)
        for one in predictor.predict(
            [(row["raw"], row["raw"].encode()) for row in texts], are_files=False
        )
    }
    expected = through_reader(run, "test", "raw", max_tokens=24)
    assert len(expected) >= 200
    names = open_run(run).class_names
    for text, row in expected.items():
        same = [shares[text][name] for name in names]
        np.testing.assert_allclose(same, row, atol=1e-5, err_msg=ascii(text))
