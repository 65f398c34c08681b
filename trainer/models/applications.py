"""The networks of keras.applications, by name, untrained: from pixels in [0, 255] to logits.

Weights that were trained elsewhere expect pixels scaled as they were there, so each network gets
the scaling of its own `preprocess_input`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

# Means and deviations of ImageNet's red, green and blue, as keras.applications has them.
_MEANS = (0.485, 0.456, 0.406)
_DEVIATIONS = (0.229, 0.224, 0.225)
_CAFFE_MEANS = (103.939, 116.779, 123.68)  # blue, green, red, in [0, 255]


def _itself(pixels: Any) -> Any:
    """The network has layers that scale."""
    return pixels


def _to_one(pixels: Any) -> Any:
    """Scales to [-1, 1], as "tf" does."""
    import keras

    return keras.layers.Rescaling(1 / 127.5, offset=-1.0)(pixels)


def _caffe(pixels: Any) -> Any:
    """Blue, green, red, less their means."""
    import keras

    offset = [-mean for mean in _CAFFE_MEANS]
    return keras.layers.Rescaling(1.0, offset=offset)(keras.ops.flip(pixels, axis=-1))


def _standardized(pixels: Any) -> Any:
    """Less their means, over their deviations, as "torch" scales."""
    import keras

    scale = [1 / (255 * deviation) for deviation in _DEVIATIONS]
    offset = [-mean / own for mean, own in zip(_MEANS, _DEVIATIONS, strict=True)]
    return keras.layers.Rescaling(scale, offset=offset)(pixels)


# value of --model -> (name in keras.applications, how pixels are scaled)
_NETWORKS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "convnext_tiny": ("ConvNeXtTiny", _itself),
    "convnext_small": ("ConvNeXtSmall", _itself),
    "convnext_base": ("ConvNeXtBase", _itself),
    "convnext_large": ("ConvNeXtLarge", _itself),
    "convnext_xlarge": ("ConvNeXtXLarge", _itself),
    "densenet121": ("DenseNet121", _standardized),
    "densenet169": ("DenseNet169", _standardized),
    "densenet201": ("DenseNet201", _standardized),
    **{f"efficientnet_b{number}": (f"EfficientNetB{number}", _itself) for number in range(8)},
    **{f"efficientnet_v2_b{number}": (f"EfficientNetV2B{number}", _itself) for number in range(4)},
    "efficientnet_v2_s": ("EfficientNetV2S", _itself),
    "efficientnet_v2_m": ("EfficientNetV2M", _itself),
    "efficientnet_v2_l": ("EfficientNetV2L", _itself),
    "inception_resnet_v2": ("InceptionResNetV2", _to_one),
    "inception_v3": ("InceptionV3", _to_one),
    "mobilenet": ("MobileNet", _to_one),
    "mobilenet_v2": ("MobileNetV2", _to_one),
    "mobilenet_v3_large": ("MobileNetV3Large", _itself),
    "mobilenet_v3_small": ("MobileNetV3Small", _itself),
    "nasnet_large": ("NASNetLarge", _to_one),
    "nasnet_mobile": ("NASNetMobile", _to_one),
    "resnet50": ("ResNet50", _caffe),
    "resnet101": ("ResNet101", _caffe),
    "resnet152": ("ResNet152", _caffe),
    "resnet50_v2": ("ResNet50V2", _to_one),
    "resnet101_v2": ("ResNet101V2", _to_one),
    "resnet152_v2": ("ResNet152V2", _to_one),
    "vgg16": ("VGG16", _caffe),
    "vgg19": ("VGG19", _caffe),
    "xception": ("Xception", _to_one),
}


def _build(name: str, input_shape: tuple[int, int, int], num_classes: int) -> Any:
    """The network from [batch, height, width, 3] in [0, 255] to [batch, num_classes] logits."""
    import keras

    constructor, scale = _NETWORKS[name]
    network = getattr(keras.applications, constructor)(
        input_shape=input_shape, weights=None, classes=num_classes, classifier_activation=None
    )
    if scale is _itself:
        return network
    pixels = keras.Input(input_shape, name="pixels")
    return keras.Model(pixels, network(scale(pixels)), name=name)


# value of --model -> what builds it
APPLICATIONS: dict[str, Callable[[Any, int], Any]] = {
    name: functools.partial(_build, name) for name in _NETWORKS
}
