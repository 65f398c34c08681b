"""What is done to gradients and weights in a step: parts, clipping, averages, float32."""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf
import tiny

from shard_format import UsageError
from trainer.loop import Loop, StepOptions
from trainer.models.build import build_model
from trainer.objective import Objective
from trainer.optimization import OPTIMIZERS
from trainer.optimization.gradients import clipped
from trainer.optimization.optimizers import averages_of, with_loss_scale
from trainer.precision import dtype_policy
from trainer.run import train_on
from trainer.strategies import STRATEGIES
from trainer.train_state import make_train_state

SIZE = 8


def nothing(step, totals):
    pass


def make(optimizer, policy="float32", class_weights=None, **options):
    keras.utils.set_random_seed(1)
    with dtype_policy(policy):
        model = build_model("tiny:dense", {}, (SIZE, SIZE, 3), tiny.NUM_CLASSES)
        optimizer.build(model.trainable_variables)
    objective = Objective(model, class_weights=class_weights)
    return model, Loop(
        STRATEGIES["default"](), model, optimizer, StepOptions(8, **options), objective
    )


def trained(steps=6, optimizer=None, **options):
    optimizer = optimizer or keras.optimizers.SGD(0.1, momentum=0.9)
    model, loop = make(optimizer, **options)
    totals = loop.train(iter(tiny.endless(32, SIZE, 8).dataset), steps, nothing)
    return model.get_weights(), totals


@pytest.mark.parametrize("parts", [2, 8])
def test_a_batch_in_parts_is_the_step_of_the_whole_batch(parts):
    whole, totals = trained()
    own, of_parts = trained(accumulate=parts)
    for a, b in zip(whole, own, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-5)
    assert (of_parts.correct, of_parts.examples) == (totals.correct, totals.examples)
    assert of_parts.mean_loss == pytest.approx(totals.mean_loss, rel=1e-5)


def test_parts_of_tokens_with_weights_are_the_step_of_the_whole(token_steps):
    """With Adam, to which tokens that are several times in a batch came one by one before."""
    runs = [token_steps(accumulate=parts) for parts in (1, 4)]
    for a, b in zip(*(weights for weights, _ in runs), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-5)
    assert runs[0][1].examples == runs[1][1].examples


def test_a_token_that_is_twice_in_a_batch_has_one_gradient():
    """In the first step of Adam every weight with a gradient moves by the learning rate."""
    ids = keras.Input((4,), dtype="int32")
    x = keras.layers.Flatten()(keras.layers.Embedding(5, 2)(ids))
    model = keras.Model(ids, keras.layers.Dense(3, activation="softmax")(x))
    optimizer = OPTIMIZERS["adamw"](0.01, 0.0)
    optimizer.build(model.trainable_variables)
    before = model.get_weights()[0]
    batch = (np.array([[1, 1, 1, 1], [1, 1, 2, 2]]), np.array([0, 2]))
    loop = Loop(STRATEGIES["default"](), model, optimizer, StepOptions(2))
    loop.train(iter(tf.data.Dataset.from_tensors(batch)), 1, nothing)
    moves = np.abs(model.get_weights()[0] - before)
    np.testing.assert_allclose(moves[1:3], 0.01, rtol=1e-3)
    assert not moves[[0, 3, 4]].any()


@pytest.fixture
def token_steps():
    def run(accumulate):
        keras.utils.set_random_seed(1)
        ids = keras.Input((6,), dtype="int32", name="tokens")
        x = keras.layers.Dense(9)(keras.layers.Embedding(9, 4)(ids))
        model = keras.Model({"tokens": ids}, keras.layers.Softmax()(x))
        optimizer = OPTIMIZERS["adamw"](0.01, 0.1)
        optimizer.build(model.trainable_variables)
        loop = Loop(STRATEGIES["default"](), model, optimizer, StepOptions(8, accumulate))
        generator = np.random.default_rng(0)
        ids = generator.integers(0, 9, (8, 7))
        weights = generator.integers(0, 2, (8, 6)).astype(np.float32)
        batch = tf.data.Dataset.from_tensors(({"tokens": ids[:, :-1]}, ids[:, 1:], weights))
        totals = loop.train(iter(batch.repeat()), 3, nothing)
        return model.get_weights(), totals

    return run


@pytest.mark.parametrize(("accumulate", "policy"), [(1, "float32"), (4, "mixed_float16")])
def test_no_step_is_longer_than_the_norm(accumulate, policy):
    """Of plain SGD with a learning rate of 1 a step is the gradient."""
    optimizer = keras.optimizers.SGD(1.0)
    if policy == "mixed_float16":
        optimizer = with_loss_scale(optimizer)
    model, loop = make(optimizer, policy, accumulate=accumulate, clip_norm=0.25)
    batches = iter(tiny.endless(32, SIZE, 8).dataset)
    for _ in range(4):
        before = model.get_weights()
        loop.train(batches, 1, nothing)
        moves = [b - a for a, b in zip(before, model.get_weights(), strict=True)]
        norm = np.sqrt(sum((move.astype(np.float64) ** 2).sum() for move in moves))
        assert norm == pytest.approx(0.25, rel=1e-3)
    unclipped, _ = trained(steps=1)
    assert all(map(np.array_equal, unclipped, trained(steps=1, clip_norm=1e6)[0]))


