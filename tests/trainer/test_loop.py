import keras
import numpy as np
import pytest
import tensorflow as tf
import tiny

from trainer.loop import Loop, StepOptions
from trainer.models.build import build_model
from trainer.objective import Objective
from trainer.optimization.optimizers import with_loss_scale
from trainer.precision import dtype_policy
from trainer.strategies import STRATEGIES

SIZE = 8


def nothing(step, totals):
    pass


def make(optimizer, model="tiny:dense", label_smoothing=0.0):
    keras.utils.set_random_seed(1)
    model = build_model(model, {}, (SIZE, SIZE, 3), tiny.NUM_CLASSES)
    optimizer.build(model.trainable_variables)
    return model, Loop(
        STRATEGIES["default"](), model, optimizer, StepOptions(8), Objective(model, label_smoothing)
    )


def test_validation_counts_every_example_of_a_partial_batch_once():
    model, loop = make(keras.optimizers.SGD(0.1))
    stream = tiny.finite(13, SIZE, 8)  # batches of 8 and 5
    totals = loop.validate(iter(stream.dataset), stream.steps_per_epoch, nothing)
    images, labels = tiny.make_images(13, SIZE, 1)
    probabilities = model(images.astype(np.float32)).numpy()
    losses = -np.log(probabilities[np.arange(13), labels])
    assert totals.examples == 13
    assert totals.correct == (probabilities.argmax(axis=1) == labels).sum()
    assert totals.mean_loss == pytest.approx(losses.mean(), rel=1e-6)
    # the mean of the two batches' means is another number, or this test could not fail
    means = (losses[:8].mean() + losses[8:].mean()) / 2
    assert totals.mean_loss != pytest.approx(means, rel=1e-4)


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_steps_are_those_of_keras_fit(smoothing):
    stream = tiny.endless(32, SIZE, 8)
    model, loop = make(keras.optimizers.SGD(0.1, momentum=0.9), label_smoothing=smoothing)
    totals = loop.train(iter(stream.dataset), 8, nothing)
    fitted, _ = make(keras.optimizers.SGD(0.1))
    fitted.compile(
        keras.optimizers.SGD(0.1, momentum=0.9),
        keras.losses.CategoricalCrossentropy(label_smoothing=smoothing),
        metrics=["accuracy"],
    )
    one_hot = stream.dataset.map(lambda x, y: (tf.cast(x, tf.float32), tf.one_hot(y, 3)))
    history = fitted.fit(one_hot, steps_per_epoch=8, epochs=1, verbose=0).history
    for ours, theirs in zip(model.get_weights(), fitted.get_weights(), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-6)
    assert totals.mean_loss == pytest.approx(history["loss"][0], rel=1e-5)
    assert totals.accuracy == pytest.approx(history["accuracy"][0])


def test_totals_do_not_depend_on_how_steps_are_cut_into_calls():
    stream = tiny.endless(32, SIZE, 8)
    _, whole = make(keras.optimizers.SGD(0.1))
    _, cut = make(keras.optimizers.SGD(0.1))
    seen = []
    together = whole.train(iter(stream.dataset), 12, lambda step, totals: seen.append(step))
    batches = iter(stream.dataset)
    zero = tf.constant(0.0, tf.float64)
    state = (zero, tf.zeros([5], tf.int64), tf.constant(-1, tf.int64), zero)
    for done in range(12):
        one = tf.constant(1, tf.int64)
        state = cut._train_call(batches, one, tf.constant(done, tf.int64), state)
    assert float(state[0]) == together.loss
    assert seen[-1] == 12
    assert len(seen) < 12


def test_the_first_step_that_is_not_finite_is_named():
    images, labels = tiny.make_images(32, SIZE, 0)
    images = images.astype(np.float32)
    images[20] = np.inf  # in the third batch of eight
    dataset = tf.data.Dataset.from_tensor_slices((images, labels)).batch(8)
    _, loop = make(keras.optimizers.SGD(0.1))
    assert loop.train(iter(dataset), 4, nothing).bad_step == 2


def test_mixed_float16_grows_the_loss_scale_and_halves_it_on_overflow():
    optimizer = with_loss_scale(keras.optimizers.SGD(0.01))
    optimizer.dynamic_growth_steps = 4
    with dtype_policy("mixed_float16"):
        model, loop = make(optimizer)
    stream = tiny.endless(32, SIZE, 8)
    batches = iter(stream.dataset)
    assert loop.loss_scale == 2.0**15
    loop.train(batches, 4, nothing)
    assert loop.loss_scale == 2.0**16
    before = model.get_weights()
    optimizer.dynamic_scale.assign(2.0**40)  # float16 ends at 2**16
    loop.train(batches, 2, nothing)
    assert loop.loss_scale == 2.0**38
    assert all(map(np.array_equal, before, model.get_weights()))
    loop.train(batches, 60, nothing)  # on its way down until steps count again
    assert loop.loss_scale < 2.0**38
    assert not any(map(np.array_equal, before, model.get_weights()))
    assert all(np.isfinite(weight).all() for weight in model.get_weights())


def test_extreme_logits_keep_a_finite_loss_and_a_gradient():
    model, loop = make(keras.optimizers.SGD(1e-3))
    last = model.trainable_variables[-1]
    last.assign([200.0, 0.0, 0.0])  # probabilities of the other classes are 0 in float32
    images = np.zeros((8, SIZE, SIZE, 3), np.float32)
    dataset = tf.data.Dataset.from_tensors((images, np.ones(8, np.int64)))
    totals = loop.train(iter(dataset), 1, nothing)
    assert totals.mean_loss == pytest.approx(200.0, abs=5.0)
    assert last.numpy()[1] == pytest.approx(1e-3, rel=0.05)
