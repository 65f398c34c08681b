"""A small decoder-only Transformer that predicts the next token of packed documents."""

from __future__ import annotations

from typing import Any

from trainer.models.shapes import SequenceShape, keras_inputs
from trainer.models.transformer import block, embed

DEPTH = 4


def build(input_shape: SequenceShape, num_outputs: int) -> Any:
    """The network from packed sequences to [batch, length, num_outputs] logits.

    A token looks at those before it in its own document: packed documents do not see each other.
    The output has weights of its own, for tying them to the embedding would take a layer that
    Keras lacks, and a saved model is to load where shardmill is not installed.
    """
    import keras

    layers, ops = keras.layers, keras.ops
    inputs = keras_inputs(input_shape)
    segments = inputs["segments"]
    mask = ops.equal(ops.expand_dims(segments, 1), ops.expand_dims(segments, 2))
    x = embed(
        inputs["tokens"], inputs["positions"], input_shape.vocabulary_size, input_shape.length
    )
    for _ in range(DEPTH):
        x = block(x, mask, causal=True)
    x = layers.LayerNormalization()(x)
    return keras.Model(
        inputs, layers.Dense(num_outputs, name="logits")(x), name="causal_transformer"
    )
