"""The networks that have a name.

To add one: a file of that name with `build(input_shape, num_outputs) -> keras.Model`, ending in
logits, and one line below. A network of your own needs neither: `--model package.module:function`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from trainer.models import causal_transformer, small_cnn, text_transformer
from trainer.models.applications import APPLICATIONS

# (input shape, see `trainer.models.shapes`; length of the output) -> keras.Model
Builder = Callable[[Any, int], Any]

# kind of set -> value of --model -> what builds the network
MODELS_OF: dict[str, dict[str, Builder]] = {
    "image": {"small_cnn": small_cnn.build, **APPLICATIONS},
    "tokens": {"text_transformer": text_transformer.build},
    "packed": {"causal_transformer": causal_transformer.build},
}
MODELS: dict[str, Builder] = {
    name: builder for models in MODELS_OF.values() for name, builder in models.items()
}
"""Value of `--model` -> what builds the network, for sets of all kinds."""
