"""What training minimizes and validation counts, from the logits of a model.

It is the same on TensorFlow and on JAX, but for the logits of a language model, which are made in
chunks on TensorFlow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import keras
from keras import ops

from trainer.chunked_loss import chunked_losses
from trainer.models.heads import parts_for_training


class Outcome(NamedTuple):
    """Losses and counts of some examples.

    Attributes:
        losses: Loss of every target, [batch, ...] float32, times its weight.
        counts: [len(COUNTS)] int64, see `COUNTS`.
        predicted: The class with the greatest probability of every target, [batch, ...] int64; of
            records with any number of labels, [batch, num_classes] bool.
    """

    losses: Any
    counts: Any
    predicted: Any


# Examples predicted right, examples, and of records with any number of labels: labels predicted
# right, labels predicted, labels that there are.
COUNTS = ("correct", "examples", "hits", "predicted", "relevant")


class Objective:
    """Cross-entropy of a model's logits, computed in float32.

    Args:
        model: Model, as `build_model` returns it.
        label_smoothing: Share of the target in [0, 1) that is spread over all classes in training.
        class_weights: [num_classes], factors on the losses of training; None for none.
        multi_label: Whether a record has any number of labels: then the loss is the mean of the
            binary cross-entropies of the classes.

    Attributes:
        body: The part of the model that is called.
    """

    def __init__(
        self,
        model: Any,
        label_smoothing: float = 0.0,
        class_weights: Sequence[float] | None = None,
        multi_label: bool = False,
    ) -> None:
        parts = parts_for_training(model)
        self.body, self._head, self._activation = parts.body, parts.head, parts.activation
        self._label_smoothing = label_smoothing
        self._class_weights = class_weights
        self._multi_label = multi_label

    def training(self, inputs: Any, targets: Any, weights: Any = None) -> Outcome:
        """The outcome of examples that are learnt from."""
        return self.trained(self.body(inputs, training=True), targets, weights)

    def trained(
        self,
        outputs: Any,
        targets: Any,
        weights: Any = None,
        values: Mapping[int, Any] | None = None,
    ) -> Outcome:
        """The outcome of examples that are learnt from, from what the body makes of them.

        Args:
            outputs: Outputs of the body, [batch, ...].
            targets: Their targets.
            weights: Weight of every target; None for 1 each.
            values: Id of a variable of the head -> its value; None for that of the variable.
        """
        head = self._head_weights(values and (lambda v: values.get(id(v), v.value)))
        outcome = self._outcome(outputs, head, targets, weights, True)
        if self._class_weights is None:
            return outcome
        table = ops.convert_to_tensor(self._class_weights, "float32")
        # Of records that were mixed, the mean by their shares.
        factors = (
            ops.matmul(targets, table)
            if _is_floating(targets)
            else ops.take(table, targets, axis=0)
        )
        return outcome._replace(losses=outcome.losses * factors)

    def validation(self, averages: Any, inputs: Any, targets: Any, weights: Any = None) -> Outcome:
        """The outcome of examples that are measured only, without smoothing and class weights.

        Args:
            averages: Function from a weight to what is used in its place; None for the weights.
            inputs: One example or more, those of the targets and then any others.
            targets: Targets of the examples that count.
            weights: Weight of every target; None for 1 each.
        """
        if averages is None:
            outputs = self.body(inputs, training=False)
        else:
            outputs, _ = self.body.stateless_call(
                [averages(variable) for variable in self.body.trainable_variables],
                [variable.value for variable in self.body.non_trainable_variables],
                inputs,
                training=False,
            )
        outputs = outputs[: ops.shape(targets)[0]]
        return self._outcome(outputs, self._head_weights(averages), targets, weights, False)

    def measured(
        self, outputs: Any, targets: Any, weights: Any, values: Mapping[int, Any]
    ) -> Outcome:
        """The same, from what the body makes of the examples; see `trained`."""
        head = self._head_weights(lambda variable: values[id(variable)])
        return self._outcome(outputs, head, targets, weights, False)

    def _head_weights(self, averages: Any = None) -> tuple[Any, Any]:
        """Kernel and bias of the head, float32."""
        head, value = self._head, averages or ops.convert_to_tensor
        if head is None:
            return None, None
        bias = ops.zeros([head.units]) if head.bias is None else value(head.bias)
        return value(head.kernel), bias

    def _outcome(
        self, outputs: Any, head: tuple[Any, Any], targets: Any, weights: Any, in_training: bool
    ) -> Outcome:
        smoothing = self._label_smoothing if in_training else 0.0
        if self._multi_label:
            return self._of_labels(outputs, targets, smoothing)
        if self._head is not None and keras.config.backend() == "tensorflow":
            losses, predicted = chunked_losses(outputs, *head, targets, smoothing)
        else:
            if self._head is not None:
                kernel, bias = head
                outputs = ops.matmul(outputs, ops.cast(kernel, outputs.dtype)) + bias
            losses = self._losses(outputs, targets, smoothing)
            predicted = _whole(ops.argmax(outputs, axis=-1))
        # Of a mixture, the class with the greatest share is right.
        classes = ops.argmax(targets, axis=-1) if _is_floating(targets) else targets
        right = ops.equal(predicted, _whole(classes))
        if weights is None:
            counts = _counts(_count(right), _count(ops.ones_like(right)))
            return Outcome(losses, counts, predicted)
        counted = weights > 0
        counts = _counts(_count(right & counted), _count(counted))
        return Outcome(losses * weights, counts, predicted)

    def _losses(self, outputs: Any, targets: Any, smoothing: float) -> Any:
        """Cross-entropy of every target, [batch, ...] float32.

        Targets are classes [batch, ...] of a whole-number type, or the shares of the classes
        [batch, ..., num_classes] float32, as of records that were mixed.
        """
        outputs, from_logits = ops.cast(outputs, "float32"), not self._activation
        if smoothing or _is_floating(targets):
            shares = targets
            if not _is_floating(targets):
                shares = ops.one_hot(targets, outputs.shape[-1])
            return keras.losses.categorical_crossentropy(
                shares, outputs, from_logits=from_logits, label_smoothing=smoothing
            )
        return keras.losses.sparse_categorical_crossentropy(
            targets, outputs, from_logits=from_logits
        )

    def _of_labels(self, outputs: Any, targets: Any, smoothing: float) -> Outcome:
        """Losses of records with any number of labels, [batch, num_classes] float32 of 0 and 1."""
        outputs = ops.cast(outputs, "float32")
        losses = keras.losses.binary_crossentropy(
            targets, outputs, from_logits=not self._activation, label_smoothing=smoothing
        )
        predicted = outputs > (0.5 if self._activation else 0.0)
        relevant = targets >= 0.5  # between 0 and 1 where records are mixed
        right = ops.all(predicted == relevant, axis=-1)
        hits, examples = _count(predicted & relevant), _count(ops.ones_like(right))
        counts = _counts(_count(right), examples, hits, _count(predicted), _count(relevant))
        return Outcome(losses, counts, predicted)


def _counts(*values: Any) -> Any:
    nothing = ops.zeros_like(values[0])
    return ops.stack([*values, *[nothing] * (len(COUNTS) - len(values))])


def _count(values: Any) -> Any:
    return ops.sum(_whole(values))


def _whole(values: Any) -> Any:
    """Whole numbers; of JAX those of 32 bits, which are enough for a batch."""
    return ops.cast(values, "int64" if keras.config.backend() == "tensorflow" else "int32")


def _is_floating(values: Any) -> bool:
    return "float" in keras.backend.standardize_dtype(values.dtype)
