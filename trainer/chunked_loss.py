"""The loss of a language model without the logits of its whole batch.

Logits of a batch are [batch, length, vocabulary]: with 8 sequences of 512 tokens and 32,000 token
ids 524 MB in float32, once more as their gradient, and once more wherever a layer makes
probabilities of them. But what the loss needs of a token are three numbers. So rows are taken in
chunks: of each chunk the logits are made, reduced and forgotten; for the gradient they are made
again.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

# Of the float32 logits of one chunk. Smaller ones are slower (the kernel is read for each), larger
# ones hold more: docs/decisions/0038-benchmarks.md.
CHUNK_BYTES = 32 << 20  # 32 MiB
_LEAST_ROWS = 64  # of a very large vocabulary


def chunked_losses(
    features: Any, kernel: Any, bias: Any, targets: Any, label_smoothing: float
) -> tuple[Any, Any]:
    """(cross-entropy [...] float32, ids of the greatest logits [...] int64) of every target.

    Logits are `features @ kernel + bias`: the product in the dtype of the features, all else in
    float32, the sum of the gradient of the kernel over the chunks too.

    Args:
        features: [..., width] in any floating dtype.
        kernel: [width, vocabulary] float32.
        bias: [vocabulary] float32.
        targets: [...] int64, each in [0, vocabulary).
        label_smoothing: Share of the target in [0, 1) that is spread over all ids.
    """
    width, vocabulary = kernel.shape
    wanted = tf.reshape(targets, [-1])
    rows_per_chunk = max(_LEAST_ROWS, CHUNK_BYTES // (4 * vocabulary))
    num_chunks = -(-tf.size(wanted) // rows_per_chunk)

    def of_chunk(values: Any, index: Any) -> Any:
        return values[index * rows_per_chunk : (index + 1) * rows_per_chunk]

    @tf.custom_gradient
    def losses_of(rows: Any, kernel: Any, bias: Any) -> Any:
        factor = tf.cast(kernel, rows.dtype)

        def logits_of(index: Any) -> Any:
            return tf.cast(tf.matmul(of_chunk(rows, index), factor), tf.float32) + bias

        def reduce_chunk(index: Any, losses: Any, best: Any) -> Any:
            logits = logits_of(index)
            loss, _ = _loss_and_slope(logits, of_chunk(wanted, index), label_smoothing)
            best_ids = tf.argmax(logits, axis=-1)
            return index + 1, losses.write(index, loss), best.write(index, best_ids)

        arrays = [_array(dtype, num_chunks, [None]) for dtype in (tf.float32, tf.int64)]
        losses, best = (array.concat() for array in _loop(num_chunks, reduce_chunk, *arrays))

        def gradient(upstream: Any, _: Any) -> Any:
            def add_chunk(index: Any, of_rows: Any, of_kernel: Any, of_bias: Any) -> Any:
                ids = of_chunk(wanted, index)
                _, slope = _loss_and_slope(logits_of(index), ids, label_smoothing)
                slope *= of_chunk(upstream, index)[:, None]
                narrow = tf.cast(slope, rows.dtype)
                product = tf.matmul(of_chunk(rows, index), narrow, transpose_a=True)
                return (
                    index + 1,
                    of_rows.write(index, tf.matmul(narrow, factor, transpose_b=True)),
                    of_kernel + tf.cast(product, tf.float32),
                    of_bias + tf.reduce_sum(slope, axis=0),
                )

            begin = (
                _array(rows.dtype, num_chunks, [None, width]),
                tf.zeros([width, vocabulary]),
                tf.zeros([vocabulary]),
            )
            of_rows, of_kernel, of_bias = _loop(num_chunks, add_chunk, *begin)
            return tf.reshape(of_rows.concat(), tf.shape(rows)), of_kernel, of_bias

        return (losses, best), gradient

    losses, best = losses_of(tf.reshape(features, [-1, width]), kernel, bias)
    return tf.reshape(losses, tf.shape(targets)), tf.reshape(best, tf.shape(targets))


def _loss_and_slope(logits: Any, ids: Any, label_smoothing: float) -> tuple[Any, Any]:
    """(cross-entropy [rows], its gradient by the logits [rows, vocabulary]), in one pass."""
    if not label_smoothing:
        return tf.raw_ops.SparseSoftmaxCrossEntropyWithLogits(features=logits, labels=ids)
    vocabulary = logits.shape[-1]
    rest = label_smoothing / vocabulary
    shares = tf.one_hot(ids, vocabulary, 1 - label_smoothing + rest, rest)
    return tf.raw_ops.SoftmaxCrossEntropyWithLogits(features=logits, labels=shares)


def _array(dtype: Any, size: Any, shape: list[int | None]) -> Any:
    """An array for chunks, of which the last may be smaller."""
    return tf.TensorArray(dtype, size, element_shape=shape, infer_shape=False)


def _loop(num_chunks: Any, step: Any, *begin: Any) -> Any:
    """What `step` makes of `begin`, chunk by chunk."""
    # One at a time: TensorFlow would work at ten of them at once, and hold the logits of all.
    _, *end = tf.while_loop(
        lambda index, *_: index < num_chunks, step, (0, *begin), parallel_iterations=1
    )
    return end
