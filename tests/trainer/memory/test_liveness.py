"""The peak of a graph, against sums by hand."""

import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from trainer.memory.liveness import peak_bytes

SQUARE = 4 * 64 * 64  # bytes of the argument, and of its products


def peak(function, device="CPU:0"):
    spec = tf.TensorSpec([64, 64], tf.float32)
    graph = tf.function(function).get_concrete_function(spec).graph
    return peak_bytes(graph, device)


def test_an_output_lives_until_its_last_reader():
    def chain(x):
        for _ in range(5):
            x = x @ x
        return x

    def kept(x):
        products = [x @ x]
        for _ in range(4):
            products.append(products[-1] @ x)
        return tf.concat(products, 0)

    assert peak(chain) == {"CPU:0": 2 * SQUARE}
    assert peak(kept) == {"CPU:0": 10 * SQUARE}  # five, and their copy


def test_views_and_operations_in_place_take_nothing():
    def views(x):
        return tf.reshape(tf.nn.relu(tf.reshape(tf.identity(x @ x), [-1])), [64, 64])

    assert peak(views) == {"CPU:0": SQUARE}

    def read_again(x):
        product = x @ x
        return tf.nn.relu(product) @ product

    assert peak(read_again) == {"CPU:0": 3 * SQUARE}


def test_each_device_has_its_own_peak():
    def two(x):
        with tf.device("/device:CPU:1"):
            first = x @ x
        with tf.device("/device:CPU:2"):
            return tf.identity(first) @ x  # a copy on the second device

    # What a function returns is on the device that it was called on.
    assert peak(two) == {"CPU:0": SQUARE, "CPU:1": SQUARE, "CPU:2": 2 * SQUARE}


def test_the_body_of_a_loop_counts_once():
    def loop(x):
        for _ in tf.range(10):
            x = tf.nn.relu(x @ x) @ x
        return x

    # The value of the loop and two products; its counters have a few bytes.
    assert 3 * SQUARE <= peak(loop)["CPU:0"] < 3 * SQUARE + 100


def test_operations_run_as_soon_as_they_can():
    def parts(x):
        """Two micro-batches: the forward pass of the second does not wait."""
        total = tf.zeros([64, 64])
        for _ in range(2):
            first = x @ x
            second = first @ x
            total += second @ first
        return total

    assert peak(parts)["CPU:0"] >= 4 * SQUARE


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=12))
def test_a_peak_is_at_least_that_of_one_operation_and_at_most_all(pairs):
    def graph(x):
        values = [x]
        for one, other in pairs:
            values.append(values[one % len(values)] @ values[other % len(values)])
        return tf.add_n(values[1:])

    most = peak(graph)["CPU:0"]
    assert SQUARE <= most <= (len(pairs) + 1) * SQUARE
    assert most % SQUARE == 0


@pytest.mark.parametrize("dtype", [tf.float16, tf.float64])
def test_sizes_follow_dtypes(dtype):
    assert peak(lambda x: tf.cast(x, dtype)) == {"CPU:0": 64 * 64 * dtype.size}
