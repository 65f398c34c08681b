"""What happens to gradients between the loss and the optimizer, on one replica."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

# from a part of a batch to (sum of its losses, its counts, its dense gradients; None for a weight
# without one)
Part = Callable[[Any], tuple[Any, Any, list[Any]]]


def accumulated(
    part: Part, batch: Any, num_parts: int, variables: list[Any], num_counts: int
) -> tuple[Any, Any, list[Any]]:
    """What `part` makes of a batch that is given to it in equal parts, one after the other.

    Args:
        part: Function whose sums and gradients are added, in float32.
        batch: A structure of [records, ...]; the records are a multiple of the parts.
        num_parts: Number of parts.
        variables: The weights of the gradients.
        num_counts: Length of the counts.
    """
    size = tf.shape(tf.nest.flatten(batch)[0])[0] // num_parts
    has_gradient: list[bool] = []

    def add_part(index: Any, losses: Any, counts: Any, gradients: list[Any]) -> Any:
        rows = slice(index * size, (index + 1) * size)
        more, counted, part_gradients = part(
            tf.nest.map_structure(lambda value: value[rows], batch)
        )
        has_gradient[:] = [gradient is not None for gradient in part_gradients]
        gradients = [
            whole if gradient is None else whole + tf.cast(gradient, whole.dtype)
            for whole, gradient in zip(gradients, part_gradients, strict=True)
        ]
        return index + 1, losses + more, counts + counted, gradients

    begin = [tf.zeros(variable.shape) for variable in variables]
    _, losses, counts, gradients = tf.while_loop(
        lambda index, *_: index < num_parts,
        add_part,
        (0, tf.constant(0.0), tf.zeros([num_counts], tf.int64), begin),
        parallel_iterations=1,  # more at once would hold the activations of more parts
    )
    kept = zip(gradients, has_gradient, strict=True)
    return (
        losses,
        counts,
        [gradient if part_gradients else None for gradient, part_gradients in kept],
    )


def dense(gradient: Any) -> Any:
    """A gradient as a tensor: that of an embedding comes as slices, one for each token.

    Keras 3.15 adds slices to the second moment of Adam one by one, so that of a token that is twice
    in a batch it gets the sum of two squares in place of the square of their sum. Slices that were
    merged would be doubled again by the sum over replicas.
    """
    return None if gradient is None else tf.convert_to_tensor(gradient)


def clipped(gradients: list[Any], norm: float, scale: Any) -> list[Any]:
    """The gradients, scaled down where the whole batch's gradient has a greater norm.

    The optimizer sums the replicas' gradients, and the norm is that of the sum. The same factor is
    put on each replica's own, so that steps that are not clipped stay what they were, to the bit.

    Args:
        gradients: Gradients of this replica; None for a weight without one.
        norm: The greatest norm over all weights together.
        scale: The factor that is on the gradients already.
    """
    context = tf.distribute.get_replica_context()
    own = [tf.cast(gradient, tf.float32) for gradient in gradients if gradient is not None]
    if context.num_replicas_in_sync > 1:
        own = context.all_reduce(tf.distribute.ReduceOp.SUM, own)
    # Unscaled first: in float32 the square of a gradient times 2**15 may overflow.
    norm_before = tf.linalg.global_norm([gradient / scale for gradient in own])
    # Of a norm that is not finite the factor is 0 or NaN, and gradients become NaN: a step that is
    # skipped under a loss scale, and otherwise ends the run.
    factor = norm / tf.maximum(norm_before, norm)
    return [g if g is None else g * tf.cast(factor, g.dtype) for g in gradients]


def overflow_everywhere(gradients: list[Any]) -> list[Any]:
    """The gradients, with one made NaN on every replica if any replica's are not finite.

    Keras 3.15 asks only the first replica whether its own, not yet summed gradients are finite
    ("each replica computed the same value, since grads is all-reduced" in LossScaleOptimizer no
    longer holds: the sum moved into the inner optimizer). An overflow on another replica alone is
    then added to the weights of all. Here one number is summed over the replicas, so that the
    first one knows; tests/trainer/test_mirrored.py injects that overflow.
    """
    is_finite = tf.reduce_all(
        [tf.reduce_all(tf.math.is_finite(g)) for g in gradients if g is not None]
    )
    num_bad = tf.distribute.get_replica_context().all_reduce(
        tf.distribute.ReduceOp.SUM, tf.where(is_finite, 0.0, 1.0)
    )
    poison = tf.where(num_bad > 0.0, float("nan"), 0.0)
    first = next(index for index, gradient in enumerate(gradients) if gradient is not None)
    poisoned = gradients[first] + tf.cast(poison, gradients[first].dtype)
    return [*gradients[:first], poisoned, *gradients[first + 1 :]]
