"""Sets with several labels: a model with an output for each, and `--label` of the trainer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import reader
from shard_format import Feature, Schema, UsageError
from trainer.data import open_data
from trainer.options import TrainOptions

MAKES, COLOURS = ("bmw", "vw"), ("blue", "green", "red")


@pytest.fixture
def cars(write_records: Callable[..., Path]) -> Path:
    """Token ids that say the make and the colour: [make, 2 + colour]."""
    import pyarrow as pa

    features = (
        Feature("id", "text"),
        Feature("tokens", "int64", (-1,)),
        Feature("label", "class_label", (), "", MAKES, late=True),
        Feature("colour", "class_label", (), "", COLOURS, late=True),
    )
    records = []
    for number in range(120):
        make, colour = number % 2, number % 3
        values = {"id": str(number), "tokens": [1 + make, 3 + colour]}
        row = {"label.colour": colour, "tokens": 2}
        records.append((values | {"label": make, "colour": colour}, row))
    columns = (pa.field("label.colour", pa.int64()), pa.field("tokens", pa.int64()))
    schema = Schema("tokens", features)
    return write_records(schema, {"train": records}, columns, {"vocabulary": {"size": 8}})


@pytest.mark.parametrize("remainder", [pytest.param("drop", marks=pytest.mark.proof), "pad"])
def test_a_model_with_two_outputs_learns_both_labels(cars: Path, remainder: str) -> None:
    import keras

    keras.utils.set_random_seed(0)
    stream = reader.load(cars, batch_size=16, label=("label", "colour"), remainder=remainder)
    ids = keras.Input((None,), dtype="int64")
    pooled = keras.layers.GlobalAveragePooling1D()(keras.layers.Embedding(8, 16)(ids))
    outputs = {
        name: keras.layers.Dense(len(names), activation="softmax", name=name)(pooled)
        for name, names in stream.info.labels.items()
    }
    model = keras.Model(ids, outputs)
    model.compile(
        keras.optimizers.Adam(0.1),
        loss=dict.fromkeys(outputs, "sparse_categorical_crossentropy"),
        metrics=dict.fromkeys(outputs, "accuracy"),
    )
    steps = stream.steps_per_epoch
    history = model.fit(stream.dataset, steps_per_epoch=steps, epochs=4, verbose=0).history
    assert history["label_accuracy"][-1] == history["colour_accuracy"][-1] == 1
    probabilities = model.predict(np.array([[2, 4]]), verbose=0)
    assert {name: int(row.argmax()) for name, row in probabilities.items()} == {
        "label": 1,
        "colour": 1,
    }


def test_the_trainer_trains_on_the_label_that_is_asked_for(cars: Path, tmp_path: Path) -> None:
    def opened(label: str | None) -> Any:
        options = TrainOptions(
            data=cars, run_dir=tmp_path, label=label, validation_split="none", batch_size=8
        )
        return open_data(options)

    assert opened(None).class_names == opened("label").class_names == MAKES
    data = opened("colour")
    assert data.class_names == COLOURS and data.num_outputs == 3
    _, labels = next(iter(data.open_training(None).dataset))
    assert max(labels.numpy()) == 2
    with pytest.raises(UsageError, match="Unknown --label 'colr'"):
        opened("colr")
