"""A small Transformer that classifies documents: it learns from some thousand of them on a CPU."""

from __future__ import annotations

from typing import Any

from trainer.models.shapes import TokenShape, keras_inputs
from trainer.models.transformer import DROPOUT, block, embed

DEPTH = 2


def build(input_shape: TokenShape, num_classes: int) -> Any:
    """The network from [batch, length] token ids to [batch, num_classes] logits.

    Padding is neither attended to nor counted in the mean, so a document's logits do not depend on
    how far its batch was padded.
    """
    import keras

    layers, ops = keras.layers, keras.ops
    ids = keras_inputs(input_shape)
    known = ops.not_equal(ids, input_shape.pad_id)
    places = ops.cumsum(ops.ones_like(ids), axis=1) - 1
    x = embed(ids, places, input_shape.vocabulary_size, input_shape.max_tokens)
    mask = ops.logical_and(ops.expand_dims(known, 1), ops.expand_dims(known, 2))
    for _ in range(DEPTH):
        x = block(x, mask, causal=False)
    x = layers.LayerNormalization()(x)
    # In float32, for a half-precision sum over hundreds of tokens would lose its last digits.
    weights = ops.expand_dims(ops.cast(known, "float32"), -1)
    total = ops.sum(ops.cast(x, "float32") * weights, axis=1)
    mean = total / ops.maximum(ops.sum(weights, axis=1), 1.0)
    logits = layers.Dense(num_classes, name="logits")(layers.Dropout(DROPOUT)(mean))
    return keras.Model(ids, logits, name="text_transformer")
