"""Magnitude pruning: the smallest weights become 0 while a model is trained.

The share of zeros grows along the polynomial of Zhu and Gupta, "To prune, or not to prune" (2017,
arXiv 1710.01878, section 3), with its power of 3. A weight that is 0 stays 0. So the masks are in
the weights themselves, and which step it is is in the optimizer: checkpoints need nothing more,
and every replica computes the same masks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

# Shares of the steps of a run: before, the weights find their sizes; behind, the rest recovers.
BEGIN, END = 0.2, 0.7
_UPDATES = 100  # times that the masks grow in between; sorting a kernel takes as long as a step
_POWER = 3.0


class Pruning:
    """The zeros of a model.

    Args:
        sparsity: Share of the weights of each kernel that are 0 in the end, in (0, 1).
        num_steps: Steps of the run.
        model: Model whose kernels are pruned: variables of that name, of 2 or more axes. Biases,
            normalization and embeddings are not pruned.
        averages: Id of a weight -> its moving average, which gets the same zeros.
    """

    def __init__(
        self, sparsity: float, num_steps: int, model: Any, averages: dict[int, Any]
    ) -> None:
        self._sparsity = sparsity
        self._begin = round(BEGIN * num_steps)
        self._end = max(self._begin + 1, round(END * num_steps))
        self._every = max(1, (self._end - self._begin) // _UPDATES)
        self.kernels = prunable(model)
        self._averages = averages

    def masks(self, iterations: Any) -> list[Any]:
        """1 where a weight may change in a step, else 0; to be called before the step.

        Args:
            iterations: Steps that the optimizer has made.
        """
        has_begun = tf.cast(iterations, tf.int64) > self._begin
        # Until then a kernel may begin with zeros.
        return [
            tf.where(has_begun, tf.cast(kernel.value != 0.0, tf.float32), 1.0)
            for kernel in self.kernels
        ]

    def apply(self, masks: Sequence[Any], iterations: Any) -> None:
        """Makes weights 0 after a step, in the context of a replica.

        Args:
            masks: Result of `masks` before the step.
            iterations: Steps that the optimizer has made, with this one.
        """
        step = tf.cast(iterations, tf.int64)
        share = self._share(tf.cast(step, tf.float32))
        since = step - self._begin
        grows = (
            (since > 0) & (step <= self._end) & ((since % self._every == 0) | (step == self._end))
        )
        context = tf.distribute.get_replica_context()
        context.merge_call(self._apply_everywhere, args=(tuple(masks), share, grows))

    def _apply_everywhere(self, strategy: Any, masks: Any, share: Any, grows: Any) -> None:
        for kernel, mask in zip(self.kernels, masks, strict=True):
            average = self._averages.get(id(kernel))
            strategy.extended.update(kernel.value, _prune, args=(mask, share, grows), group=False)
            if average is not None:
                strategy.extended.update(
                    average.value, _take_zeros, args=(kernel.value,), group=False
                )

    def _share(self, step: Any) -> Any:
        """The share of zeros at a step that updates them."""
        done = tf.clip_by_value((step - self._begin) / (self._end - self._begin), 0.0, 1.0)
        return self._sparsity * (1.0 - (1.0 - done) ** _POWER)


def _prune(weights: Any, mask: Any, share: Any, grows: Any) -> Any:
    """The update of one kernel on one device."""
    kept = weights * mask
    sizes = tf.reshape(tf.abs(kept), [-1])
    count = tf.cast(tf.round(share * tf.cast(tf.size(sizes), tf.float32)), tf.int32)

    def smaller() -> Any:
        # By their places and not by a threshold: of equal weights no more than asked for.
        order = tf.argsort(sizes, stable=True)
        zeros = tf.scatter_nd(order[:count, None], tf.ones([count]), tf.shape(sizes))
        return kept * (1.0 - tf.reshape(zeros, tf.shape(kept)))

    return weights.assign(tf.cond(grows, smaller, lambda: kept))


def _take_zeros(average: Any, weights: Any) -> Any:
    return average.assign(tf.where(tf.equal(weights, 0.0), tf.zeros_like(average), average))


def prunable(model: Any) -> list[Any]:
    """The kernels of the trained layers."""
    return [
        variable
        for variable in model.trainable_variables
        if variable.name == "kernel" and len(variable.shape) >= 2
    ]


def sparsity_of(model: Any) -> float:
    """Share of zeros among the weights of the kernels, in [0, 1]."""
    import numpy as np

    kernels = [np.asarray(kernel) for kernel in prunable(model)]
    total = sum(kernel.size for kernel in kernels)
    return sum(int((kernel == 0.0).sum()) for kernel in kernels) / max(1, total)
