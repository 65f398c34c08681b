"""Training on records that the reader mixed: labels are shares of the classes."""

import keras
import numpy as np
import pytest
import tensorflow as tf
import tiny

from shard_format import UsageError
from trainer import TrainOptions, train
from trainer.loop import Loop, StepOptions
from trainer.models.build import build_model
from trainer.objective import Objective
from trainer.strategies import STRATEGIES

SIZE, BATCH = 8, 8


def nothing(step, totals):
    pass


def make(model="tiny:dense", label_smoothing=0.0):
    keras.utils.set_random_seed(1)
    model = build_model(model, {}, (SIZE, SIZE, 3), tiny.NUM_CLASSES)
    optimizer = keras.optimizers.SGD(0.1, momentum=0.9)
    optimizer.build(model.trainable_variables)
    objective = Objective(model, label_smoothing)
    return model, Loop(STRATEGIES["default"](), model, optimizer, StepOptions(BATCH), objective)


def mixed(count):
    """Images with shares of all classes, a third of them of a single one."""
    images, labels = tiny.make_images(count, SIZE, 0)
    shares = np.random.default_rng(0).dirichlet([1.0] * tiny.NUM_CLASSES, count)
    shares[::3] = np.eye(tiny.NUM_CLASSES)[labels[::3]]
    arrays = (images, shares.astype(np.float32))
    return tf.data.Dataset.from_tensor_slices(arrays).repeat().batch(BATCH, drop_remainder=True)


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_steps_on_shares_are_those_of_keras_fit(smoothing):
    dataset = mixed(32)
    model, loop = make(label_smoothing=smoothing)
    totals = loop.train(iter(dataset), 8, nothing)
    fitted, _ = make()
    fitted.compile(
        keras.optimizers.SGD(0.1, momentum=0.9),
        keras.losses.CategoricalCrossentropy(label_smoothing=smoothing),
        metrics=["categorical_accuracy"],
    )
    floats = dataset.map(lambda x, y: (tf.cast(x, tf.float32), y))
    history = fitted.fit(floats, steps_per_epoch=8, epochs=1, verbose=0).history
    for ours, theirs in zip(model.get_weights(), fitted.get_weights(), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-6)
    assert totals.examples == 64
    assert totals.mean_loss == pytest.approx(history["loss"][0], rel=1e-5)
    assert totals.accuracy == pytest.approx(history["categorical_accuracy"][0])


def test_whole_shares_are_classes():
    """One-hot targets give the very steps that class numbers give."""
    stream = tiny.endless(32, SIZE, BATCH)
    shares = stream.dataset.map(lambda x, y: (x, tf.one_hot(y, tiny.NUM_CLASSES)))
    (one, by_class), (other, by_share) = make(), make()
    classes = by_class.train(iter(stream.dataset), 8, nothing)
    totals = by_share.train(iter(shares), 8, nothing)
    assert totals.mean_loss == pytest.approx(classes.mean_loss, rel=1e-5)
    assert (totals.correct, totals.examples) == (classes.correct, classes.examples)
    for ours, theirs in zip(one.get_weights(), other.get_weights(), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-6)


@pytest.fixture
def run(make_images, build, tmp_path):
    """Trains for two epochs on images of noise."""
    build(make_images(60), split="train=0.7,validation=0.3")

    def run(**changes):
        values = {"model": "tiny:dense", "image_size": 32, "batch_size": 8, "epochs": 2}
        directories = {"data": tmp_path / "set", "run_dir": tmp_path / "run"}
        return train(TrainOptions(**directories, **values, precision="float32", **changes))

    return run


@pytest.mark.parametrize(
    "augment",
    ["standard,mixup", pytest.param("standard,rand_augment,cutmix", marks=pytest.mark.proof)],
)
def test_a_run_on_mixed_records(run, augment):
    result = run(augment=augment, label_smoothing=0.1)
    assert len(result.history) == 2
    assert all(np.isfinite(epoch.loss) and 0 <= epoch.accuracy <= 1 for epoch in result.history)
    # validation is of records that are not mixed: a mean over classes, as ever
    assert np.isfinite(result.final.val_loss)


def test_models_are_fed_channels_last(run):
    with pytest.raises(
        UsageError, match=r"--augment standard,channels_first gives images of shape \[3, 32, 32\]"
    ):
        run(augment="standard,channels_first")