def test_a_norm_that_is_not_finite_is_not_made_finite():
    gradients = clipped([tf.constant([np.inf, 1.0]), None], 1.0, 1.0)
    assert gradients[1] is None and not np.isfinite(gradients[0]).all()


@pytest.mark.parametrize("accumulate", [1, 4])
@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
def test_weights_optimizer_state_and_sums_are_float32(policy, accumulate, monkeypatch):
    optimizer = keras.optimizers.AdamW(1e-3)
    if policy == "mixed_float16":
        optimizer = with_loss_scale(optimizer)
    model, loop = make(optimizer, policy, accumulate=accumulate)
    assert {layer.compute_dtype for layer in model.layers[1].layers[2:]} == {policy[6:]}
    seen = []
    apply = optimizer.apply
    monkeypatch.setattr(
        optimizer, "apply", lambda grads, ws: (seen.extend(grads), apply(grads, ws))
    )
    loop.train(iter(tiny.endless(32, SIZE, 8).dataset), 1, nothing)
    assert {gradient.dtype for gradient in seen} == {tf.float32}
    assert {str(weight.dtype) for weight in model.weights} == {"float32"}
    assert {str(each.dtype) for each in optimizer.variables} <= {"float32", "int32", "int64"}


def test_a_gradient_below_float16_is_lost_without_the_scale_and_kept_by_the_loop():
    """A loss whose gradient is 1e-8: the least number of float16 is 6e-8."""
    tiny_slope = 1e-8
    weight = tf.Variable(1.0)

    def gradient(scale):
        with tf.GradientTape() as tape:
            half = tf.cast(weight, tf.float16) * tf.constant(1.0, tf.float16)
            loss = tf.cast(half, tf.float32) * tiny_slope * scale
        return float(tape.gradient(loss, weight)) / scale

    assert gradient(1.0) == 0.0
    assert gradient(2.0**15) == pytest.approx(tiny_slope, rel=1e-2)

    def moved(optimizer):
        """How far the kernels move in a step whose loss is weighed by that factor."""
        weights = [tiny_slope] * tiny.NUM_CLASSES
        model, loop = make(optimizer, "mixed_float16", weights)
        before = model.get_weights()
        loop.train(iter(tiny.endless(32, SIZE, 8).dataset), 1, nothing)
        return [np.abs(b - a).max() for a, b in zip(before, model.get_weights(), strict=True)]

    rate = 1e7  # so that a step of such a gradient shows in a weight
    assert not any(moved(keras.optimizers.SGD(rate)))
    assert all(move > 1e-4 for move in moved(with_loss_scale(keras.optimizers.SGD(rate))))


def test_averages_of_weights_are_validated_and_saved(options):
    given = options(ema=0.9, epochs=2, model="tiny:with_norm")
    result = train_on(tiny.data(), given)
    plain = train_on(tiny.data(), dataclasses.replace(given, ema=None, run_dir=given.run_dir / "b"))
    assert [e.loss for e in result.history] == [e.loss for e in plain.history]
    assert result.final.val_loss != plain.final.val_loss
    saved = keras.models.load_model(result.model_path)
    images, labels = tiny.make_images(13, 8, 1)
    probabilities = saved.predict(images.astype(np.float32), verbose=0)
    losses = -np.log(probabilities[np.arange(13), labels])
    assert losses.mean() == pytest.approx(result.final.val_loss, rel=1e-5)


def test_an_average_is_that_of_all_steps():
    keras.utils.set_random_seed(1)
    optimizer = keras.optimizers.SGD(0.1)
    optimizer.use_ema, optimizer.ema_momentum = True, 0.75
    model, loop = make(optimizer)
    batches = iter(tiny.endless(32, SIZE, 8).dataset)
    seen = []
    for _ in range(5):
        loop.train(batches, 1, nothing)
        seen.append(model.get_weights()[0])
    expected = seen[0]
    for weights in seen[1:]:
        expected = 0.75 * expected + 0.25 * weights
    average = averages_of(optimizer, model.trainable_variables)[id(model.trainable_variables[0])]
    np.testing.assert_allclose(average.numpy(), expected, rtol=1e-5)


def test_class_weights_are_factors_on_the_losses_of_training_alone():
    weights = (0.5, 2.0, 0.0)
    stream = tiny.finite(13, SIZE, 8)
    plain, weighed = (make(keras.optimizers.SGD(0.0), class_weights=w) for w in (None, weights))
    images, labels = tiny.make_images(13, SIZE, 1)
    probabilities = plain[0](images.astype(np.float32)).numpy()
    losses = -np.log(probabilities[np.arange(13), labels])
    totals = weighed[1].train(iter(stream.dataset), 2, nothing)
    assert totals.loss == pytest.approx((losses * np.take(weights, labels)).sum(), rel=1e-5)
    validated = weighed[1].validate(iter(stream.dataset), 2, nothing)
    assert validated.loss == pytest.approx(losses.sum(), rel=1e-5)


def test_parts_that_do_not_divide_a_batch_are_refused(options):
    with pytest.raises(UsageError, match=r"--accumulate 3 does not divide the 8 .* 1, 2, 4, 8\."):
        make_train_state(options(accumulate=3).settled("image"), "float32", 4, tiny.data())
