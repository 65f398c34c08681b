from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from reader.graph.decoders import Crop, _cut


def decode_toy(features: Mapping[str, Any], crop: Crop | None) -> Any:
    return _cut(tf.io.decode_bmp(features["image"], channels=3), crop)
