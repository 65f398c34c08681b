"""A stream as JAX arrays. The only module that needs JAX, which is no dependency."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

from reader.batches import BatchSource, mapped
from shard_format import UsageError


def jax_batches(stream: BatchSource, device: Any = None) -> Iterator[Any]:
    """The batches of a stream; see `Stream.jax`.

    A generator, which Keras takes.

    Raises:
        UsageError: Batches hold texts, which JAX has no arrays for.
    """
    if stream.element_dtype == "string":
        raise UsageError(
            "JAX has no arrays of texts, which the batches hold, in stream.jax(). Build the "
            "set with a tokenizer, or use stream.numpy()."
        )

    def put(value: Any) -> Any:
        if isinstance(value, list):  # ragged token ids, or encoded images
            return [put(one) for one in value]
        if isinstance(value, np.ndarray) and value.dtype == object:  # a further feature
            return value
        return jax.device_put(value, device)

    return (mapped(put, batch) for batch in stream)
