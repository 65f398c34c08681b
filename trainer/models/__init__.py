"""The networks that have a name.

To add one: a file of that name with `build(input_shape, num_classes) -> keras.Model`, ending in
logits, and one line below. A network of your own needs neither: `--model package.module:function`.
"""

from __future__ import annotations

from trainer.models import efficientnet_v2_b0, mobilenet_v3_small, resnet50, small_cnn
from trainer.models.build import Builder, build_model, find_builder

# value of --model -> what builds the network
MODELS: dict[str, Builder] = {
    "small_cnn": small_cnn.build,
    "mobilenet_v3_small": mobilenet_v3_small.build,
    "efficientnet_v2_b0": efficientnet_v2_b0.build,
    "resnet50": resnet50.build,
}

__all__ = ["MODELS", "Builder", "build_model", "find_builder"]
