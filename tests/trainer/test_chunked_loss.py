"""The loss of a language model by chunks of rows is that of whole logits, which no step holds."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fixtures.proofs import examples
from trainer import MODELS, chunked_loss
from trainer.chunked_loss import chunked_losses
from trainer.loop import Loop, StepOptions
from trainer.models import causal_transformer, transformer
from trainer.models.build import build_model
from trainer.models.heads import parts_for_training
from trainer.models.shapes import SequenceShape
from trainer.objective import Objective
from trainer.precision import dtype_policy
from trainer.strategies import STRATEGIES


@pytest.fixture
def chunks_of(monkeypatch):
    """Chunks of so many rows of logits."""

    def make(rows, vocabulary):
        monkeypatch.setattr(chunked_loss, "CHUNK_BYTES", 4 * vocabulary * rows)
        monkeypatch.setattr(chunked_loss, "_LEAST_ROWS", 1)

    return make


def whole_losses(features, kernel, bias, targets, smoothing):
    logits = tf.cast(features, tf.float32) @ kernel + bias
    shares = tf.one_hot(targets, kernel.shape[1])
    losses = keras.losses.categorical_crossentropy(
        shares, logits, from_logits=True, label_smoothing=smoothing
    )
    return losses, tf.argmax(logits, axis=-1)


def drawn(shape, width, vocabulary, dtype=tf.float32):
    generator = np.random.default_rng(0)
    return (
        tf.constant(generator.normal(size=(*shape, width)), dtype),
        tf.constant(generator.normal(size=(width, vocabulary)), tf.float32),
        tf.constant(generator.normal(size=vocabulary), tf.float32),
        tf.constant(generator.integers(0, vocabulary, shape)),
        tf.constant(generator.integers(0, 3, shape), tf.float32),
    )


def slopes(function, values, smoothing):
    features, kernel, bias, targets, weights = values
    with tf.GradientTape() as tape:
        tape.watch((features, kernel, bias))
        losses, best = function(features, kernel, bias, targets, smoothing)
        total = tf.reduce_sum(losses * weights)
    return losses, best, *tape.gradient(total, (features, kernel, bias))


@settings(max_examples=examples(15), deadline=None)
@given(
    rows=st.integers(1, 9),
    shape=st.sampled_from([(1,), (7,), (2, 5), (3, 1)]),
    smoothing=st.sampled_from([0.0, 0.3]),
)
def test_chunks_of_any_size_give_the_loss_and_the_gradients_of_the_whole(rows, shape, smoothing):
    values = drawn(shape, 4, 11)
    before = chunked_loss.CHUNK_BYTES, chunked_loss._LEAST_ROWS
    chunked_loss.CHUNK_BYTES, chunked_loss._LEAST_ROWS = 4 * 11 * rows, 1
    try:
        chunked = slopes(tf.function(chunked_losses), values, smoothing)
    finally:
        chunked_loss.CHUNK_BYTES, chunked_loss._LEAST_ROWS = before
    for one, other in zip(chunked, slopes(whole_losses, values, smoothing), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def test_half_precision_sums_the_gradient_of_the_kernel_in_float32(chunks_of):
    """4,096 rows whose gradients are equal: bfloat16 sums stop growing after 256 of them."""
    chunks_of(1, 2)
    count = 4096
    values = (
        tf.ones((count, 1), tf.bfloat16),
        tf.zeros((1, 2)),
        tf.zeros(2),
        tf.zeros(count, tf.int64),
        tf.ones(count),
    )
    *_, of_kernel, of_bias = slopes(tf.function(chunked_losses), values, 0.0)
    np.testing.assert_allclose(of_kernel, [[-count / 2, count / 2]])
    np.testing.assert_allclose(of_bias, [-count / 2, count / 2])


LENGTH, VOCABULARY = 16, 3000


def make(policy, batch, monkeypatch):
    monkeypatch.setattr(causal_transformer, "DEPTH", 1)
    keras.utils.set_random_seed(0)
    with dtype_policy(policy):
        shape = SequenceShape(LENGTH, VOCABULARY)
        model = build_model("causal_transformer", MODELS, shape, VOCABULARY)
        optimizer = keras.optimizers.SGD(0.1)
        optimizer.build(model.trainable_variables)
    return model, Loop(
        STRATEGIES["default"](), model, optimizer, StepOptions(batch), Objective(model)
    )


def batch_of(count):
    ids = np.random.default_rng(1).integers(1, VOCABULARY, (count, LENGTH + 1))
    inputs = {
        "tokens": ids[:, :-1],
        "segments": np.ones((count, LENGTH), np.int64),
        "positions": np.tile(np.arange(LENGTH), (count, 1)),
    }
    return inputs, ids[:, 1:], np.ones((count, LENGTH), np.float32)


def outputs_of(graph):
    """The static sizes of all values of a graph and of the functions that it calls."""
    functions = [graph, *(graph._get_function(name).graph for name in graph._functions)]
    for one in functions:
        for operation in one.get_operations():
            for value in operation.outputs:
                if value.shape.is_fully_defined():
                    yield value.shape.num_elements()


@pytest.mark.parametrize("policy", ["float32", "mixed_float16"])
def test_no_value_of_a_step_is_as_large_as_the_logits_of_the_batch(policy, chunks_of, monkeypatch):
    """All shapes are known here, so the graph itself says what a step ever holds."""
    count = 64
    chunks_of(8, VOCABULARY)
    model, loop = make(policy, count, monkeypatch)
    names = ("tokens", "segments", "positions")

    @tf.function
    def step(*values):
        with tf.GradientTape() as tape:
            outcome = loop._objective.training(
                dict(zip(names, values, strict=False)), values[3], values[4]
            )
            loss = tf.reduce_sum(outcome.losses)
        return tape.gradient(loss, model.trainable_variables)

    inputs, targets, weights = batch_of(count)
    graph = step.get_concrete_function(
        *(tf.constant(inputs[name]) for name in names), tf.constant(targets), tf.constant(weights)
    ).graph
    sizes = set(outputs_of(graph))
    weights_size = max(np.prod(weight.shape) for weight in model.weights)
    assert max(sizes) >= weights_size  # of the embedding: the test sees the values
    assert max(sizes) < count * LENGTH * VOCABULARY


def test_a_step_is_that_of_whole_logits(chunks_of, monkeypatch):
    monkeypatch.setattr(transformer, "DROPOUT", 0.0)
    chunks_of(5, VOCABULARY)
    batch = batch_of(4)
    dataset = tf.data.Dataset.from_tensors(batch).repeat()
    model, loop = make("float32", 4, monkeypatch)
    assert parts_for_training(model).head is not None
    totals = loop.train(iter(dataset), 3, lambda *_: None)
    fitted, _ = make("float32", 4, monkeypatch)
    fitted.compile(keras.optimizers.SGD(0.1), "sparse_categorical_crossentropy")
    history = fitted.fit(dataset, steps_per_epoch=3, epochs=1, verbose=0).history
    assert totals.mean_loss == pytest.approx(history["loss"][0], rel=1e-5)
    for ours, theirs in zip(model.get_weights(), fitted.get_weights(), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-6)
    assert model.output.dtype == "float32"
    np.testing.assert_allclose(model(batch[0]).numpy().sum(axis=-1), 1.0, atol=1e-5)


class Subclassed(keras.Model):
    def __init__(self):
        super().__init__()
        self.embedding = keras.layers.Embedding(7, 4)
        self.head = keras.layers.Dense(7)

    def call(self, inputs):
        return self.head(self.embedding(inputs["tokens"]))


@pytest.mark.parametrize("activation", [None, "softmax"])
def test_models_that_cannot_be_cut_are_trained_as_they_are(activation):
    shape = SequenceShape(4, 7)

    def functional(input_shape, num_outputs):
        inputs = {n: keras.Input((4,), dtype="int32", name=n) for n in ("tokens", "segments")}
        x = keras.layers.Embedding(7, 4)(inputs["tokens"])
        return keras.Model(inputs, keras.layers.Dense(7, activation=activation)(x))

    builder = functional if activation else lambda *_: Subclassed()
    model = build_model("own", {"own": builder}, shape, 7)
    parts = parts_for_training(model)
    assert (parts.head, parts.activation) == (None, activation or "")
    optimizer = keras.optimizers.SGD(1.0)
    optimizer.build(model.trainable_variables)
    loop = Loop(STRATEGIES["default"](), model, optimizer, StepOptions(2))
    ids = np.array([[1, 2, 3, 4], [4, 3, 2, 1]])
    inputs = {"tokens": ids, "segments": np.ones_like(ids), "positions": np.ones_like(ids)}
    dataset = tf.data.Dataset.from_tensors((inputs, ids, np.ones(ids.shape, np.float32))).repeat()
    first = loop.train(iter(dataset), 1, lambda *_: None)
    later = loop.train(iter(dataset), 9, lambda *_: None)
    assert later.mean_loss < first.mean_loss == pytest.approx(np.log(7), rel=0.1)
