"""Exports of sets whose records are not the source: JPEGs, and cleaned and tokenized texts."""

from __future__ import annotations

import csv

import numpy as np
import pytest
import tensorflow as tf

from trainer import TrainOptions, train
from trainer.export import ExportOptions, export
from trainer.export.float32_model import in_float32
from trainer.export.predicting import open_predictor
from trainer.export.trained_run import open_run

pytestmark = pytest.mark.proof


def through_reader(run, split, **options):
    """Record id -> probabilities, through reader.load and Keras in float32."""
    import reader

    opened, found = open_run(run), {}
    model = in_float32(opened.model)
    stream = reader.load(
        opened.data, split=split, batch_size=32, features=("id",), shuffle="off", epochs=1,
        remainder="keep", cache="off", **options,
    )  # fmt: skip
    for inputs, _ in stream.dataset.as_numpy_iterator():
        ids = inputs.pop("id")
        (values,) = inputs.values()
        values = values if values.dtype == np.int64 else values.astype(np.float32)
        rows = model(values, training=False).numpy()
        found |= dict(zip([name.decode() for name in ids], rows, strict=True))
    return found


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
    expected = through_reader(run, "train", image_size=64)
    names = sorted(expected)
    rows = np.array([expected[name] for name in names])
    call = tf.saved_model.load(str(served)).signatures["serving_default"]
    found = np.concatenate(
        [
            call(image_bytes=tf.constant([(samples / name).read_bytes()]))["probabilities"]
            for name in names
        ]
    )
    assert len(names) == 320
    assert np.mean(found.argmax(axis=1) == rows.argmax(axis=1)) >= 0.98
    assert np.abs(found - rows).mean() < 0.005


@pytest.mark.parametrize("tokenizer", ["bpe:1000", "unigram:1000"])
def test_texts_are_tokenized_as_in_the_set(tokenizer, repository, tmp_path):
    """BPE in the graph, SentencePiece on the client; of every question of the test split."""
    from beam_jobs.options import TextOptions
    from beam_jobs.run import preprocess

    data, run = tmp_path / "set", tmp_path / "run"
    source = repository / "samples" / "banking"
    preprocess(
        TextOptions(
            (str(source),),
            str(data),
            label_column="category",
            split="folders",
            train_tokenizer=tokenizer,
            keep_columns="text",
            workers=1,
            no_report=True,
        )  # fmt: skip
    )
    train(TrainOptions(data, run, epochs=1, max_tokens=24))
    done = export(ExportOptions(run, tmp_path / "served"))
    in_graph = tokenizer.startswith("bpe")
    assert done.signatures == (("serving_default", "tokens") if in_graph else ("serving_default",))
    assert bool(done.notes) != in_graph
    with open(source / "test.csv", encoding="utf-8", newline="") as file:
        texts = [row["text"] for row in csv.DictReader(file)]
    predictor = open_predictor(tmp_path / "served" if in_graph else run)
    found = {
        one.name: dict(one.classes)
        for one in predictor.predict([(text, text.encode()) for text in texts])
    }
    import reader

    expected = through_reader(run, "test", max_tokens=24)
    access = reader.random_access(data, split="test")
    kept = {access[number]["id"]: access[number]["text"] for number in range(len(access))}
    assert len(kept) >= 200
    names = open_run(run).class_names
    for record, row in expected.items():
        same = [found[kept[record]][name] for name in names]
        np.testing.assert_allclose(same, row, atol=1e-5)
