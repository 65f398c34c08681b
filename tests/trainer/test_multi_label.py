"""Sets whose records have any number of labels: the loss, exact counts, the saved model."""

import dataclasses
import json

import keras
import numpy as np
import pytest
import tensorflow as tf
import tiny

from shard_format import UsageError
from trainer import train
from trainer.loop import Loop, StepOptions
from trainer.models.build import build_model
from trainer.objective import Objective
from trainer.strategies import STRATEGIES

SIZE, BATCH = 8, 8


def nothing(step, totals):
    pass


def drawn(count):
    generator = np.random.default_rng(0)
    images = generator.uniform(0, 255, (count, SIZE, SIZE, 3)).astype(np.float32)
    return images, generator.integers(0, 2, (count, 3)).astype(np.float32)


def make(name="tiny:dense", smoothing=0.0, models=None):
    keras.utils.set_random_seed(1)
    model = build_model(name, models or {}, (SIZE, SIZE, 3), 3, "sigmoid")
    optimizer = keras.optimizers.SGD(0.1)
    optimizer.build(model.trainable_variables)
    objective = Objective(model, smoothing, multi_label=True)
    return model, Loop(STRATEGIES["default"](), model, optimizer, StepOptions(BATCH), objective)


def batches(count, batch=BATCH):
    return tf.data.Dataset.from_tensor_slices(drawn(count)).batch(batch)


def test_every_label_of_every_example_is_counted_once():
    model, loop = make()
    totals = loop.validate(iter(batches(13)), 2, nothing)
    images, labels = drawn(13)
    probabilities = model(images).numpy()
    predicted = probabilities > 0.5
    assert (totals.examples, totals.relevant) == (13, labels.sum())
    assert (totals.predicted, totals.hits) == (predicted.sum(), (predicted & (labels > 0)).sum())
    assert totals.correct == (predicted == labels).all(axis=1).sum()
    precision, recall = totals.hits / predicted.sum(), totals.hits / labels.sum()
    assert totals.f1 == pytest.approx(2 * precision * recall / (precision + recall))
    losses = -np.log(np.where(labels > 0, probabilities, 1 - probabilities)).mean(axis=1)
    assert totals.mean_loss == pytest.approx(losses.mean(), rel=1e-5)


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_steps_are_those_of_keras_fit(smoothing):
    model, loop = make(smoothing=smoothing)
    loop.train(iter(batches(32)), 4, nothing)
    fitted, _ = make()
    loss = keras.losses.BinaryCrossentropy(label_smoothing=smoothing)
    fitted.compile(keras.optimizers.SGD(0.1), loss)
    fitted.fit(batches(32), epochs=1, verbose=0, shuffle=False)
    for ours, theirs in zip(model.get_weights(), fitted.get_weights(), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-6)


def test_a_model_of_ones_own_may_end_in_a_sigmoid():
    def own(shape, classes):
        layers = [keras.Input(shape), keras.layers.Flatten()]
        return keras.Sequential([*layers, keras.layers.Dense(classes, activation="sigmoid")])

    model, loop = make("own", models={"own": own})
    assert len(model.layers) == 2  # nothing was added
    first = loop.train(iter(batches(32)), 1, nothing)
    assert np.isfinite(first.loss) and first.examples == BATCH


def test_a_run_leaves_a_model_that_answers_as_measured(write_set, options):
    write_set(label_shape=(-1,), train=48, validation=13)
    given = options(epochs=12, learning_rate=0.02, augment="none", ema=0.5)
    result = train(given)
    final = result.final
    assert final.val_f1 > 0.8 and final.val_accuracy > 0.6
    assert final.val_accuracy * 13 == pytest.approx(round(final.val_accuracy * 13))
    stored = json.loads((given.run_dir / "history.json").read_text())
    assert stored[-1]["val_f1"] == final.val_f1
    model = keras.models.load_model(result.model_path)
    probabilities = model.predict(tiny.make_images(5, 8, 1)[0].astype(np.float32), verbose=0)
    assert probabilities.shape == (5, 3) and ((0 < probabilities) & (probabilities < 1)).all()
    assert train(given).history == result.history
    with pytest.raises(UsageError, match="--class-weights needs one label per record"):
        train(dataclasses.replace(given, class_weights=True, run_dir=given.run_dir / "w"))


def test_class_weights_come_from_the_manifest(write_set, options):
    weights = {"class_weights": dict(zip(tiny.NAMES, (0.5, 1.0, 2.0), strict=True))}
    write_set(train=16, statistics=weights)
    from trainer.data import open_data

    assert open_data(options(class_weights=True)).class_weights == (0.5, 1.0, 2.0)
    assert open_data(options()).class_weights is None
    assert train(options(class_weights=True, epochs=1)).final.loss > 0


def test_class_weights_that_are_not_there_are_missed(write_set, options):
    write_set(train=16)
    with pytest.raises(UsageError, match="--class-weights needs class weights, and split 'train'"):
        train(options(class_weights=True))
