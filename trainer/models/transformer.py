"""What the two Transformers share: the block, and how ids become vectors."""

from __future__ import annotations

from typing import Any

WIDTH = 128  # of the vector of a token
HEADS = 4
DROPOUT = 0.1  # Vaswani et al., "Attention Is All You Need" (2017), section 5.4


def embed(ids: Any, places: Any, vocabulary_size: int, num_places: int) -> Any:
    """[batch, length, WIDTH]: the sum of a learned vector of each id and one of each place.

    Args:
        ids: [batch, length] int, below vocabulary_size.
        places: [batch, length] int; those beyond the last place are taken for it.
        vocabulary_size: Number of ids.
        num_places: Number of places.
    """
    import keras

    layers, ops = keras.layers, keras.ops
    tokens = layers.Embedding(vocabulary_size, WIDTH, name="token_embedding")(ids)
    places = ops.minimum(places, num_places - 1)
    x = layers.Add()([tokens, layers.Embedding(num_places, WIDTH, name="place_embedding")(places)])
    return layers.Dropout(DROPOUT)(x)


def block(x: Any, mask: Any, causal: bool) -> Any:
    """One layer of a Transformer, normalized before each part.

    Normalizing before and not after (Xiong et al., "On Layer Normalization in the Transformer
    Architecture", 2020) needs no long warm-up, for which small sets have too few steps.

    Args:
        x: [batch, length, WIDTH].
        mask: [batch, length, length] bool, whether a place may look at another one.
        causal: Whether it may look back only.
    """
    import keras

    layers = keras.layers
    y = layers.LayerNormalization()(x)
    attention = layers.MultiHeadAttention(HEADS, WIDTH // HEADS, dropout=DROPOUT)
    y = attention(y, y, attention_mask=mask, use_causal_mask=causal)
    x = layers.Add()([x, layers.Dropout(DROPOUT)(y)])
    y = layers.LayerNormalization()(x)
    y = layers.Dense(4 * WIDTH, activation="gelu")(y)
    y = layers.Dense(WIDTH)(y)
    return layers.Add()([x, layers.Dropout(DROPOUT)(y)])
