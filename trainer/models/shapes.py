"""What a model is fed: images, token ids of documents, or packed sequences of them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

# Enough to see whether a model accepts ids of any number; a whole document would take longer.
_EXAMPLE_TOKENS = 8


class TokenShape(NamedTuple):
    """Documents as token ids: [batch, length] int64 of any length up to `max_tokens`.

    Attributes:
        max_tokens: The longest.
        vocabulary_size: Every id is smaller.
        pad_id: The id where there is no token.
    """

    max_tokens: int
    vocabulary_size: int
    pad_id: int


class SequenceShape(NamedTuple):
    """Packed documents: {"tokens", "segments", "positions"}, [batch, length] int64 each.

    Attributes:
        length: Length of every sequence.
        vocabulary_size: Every id is smaller.
    """

    length: int
    vocabulary_size: int


# (height, width, channels) of images, or one of the above
InputShape = tuple[int, int, int] | TokenShape | SequenceShape


def kind_of_inputs(shape: InputShape) -> str:
    """What the inputs are called in messages."""
    if isinstance(shape, TokenShape):
        return "token ids"
    return "packed sequences" if isinstance(shape, SequenceShape) else "images"


def two_examples(shape: InputShape) -> Any:
    """Inputs of two examples: noise. The seed of the training is left alone."""
    if isinstance(shape, TokenShape):
        shape = shape._replace(max_tokens=min(shape.max_tokens, _EXAMPLE_TOKENS))
    return examples(shape, 2)


def examples(shape: InputShape, count: int) -> Any:
    """Inputs of so many examples, of the greatest length."""
    generator = np.random.default_rng(0)
    if isinstance(shape, TokenShape):
        return generator.integers(0, shape.vocabulary_size, (count, shape.max_tokens))
    if isinstance(shape, SequenceShape):
        size = (count, shape.length)
        return {
            "tokens": generator.integers(0, shape.vocabulary_size, size),
            "segments": np.ones(size, np.int64),
            "positions": np.tile(np.arange(shape.length), (count, 1)),
        }
    return generator.uniform(0.0, 255.0, (count, *shape)).astype(np.float32)


def two_outputs(shape: InputShape, num_outputs: int) -> tuple[int, ...]:
    """The shape of what a model makes of two examples."""
    if isinstance(shape, SequenceShape):
        return (2, shape.length, num_outputs)
    return (2, num_outputs)


def keras_inputs(shape: InputShape) -> Any:
    """The keras.Input of a model, or a dictionary of them."""
    import keras

    if isinstance(shape, TokenShape):
        return keras.Input((None,), dtype="int32", name="tokens")
    if isinstance(shape, SequenceShape):
        return {
            name: keras.Input((shape.length,), dtype="int32", name=name)
            for name in ("tokens", "segments", "positions")
        }
    return keras.Input(shape, name="pixels")
