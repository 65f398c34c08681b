"""TensorFlow, which is loaded (seconds) when something of it is first used."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from foundation.lazy_names import lazy_module

if TYPE_CHECKING:
    import tensorflow as tf

    from reader.graph import order as graph_order
else:
    tf = lazy_module("tensorflow")
    graph_order = lazy_module("reader.graph.order")

__all__ = ["graph_order", "tf", "traced"]


def traced(**options: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator as tf.function(**options), which traces at the first call."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        make = functools.cache(lambda: tf.function(function, **options))

        @functools.wraps(function)
        def call(*values: Any) -> Any:
            return make()(*values)

        return call

    return decorate
